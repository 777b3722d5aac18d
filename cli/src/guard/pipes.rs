//! The two pipes between `tenure` and the guard, as numbers of inherited file descriptors.
//!
//! Standard input and output belong to CMD, so the guard needs other descriptors.

use std::fs::File;
use std::io;
use std::os::fd::RawFd;

use nix::unistd::close;

/// The file descriptors of the two pipes that the guard inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub struct Pipes {
    /// Read end of the pipe of orders.
    #[arg(long, value_name = "FD")]
    pub orders: RawFd,
    /// Write end of the pipe of reports.
    #[arg(long, value_name = "FD")]
    pub reports: RawFd,
}

impl Pipes {
    /// Returns the arguments with which a child process gets the descriptors.
    pub fn arguments(self) -> [String; 2] {
        [format!("--orders={}", self.orders), format!("--reports={}", self.reports)]
    }

    /// Reopens both descriptors, so that they close on exec and no child process inherits them.
    pub fn open(self) -> io::Result<(File, File)> {
        let path = |number: RawFd| format!("{OPEN_FILES}/{number}");
        // Safe code cannot create a `File` from the number of a descriptor, so this function opens
        // the descriptor by its path.
        let orders = File::open(path(self.orders))?;
        let reports = File::options().write(true).open(path(self.reports))?;
        self.close()?;
        Ok((orders, reports))
    }

    /// Closes the inherited descriptors.
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
