//! How far CMD is: it runs, it has ended, nothing of it is left.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// How CMD ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupEnd {
    pub status: ExitStatus,
    /// What was done to CMD before it ended; nothing if it ended by itself.
    pub stop: Option<Stop>,
}

/// What was done to a CMD that did not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It got SIGTERM as the lease was at risk, and was not killed. The lease may have been
    /// renewed since.
    Terminated,
    /// It was killed as the lease was about to end, or by [`Group::kill`](super::Group::kill).
    Killed,
    /// It was killed as the guard had died.
    Unguarded,
}

/// Whether a process of CMD may be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Nothing,
    /// Guard and standby were both killed: nobody knows where processes are that left the group.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
pub enum CmdPhase {
    Running,
    Ended(GroupEnd),
    Gone(GroupEnd, Left),
}

impl GroupEnd {
    /// The exit code as a shell gives it: 128 + n after signal n.
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
