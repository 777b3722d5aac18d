//! The clocks of a machine. Only this module reads them.
//!
//! Each reading contains three clocks, because each clock has a weakness:
//!
//! - `CLOCK_BOOTTIME` counts while the machine is suspended, but a clock daemon may slew it: chrony
//!   by up to 8.3 %.
//! - `CLOCK_MONOTONIC_RAW` is never slewed, but stops during suspension. So the reading adds the
//!   time of suspension, which is the difference between `CLOCK_BOOTTIME` and `CLOCK_MONOTONIC`.
//! - The wall clock may be stepped at any time. But often only the wall clock shows that a host has
//!   paused a virtual machine.
//!
//! A lease ends when any of the three clocks reaches the end (I7). An observer's timer lapses when
//! both the boot clock and the raw clock have reached the end (I8).

use std::fmt;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};

use crate::env::moment::{Moment, time_of_day};

/// A source of time. Tests and simulations set their own clock with
/// [`Process::with_clock`](crate::Process::with_clock).
///
/// # Examples
///
/// A clock that a test advances. The clock of [another example](crate#tests-with-paused-time) shows
/// Tokio's paused time.
/// ```
/// # use std::{sync::{Arc, Mutex}, time::Duration};
/// # use tenure::{Clock, Election, Moment, Process, store::MemoryStore};
/// #[derive(Debug)]
/// struct ManualClock(Mutex<Duration>);
///
/// impl Clock for ManualClock {
///     fn now(&self) -> Moment {
///         let now = *self.0.lock().unwrap();
///         Moment::new(now, now, now)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// let clock = Arc::new(ManualClock(Mutex::new(Duration::from_secs(1_000_000))));
/// let process = Process::system().with_clock(clock.clone());
/// let leadership =
///     Election::builder(store, "test").process(process).build()?.campaign().await?;
/// *clock.0.lock().unwrap() += Duration::from_secs(30); // as if the machine had been suspended
/// assert_eq!(leadership.token(), None); // the default validity has passed
/// # Ok(())
/// # }
/// ```
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the present reading of the three clocks. `boot` and `raw` must never decrease.
    /// `wall` may decrease.
    fn now(&self) -> Moment;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment { boot: since_boot(), raw: raw(), wall: since_unix_epoch() }
    }
}

/// Returns the time of day by the machine's wall clock, for display and for stores on this machine.
pub fn wall_clock() -> DateTime<Utc> {
    time_of_day(since_unix_epoch())
}

#[allow(clippy::disallowed_methods, reason = "this is where the wall clock is read")]
fn since_unix_epoch() -> Duration {
    // A wall clock before 1970 reads as 1970. The wall clock can only end a lease early, so this
    // reading is safe.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Duration {
    read(nix::time::ClockId::CLOCK_BOOTTIME)
}

/// Returns `CLOCK_MONOTONIC_RAW` plus the time of suspension.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn raw() -> Duration {
    use nix::time::ClockId;
    /// Maximum duration of one measurement. A preemption during the measurement would count as a
    /// suspension, so a slower measurement is repeated.
    const AT_ONCE: Duration = Duration::from_micros(20);
    const TRIES: usize = 8;
    let measure = || {
        let before = read(ClockId::CLOCK_MONOTONIC);
        let boot = since_boot();
        let after = read(ClockId::CLOCK_MONOTONIC);
        (after.saturating_sub(before), boot.saturating_sub(after))
    };
    let mut best = measure();
    for _ in 1..TRIES {
        if best.0 <= AT_ONCE {
            break;
        }
        best = best.min(measure());
    }
    read(ClockId::CLOCK_MONOTONIC_RAW).saturating_add(best.1)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn read(clock: nix::time::ClockId) -> Duration {
    nix::time::clock_gettime(clock)
        .expect("reading a clock fails only on Linux before 2.6.39, which lacks these clocks")
        .into()
}

/// On other systems, one monotonic clock provides both `boot` and `raw`. On macOS `Instant` is not
/// slewed.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn raw() -> Duration {
    since_boot()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[allow(clippy::disallowed_methods, reason = "this is where the clock is read")]
fn since_boot() -> Duration {
    // On macOS `Instant` stops during sleep. After a sleep, the wall clock ends the lease.
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_reads_all_three_clocks() {
        let (first, second) = (SystemClock.now(), SystemClock.now());
        assert!(first.raw <= second.raw && first.boot <= second.boot);
        assert!(first.raw > Duration::ZERO && first.wall > Duration::ZERO);
    }
}
