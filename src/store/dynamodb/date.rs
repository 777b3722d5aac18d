//! Estimates DynamoDB's clock from the dates of its responses, because items have no dates.

use std::sync::Mutex;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::env::clock::{Clock, SystemClock};
use crate::env::moment::Moment;
use crate::env::mutex::unpoisoned;

/// An estimate of the store's clock, as two bounds.
///
/// - Upper bound: the last `Date`, plus the time since its request was *sent*, by the local clock
///   that has advanced most.
/// - Lower bound: the greatest date of all responses, plus the time since that response was *read*,
///   by the local clock that has advanced least.
///
/// A write stores the later of the two bounds.
///
/// So the date of a write follows DynamoDB's clock, and not the clock of this machine. The date is
/// not earlier than the time at which the write was sent, except for the fraction of a second that
/// `Date` omits. So a record never appears older than the lease that it grants. This holds for any
/// latency, and even if the process is suspended. A response from a server with a slow clock does
/// not move the date back. An object may appear younger than it is, by at most the latency of a
/// response.
///
/// If the machine pauses and no local clock shows the pause, the date is too old. The same pause
/// also makes this process's lease too long (T6).
#[derive(Debug, Default)]
pub(super) struct StoreDate(Mutex<Option<Bounds>>);

#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Date of the last response, and the moment at which its request was sent.
    last: Heard,
    /// Greatest date of all responses, and the moment at which the response with this date was
    /// read.
    greatest: Heard,
}

/// A date that the store sent, and the local moment from which the age of the date counts.
#[derive(Debug, Clone, Copy)]
struct Heard {
    date: DateTime<Utc>,
    since: Moment,
}

impl Heard {
    fn at_most(self, now: Moment) -> DateTime<Utc> {
        let [boot, raw, wall] = self.passed(now);
        self.plus(boot.max(raw).max(wall))
    }

    fn at_least(self, now: Moment) -> DateTime<Utc> {
        let [boot, raw, wall] = self.passed(now);
        self.plus(boot.min(raw).min(wall))
    }

    fn passed(self, now: Moment) -> [Duration; 3] {
        let Moment { boot, raw, wall } = self.since;
        [(now.boot, boot), (now.raw, raw), (now.wall, wall)]
            .map(|(now, since)| now.saturating_sub(since))
    }

    fn plus(self, passed: Duration) -> DateTime<Utc> {
        let passed = chrono::Duration::from_std(passed).ok();
        passed.and_then(|passed| self.date.checked_add_signed(passed)).unwrap_or(self.date)
    }
}

impl StoreDate {
    /// Returns the present moment. The caller sends a request directly after this call.
    pub(super) fn sending() -> Moment {
        SystemClock.now()
    }

    /// Records the date of a response that was just read. The request of this response was sent at
    /// `sent` or later. Returns `date` unchanged.
    pub(super) fn heard(&self, date: Option<DateTime<Utc>>, sent: Moment) -> Option<DateTime<Utc>> {
        self.heard_at(date, sent, SystemClock.now())
    }

    fn heard_at(
        &self,
        date: Option<DateTime<Utc>>,
        sent: Moment,
        read: Moment,
    ) -> Option<DateTime<Utc>> {
        let mut bounds = unpoisoned(self.0.lock());
        if let Some(date) = date {
            let heard = Heard { date, since: read };
            let greatest = match *bounds {
                Some(Bounds { greatest, .. }) if greatest.at_least(read) > date => greatest,
                _ => heard,
            };
            *bounds = Some(Bounds { last: Heard { date, since: sent }, greatest });
        }
        date
    }

    /// Returns the date for a write: the present time of the store, or slightly later. Returns
    /// `None` if the store has not responded before.
    pub(super) fn now(&self) -> Option<DateTime<Utc>> {
        self.at(SystemClock.now())
    }

    fn at(&self, now: Moment) -> Option<DateTime<Utc>> {
        let bounds = (*unpoisoned(self.0.lock()))?;
        Some(bounds.last.at_most(now).max(bounds.greatest.at_least(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(boot: u64, wall: u64) -> Moment {
        let [boot, wall] = [boot, wall].map(Duration::from_secs);
        Moment { boot, raw: boot, wall }
    }

    fn date(seconds: i64) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp(1_000_000_000 + seconds, 0)
    }

    #[test]
    fn the_date_follows_the_stores_clock() {
        let heard = StoreDate::default();
        assert_eq!(heard.now(), None);
        assert_eq!(heard.heard_at(date(0), moment(100, 5_000), moment(100, 5_000)), date(0));
        assert_eq!(heard.heard_at(None, moment(200, 5_100), moment(200, 5_100)), None);
        assert_eq!(heard.at(moment(107, 5_007)), date(7));
    }

    /// The last response has the date 0 s. A record that is written 40 s later must have the date
    /// 40 s. If the record had an earlier date, it would appear too old, although its lease has
    /// just begun.
    #[test]
    fn regression_a_late_response_does_not_make_dates_too_old() {
        let heard = StoreDate::default();
        heard.heard_at(date(0), moment(100, 5_000), moment(100, 5_000));
        assert_eq!(heard.at(moment(140, 5_040)), date(40));
    }

    #[test]
    fn regression_a_pause_of_one_clock_does_not_make_dates_too_old() {
        let heard = StoreDate::default();
        heard.heard_at(date(0), moment(100, 5_000), moment(100, 5_000));
        assert_eq!(heard.at(moment(101, 5_060)), date(60), "the boot clock did not advance");
        assert_eq!(heard.at(moment(160, 4_000)), date(60), "the wall clock went back");
    }

    /// Two DynamoDB servers with clocks that differ by several seconds respond alternately. A
    /// record that is written after a response of the slow server must not get an earlier date than
    /// older records.
    #[test]
    fn regression_a_server_with_a_slow_clock_does_not_move_dates_back() {
        let heard = StoreDate::default();
        heard.heard_at(date(10), moment(100, 5_000), moment(101, 5_001));
        assert_eq!(heard.heard_at(date(8), moment(101, 5_001), moment(101, 5_001)), date(8));
        assert_eq!(heard.at(moment(101, 5_001)), date(10));
        assert_eq!(
            heard.at(moment(105, 5_005)),
            date(14),
            "the date continues from the greatest date"
        );
        heard.heard_at(date(20), moment(110, 5_010), moment(110, 5_010));
        assert_eq!(heard.at(moment(110, 5_010)), date(20));
        heard.heard_at(date(15), moment(110, 5_010), moment(110, 5_010));
        assert_eq!(heard.at(moment(110, 5_010)), date(20), "the greatest date of all");
    }

    /// In this test, the wall clock is set an hour ahead. Until the next response arrives, the
    /// dates of writes are an hour ahead too.
    #[test]
    fn the_next_response_corrects_a_step_of_the_wall_clock() {
        let heard = StoreDate::default();
        heard.heard_at(date(0), moment(100, 5_000), moment(100, 5_000));
        assert_eq!(heard.at(moment(101, 8_601)), date(3_601));
        heard.heard_at(date(2), moment(102, 8_602), moment(102, 8_602));
        assert_eq!(heard.at(moment(103, 8_603)), date(3));
    }

    /// For any latency, the date of a write is not earlier than the time at which the write was
    /// sent, except for the fraction of a second that dates omit.
    #[test]
    fn dates_are_never_too_old_at_any_latency() {
        let mut random = fastrand::Rng::with_seed(13);
        let heard = StoreDate::default();
        let mut now = Duration::from_secs(100);
        let at = |boot: Duration| Moment { boot, raw: boot, wall: boot };
        let true_date = |boot: Duration| DateTime::UNIX_EPOCH + boot + Duration::from_millis(321);
        for _ in 0..10_000 {
            let sent = now;
            let mut pass = || Duration::from_millis(random.u64(..40_000));
            let served = sent + pass();
            now = served + pass();
            let cut = DateTime::from_timestamp(true_date(served).timestamp(), 0);
            heard.heard_at(cut, at(sent), at(now));
            now += pass();
            let written = heard.at(at(now)).expect("a date was received");
            assert!(written + Duration::from_secs(1) > true_date(now), "{written} at {now:?}");
        }
    }
}
