//! The gate: the process that becomes CMD. Before the exec, the gate asks the kernel to send it
//! SIGKILL if the guard dies.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sys::signal::SigSet;

use crate::exit::Failure;

/// The exit code of a shell for a command that was not found.
pub const NOT_FOUND: u8 = 127;
/// The exit code of a shell for a command that cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;

#[derive(Debug, clap::Args)]
pub struct GateArgs {
    /// Process number of the guard.
    #[arg(long)]
    pub parent: i32,
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Executes the command in this process. The kernel kills this process if the guard `parent` dies.
///
/// Returns only if the command cannot be executed.
pub fn run(parent: i32, command: &[OsString]) -> Failure {
    // The guard blocks all signals, and this process has inherited its signal mask.
    let unblocked = SigSet::all().thread_unblock().map_err(io::Error::from);
    if let Err(error) = unblocked.and_then(|()| die_with(parent)) {
        return Failure::new(NOT_EXECUTABLE, format!("CMD was not run: {error}"));
    }
    let Some((program, arguments)) = command.split_first() else {
        return Failure::new(NOT_EXECUTABLE, "CMD is empty");
    };
    let error = Command::new(program).args(arguments).exec();
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    Failure::new(code, format!("{}: {error}", program.to_string_lossy()))
}

#[cfg(target_os = "linux")]
fn die_with(parent: i32) -> io::Result<()> {
    use nix::sys::prctl::set_pdeathsig;
    use nix::sys::signal::Signal;
    use nix::unistd::getppid;
    set_pdeathsig(Signal::SIGKILL)?;
    // If the guard died before `set_pdeathsig`, the kernel does not send the signal. The parent of
    // this process is then another process.
    if getppid().as_raw() == parent {
        return Ok(());
    }
    Err(io::Error::other("the guard has died"))
}

#[cfg(not(target_os = "linux"))]
fn die_with(_: i32) -> io::Result<()> {
    Ok(())
}
