//! A store in a local directory.

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

/// A store in a directory of this machine, for elections among its processes. Clones share the
/// directory.
///
/// **Promises.** Conditional writes are atomic between all threads and processes that use the
/// directory. A killed process leaves all objects complete, and holds no lock. After a call has
/// returned, a crash of the machine does not undo its result: a write, a refusal, or the objects
/// that the call has read or listed. The disk must honour `fsync`, but an `fsync` may fail. No ETag
/// is used twice.
///
/// **Limits.**
/// - *One machine.* The lock and the clock belong to one kernel. On Linux, [`open`](DirStore::open)
///   refuses NFS, SMB and other file systems that several machines may share. On other systems, it
///   accepts them without a warning. Containers may share a directory of their host.
/// - *Links.* The file system must support hard and symbolic links. FAT and exFAT do not.
/// - *No changes by other programs while processes run.* Other programs may read at any time. If a
///   program edits an object in place, a reader may see a partial write. If it deletes the newest
///   object, an old epoch may be used again. If it deletes `.tenure`, two processes may write
///   concurrently, and one of two replacements of an object may be lost.
/// - *Restricted keys.* Each part of a key between slashes consists of `A-Z a-z 0-9 . _ -`, and is
///   not `.`, `..` or `.tenure`. `a` and `a/b` cannot both be objects. Symbolic links below the
///   root are refused. On a file system that ignores case, keys that differ only in case name one
///   object.
/// - *Suspended processes.* A process that is suspended (SIGSTOP) inside a write holds the lock
///   until it is continued or killed. After 2 s, the calls of other processes return transient
///   errors. On Linux, these errors name the suspended process. While the suspended process holds
///   the lock, no new leader can be elected. The threads of one process wait for each other up to
///   30 s. If one thread has waited 2 s for another process, the threads queued behind it fail too.
///   Only the owner of the lock file may open it. With
///   [`open_for_group`](DirStore::open_for_group), the group of the directory may open it too.
///
/// **Files.** The object `app/lock-0000000001.json` is the file with this path below the root. The
/// file contains a line of JSON, `{"tenure_dir":1,"writes":N}`, with a counter of its writes, and
/// then the body. If another program's file lacks this line, the whole file is the body. `.tenure`
/// contains the lock file and drafts of new objects and folders. While an object may be missing on
/// the disk, `.tenure` also contains a link with the key of this object. The first write creates
/// `.tenure`, and each write removes drafts older than an hour. A read creates no file, with one
/// exception. If the writer of an object died before its sync, a read writes the object again, with
/// the old mode and date. If the reader is root, the object also keeps its owner. A deletion
/// removes the folders that it leaves empty, except folders directly below the root.
///
/// **Cost.** A read takes a few system calls. If the object is being written, the read waits for
/// the `fsync`. A write creates a file and calls `fsync`. Then it renames the file and calls
/// `fsync` for each folder from the file to the root, while other writers wait. A listing reads the
/// whole folder. In a folder with a million objects, each page takes about a second. If the folder
/// changes meanwhile or changed just before, the listing holds the lock and reads the folder again,
/// and writers wait. A user who may not open the lock file gets a transient error if the folder
/// does not stop changing.
///
/// All calls need a Tokio runtime and use its blocking threads. Outside a runtime, they return
/// [`StoreErrorKind::Invalid`] without any effect. A dropped call still completes.
///
/// In a listing, [`Entry::size`](super::Entry::size) is the length of the file, which is up to 50
/// bytes longer than the body. [`Entry::etag`](super::Entry::etag) is `None`, because a tag
/// contains a hash of the body, and a listing does not read bodies.
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
    /// path is resolved once, against the current directory. The directory itself may be a symbolic
    /// link.
    ///
    /// This function blocks during its file operations.
    ///
    /// # Errors
    ///
    /// - [`StoreErrorKind::Unsupported`]: other machines may share the file system, such as NFS,
    ///   SMB, FUSE or 9p. Use a local file system, or S3.
    /// - [`StoreErrorKind::AccessDenied`]: this user may not create or read the directory. A
    ///   read-only directory can be opened, but its writes fail.
    /// - [`StoreErrorKind::NoSuchStore`]: a part of the path is not a directory.
    /// - [`StoreErrorKind::Invalid`]: `.tenure` in the directory is not a folder.
    /// - [`StoreErrorKind::Transient`]: the file system failed; the message has the reason.
    pub fn open(path: impl AsRef<Path>) -> Result<DirStore, StoreError> {
        DirStore::open_with(path.as_ref(), Access::Owner)
    }

    /// Opens the store like [`open`](DirStore::open), for all members of the directory's group.
    ///
    /// The group may write all files of the store. The umask has no effect. The lock file has the
    /// mode 0660 instead of 0600. All processes must open the directory with this function. The
    /// directory must belong to the group, and new files must inherit the group: `chgrp GROUP DIR
    /// && chmod 2770 DIR`.
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
        match lock::find_work_folder(&folder) {
            // Without permission to open the work folder, this process can still read. A write then
            // returns the error.
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
            let why = "a directory store needs a Tokio runtime, and this call runs outside a \
                       runtime";
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
                // A write to a `String` cannot fail.
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
    // A write never changes a file: it renames a new file to the name of the object. So an open
    // file is complete.
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

/// Creates the directory and its missing parents, and syncs each of them. If a crash removed the
/// root, the epochs would start again.
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
    // An existing directory is also synced, because another process may just have created it. A
    // parent that this user may not open is skipped.
    if let Some(parent) = parent
        && let Ok(opened) = fs::File::open(&parent)
    {
        match sync::folder(&opened, &parent) {
            // On a read-only file system, no process can have just created the directory, so no
            // sync is needed.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
            synced => {
                synced.map_err(|error| failed("sync", &parent, Determinacy::Determinate, error))?
            }
        }
    }
    Ok(())
}
