//! A timer of the kernel that kills the guard itself, if it does not act on the deadline for
//! SIGKILL: somebody may have stopped it together with `tenure`. The timer of a stopped process runs
//! on. The death of the guard kills CMD, and the standby kills the rest.

use std::time::Duration;

use tenure::Moment;

/// The timer of one guard; none on systems without such timers.
#[derive(Debug)]
pub struct Alarm {
    timer: Option<kernel::Timer>,
    /// How long after the deadline it goes off: half of what is left of the lease then.
    after: Duration,
}

impl Alarm {
    /// `margin`: between the deadline for SIGKILL and the end of the lease. Without one there is no
    /// alarm, nor where the system refuses the timer.
    pub fn new(margin: Option<Duration>) -> Alarm {
        let after = margin.unwrap_or_default() / 2;
        Alarm { timer: margin.and_then(|_| kernel::Timer::new()), after }
    }

    /// Goes off after this deadline, unless it is set or cleared again.
    pub fn set(&mut self, kill_at: Moment, now: Moment) {
        let until = now.until(kill_at) + self.after;
        self.timer.iter_mut().for_each(|timer| timer.set(now.boot.saturating_add(until)));
    }

    /// The guard acts, or nothing of CMD is left.
    pub fn clear(&mut self) {
        self.timer.iter_mut().for_each(kernel::Timer::clear);
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::time::Duration;

    use nix::sys::signal::{SigEvent, SigevNotify, Signal};
    use nix::sys::timer::{self, Expiration, TimerSetTimeFlags};
    use nix::time::ClockId;

    #[derive(Debug)]
    pub struct Timer(timer::Timer);

    impl Timer {
        pub fn new() -> Option<Timer> {
            let kill = SigevNotify::SigevSignal { signal: Signal::SIGKILL, si_value: 0 };
            timer::Timer::new(ClockId::CLOCK_BOOTTIME, SigEvent::new(kill)).ok().map(Timer)
        }

        /// At this time of the boot clock.
        pub fn set(&mut self, at: Duration) {
            self.arm(at);
        }

        pub fn clear(&mut self) {
            // Zero is no time for a timer.
            self.arm(Duration::ZERO);
        }

        fn arm(&mut self, at: Duration) {
            // An error says that the time is out of range, which no lease reaches.
            let _ =
                self.0.set(Expiration::OneShot(at.into()), TimerSetTimeFlags::TFD_TIMER_ABSTIME);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::time::Duration;

    #[derive(Debug)]
    pub struct Timer;

    impl Timer {
        pub fn new() -> Option<Timer> {
            None
        }

        pub fn set(&mut self, _: Duration) {}

        pub fn clear(&mut self) {}
    }
}
