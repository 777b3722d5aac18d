//! The only place that asks the disk to keep something, so that tests can make it fail.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::errno::Errno;

/// Makes the bytes of a file outlive a crash of the machine.
pub(super) fn file(file: &File, path: &Path) -> io::Result<()> {
    sync(file, path)
}

/// Makes the names in a folder outlive a crash of the machine.
pub(super) fn folder(folder: &File, path: &Path) -> io::Result<()> {
    match sync(folder, path) {
        // Some file systems have no such thing for folders; they do it on their own.
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
