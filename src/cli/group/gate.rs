//! The gate: the process that becomes CMD once the guard watches over it.
//!
//! Its number is the number of the group from the start, so the guard can be told before CMD runs.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::unistd::close;

/// What `tenure` writes to open the gate.
pub const GO: u8 = b'g';

/// As a shell says it.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Why CMD was not run, and what the process exits with.
pub struct NotRun {
    pub exit_code: u8,
    pub why: String,
}

/// Waits on the inherited pipe until told to go, then becomes the command. Returns only if it does
/// not.
pub fn run(pipe: RawFd, command: &[OsString]) -> NotRun {
    match may_go(pipe) {
        Ok(true) => {}
        Ok(false) => {
            let why = "tenure has died before CMD was guarded; it was not run".to_owned();
            return NotRun { exit_code: NOT_EXECUTABLE, why };
        }
        Err(error) => {
            let why = format!("cannot read from the pipe {pipe}: {error}");
            return NotRun { exit_code: NOT_EXECUTABLE, why };
        }
    }
    let Some((program, arguments)) = command.split_first() else {
        return NotRun { exit_code: NOT_EXECUTABLE, why: "CMD is empty".to_owned() };
    };
    let error = Command::new(program).args(arguments).exec();
    let exit_code =
        if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    NotRun { exit_code, why: format!("{}: {error}", program.to_string_lossy()) }
}

/// Whether `tenure` said go. It has died, or changed its mind, if the pipe ends instead.
fn may_go(pipe: RawFd) -> io::Result<bool> {
    let mut word = [0];
    // Opened anew by its path, as safe code cannot take over a bare number.
    let mut reader = File::open(format!("{OPEN_FILES}/{pipe}"))?;
    // Otherwise CMD would inherit it.
    close(pipe)?;
    Ok(reader.read(&mut word)? == 1 && word == [GO])
}

#[cfg(target_os = "linux")]
const OPEN_FILES: &str = "/proc/self/fd";
#[cfg(not(target_os = "linux"))]
const OPEN_FILES: &str = "/dev/fd";
