//! What `tenure`, the standby and the guard share: their binary, orphans, the pace of SIGKILL.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// This command itself, as standby, guard and gate are started of it.
#[derive(Debug)]
pub struct Tenure {
    /// See [`own_binary`].
    pub binary: PathBuf,
    /// What they get besides their own arguments.
    pub options: &'static [&'static str],
}

impl Tenure {
    /// This command as another of its processes, with CMD for it to run.
    pub fn command<A: AsRef<OsStr>>(
        &self,
        verb: &str,
        arguments: &[A],
        cmd: &[OsString],
    ) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg0("tenure").arg(verb).args(arguments).args(self.options).arg("--").args(cmd);
        command
    }
}

/// The path by which this very binary can be started again, even if its file was replaced since:
/// all must be of one version with `tenure`.
pub fn own_binary() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Whether this process adopts orphans once it has asked for them.
pub const ADOPTS: bool = cfg!(target_os = "linux");

/// Asks for the orphans among the descendants of this process.
#[cfg(target_os = "linux")]
pub fn adopt_orphans() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

#[cfg(not(target_os = "linux"))]
pub fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// How long to wait until SIGKILL is sent again: shortly at first, as a process may fork just then
/// and end; later what is left is in the kernel's hands, or belongs to another user.
#[derive(Debug, Default)]
pub struct KillPace {
    rounds: u32,
}

impl KillPace {
    pub fn next(&mut self) -> Duration {
        self.rounds = self.rounds.saturating_add(1);
        Duration::from_millis(match self.rounds {
            ..=100 => 5,
            101..=200 => 100,
            _ => 1_000,
        })
    }
}
