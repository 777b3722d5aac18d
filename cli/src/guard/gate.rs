//! The gate: the process that becomes CMD, after it has tied its life to that of the guard.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sys::signal::SigSet;

use crate::exit::Failure;

/// As a shell has it.
pub const NOT_FOUND: u8 = 127;
pub const NOT_EXECUTABLE: u8 = 126;

#[derive(Debug, clap::Args)]
pub struct GateArgs {
    /// The number of the guard.
    #[arg(long)]
    pub parent: i32,
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Becomes the command, which the kernel kills if the guard `parent` dies. Returns only if the
/// command cannot be run.
pub fn run(parent: i32, command: &[OsString]) -> Failure {
    // The guard has blocked all signals, and its children inherit that.
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
    // The guard may have died before: the kernel sends nothing then.
    if getppid().as_raw() == parent {
        return Ok(());
    }
    Err(io::Error::other("the guard has died"))
}

#[cfg(not(target_os = "linux"))]
fn die_with(_: i32) -> io::Result<()> {
    Ok(())
}
