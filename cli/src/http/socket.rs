//! A Unix socket that only the user of this process may connect to.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixSocket;

use super::Server;
use super::server::{Accepting, Listener, MOST_QUEUED};
use crate::process::timer::pause;

/// Maximum number of attempts to lock the directory. Other processes hold the lock only for some
/// milliseconds.
const LOCK_WITHIN: u32 = 250;
const LOCK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// A server on a socket file. Dropping this value ends the server, closes all connections, and
/// removes the file.
#[derive(Debug)]
#[must_use = "dropping it ends the server"]
pub struct SocketFile {
    path: PathBuf,
    /// The device and the inode of the socket file. These numbers identify the file. The path does
    /// not identify it, because another file may now have the same path.
    file: (u64, u64),
    _accepting: Accepting,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens at `path`, with the mode 0600. Must be called within the runtime. Replaces the socket of
/// a dead process. Fails without a change if a live process uses the socket, or if the file at
/// `path` is not a socket.
///
/// This function holds the lock of the directory from the check of the old socket until the new
/// socket answers. Without the lock, another process could find the new socket before the socket
/// answers, mistake it for the socket of a dead process, and replace it.
pub async fn start_unix(path: &Path, server: Server) -> io::Result<SocketFile> {
    let _lock = lock_directory(path).await?;
    make_room(path)?;
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    // No client can connect before `listen`, so the socket needs no restricted mode before this
    // line.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    let listener = socket.listen(MOST_QUEUED)?;
    let file = identity(path)?;
    let path = path.to_owned();
    Ok(SocketFile { path, file, _accepting: server.accept(Listener::Unix(listener)) })
}

/// Locks the directory. Closing the file releases the lock.
async fn lock_directory(of: &Path) -> io::Result<File> {
    let parent = of.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(parent.unwrap_or(Path::new(".")))?;
    for _ in 0..LOCK_WITHIN {
        match directory.try_lock() {
            Ok(()) => return Ok(directory),
            Err(TryLockError::WouldBlock) => pause(LOCK_AGAIN_AFTER).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    let why = "another process holds the lock of its directory";
    Err(io::Error::new(ErrorKind::TimedOut, why))
}

fn make_room(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "the file is not a socket"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "another process listens there")),
        Err(error) => Err(error),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}
