//! The executable of this command, which the standby, the guard and the gate also run.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// The executable of `tenure`, and the options that the standby, the guard and the gate have in
/// common.
#[derive(Debug)]
pub struct Tenure {
    /// Path of the executable, see [`own_binary`].
    pub binary: PathBuf,
    /// Options that the standby, the guard and the gate get in addition to their own arguments.
    pub options: &'static [&'static str],
}

impl Tenure {
    /// Returns a command that starts this executable with a verb, the arguments of the verb, and
    /// CMD.
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

/// Returns a path that starts this executable again.
///
/// On Linux the path starts the version that is running, even if the executable file was replaced
/// after the start of this process. The standby, the guard and the gate must have the same version
/// as `tenure`.
pub fn own_binary() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}
