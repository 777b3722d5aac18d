//! The faults that the simulations of elections and groups inject, chosen at random.

use fastrand::Rng;

use crate::clock::{MOST_SLEWED, Power};

/// A fault. It affects one process, one machine, all processes, or the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Pause,
    Suspend,
    MachinePause,
    Crash,
    /// A member leaves its group.
    Leave,
    /// The requests of one process fail.
    Outage,
    /// The requests of all processes fail.
    Blackout,
    WallForward,
    WallBack,
    Slew,
    /// An operator deposes the leader.
    Depose,
    /// Other programs delete assignments of a group.
    DeleteAssignments,
    /// Other programs delete the session of a member.
    DeleteSession,
    /// An operator restores the election or the group.
    Restore,
    /// For some minutes, a fault affects the requests for one object, or the requests of one
    /// process.
    Trouble,
}

impl Fault {
    /// Returns the power state of the affected machine during this fault.
    pub fn power(self) -> Power {
        match self {
            Fault::Suspend => Power::Suspended,
            Fault::MachinePause => Power::Paused,
            _ => Power::Runs,
        }
    }
}

/// The relative frequency of each fault.
#[derive(Debug, Clone, Default)]
pub struct Frequencies {
    pub pause: u32,
    pub suspend: u32,
    pub machine_pause: u32,
    pub crash: u32,
    pub leave: u32,
    pub outage: u32,
    pub blackout: u32,
    pub wall_forward: u32,
    pub wall_back: u32,
    pub slew: u32,
    pub depose: u32,
    pub delete_assignments: u32,
    pub delete_session: u32,
    pub restore: u32,
    pub trouble: u32,
}

impl Frequencies {
    /// Returns a random fault, or `None` if all frequencies are zero.
    pub fn draw(&self, rng: &mut Rng) -> Option<Fault> {
        let weights = [
            (Fault::Pause, self.pause),
            (Fault::Suspend, self.suspend),
            (Fault::MachinePause, self.machine_pause),
            (Fault::Crash, self.crash),
            (Fault::Leave, self.leave),
            (Fault::Outage, self.outage),
            (Fault::Blackout, self.blackout),
            (Fault::WallForward, self.wall_forward),
            (Fault::WallBack, self.wall_back),
            (Fault::Slew, self.slew),
            (Fault::Depose, self.depose),
            (Fault::DeleteAssignments, self.delete_assignments),
            (Fault::DeleteSession, self.delete_session),
            (Fault::Restore, self.restore),
            (Fault::Trouble, self.trouble),
        ];
        let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
        let mut drawn = if total == 0 { return None } else { rng.u32(..total) };
        for (fault, weight) in weights {
            if drawn < weight {
                return Some(fault);
            }
            drawn -= weight;
        }
        None
    }
}

/// Returns a random slew rate in millionths. Often it is the greatest rate of a time daemon,
/// forward or backward.
pub fn draw_slew(rng: &mut Rng) -> i64 {
    match rng.u32(0..6) {
        0 | 1 => MOST_SLEWED,
        2 | 3 => -MOST_SLEWED,
        4 => 0,
        _ => rng.i64(-MOST_SLEWED..=MOST_SLEWED),
    }
}
