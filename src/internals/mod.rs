//! Items for the other packages of tenure. These items are not part of the API, and each version
//! may change them. So those packages depend on exactly this version (`=`).
//!
//! | module | package |
//! | --- | --- |
//! | [`groups`] | `tenure-groups` |
//! | [`fencing`] | `tenure-fencing` |
//! | the items of this module | the command, the Python package, the test kit |

pub mod fencing;
pub mod groups;

pub use crate::compactor::{DEFAULT_KEEP_EPOCHS, DEFAULT_MIN_AGE};
pub use crate::driver::epoch_objects::{EpochObject, EpochObjects};
pub use crate::driver::intervals::{DEFAULT_VALIDITY, observer_poll_interval};
pub use crate::driver::intervals::{poll_interval, renew_interval};
pub use crate::env::clock::wall_clock;
pub use crate::record::Record;
pub use crate::store::escape::plain;

/// Refuses a name that no candidate can have.
pub fn check_name(name: &str) -> Result<(), crate::Error> {
    crate::driver::config::Config::check_name(name)
}
