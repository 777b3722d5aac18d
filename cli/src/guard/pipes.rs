//! The two pipes between `tenure` and the guard, as numbers of inherited open files.
//!
//! Standard input and output are CMD's, so the guard needs others.

use std::fs::File;
use std::io;
use std::os::fd::RawFd;

use nix::unistd::close;

/// The inherited ends of the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub struct Pipes {
    /// The end from which orders are read.
    #[arg(long, value_name = "FD")]
    pub orders: RawFd,
    /// The end to which reports are written.
    #[arg(long, value_name = "FD")]
    pub reports: RawFd,
}

impl Pipes {
    /// The arguments that pass them to a child.
    pub fn arguments(self) -> [String; 2] {
        [format!("--orders={}", self.orders), format!("--reports={}", self.reports)]
    }

    /// Opens both ends anew, such that no child inherits them.
    pub fn open(self) -> io::Result<(File, File)> {
        let path = |number: RawFd| format!("{OPEN_FILES}/{number}");
        // By path, as safe code cannot take over a bare number.
        let orders = File::open(path(self.orders))?;
        let reports = File::options().write(true).open(path(self.reports))?;
        self.close()?;
        Ok((orders, reports))
    }

    /// Closes what was inherited.
    pub fn close(self) -> io::Result<()> {
        close(self.orders)?;
        close(self.reports)?;
        Ok(())
    }
}

#[cfg(target_os = "linux")]
const OPEN_FILES: &str = "/proc/self/fd";
#[cfg(not(target_os = "linux"))]
const OPEN_FILES: &str = "/dev/fd";
