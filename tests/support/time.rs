//! Clocks over tokio's paused time, and seeded random numbers: waiting costs nothing, nothing is
//! timed, and the same seed gives the same run.
#![allow(clippy::disallowed_methods, reason = "this is where tests read and wait for paused time")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::{Clock, Entropy, Moment, Process};
use tokio::time::Instant;

/// 2026-11-20T00:00:00Z, where every wall clock starts.
const EPOCH: Duration = Duration::from_secs(1_795_132_800);
/// How long every machine has been up when its test starts.
const UP: Duration = Duration::from_secs(1_000);

/// Both clocks of one machine. Clones are the same machine.
#[derive(Debug, Clone)]
pub struct TestClock(Arc<Mutex<Clocks>>);

#[derive(Debug)]
struct Clocks {
    start: Instant,
    /// What suspensions and jumps have added to each clock.
    boot: Duration,
    wall_millis: i64,
    /// By how much the boot clock runs fast.
    fast_ppm: u32,
}

impl TestClock {
    /// A machine started now, by tokio's time.
    pub fn new() -> TestClock {
        let start = Instant::now();
        TestClock(Arc::new(Mutex::new(Clocks { start, boot: UP, wall_millis: 0, fast_ppm: 0 })))
    }

    /// The same, with a boot clock that runs fast by this ratio.
    pub fn fast(ppm: u32) -> TestClock {
        let clock = TestClock::new();
        clock.0.lock().unwrap().fast_ppm = ppm;
        clock
    }

    /// The machine was suspended: no timer ran, and both clocks went on.
    pub fn suspend(&self, slept: Duration) {
        self.0.lock().unwrap().boot += slept;
        self.set_wall_by(slept.as_millis() as i64);
    }

    /// A virtual machine was paused by its host: only the wall clock, once set, shows it. Negative:
    /// the clock was set back.
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
        let wall = (EPOCH + passed).as_nanos() as i128 + i128::from(clocks.wall_millis) * 1_000_000;
        let fast = passed.as_nanos() * u128::from(clocks.fast_ppm) / 1_000_000;
        Moment {
            boot: clocks.boot + passed + Duration::from_nanos(fast as u64),
            wall: Duration::from_nanos(wall.max(0) as u64),
        }
    }
}

/// Random numbers from a seed.
#[derive(Debug)]
pub struct Seeded(Mutex<fastrand::Rng>);

impl Seeded {
    pub fn new(seed: u64) -> Seeded {
        Seeded(Mutex::new(fastrand::Rng::with_seed(seed)))
    }
}

impl Entropy for Seeded {
    fn unique(&self) -> u128 {
        self.0.lock().unwrap().u128(..)
    }

    fn fraction(&self) -> f64 {
        self.0.lock().unwrap().f64()
    }
}

/// A process on this machine.
pub fn process(clock: &TestClock, seed: u64) -> Process {
    Process::new(Arc::new(clock.clone()), Arc::new(Seeded::new(seed)))
}

pub fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Waits, by tokio's time.
pub async fn wait(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// What the future comes to, or `None` after this long by tokio's time.
pub async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}

/// How long the future takes by tokio's time.
pub async fn timed<F: Future>(future: F) -> (Duration, F::Output) {
    let start = Instant::now();
    let output = future.await;
    (start.elapsed(), output)
}
