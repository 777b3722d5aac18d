//! The store in a local directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::{
    Determinacy, ETag, GetOutcome, Object, Page, PutOutcome, Store, StoreError, StoreErrorKind,
};
use crate::env::clock;
use failure::failed;
use folder::{Access, Folder, Root, root_failed};
use write::Condition;

mod content;
mod delete;
mod draft;
mod failure;
mod folder;
mod folder_chain;
mod holder;
mod key;
mod listing;
mod lock;
mod network;
mod pace;
#[cfg(test)]
mod power;
mod sync;
mod thread_lock;
mod time;
mod unsynced;
mod write;

/// A directory of this machine as a [`Store`]: elections among its processes, without a network.
/// Clones share it.
///
/// **Promises.** Conditional writes are atomic between all threads and processes that use
/// the directory. A process that is killed at any moment leaves every object whole and no lock
/// held. Every answer (a write, a refusal, an object that was read or listed) still holds after a
/// crash of the machine, if the disk honours `fsync`, also after a failed `fsync`. No ETag is used
/// twice.
///
/// **Limits.**
/// - *One machine.* The lock and the clock belong to one kernel. NFS, SMB and other network
///   file systems are recognised on Linux and refused when the directory is opened; on other
///   systems, and behind FUSE or 9p, there is no warning. Containers may share a directory of their
///   host.
/// - *No changes by other programs while processes run.* Reading is safe at any time. An object
///   that is edited in place can be read half written. A deletion of the newest object starts the
///   epochs again. A deletion of `.tenure` lets two processes write at the same moment.
/// - *Some keys.* A key has parts of `A-Z a-z 0-9 . _ -`, not `.`, `..` or `.tenure`, divided by
///   slashes. `a` and `a/b` cannot both be objects. Symbolic links below the root are refused,
///   never followed. On a file system that ignores case, keys that differ only in case are one
///   object.
/// - *A process that stops inside a write* holds the lock until it is continued or killed. The
///   other processes get transient errors after 2 s, which name the process on Linux. So there are
///   never two leaders, but there is no new leader either. The threads of one process wait for each
///   other, up to 30 s. After one thread has waited 2 s for another process, the threads behind it
///   fail too. So only participants may open the lock: the user that created it, or the group
///   ([`open_for_group`](DirStore::open_for_group)).
///
/// **Files.** The object `app/lock-0000000001.json` is the file of that path below the root: one
/// line of JSON, `{"tenure_dir":1,"writes":N}`, that counts its writes, then the body. A file
/// without that line, from another program, is also a body. `.tenure` holds the lock, half-written
/// files, and a mark with the key of an object that may not be on the disk. Opening the directory
/// removes such files of killed processes after an hour. A deletion removes the folders that it
/// leaves empty, except those directly below the root.
///
/// **Cost.** A read takes a few system calls; a read during a write of its object waits for the
/// `fsync`. A write takes a new file, two or three `fsync` and a rename, while other writers wait.
/// A listing walks through the whole folder, while writers wait: about a second a page for a
/// million objects, so compact earlier.
///
/// All calls need a Tokio runtime and work on its blocking threads. Outside of a runtime they do
/// nothing and return [`StoreErrorKind::Invalid`]. A dropped call still runs to its end.
///
/// In a listing, [`Entry::size`](super::Entry::size) is the length of the file: up to 50 bytes more
/// than the body. There is no [`Entry::etag`](super::Entry::etag): the tag is a hash of the body,
/// and reading every file would be too expensive.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{CampaignOutcome, Election, store::DirStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("elections");
/// // Each process of this machine opens the same directory:
/// let (one, other) = (Arc::new(DirStore::open(&path)?), Arc::new(DirStore::open(&path)?));
/// let leadership = Election::builder(one, "backup").build()?.campaign().await?;
/// let other = Election::builder(other, "backup").build()?;
/// assert!(matches!(other.try_campaign().await?, CampaignOutcome::Held(_)));
///
/// leadership.resign().await?;
/// assert!(matches!(other.try_campaign().await?, CampaignOutcome::Elected(_)));
/// assert!(path.join("backup/lock-0000000002.json").is_file());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DirStore {
    root: Root,
}

impl DirStore {
    /// Opens the store in this directory, and creates the directory if it is missing. A relative
    /// path is resolved once, against the current directory; the root itself may be a symbolic
    /// link.
    ///
    /// Blocks during some file operations.
    ///
    /// # Errors
    ///
    /// - [`StoreErrorKind::Unsupported`]: it is on a file system that other machines may share,
    ///   such as NFS, SMB, FUSE or 9p. Use a local one, or S3.
    /// - [`StoreErrorKind::AccessDenied`]: this user may not make or read it. A directory that can
    ///   be read but not written is opened; writes fail later.
    /// - [`StoreErrorKind::NoSuchStore`]: there is something else at this path or above it.
    /// - [`StoreErrorKind::Invalid`]: `.tenure` in it is not a folder.
    /// - [`StoreErrorKind::Transient`]: the file system failed; the message says how.
    pub fn open(path: impl AsRef<Path>) -> Result<DirStore, StoreError> {
        DirStore::open_with(path.as_ref(), Access::Owner)
    }

    /// Opens the store as [`open`](DirStore::open) does, for processes of several users: the
    /// members of the directory's group.
    ///
    /// The group may write all files of the store; the umask has no effect. The lock has the mode
    /// 0660 in place of 0600. All processes must open the directory this way, and it must belong to
    /// the group and pass it on: `chgrp GROUP DIR && chmod 2770 DIR`.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](DirStore::open).
    pub fn open_for_group(path: impl AsRef<Path>) -> Result<DirStore, StoreError> {
        DirStore::open_with(path.as_ref(), Access::Group)
    }

    fn open_with(path: &Path, access: Access) -> Result<DirStore, StoreError> {
        let failed = |error: io::Error| root_failed(path, error);
        make(&std::path::absolute(path).map_err(failed)?)?;
        let path: Arc<Path> = fs::canonicalize(path).map_err(failed)?.into();
        let root = Root::new(path, access);
        let folder = Folder::root(&root)?;
        network::refuse(&folder, &root.path)?;
        match draft::remove_leftovers(&folder) {
            // Reads work without it, and a write returns the error.
            Err(error) if error.kind() != StoreErrorKind::AccessDenied => Err(error),
            _ => Ok(DirStore { root }),
        }
    }

    /// Returns the directory, absolute and without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root.path
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Root) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // `spawn_blocking` panics without a runtime.
        if Handle::try_current().is_err() {
            let why = "a directory needs a Tokio runtime, and this call runs outside of one";
            return Err(StoreError::new(StoreErrorKind::Invalid, Determinacy::Determinate, why));
        }
        let root = self.root.clone();
        match spawn_blocking(move || work(&root)).await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(StoreError::new(
                    StoreErrorKind::Transient,
                    Determinacy::Indeterminate,
                    "the runtime is shutting down",
                )),
            },
        }
    }
}

#[async_trait]
impl Store for DirStore {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        self.blocking(move |root| listing::list(root, &prefix, &after, limit)).await
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        key::check(key)?;
        let key = key.to_owned();
        self.blocking(move |root| get(root, &key, unless.as_ref(), max_len)).await
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        key::check(key)?;
        let key = key.to_owned();
        self.blocking(move |root| write::put(&Folder::root(root)?, &key, &body, &Condition::Absent))
            .await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        key::check(key)?;
        let (key, condition) = (key.to_owned(), Condition::Is(etag));
        self.blocking(move |root| write::put(&Folder::root(root)?, &key, &body, &condition)).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        keys.iter().try_for_each(|key| key::check(key))?;
        self.blocking(move |root| delete::delete(root, &keys)).await
    }

    fn describe(&self) -> String {
        use std::fmt::Write as _;
        use std::os::unix::ffi::OsStrExt as _;
        let mut url = "file://".to_owned();
        for byte in self.root.path.as_os_str().as_bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                    url.push(char::from(*byte));
                }
                // Writing to a String cannot fail.
                _ => drop(write!(url, "%{byte:02X}")),
            }
        }
        url
    }
}

fn get(
    root: &Root,
    key: &str,
    unless: Option<&ETag>,
    max_len: usize,
) -> Result<GetOutcome, StoreError> {
    let root = Folder::root(root)?;
    // A file is never changed once it has its name, so an open one is whole.
    let Some(file) = unsynced::open(&root, key)? else {
        return Ok(GetOutcome::NotFound);
    };
    let content = content::read(&file, &root.path_of(key), max_len)?;
    Ok(match content.body {
        _ if Some(&content.etag) == unless => GetOutcome::NotModified,
        None => GetOutcome::TooLarge { etag: content.etag, len: content.len },
        Some(body) => GetOutcome::Found(Object {
            body: body.into(),
            etag: content.etag,
            last_modified: time::last_modified(&file),
            served_at: Some(clock::wall_clock()),
        }),
    })
}

/// Creates the directory and its missing parents, and syncs each of them: a root that a crash
/// removed would start the epochs again.
fn make(path: &Path) -> Result<(), StoreError> {
    let parent = path.parent().map(PathBuf::from);
    if !path.exists() {
        if let Some(parent) = &parent {
            make(parent)?;
        }
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(root_failed(path, error));
            }
            _ => {}
        }
    }
    // Also for an existing directory, as another process may have created it just now. A user may
    // lack the permission to open a parent; an old directory does not need the sync.
    if let Some(parent) = parent
        && let Ok(opened) = fs::File::open(&parent)
    {
        match sync::folder(&opened, &parent) {
            // No process can have created a directory there.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
            synced => {
                synced.map_err(|error| failed("sync", &parent, Determinacy::Determinate, error))?
            }
        }
    }
    Ok(())
}
