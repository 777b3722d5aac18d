//! `tenure run` for cron on many hosts: `--try` makes one attempt, `--once-per` runs CMD once per
//! period.

mod args;
mod attempt;
mod meter;
mod once_per;
mod period;
mod place;

pub use args::CronArgs;
pub use attempt::{Attempt, attempt};
pub use meter::follow as follow_metric;
pub use once_per::{OncePer, Turn, wall};
pub use period::{Record, date, shown};
pub use place::Place;
