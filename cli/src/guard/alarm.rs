//! A kernel timer that kills the guard if the guard does not act on the deadline for SIGKILL.
//!
//! An operator may have suspended the guard together with `tenure` (SIGSTOP). The timer of a
//! suspended process continues to run. When the guard dies, the kernel kills CMD and the standby
//! kills the other descendants.

use std::time::Duration;

use tenure::Moment;

/// The timer of one guard. It has no effect on systems other than Linux.
#[derive(Debug)]
pub struct Alarm {
    timer: Option<kernel::Timer>,
    /// Time from the deadline for SIGKILL to the expiry of the timer. It is half of the time from
    /// this deadline to the end of the lease.
    after: Duration,
}

impl Alarm {
    /// Creates the alarm. `margin` is the time from the deadline for SIGKILL to the end of the
    /// lease.
    ///
    /// The alarm has no effect if `margin` is `None`, or if the system refuses the timer.
    pub fn new(margin: Option<Duration>) -> Alarm {
        let after = margin.unwrap_or_default() / 2;
        Alarm { timer: margin.and_then(|_| kernel::Timer::new()), after }
    }

    /// Sets the timer. It expires when half of the time from `kill_at`, the deadline for SIGKILL,
    /// to the end of the lease has passed. Replaces an earlier setting.
    pub fn set(&mut self, kill_at: Moment, now: Moment) {
        let until = now.until(kill_at) + self.after;
        self.timer.iter_mut().for_each(|timer| timer.set(now.boot.saturating_add(until)));
    }

    /// Disarms the timer. Called when the guard acts on the deadline, or when no process of CMD is
    /// left.
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

        /// Sets the timer to expire at this time of the boot clock.
        pub fn set(&mut self, at: Duration) {
            self.arm(at);
        }

        pub fn clear(&mut self) {
            // A time of zero disarms the timer.
            self.arm(Duration::ZERO);
        }

        fn arm(&mut self, at: Duration) {
            // The call fails only if the time is out of range, and the end of a lease is always in
            // range.
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
