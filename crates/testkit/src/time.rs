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

/// The clocks of one machine. Clones are the same machine.
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
    /// A machine started now, by tokio's time.
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

    /// The same, with an oscillator that runs fast by this ratio.
    pub fn fast(ppm: u32) -> TestClock {
        let clock = TestClock::new();
        clock.0.lock().unwrap().fast_ppm = ppm;
        clock
    }

    /// From now on a clock daemon slews the boot and the wall clock: they run faster than the
    /// oscillator by this ratio, or slower.
    pub fn slewed(ppm: i32) -> TestClock {
        let clock = TestClock::new();
        clock.0.lock().unwrap().slewed_ppm = ppm;
        clock
    }

    /// The machine was suspended: no timer ran, and all clocks went on.
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
        let at_rate = |of: Duration, ppm: i64| {
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

pub const fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub const fn secs(s: u64) -> Duration {
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
