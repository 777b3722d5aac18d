//! One open directory, and the operations on the names in it.
//!
//! Everything goes by descriptor and single names (`openat` and its kin) without following links,
//! so that nobody can redirect a path between its check and its use.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::failure::{failed, in_the_way};
use super::key;
use crate::store::{Happened, StoreError, StoreErrorKind};

const FOLDER_FLAGS: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// An open directory.
#[derive(Debug)]
pub(super) struct Folder {
    file: File,
    path: PathBuf,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Object { size: u64, last_modified: Option<DateTime<Utc>> },
    Folder,
    Other(&'static str),
}

/// What a name may stand for, as far as the directory itself tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hint {
    Object,
    Folder,
    Other,
    Unknown,
}

enum Child {
    Folder(Folder),
    Missing,
    NotAFolder,
}

impl Folder {
    /// Opens the directory at the root of a store.
    pub(super) fn root(path: &Path) -> Result<Folder, StoreError> {
        let opened = File::options().read(true).custom_flags(OFlag::O_DIRECTORY.bits()).open(path);
        match opened {
            Ok(file) => Ok(Folder { file, path: path.to_owned() }),
            Err(error) => Err(root_failed(path, error)),
        }
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    fn child(&self, name: &str) -> Result<Child, StoreError> {
        match openat(&self.file, name, FOLDER_FLAGS, Mode::empty()) {
            Ok(fd) => Ok(Child::Folder(Folder { file: fd.into(), path: self.path_of(name) })),
            Err(Errno::ENOENT) => Ok(Child::Missing),
            // Which of the two a link is answered with differs between systems.
            Err(Errno::ENOTDIR | Errno::ELOOP) => match self.look_up(name)? {
                Some(Named::Object { .. }) => Ok(Child::NotAFolder),
                Some(Named::Other(what)) => Err(in_the_way(&self.path_of(name), what)),
                Some(Named::Folder) | None => Ok(Child::Missing),
            },
            Err(errno) => Err(failed("open", &self.path_of(name), Happened::No, errno)),
        }
    }

    /// The folder of this name, made if it is missing.
    pub(super) fn child_or_new(&self, name: &str) -> Result<Folder, StoreError> {
        // A second look, since somebody else may make it at the same time.
        for _ in 0..2 {
            match self.child(name)? {
                Child::Folder(folder) => return Ok(folder),
                Child::NotAFolder => return Err(in_the_way(&self.path_of(name), "a file")),
                Child::Missing => {
                    match mkdirat(&self.file, name, Mode::from_bits_truncate(0o777)) {
                        Ok(()) | Err(Errno::EEXIST) => {}
                        Err(errno) => {
                            return Err(failed("make", &self.path_of(name), Happened::No, errno));
                        }
                    }
                }
            }
        }
        match self.child(name)? {
            Child::Folder(folder) => Ok(folder),
            _ => Err(StoreError::new(
                StoreErrorKind::Transient,
                Happened::No,
                format!("{} was removed at once", self.path_of(name).display()),
            )),
        }
    }

    /// What this name stands for, links not followed; `None` if nothing.
    pub(super) fn look_up(&self, name: &str) -> Result<Option<Named>, StoreError> {
        match fstatat(&self.file, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Named::of(&stat))),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(failed("look at", &self.path_of(name), Happened::No, errno)),
        }
    }

    /// Opens the object of this name; `None` if there is none.
    pub(super) fn open_object(&self, name: &str) -> Result<Option<File>, StoreError> {
        let path = || self.path_of(name);
        // Without O_NONBLOCK a named pipe would be waited for.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file: File = match openat(&self.file, name, flags, Mode::empty()) {
            Ok(fd) => fd.into(),
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP) => return Err(in_the_way(&path(), "a symbolic link")),
            Err(Errno::ENXIO | Errno::EOPNOTSUPP) => {
                return Err(in_the_way(&path(), "a special file"));
            }
            Err(errno) => return Err(failed("open", &path(), Happened::No, errno)),
        };
        let metadata =
            file.metadata().map_err(|error| failed("look at", &path(), Happened::No, error))?;
        match SFlag::from_bits_truncate(metadata.mode() as _) & SFlag::S_IFMT {
            SFlag::S_IFREG => Ok(Some(file)),
            SFlag::S_IFDIR => Err(in_the_way(&path(), "a directory")),
            _ => Err(in_the_way(&path(), "a special file")),
        }
    }

    /// Makes a file that must not exist yet, for writing.
    pub(super) fn new_file(&self, name: &str) -> Result<File, StoreError> {
        self.open(name, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL)
    }

    /// Opens a file for locking, made if it is missing.
    pub(super) fn lock_file(&self, name: &str) -> Result<File, StoreError> {
        // Read permission is enough for a lock, so that whoever may only read can list.
        let there = self.open(name, OFlag::O_RDONLY);
        there.or_else(|_| self.open(name, OFlag::O_RDONLY | OFlag::O_CREAT))
    }

    fn open(&self, name: &str, flags: OFlag) -> Result<File, StoreError> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(&self.file, name, flags, Mode::from_bits_truncate(0o666))
            .map(File::from)
            .map_err(|errno| failed("open", &self.path_of(name), Happened::No, errno))
    }

    /// Moves a file into another folder, over what is there.
    pub(super) fn rename(&self, name: &str, to: &Folder, to_name: &str) -> Result<(), StoreError> {
        renameat(&self.file, name, &to.file, to_name).map_err(|errno| {
            let happened = if errno == Errno::EIO { Happened::Maybe } else { Happened::No };
            failed("rename a new file to", &to.path_of(to_name), happened, errno)
        })
    }

    /// Removes a file; one that is missing counts as removed.
    pub(super) fn remove(&self, name: &str) -> Result<(), StoreError> {
        match unlinkat(&self.file, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(failed("remove", &self.path_of(name), Happened::No, errno)),
        }
    }

    /// Makes what happened to the names in this folder outlive a crash of the machine.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        match self.file.sync_all() {
            Ok(()) => Ok(()),
            // Some file systems have no such thing for directories; they do it on their own.
            Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => Ok(()),
            Err(error) => Err(failed("sync", &self.path, Happened::Maybe, error)),
        }
    }

    /// The names in this folder, in no order. Names that are not UTF-8 are left out.
    pub(super) fn names(
        &self,
    ) -> Result<impl Iterator<Item = Result<(String, Hint), StoreError>> + '_, StoreError> {
        let broken = |error: io::Error| failed("list", &self.path, Happened::No, error);
        // An open directory has one position for all its duplicates, so it is opened anew.
        let fd: OwnedFd = openat(&self.file, ".", FOLDER_FLAGS, Mode::empty())
            .map_err(|errno| broken(errno.into()))?;
        let entries = Dir::from_fd(fd).map_err(|errno| broken(errno.into()))?;
        Ok(entries.into_iter().filter_map(move |entry| match entry {
            Ok(entry) => {
                let name = entry.file_name().to_str().ok()?.to_owned();
                Some(Ok((name, Hint::of(entry.file_type()))))
            }
            Err(errno) => Some(Err(broken(errno.into()))),
        }))
    }
}

impl Named {
    #[allow(clippy::unnecessary_cast, reason = "these numbers are shorter on some systems")]
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

/// The folders from the root to the one that holds an object.
#[derive(Debug)]
pub(super) struct Way {
    above: Vec<Folder>,
    folder: Folder,
}

impl Way {
    /// The way to the folder of this path (empty: the root); `None` if it is missing.
    pub(super) fn find(root: Folder, path: &str) -> Result<Option<Way>, StoreError> {
        let mut way = Way { above: Vec::new(), folder: root };
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            match way.folder.child(segment)? {
                Child::Folder(folder) => way.descend(folder),
                Child::Missing | Child::NotAFolder => return Ok(None),
            }
        }
        Ok(Some(way))
    }

    /// The same, making the folders that are missing.
    pub(super) fn make(root: Folder, path: &str) -> Result<Way, StoreError> {
        let mut way = Way { above: Vec::new(), folder: root };
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            let folder = way.folder.child_or_new(segment)?;
            way.descend(folder);
        }
        Ok(way)
    }

    fn descend(&mut self, folder: Folder) {
        self.above.push(std::mem::replace(&mut self.folder, folder));
    }

    /// The folder that holds the object.
    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The root of the store.
    pub(super) fn root(&self) -> &Folder {
        self.above.first().unwrap_or(&self.folder)
    }

    /// Makes what happened in the folder outlive a crash of the machine, and the folder itself:
    /// another process may have made it, or one above it, a moment ago.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.folder.sync()?;
        self.above.iter().rev().try_for_each(Folder::sync)
    }
}

/// The folder where the store works, made if it is missing.
pub(super) fn work_folder(root: &Folder) -> Result<Folder, StoreError> {
    root.child_or_new(key::WORK_FOLDER)
}

pub(super) fn time_of_day(seconds: i64, nanos: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(seconds, u32::try_from(nanos).ok()?)
}

/// A root that cannot be opened or made.
pub(super) fn root_failed(path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StoreError::new(
            StoreErrorKind::NoSuchStore,
            Happened::No,
            format!("there is no directory {}: {error}", path.display()),
        )
        .with_source(error),
        _ => failed("open or make", path, Happened::No, error),
    }
}
