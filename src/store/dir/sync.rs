//! All calls of `fsync` are in this module, so tests can make each call fail.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::errno::Errno;

/// Syncs a file. After the sync, its contents survive a crash of the machine.
pub(super) fn file(file: &File, path: &Path) -> io::Result<()> {
    sync(file, path)
}

/// Syncs a folder. After the sync, its entries survive a crash of the machine.
pub(super) fn folder(folder: &File, path: &Path) -> io::Result<()> {
    match sync(folder, path) {
        // Some file systems cannot sync folders, and make their entries durable without a sync.
        Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => Ok(()),
        synced => synced,
    }
}

#[cfg(not(test))]
fn sync(file: &File, _: &Path) -> io::Result<()> {
    file.sync_all()
}

#[cfg(test)]
fn sync(file: &File, path: &Path) -> io::Result<()> {
    super::power::sync(path).unwrap_or_else(|| file.sync_all())
}
