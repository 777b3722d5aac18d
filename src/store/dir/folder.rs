//! An open directory, and the operations on its entries.
//!
//! All operations use descriptors and single names (`openat` and similar calls), and do not follow
//! links. So no process can redirect a path after the store has checked the path and before the
//! store uses it.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, symlinkat, unlinkat};

use super::failure::{failed, in_the_way, not_taking_part};
use super::thread_lock::ThreadLock;
use super::time::time_of_day;
use super::{draft, sync};
use crate::store::{Determinacy, StoreError, StoreErrorKind};

const FOLDER_FLAGS: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Permissions of the folders in a store for a group. New files get the group of the folder.
const GROUP_FOLDER: u32 = 0o2770;
const GROUP_FILE: u32 = 0o660;

const LOCK_OF_OWNER: u32 = 0o600;
const LOCK_OF_GROUP: u32 = 0o660;

/// The root directory of a store.
#[derive(Debug, Clone)]
pub(super) struct Root {
    pub(super) path: Arc<Path>,
    pub(super) access: Access,
    pub(super) thread_lock: ThreadLock,
}

/// The users of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// One user. The umask determines the read permission of other users.
    Owner,
    /// The members of the directory's group. The umask has no effect.
    Group,
}

/// An open directory.
#[derive(Debug)]
pub(super) struct Folder {
    file: File,
    path: PathBuf,
    access: Access,
    thread_lock: ThreadLock,
}

/// The file type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Object { size: u64, last_modified: Option<DateTime<Utc>> },
    Folder,
    Other(&'static str),
}

/// The file type that a listing of the directory shows, without a look-up of the entry itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hint {
    Object,
    Folder,
    Other,
    Unknown,
}

pub(super) enum Child {
    Folder(Folder),
    Missing,
    NotAFolder,
}

impl Root {
    pub(super) fn new(path: Arc<Path>, access: Access) -> Root {
        Root { path, access, thread_lock: ThreadLock::default() }
    }
}

impl Folder {
    /// Opens the directory at the root of a store.
    pub(super) fn root(root: &Root) -> Result<Folder, StoreError> {
        let (path, access, thread_lock) = (&root.path, root.access, root.thread_lock.clone());
        let opened = File::options().read(true).custom_flags(OFlag::O_DIRECTORY.bits()).open(path);
        match opened {
            Ok(file) => Ok(Folder { file, path: path.to_path_buf(), access, thread_lock }),
            Err(error) => Err(root_failed(path, error)),
        }
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn thread_lock(&self) -> &ThreadLock {
        &self.thread_lock
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn child(&self, name: &str) -> Result<Child, StoreError> {
        match openat(&self.file, name, FOLDER_FLAGS, Mode::empty()) {
            Ok(fd) => {
                let (path, access, thread_lock) =
                    (self.path_of(name), self.access, self.thread_lock.clone());
                Ok(Child::Folder(Folder { file: fd.into(), path, access, thread_lock }))
            }
            Err(Errno::ENOENT) => Ok(Child::Missing),
            // A symbolic link causes `ENOTDIR` on some systems, and `ELOOP` on others.
            Err(Errno::ENOTDIR | Errno::ELOOP) => match self.look_up(name)? {
                Some(Named::Object { .. }) => Ok(Child::NotAFolder),
                Some(Named::Other(what)) => Err(in_the_way(&self.path_of(name), what)),
                Some(Named::Folder) | None => Ok(Child::Missing),
            },
            Err(errno) => Err(failed("open", &self.path_of(name), Determinacy::Determinate, errno)),
        }
    }

    /// Opens the folder of this name, and creates it if it is missing. A new folder is a draft in
    /// `work` until it has the group's permissions. So no other process finds the folder without
    /// these permissions.
    pub(super) fn child_or_new(&self, name: &str, work: &Folder) -> Result<Folder, StoreError> {
        match self.child(name)? {
            Child::Folder(folder) => Ok(folder),
            Child::NotAFolder => Err(in_the_way(&self.path_of(name), "a file")),
            Child::Missing => {
                let draft = draft::new_name();
                work.new_folder(&draft)?;
                work.rename(&draft, self, name)?;
                self.existing(name)
            }
        }
    }

    pub(super) fn new_folder(&self, name: &str) -> Result<Folder, StoreError> {
        mkdirat(&self.file, name, Mode::from_bits_truncate(0o777)).map_err(|errno| {
            failed("make", &self.path_of(name), Determinacy::Determinate, errno)
        })?;
        let folder = self.existing(name)?;
        folder.open_to_group(&folder.file, &folder.path, GROUP_FOLDER)?;
        Ok(folder)
    }

    pub(super) fn existing(&self, name: &str) -> Result<Folder, StoreError> {
        match self.child(name)? {
            Child::Folder(folder) => Ok(folder),
            _ => Err(failed("open", &self.path_of(name), Determinacy::Determinate, Errno::ENOENT)),
        }
    }

    /// Returns the file type of this name, without following links, or `None` if the name is
    /// missing.
    pub(super) fn look_up(&self, name: &str) -> Result<Option<Named>, StoreError> {
        match fstatat(&self.file, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Named::of(&stat))),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => {
                Err(failed("inspect", &self.path_of(name), Determinacy::Determinate, errno))
            }
        }
    }

    /// Opens the object of this name, or returns `None` if it is missing.
    pub(super) fn open_object(&self, name: &str) -> Result<Option<File>, StoreError> {
        let path = || self.path_of(name);
        // With `O_NONBLOCK`, this call returns immediately even if the file is a named pipe.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file: File = match openat(&self.file, name, flags, Mode::empty()) {
            Ok(fd) => fd.into(),
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP) => return Err(in_the_way(&path(), "a symbolic link")),
            Err(Errno::ENXIO | Errno::EOPNOTSUPP) => {
                return Err(in_the_way(&path(), "a special file"));
            }
            Err(errno) => return Err(failed("open", &path(), Determinacy::Determinate, errno)),
        };
        let metadata = file
            .metadata()
            .map_err(|error| failed("inspect", &path(), Determinacy::Determinate, error))?;
        match SFlag::from_bits_truncate(metadata.mode() as _) & SFlag::S_IFMT {
            SFlag::S_IFREG => Ok(Some(file)),
            SFlag::S_IFDIR => Err(in_the_way(&path(), "a directory")),
            _ => Err(in_the_way(&path(), "a special file")),
        }
    }

    /// Creates a new file for writing.
    pub(super) fn new_file(&self, name: &str) -> Result<File, StoreError> {
        let file = self.open(name, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL, 0o666)?;
        self.open_to_group(&file, &self.path_of(name), GROUP_FILE)?;
        Ok(file)
    }

    /// Opens an existing lock file, and changes neither the file nor its mode.
    pub(super) fn existing_lock_file(&self, name: &str) -> Result<File, StoreError> {
        self.open(name, OFlag::O_RDONLY, 0)
    }

    /// Opens a file for locking, and creates it if it is missing. The file's mode admits only
    /// participants, because a process that can open the file can lock it and block all writers.
    pub(super) fn lock_file(&self, name: &str) -> Result<File, StoreError> {
        let wanted = match self.access {
            Access::Owner => LOCK_OF_OWNER,
            Access::Group => LOCK_OF_GROUP,
        };
        // The first attempt does not use `O_CREAT`, because `O_CREAT` may fail on a read-only file
        // system.
        let file = self
            .existing_lock_file(name)
            .or_else(|_| self.open(name, OFlag::O_RDONLY | OFlag::O_CREAT, wanted))
            .map_err(not_taking_part)?;
        let failed = |error: io::Error| {
            failed("inspect", &self.path_of(name), Determinacy::Determinate, error)
        };
        let metadata = file.metadata().map_err(failed)?;
        let mode = metadata.mode() & 0o7777;
        // A process that opens the directory for one user does not remove the group's permissions
        // from the lock file.
        if mode != wanted && (self.access == Access::Group || mode != LOCK_OF_GROUP) {
            // Earlier versions created the file with mode 0644. Only the owner of the file can
            // change the mode, so an error is ignored.
            let _ = file.set_permissions(Permissions::from_mode(wanted));
        }
        Ok(file)
    }

    /// Adds the group's permissions to a file if the store is for a group.
    fn open_to_group(&self, file: &File, path: &Path, bits: u32) -> Result<(), StoreError> {
        if self.access == Access::Owner {
            return Ok(());
        }
        let failed = |error: io::Error| failed("share", path, Determinacy::Determinate, error);
        let mode = file.metadata().map_err(failed)?.mode() & 0o7777;
        if mode & bits == bits {
            return Ok(());
        }
        file.set_permissions(Permissions::from_mode(mode | bits)).map_err(failed)
    }

    fn open(&self, name: &str, flags: OFlag, mode: u32) -> Result<File, StoreError> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        #[allow(clippy::unnecessary_cast, reason = "these types are smaller on some systems")]
        let mode = Mode::from_bits_truncate(mode as _);
        openat(&self.file, name, flags, mode)
            .map(File::from)
            .map_err(|errno| failed("open", &self.path_of(name), Determinacy::Determinate, errno))
    }

    /// Creates a symbolic link. The link is never incomplete, and all users may read it.
    pub(super) fn new_link(&self, name: &str, target: &str) -> Result<(), StoreError> {
        symlinkat(target, &self.file, name)
            .map_err(|errno| failed("make", &self.path_of(name), Determinacy::Determinate, errno))
    }

    /// Returns the target of a link, or `None` if the name is missing. If the name is not a link,
    /// returns an empty string.
    pub(super) fn link_target(&self, name: &str) -> Result<Option<String>, StoreError> {
        match readlinkat(&self.file, name) {
            Ok(target) => Ok(Some(target.to_string_lossy().into_owned())),
            Err(Errno::ENOENT) => Ok(None),
            Err(Errno::EINVAL) => Ok(Some(String::new())),
            Err(errno) => Err(failed("read", &self.path_of(name), Determinacy::Determinate, errno)),
        }
    }

    /// Moves a file or a folder into another folder, and replaces an existing file or empty folder.
    pub(super) fn rename(&self, name: &str, to: &Folder, to_name: &str) -> Result<(), StoreError> {
        let renamed = renameat(&self.file, name, &to.file, to_name);
        renamed.map_err(|errno| to.not_named(to_name, errno))
    }

    /// Gives a file a second name, in another folder. This name must be free.
    pub(super) fn link(&self, name: &str, to: &Folder, to_name: &str) -> Result<(), StoreError> {
        let linked = linkat(&self.file, name, &to.file, to_name, AtFlags::empty());
        linked.map_err(|errno| to.not_named(to_name, errno))
    }

    fn not_named(&self, name: &str, errno: Errno) -> StoreError {
        let determinacy = match errno {
            Errno::EIO => Determinacy::Indeterminate,
            _ => Determinacy::Determinate,
        };
        failed("rename a new file to", &self.path_of(name), determinacy, errno)
    }

    /// Removes a file. A missing file counts as removed.
    pub(super) fn remove(&self, name: &str) -> Result<(), StoreError> {
        match unlinkat(&self.file, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => {
                Err(failed("remove", &self.path_of(name), Determinacy::Determinate, errno))
            }
        }
    }

    /// Removes a folder if it is empty. Returns true if the name is now free. No promise of the
    /// store depends on the removal.
    pub(super) fn remove_empty_folder(&self, name: &str) -> bool {
        matches!(unlinkat(&self.file, name, UnlinkatFlags::RemoveDir), Ok(()) | Err(Errno::ENOENT))
    }

    /// Syncs the folder. After the sync, changes of its entries survive a crash of the machine.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        sync::folder(&self.file, &self.path)
            .map_err(|error| failed("sync", &self.path, Determinacy::Indeterminate, error))
    }

    /// Returns the names in this folder in any order, except names that are not UTF-8. A
    /// removed folder has no names.
    pub(super) fn names(
        &self,
    ) -> Result<impl Iterator<Item = Result<(String, Hint), StoreError>> + '_, StoreError> {
        let broken = |error: io::Error| failed("list", &self.path, Determinacy::Determinate, error);
        // Duplicates of a descriptor share one read position, so the folder is opened again.
        let entries = match openat(&self.file, ".", FOLDER_FLAGS, Mode::empty()) {
            Ok(fd) => Some(Dir::from_fd(fd).map_err(|errno| broken(errno.into()))?),
            Err(Errno::ENOENT) => None,
            Err(errno) => return Err(broken(errno.into())),
        };
        let entries = entries.into_iter().flatten();
        let entries = entries.take_while(|entry| !matches!(entry, Err(Errno::ENOENT)));
        Ok(entries.filter_map(move |entry| match entry {
            Ok(entry) => {
                let name = entry.file_name().to_str().ok()?.to_owned();
                Some(Ok((name, Hint::of(entry.file_type()))))
            }
            Err(errno) => Some(Err(broken(errno.into()))),
        }))
    }
}

impl Named {
    #[allow(clippy::unnecessary_cast, reason = "these types are smaller on some systems")]
    fn of(stat: &FileStat) -> Named {
        match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => Named::Object {
                size: u64::try_from(stat.st_size).unwrap_or(0),
                last_modified: time_of_day(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            },
            SFlag::S_IFDIR => Named::Folder,
            SFlag::S_IFLNK => Named::Other("a symbolic link"),
            _ => Named::Other("a special file"),
        }
    }
}

impl Hint {
    fn of(file_type: Option<Type>) -> Hint {
        match file_type {
            Some(Type::File) => Hint::Object,
            Some(Type::Directory) => Hint::Folder,
            Some(_) => Hint::Other,
            None => Hint::Unknown,
        }
    }
}

/// Returns the error for a root that cannot be opened or created.
pub(super) fn root_failed(path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreError::new(
            StoreErrorKind::NoSuchStore,
            Determinacy::Determinate,
            format!("no directory exists at {}: {error}", path.display()),
        )
        .with_source(error),
        _ => failed("open or create", path, Determinacy::Determinate, error),
    }
}

#[cfg(test)]
mod tests {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};

    use super::*;

    /// A child process that inherits the lock's descriptor would hold the lock.
    #[test]
    fn child_processes_inherit_no_descriptor() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let folder = Folder::root(&Root::new(dir.path().into(), Access::Owner)).expect("opened");
        for file in [folder.lock_file("lock"), folder.new_file("new")] {
            let flags = fcntl(file.expect("opened"), FcntlArg::F_GETFD).expect("the file is open");
            assert!(FdFlag::from_bits_retain(flags).contains(FdFlag::FD_CLOEXEC));
        }
    }
}
