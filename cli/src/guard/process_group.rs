//! The number of a process group, and the signals to all processes of the group.

use std::fmt;
use std::io;
use std::process::Child;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The process group of CMD.
///
/// After the end of the group, the system may assign the number to another group, so callers must
/// not send signals to this number any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupId(Pid);

impl GroupId {
    /// Returns the group of this leader. Refuses 0 and 1, because the kernel would signal the group
    /// of the sender for 0, and all processes for 1.
    pub fn new(leader: i32) -> Option<GroupId> {
        (leader > 1).then(|| GroupId(Pid::from_raw(leader)))
    }

    /// Returns the process group that this child leads.
    pub fn of(child: &Child) -> io::Result<GroupId> {
        let id = i32::try_from(child.id()).ok().and_then(GroupId::new);
        id.ok_or_else(|| io::Error::other("the child has an invalid process number"))
    }

    /// Returns the process ID of the leader of the group.
    pub fn leader(self) -> Pid {
        self.0
    }

    /// Returns whether the group contains at least one process. A zombie counts as a process.
    pub fn exists(self) -> bool {
        // If the error is EPERM, the group exists, but all its processes belong to another user.
        killpg(self.0, None) != Err(Errno::ESRCH)
    }

    /// Sends the signal to every process of the group. A signal that asks processes to end is
    /// followed by SIGCONT, because a suspended process does not handle signals.
    pub fn signal(self, signal: Signal) {
        // Errors are ignored. After ESRCH or EPERM the caller uses `exists` to find out whether
        // processes are left.
        let _ = killpg(self.0, signal);
        if matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT) {
            let _ = killpg(self.0, Signal::SIGCONT);
        }
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
