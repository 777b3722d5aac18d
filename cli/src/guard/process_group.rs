//! The number of a process group, and the signals sent to it.

use std::fmt;
use std::io;
use std::process::Child;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The process group of CMD. Its number may be used again once the group is gone, so it must not be
/// signalled any more then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupId(Pid);

impl GroupId {
    /// The group that this process leads. 0 and 1 are refused: to the kernel they mean the sender's
    /// own group, and every process there is.
    pub fn new(leader: i32) -> Option<GroupId> {
        (leader > 1).then(|| GroupId(Pid::from_raw(leader)))
    }

    /// The group that this child leads.
    pub fn of(child: &Child) -> io::Result<GroupId> {
        let id = i32::try_from(child.id()).ok().and_then(GroupId::new);
        id.ok_or_else(|| io::Error::other("a process with an impossible number"))
    }

    /// The process that started the group.
    pub fn leader(self) -> Pid {
        self.0
    }

    /// Whether the group has a process left, unreaped ones included.
    pub fn exists(self) -> bool {
        // EPERM says that there are processes and that all belong to another user by now.
        killpg(self.0, None) != Err(Errno::ESRCH)
    }

    /// Sends the signal to every process of the group. A stopped process is woken for a signal that
    /// asks it to end, or it would never see it.
    pub fn signal(self, signal: Signal) {
        // ESRCH and EPERM change nothing here: `exists` shows what is left.
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
