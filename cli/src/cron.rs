//! `tenure run` for cron on many hosts: `--try` makes one attempt, `--once-per` runs CMD once per
//! period.

mod args;
mod attempt;
mod once_per;
mod period;

pub use args::CronArgs;
pub use attempt::{Attempt, attempt};
pub use once_per::{OncePer, Turn};
