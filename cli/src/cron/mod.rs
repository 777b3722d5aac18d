//! `tenure run` for cron on many hosts: `--try` makes one attempt, `--once-per` runs CMD once per
//! period.

mod args;
mod attempt;
mod metric;
mod once_per;
mod record_place;

pub use args::CronArgs;
pub use attempt::{Attempt, attempt};
pub use metric::follow as follow_metric;
pub use once_per::{OncePer, Turn, wall};
pub use period::record::{EarlierAttempt, PeriodRecord, PeriodRow, state_of};
pub use period::{Period, PeriodRules, date, shown};
pub use record_place::RecordPlace;
use tenure_history::period;
