//! The standby is the parent of the guard, and takes over if the guard dies.

use std::io;

use nix::errno::Errno;
use nix::sys::signal::SigSet;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::Say;
use super::descendants::{self, ADOPTS, KillPace, adopt_orphans};
use super::epoch_file::{EpochFile, Removal};
use super::event_loop::GuardArgs;
use super::tenure_binary::Tenure;
use crate::process::timer::block_for;

/// Runs the guard. Returns after all descendants have ended. If the guard dies first, kills all
/// descendants.
///
/// # Errors
///
/// Fails if the guard died on a system without subreapers. Descendants may be left on such a
/// system, and the standby cannot find them.
pub fn run(tenure: &Tenure, args: &GuardArgs, say: Say) -> io::Result<()> {
    // After this call, only SIGKILL ends the standby, because all other signals are blocked. Signal
    // handlers are not used, because they have races.
    SigSet::all().thread_block()?;
    adopt_orphans()?;
    let GuardArgs { pipes, epoch_file, command, .. } = args;
    let guard = tenure.command("__guard", &args.arguments(), command).spawn()?;
    pipes.close()?;
    let guard = Pid::from_raw(i32::try_from(guard.id()).map_err(io::Error::other)?);
    loop {
        match waitpid(guard, None) {
            Ok(WaitStatus::Exited(_, 0)) => return Ok(()),
            Err(Errno::EINTR) => {}
            _ => break,
        }
    }
    let removal = epoch_file.as_ref().map(EpochFile::remove);
    if !ADOPTS {
        removal.into_iter().for_each(Removal::wait);
        return Err(io::Error::other("the guard has died"));
    }
    if end_all() {
        say("unguarded", "the guard has died: the processes of CMD were killed");
    }
    removal.into_iter().for_each(Removal::wait);
    Ok(())
}

/// Kills all descendants of this process until none is left. Returns whether any descendant was
/// killed.
fn end_all() -> bool {
    let mut pace = KillPace::default();
    let mut killed = false;
    loop {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => break,
                Err(Errno::ECHILD) => return killed,
                _ => {}
            }
        }
        killed |= descendants::kill_own(None);
        block_for(pace.next());
    }
}
