//! The file of this command. The standby, the guard and the gate run it, too.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

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
