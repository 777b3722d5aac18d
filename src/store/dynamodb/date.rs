//! DynamoDB's clock, as this process last heard it. Items have no date of their own.

use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};

use crate::clock::{Clock, Moment, SystemClock};

/// The last `Date` of an answer, and what has passed since its request was *sent*, by whichever of
/// the clocks shows the most.
///
/// So the date of a write is DynamoDB's, not this machine's, and not earlier than the moment before
/// it was sent, but for the second that `Date` is cut to: an object never looks older than the lease
/// that its record began, however long an answer took, the process was stopped, or the machine
/// suspended or paused. It may look younger, by as long as the answer took.
///
/// A pause that no clock shows makes the date old, and the lease of this process too long as
/// well: nobody is protected from that.
#[derive(Debug, Default)]
pub(super) struct StoreDate(Mutex<Option<Heard>>);

#[derive(Debug, Clone, Copy)]
struct Heard {
    date: DateTime<Utc>,
    sent: Moment,
}

impl StoreDate {
    /// The moment before a request.
    pub(super) fn sending() -> Moment {
        SystemClock.now()
    }

    /// Takes note of an answer to a request that was sent at that moment or later. Returns the date
    /// that DynamoDB's clock had reached when it answered: that of the answer, as nothing may look
    /// older in it than it was.
    pub(super) fn heard(&self, date: Option<DateTime<Utc>>, sent: Moment) -> Option<DateTime<Utc>> {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *heard = date.map(|date| Heard { date, sent }).or(*heard);
        heard.map(|heard| heard.date)
    }

    /// For a write: now, or a little later; `None` before the first answer.
    pub(super) fn now(&self) -> Option<DateTime<Utc>> {
        self.at(SystemClock.now())
    }

    fn at(&self, now: Moment) -> Option<DateTime<Utc>> {
        let heard = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        let Moment { boot, raw, wall } = heard.sent;
        let passed = now.boot.saturating_sub(boot).max(now.raw.saturating_sub(raw));
        let passed = passed.max(now.wall.saturating_sub(wall));
        heard.date.checked_add_signed(chrono::Duration::from_std(passed).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn moment(boot: u64, wall: u64) -> Moment {
        let [boot, wall] = [boot, wall].map(Duration::from_secs);
        Moment { boot, raw: boot, wall }
    }

    fn date(seconds: i64) -> Option<DateTime<Utc>> {
        DateTime::from_timestamp(1_000_000_000 + seconds, 0)
    }

    #[test]
    fn the_date_is_the_stores_and_goes_on() {
        let heard = StoreDate::default();
        assert_eq!(heard.now(), None);
        assert_eq!(heard.heard(date(0), moment(100, 5_000)), date(0));
        assert_eq!(heard.heard(None, moment(200, 5_100)), date(0));
        assert_eq!(heard.at(moment(107, 5_007)), date(7));
    }

    /// DynamoDB named its date at second 0 of a request whose answer was read 40 s later. A record
    /// that is written then must not look 40 s old: its lease has just begun.
    #[test]
    fn regression_an_answer_that_was_read_late_makes_no_old_dates() {
        let heard = StoreDate::default();
        heard.heard(date(0), moment(100, 5_000));
        assert_eq!(heard.at(moment(140, 5_040)), date(40));
    }

    #[test]
    fn regression_a_pause_that_one_clock_does_not_show_makes_no_old_dates() {
        let heard = StoreDate::default();
        heard.heard(date(0), moment(100, 5_000));
        assert_eq!(heard.at(moment(101, 5_060)), date(60), "the boot clock stood still");
        assert_eq!(heard.at(moment(160, 4_000)), date(60), "the wall clock went back");
    }
}
