//! DynamoDB's clock, as this process last heard it. Items have no date of their own.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::clock::{Clock, SystemClock};

/// The last `Date` of an answer, and what has passed since on the boot clock.
///
/// So the date of a write is DynamoDB's, not this machine's, and never much later than the moment
/// before it was sent: an object may look older than it is by as long as its request took, and
/// never younger. A lease counts from before that moment, too.
#[derive(Debug, Default)]
pub(super) struct StoreDate(Mutex<Option<Heard>>);

#[derive(Debug, Clone, Copy)]
struct Heard {
    date: DateTime<Utc>,
    boot: Duration,
}

impl StoreDate {
    /// Takes note of an answer that has just come.
    pub(super) fn heard(&self, date: Option<DateTime<Utc>>) {
        if let Some(date) = date {
            let heard = Heard { date, boot: SystemClock.now().boot };
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(heard);
        }
    }

    /// Now; `None` before the first answer.
    pub(super) fn now(&self) -> Option<DateTime<Utc>> {
        let heard = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        let since = SystemClock.now().boot.saturating_sub(heard.boot);
        Some(heard.date + chrono::Duration::from_std(since).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_the_stores_and_goes_on() {
        let date = StoreDate::default();
        assert_eq!(date.now(), None);
        let said = DateTime::from_timestamp(1_000_000_000, 0);
        date.heard(said);
        date.heard(None);
        assert!(date.now() >= said);
        assert!(date.now() < DateTime::from_timestamp(1_000_000_060, 0));
    }
}
