//! Clocks over Tokio's paused time, and seeded random numbers. Waiting takes no real time, no test
//! depends on the speed of the machine, and the same seed gives the same run.
//!
//! ```
//! use std::sync::Arc;
//! use tenure::{Election, store::MemoryStore};
//! use tenure_testkit::time::{TestClock, process, secs, timed};
//!
//! # /*
//! #[tokio::test(start_paused = true)]
//! # */
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! # a_candidate_takes_over_from_a_dead_leader().await
//! # }
//! async fn a_candidate_takes_over_from_a_dead_leader() {
//!     let (store, clock) = (Arc::new(MemoryStore::new()), TestClock::new());
//!     let node = |seed| Election::builder(store.clone(), "app").process(process(&clock, seed)).build();
//!     drop(node(1).unwrap().campaign().await.unwrap()); // as after a crash of the process
//!     let (took, successor) = timed(node(2).unwrap().campaign()).await;
//!     assert_eq!(successor.unwrap().epoch().get(), 2);
//!     assert!(took > secs(30) && took < secs(40)); // of Tokio's time
//! }
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "all tests read and await paused time by this module"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::{Clock, Moment, Process};
use tokio::time::Instant;

/// Start of every wall clock: 2026-11-20T00:00:00Z.
const EPOCH: Duration = Duration::from_secs(1_795_132_800);
/// Uptime of every machine at the start of its test.
const UP: Duration = Duration::from_secs(1_000);

/// The clocks of one machine, which run with Tokio's time. Clones have the clocks of the same
/// machine.
///
/// Every machine starts on 2026-11-20 at midnight, after 1,000 s of uptime. In a test with
/// `start_paused`, the clocks move only with waits, `tokio::time::advance`,
/// [`suspend`](TestClock::suspend) and [`set_wall_by`](TestClock::set_wall_by).
#[derive(Debug, Clone)]
pub struct TestClock(Arc<Mutex<Clocks>>);

#[derive(Debug)]
struct Clocks {
    start: Instant,
    /// Uptime at the start, plus the total of all suspensions.
    boot: Duration,
    wall_millis: i64,
    /// Rate error of the machine's oscillator, in parts per million. Only fast oscillators are
    /// supported.
    fast_ppm: u32,
    /// Rate that a clock daemon adds to the boot clock and the wall clock, in parts per million.
    slewed_ppm: i32,
}

impl TestClock {
    /// Creates a machine that starts now, in Tokio's time. Its clocks are exact.
    pub fn new() -> TestClock {
        let start = Instant::now();
        TestClock(Arc::new(Mutex::new(Clocks {
            start,
            boot: UP,
            wall_millis: 0,
            fast_ppm: 0,
            slewed_ppm: 0,
        })))
    }

    /// Creates a machine with an oscillator that is fast by `ppm` parts per million.
    pub fn fast(ppm: u32) -> TestClock {
        let clock = TestClock::new();
        clock.0.lock().unwrap().fast_ppm = ppm;
        clock
    }

    /// Creates a machine with a clock daemon that slews the boot and the wall clock. These clocks
    /// are faster than the oscillator by `ppm` parts per million, or slower if `ppm` is negative.
    pub fn slewed(ppm: i32) -> TestClock {
        let clock = TestClock::new();
        clock.0.lock().unwrap().slewed_ppm = ppm;
        clock
    }

    /// Suspends the machine for this duration. Tokio's timers stop during the suspension, but the
    /// clocks of the machine continue.
    pub fn suspend(&self, slept: Duration) {
        self.0.lock().unwrap().boot += slept;
        self.set_wall_by(slept.as_millis() as i64);
    }

    /// Moves only the wall clock forward by `millis` milliseconds, or back if `millis` is negative.
    /// The wall clock moves in this way if an administrator sets it, or if a host pauses a virtual
    /// machine and then resumes it.
    pub fn set_wall_by(&self, millis: i64) {
        self.0.lock().unwrap().wall_millis += millis;
    }
}

impl Default for TestClock {
    fn default() -> TestClock {
        TestClock::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Moment {
        let clocks = self.0.lock().unwrap();
        let passed = clocks.start.elapsed();
        let at_rate = |of: Duration, ppm: i64| {
            // This shortcut saves time, because most clocks are exact, and a simulation reads them
            // at every step.
            if ppm == 0 {
                return of;
            }
            let rate = u128::from((1_000_000 + ppm).unsigned_abs());
            Duration::from_nanos((of.as_nanos() * rate / 1_000_000) as u64)
        };
        let raw = at_rate(passed, i64::from(clocks.fast_ppm));
        let slewed = at_rate(raw, i64::from(clocks.slewed_ppm));
        let wall = (EPOCH + slewed).as_nanos() as i128 + i128::from(clocks.wall_millis) * 1_000_000;
        let wall = Duration::from_nanos(wall.max(0) as u64);
        Moment::new(clocks.boot + slewed, clocks.boot + raw, wall)
    }
}

/// Creates a process on the machine of `clock`. Its random numbers follow from `seed`. Pass the
/// process to [`ElectionBuilder::process`](tenure::ElectionBuilder::process).
pub fn process(clock: &TestClock, seed: u64) -> Process {
    Process::system().with_clock(Arc::new(clock.clone())).with_seed(seed)
}

/// Returns a duration of this number of milliseconds.
pub const fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns a duration of this number of seconds.
pub const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Waits for this duration of Tokio's time.
pub async fn wait(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Returns the output of the future, or `None` after this duration of Tokio's time.
pub async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}

/// Awaits the future. Returns the elapsed Tokio time and the output.
pub async fn timed<F: Future>(future: F) -> (Duration, F::Output) {
    let start = Instant::now();
    let output = future.await;
    (start.elapsed(), output)
}
