//! The signals that end CMD and its descendants.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::descendants::{self, Living};
use super::super::messages::GuardReport;
use super::super::process_group::GroupId;
use super::Guard;

impl<S: Fn(&'static str, &str)> Guard<S> {
    /// Sends SIGKILL to all descendants. Returns the pause before the caller calls this function
    /// again. Repeated calls are necessary, because a process may fork at any moment.
    pub(super) fn kill(&mut self) -> Duration {
        self.alarm.clear();
        self.remove_epoch_file();
        if descendants::kill_own(self.group) && !self.killed {
            self.killed = true;
            self.report(GuardReport::Killed);
            if self.hung_up {
                (self.say)("killed", "the processes of CMD were killed (SIGKILL)");
            }
        }
        self.pace.next()
    }

    /// Sends SIGTERM to the orphans. Also sends it to the process group of CMD, unless this group
    /// already got SIGTERM.
    pub(super) fn ask_to_end(&mut self) {
        let living = self.living();
        // The group gets SIGTERM only once, because many programs end without a cleanup at the
        // second SIGTERM.
        if !std::mem::replace(&mut self.asked, true) {
            self.signal_group(Signal::SIGTERM, &living);
        }
        self.ask_orphans_to_end(&living);
    }

    /// Sends SIGTERM once to each orphan outside the group of CMD. Other descendants get no
    /// SIGTERM, because their parent may shut them down in a specific order.
    pub(super) fn ask_orphans_to_end(&mut self, living: &[Living]) {
        let own = Pid::this();
        let group = self.group.map(GroupId::leader);
        for one in living {
            if one.parent == own && Some(one.group) != group && self.terminated.insert(one.pid) {
                // The calls fail only if the process has ended or belongs to another user, so their
                // errors are ignored.
                let _ = kill(one.pid, Signal::SIGTERM);
                let _ = kill(one.pid, Signal::SIGCONT);
            }
        }
    }

    pub(super) fn signal_group(&self, signal: Signal, living: &[Living]) {
        let group = self.group.filter(|group| living.iter().any(|one| one.group == group.leader()));
        if let Some(group) = group {
            group.signal(signal);
        }
    }

    pub(super) fn living(&self) -> Vec<Living> {
        descendants::living(Pid::this(), self.group)
    }
}
