//! The three phases of CMD. First CMD runs. Then CMD has ended, but descendants of CMD may still
//! run. In the last phase no process of CMD is left, or it is unknown which processes are left.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// The exit status of CMD, and the intervention that ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupEnd {
    pub status: ExitStatus,
    /// The intervention of the guard or of `tenure` that ended CMD. `None` if CMD ended without an
    /// intervention.
    pub stop: Option<Stop>,
}

/// An intervention of the guard or of `tenure` that ended CMD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// CMD got SIGTERM at its deadline, and ended without SIGKILL. The lease may have been renewed
    /// after the SIGTERM.
    Terminated,
    /// CMD was killed because the lease was about to end, or because
    /// [`Group::kill`](super::Group::kill) was called.
    Killed,
    /// CMD was killed because the guard had died.
    Unguarded,
}

/// The processes of CMD that may be left after the end of its guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Nothing,
    /// The guard and the standby were both killed, so processes that have left the process group of
    /// CMD cannot be found.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
pub enum CmdPhase {
    Running,
    Ended(GroupEnd),
    Gone(GroupEnd, Left),
}

impl GroupEnd {
    /// Returns the exit code in the convention of shells: 128 + n after signal n.
    pub fn exit_code(&self) -> u8 {
        let code = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => i32::from(u8::MAX),
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

impl CmdPhase {
    pub fn end(self) -> Option<GroupEnd> {
        match self {
            CmdPhase::Running => None,
            CmdPhase::Ended(end) | CmdPhase::Gone(end, _) => Some(end),
        }
    }
}
