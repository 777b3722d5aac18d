//! Settings and arguments from Python.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use tenure::Epoch;

use crate::errors::{Failure, invalid};

/// Reads a setting for which `None` is a value, as `Some(None)`. A missing setting is `None`.
pub fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Returns a duration in seconds as a `Duration`.
pub fn seconds(name: &str, seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| invalid(format!("{name} must be a duration, got {seconds} s")))
}

/// Sets the settings that are given on the builder. With `seconds` before the builder, the settings
/// are durations.
macro_rules! set {
    ($builder:ident, $given:ident, $($setting:ident),*) => {
        $(if let Some(value) = $given.$setting { $builder = $builder.$setting(value); })*
    };
    (seconds $builder:ident, $given:ident, $($setting:ident),*) => {
        $(if let Some(value) = $given.$setting {
            $builder = $builder.$setting(seconds(stringify!($setting), value)?);
        })*
    };
}

pub(crate) use set;

/// Returns the epoch with this number, or an error if the number is out of range.
pub fn epoch(number: u64) -> Result<Epoch, Failure> {
    Epoch::new(number)
        .ok_or_else(|| invalid(format!("a token is 1 to {}, got {number}", Epoch::MAX)))
}
