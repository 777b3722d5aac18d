//! The clocks of one simulated machine. They have offsets and a rate, can be slewed and stepped,
//! and show the effects of suspends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::{Clock, Moment};

use crate::time::now;

const MILLION: u64 = 1_000_000;

/// Default maximum slew rate of chrony (`maxslewrate`), in millionths.
pub const MOST_SLEWED: i64 = 83_333;

/// All clocks of one simulated machine.
#[derive(Debug)]
pub struct SimClock {
    state: Mutex<ClockState>,
}

/// The power state of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    Runs,
    /// The machine sleeps. After the machine wakes, all clocks include the time of the sleep.
    Suspended,
    /// The host has stopped the machine. After the machine continues, only the wall clock includes
    /// the time of the stop.
    Paused,
}

#[derive(Debug, Clone, Copy)]
struct ClockState {
    /// Simulated time of the readings `boot`, `raw` and `wall`.
    at: Duration,
    boot: Duration,
    raw: Duration,
    wall: Duration,
    /// Rate of the oscillator: the number of local microseconds per simulated second.
    rate: u64,
    /// Rate that a time daemon adds to the boot clock and the wall clock, in millionths.
    slew: i64,
    power: Power,
    /// Duration by which the readings of a broken process are too early.
    behind: Duration,
    /// For a broken process: an instant, and the error of its readings at exactly this instant.
    /// They are too early by this error.
    behind_at: Option<(Duration, Duration)>,
    /// The total duration of the suspends, if the clocks of this machine wrongly stop during a
    /// suspend.
    asleep: Duration,
    raw_repeats_boot: bool,
}

impl SimClock {
    pub fn new(boot: Duration, wall: Duration, rate: u64) -> Arc<SimClock> {
        let state = ClockState {
            at: now(),
            boot,
            raw: boot / 2,
            wall,
            rate,
            slew: 0,
            power: Power::Runs,
            behind: Duration::ZERO,
            behind_at: None,
            asleep: Duration::ZERO,
            raw_repeats_boot: false,
        };
        Arc::new(SimClock { state: Mutex::new(state) })
    }

    /// Returns the true readings, without the error of a broken process.
    pub fn truth(&self) -> Moment {
        self.state.lock().unwrap().show(now())
    }

    pub fn power(&self, power: Power) {
        self.change(|state| state.power = power);
    }

    pub fn slew(&self, millionths: i64) {
        self.change(|state| state.slew = millionths);
    }

    pub fn step_wall(&self, forward: bool, by: Duration) {
        self.change(|state| {
            state.wall = if forward { state.wall + by } else { state.wall.saturating_sub(by) };
        });
    }

    pub fn read_behind(&self, by: Duration) {
        self.state.lock().unwrap().behind = by;
    }

    pub fn stood_still(&self, by: Duration) {
        self.state.lock().unwrap().asleep += by;
    }

    pub fn repeat_boot(&self) {
        self.state.lock().unwrap().raw_repeats_boot = true;
    }

    pub fn read_behind_now(&self, by: Duration) {
        self.state.lock().unwrap().behind_at = Some((now(), by));
    }

    fn change(&self, change: impl FnOnce(&mut ClockState)) {
        let mut state = self.state.lock().unwrap();
        let now = now();
        let Moment { boot, raw, wall, .. } = state.show(now);
        *state = ClockState { at: now, boot, raw, wall, ..*state };
        change(&mut state);
    }
}

impl ClockState {
    fn show(&self, now: Duration) -> Moment {
        let local = scale(now - self.at, self.rate);
        let slewed = scale(local, MILLION.saturating_add_signed(self.slew));
        // The kernel slews clocks only while the machine runs. It slews no clock during a suspend,
        // or while the host has stopped the machine.
        let (boot, raw, wall) = match self.power {
            Power::Runs => (slewed, local, slewed),
            Power::Suspended => (local, local, local),
            Power::Paused => (Duration::ZERO, Duration::ZERO, local),
        };
        Moment::new(self.boot + boot, self.raw + raw, self.wall + wall)
    }
}

impl Clock for SimClock {
    fn now(&self) -> Moment {
        let state = self.state.lock().unwrap();
        let now = now();
        let shown = state.show(now);
        let instant = state.behind_at.filter(|(at, _)| *at == now);
        let behind = state.behind.max(instant.map_or(Duration::ZERO, |(_, by)| by));
        let Moment { boot, raw, wall, .. } = shown.minus(behind);
        let awake = |clock: Duration| clock.saturating_sub(state.asleep);
        let (boot, raw, wall) = (awake(boot), awake(raw), awake(wall));
        Moment::new(boot, if state.raw_repeats_boot { boot } else { raw }, wall)
    }
}

/// Returns `duration` multiplied by `millionths` / 1,000,000.
pub fn scale(duration: Duration, millionths: u64) -> Duration {
    let nanos = u64::try_from(duration.as_nanos()).expect("a simulation takes less than 500 years");
    // Every reading of a clock calls this function, so it must be fast. Two products in 64 bits are
    // faster than one product in 128 bits.
    let (whole, rest) = (nanos / MILLION, nanos % MILLION);
    Duration::from_nanos(whole * millionths + rest * millionths / MILLION)
}
