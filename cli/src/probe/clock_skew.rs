//! The difference between the local clock and the store's clock. Each answer of the store gives
//! bounds for this difference.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// Bounds of the difference of the store's clock and the local clock, in seconds, computed from one
/// answer. The store reads its clock after the request is sent and before the
/// answer is received. If the date has whole seconds, it may be up to one second too old.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sighting {
    least: f64,
    most: f64,
}

/// The difference of the store's clock and the local clock, computed from all answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Skew {
    /// The store's clock minus the local clock, in seconds.
    pub ahead: f64,
    /// Maximum error of `ahead` in either direction, in seconds.
    pub within: f64,
    pub answers: usize,
    /// True if no single difference fits all answers. Then servers with different clocks have
    /// answered, or a clock was set during the probe.
    pub disagree: bool,
}

impl Sighting {
    /// Returns the bounds from an answer. `sent` and `received` are local wall-clock times. Returns
    /// `None` if the local clock was set back during the request.
    pub fn new(sent: Duration, received: Duration, date: DateTime<Utc>) -> Option<Sighting> {
        if received < sent {
            return None;
        }
        let nanos = date.timestamp_subsec_nanos();
        let date = date.timestamp() as f64 + f64::from(nanos) / 1e9;
        // A date without a fraction comes from an HTTP header. HTTP dates have whole seconds, so
        // the date may be up to a second too old.
        let coarse = if nanos == 0 { 1.0 } else { 0.0 };
        Some(Sighting {
            least: date - received.as_secs_f64(),
            most: date + coarse - sent.as_secs_f64(),
        })
    }
}

impl Skew {
    /// Combines the bounds from all answers of the store. Returns `None` if no answer has a date.
    pub fn of(sightings: &[Sighting]) -> Option<Skew> {
        let least = sightings.iter().map(|one| one.least).reduce(f64::max)?;
        let most = sightings.iter().map(|one| one.most).reduce(f64::min)?;
        Some(Skew {
            ahead: f64::midpoint(least, most),
            within: (most - least).abs() / 2.0,
            answers: sightings.len(),
            disagree: least > most,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(sent_ms: u64, received_ms: u64, date_ms: i64) -> Sighting {
        let date = DateTime::from_timestamp_millis(date_ms).expect("a date");
        let (sent, received) = (Duration::from_millis(sent_ms), Duration::from_millis(received_ms));
        Sighting::new(sent, received, date).expect("in order")
    }

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-6
    }

    #[test]
    fn one_answer_bounds_the_skew_by_half_a_second_and_half_a_round_trip() {
        let skew = Skew::of(&[sighting(100_200, 100_300, 100_000)]).expect("an answer");
        assert!(close(skew.within, 0.55) && close(skew.ahead, 0.25), "{skew:?}");
        // In this test both clocks are equal, so the bounds must include zero.
        assert!(skew.ahead - skew.within <= 0.0 && 0.0 <= skew.ahead + skew.within);
    }

    #[test]
    fn more_answers_tighten_the_bounds() {
        for ahead_ms in [-3_700_i64, -400, 0, 250, 61_003] {
            let sightings: Vec<_> = (0..40)
                .map(|i| {
                    let sent = 100_000 + i * 137;
                    // The round trip takes 10 ms, and the store reads its clock after 3 ms.
                    let date = (sent as i64 + 3 + ahead_ms).div_euclid(1_000) * 1_000;
                    sighting(sent, sent + 10, date)
                })
                .collect();
            let skew = Skew::of(&sightings).expect("answers");
            let truth = ahead_ms as f64 / 1_000.0;
            assert!((skew.ahead - truth).abs() <= skew.within + 1e-6, "{ahead_ms}: {skew:?}");
            assert!(skew.within < 0.05 && !skew.disagree, "{ahead_ms}: {skew:?}");
        }
    }

    #[test]
    fn fractions_of_a_second_are_exact() {
        let skew = Skew::of(&[sighting(100_000, 100_010, 102_005)]).expect("an answer");
        assert!(close(skew.ahead, 2.0) && close(skew.within, 0.005), "{skew:?}");
    }

    #[test]
    fn servers_with_different_clocks_disagree() {
        let sightings = [sighting(100_000, 100_010, 99_000), sighting(101_000, 101_010, 109_000)];
        assert!(Skew::of(&sightings).expect("answers").disagree);
        assert_eq!(Skew::of(&[]), None);
        let date = DateTime::from_timestamp_millis(1).expect("a date");
        assert_eq!(Sighting::new(Duration::from_secs(2), Duration::from_secs(1), date), None);
    }
}
