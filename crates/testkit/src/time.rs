//! Clocks over Tokio's paused time, and seeded random numbers: waiting costs nothing, no test
//! depends on how fast the machine is, and the same seed gives the same run.
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
//! # a_dead_leader_is_succeeded().await
//! # }
//! async fn a_dead_leader_is_succeeded() {
//!     let (store, clock) = (Arc::new(MemoryStore::new()), TestClock::new());
//!     let node = |seed| Election::builder(store.clone(), "app").process(process(&clock, seed)).build();
//!     drop(node(1).unwrap().campaign().await.unwrap()); // as if its process had died
//!     let (took, successor) = timed(node(2).unwrap().campaign()).await;
//!     assert_eq!(successor.unwrap().epoch().get(), 2);
//!     assert!(took > secs(30) && took < secs(40)); // and no second has passed
//! }
//! ```
#![allow(clippy::disallowed_methods, reason = "this is where tests read and wait for paused time")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::{Clock, Moment, Process};
use tokio::time::Instant;

/// 2026-11-20T00:00:00Z, where every wall clock starts.
const EPOCH: Duration = Duration::from_secs(1_795_132_800);
/// How long every machine has been up when its test starts.
const UP: Duration = Duration::from_secs(1_000);

/// The clocks of one machine, which run with Tokio's time. Clones are the same machine.
///
/// Every machine starts on 2026-11-20 at midnight, after 1,000 s of uptime. With `start_paused`
/// nothing moves but by waiting, or by `tokio::time::advance`.
#[derive(Debug, Clone)]
pub struct TestClock(Arc<Mutex<Clocks>>);

#[derive(Debug)]
struct Clocks {
    start: Instant,
    /// What suspensions and jumps have added to each clock.
    boot: Duration,
    wall_millis: i64,
    /// By how much the machine's oscillator runs fast.
    fast_ppm: u32,
    /// By how much a clock daemon makes the boot and the wall clock run faster still.
    slewed_ppm: i32,
}

impl TestClock {
    /// A machine that starts now, by Tokio's time. Its clocks are exact.
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

    /// The same, with an oscillator that runs fast by so many parts in a million.
    pub fn fast(ppm: u32) -> TestClock {
        let clock = TestClock::new();
        clock.0.lock().unwrap().fast_ppm = ppm;
        clock
    }

    /// A machine whose clock daemon slews the boot and the wall clock: they run faster than the
    /// oscillator by so many parts in a million, or slower if it is negative.
    pub fn slewed(ppm: i32) -> TestClock {
        let clock = TestClock::new();
        clock.0.lock().unwrap().slewed_ppm = ppm;
        clock
    }

    /// Suspends the machine for this long: no timer runs, and its clocks go on.
    pub fn suspend(&self, slept: Duration) {
        self.0.lock().unwrap().boot += slept;
        self.set_wall_by(slept.as_millis() as i64);
    }

    /// Moves the wall clock alone forward by so many milliseconds, or back if it is negative: as
    /// somebody sets it, or as a virtual machine shows that its host has paused it.
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
            // Most clocks are exact, and are read at every step of a simulated hour.
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

/// A process on this machine, with random numbers from this seed: what
/// [`ElectionBuilder::process`](tenure::ElectionBuilder::process) takes.
pub fn process(clock: &TestClock, seed: u64) -> Process {
    Process::system().with_clock(Arc::new(clock.clone())).with_seed(seed)
}

/// So many milliseconds.
pub const fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// So many seconds.
pub const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Waits this long by Tokio's time.
pub async fn wait(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Returns what the future returns, or `None` after this long by Tokio's time.
pub async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}

/// Returns how long the future takes by Tokio's time, and what it returns.
pub async fn timed<F: Future>(future: F) -> (Duration, F::Output) {
    let start = Instant::now();
    let output = future.await;
    (start.elapsed(), output)
}
