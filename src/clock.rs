//! The only place that reads a clock.
//!
//! Two clocks are read together. `CLOCK_BOOTTIME` runs on while the machine is suspended, which
//! `Instant` does not on Linux; the wall clock also sees a virtual machine that was paused by its
//! host. A lease has ended when either says so (invariant I7).

use std::fmt;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};

/// A reading of the two clocks of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment {
    /// Since the machine was started, suspension included.
    pub boot: Duration,
    /// Since the Unix epoch, by the wall clock. Decides nothing but that a lease has ended early.
    pub wall: Duration,
}

/// Reads the time. One per process; a simulation brings its own.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Moment;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment { boot: since_boot(), wall: since_unix_epoch() }
    }
}

impl Moment {
    /// The time of day of this reading, for people.
    #[must_use]
    pub fn time_of_day(self) -> DateTime<Utc> {
        time_of_day(self.wall)
    }
}

/// The time of day by the machine's wall clock, for people and for stores that are on this machine.
pub(crate) fn wall_clock() -> DateTime<Utc> {
    time_of_day(since_unix_epoch())
}

fn time_of_day(wall: Duration) -> DateTime<Utc> {
    let nanos = wall.subsec_nanos();
    let seconds = i64::try_from(wall.as_secs()).unwrap_or(i64::MAX);
    DateTime::from_timestamp(seconds, nanos).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[allow(clippy::disallowed_methods, reason = "this is where the wall clock is read")]
fn since_unix_epoch() -> Duration {
    // A clock set before 1970 reads as 1970: the wall clock can only end a lease early.
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .expect(
            "Linux has had CLOCK_BOOTTIME since 2.6.39, and reading it fails for no other reason",
        )
        .into()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[allow(clippy::disallowed_methods, reason = "this is where the clock is read")]
fn since_boot() -> Duration {
    // On macOS `Instant` stops in sleep, as on Linux; the wall clock then ends the lease.
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
