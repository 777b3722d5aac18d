//! What the disk has of a directory, and what becomes of each sync.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// What becomes of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Works,
    Fails,
    /// The file system says this, and nothing is lost.
    Says(Errno),
    /// The process dies before it.
    Dies,
}

/// Unwinds in place of the death of a process.
pub(super) struct Died;

pub(super) type Choose = Box<dyn FnMut(&Path) -> Fate>;

pub(super) struct Disk {
    pub(super) choose: Choose,
    /// What the names in folders stand for on the disk.
    pub(super) files: BTreeMap<PathBuf, Vec<u8>>,
    pub(super) folders: BTreeSet<PathBuf>,
    /// By inode, each kept open so that no other file gets its number.
    pub(super) synced: BTreeMap<u64, File>,
    pub(super) forgotten: BTreeMap<u64, File>,
}

thread_local! {
    pub(super) static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
}

pub(super) fn with_disk<T: Default>(work: impl FnOnce(&mut Disk) -> T) -> T {
    DISK.with_borrow_mut(|disk| disk.as_mut().map(work).unwrap_or_default())
}

/// What becomes of the sync of a file or a folder; `None` without such a disk.
pub(in crate::store::dir) fn sync(path: &Path) -> Option<io::Result<()>> {
    let fate = with_disk(|disk| Some((disk.choose)(path)))?;
    Some(match fate {
        Fate::Dies => resume_unwind(Box::new(Died)),
        Fate::Fails => {
            with_disk(|disk| disk.forget(path));
            Err(Errno::EIO.into())
        }
        Fate::Says(errno) => Err(errno.into()),
        Fate::Works => {
            with_disk(|disk| disk.keep(path));
            Ok(())
        }
    })
}

fn opened(path: &Path) -> (u64, File) {
    let file = File::open(path).expect("it is there");
    (file.metadata().expect("it is open").ino(), file)
}

/// The folders and the other files in a folder.
pub(super) fn children(path: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let entries = fs::read_dir(path).expect("it is there");
    entries.map(|entry| entry.expect("an entry").path()).partition(|path| path.is_dir())
}

impl Disk {
    /// What this sync was to write.
    fn forget(&mut self, path: &Path) {
        let files = if path.is_dir() { children(path).1 } else { vec![path.to_owned()] };
        for (path, (inode, file)) in files.into_iter().map(|path| (path.clone(), opened(&path))) {
            if self.files.get(&path) != fs::read(&path).ok().as_ref() {
                self.forgotten.insert(inode, file);
            }
        }
    }

    fn keep(&mut self, folder: &Path) {
        if !folder.is_dir() {
            let (inode, file) = opened(folder);
            self.synced.insert(inode, file);
            return;
        }
        let (folders, files) = children(folder);
        self.folders.extend(folders);
        self.files.retain(|path, _| path.parent() != Some(folder) || files.contains(path));
        for path in files {
            let (inode, _) = opened(&path);
            if !self.forgotten.contains_key(&inode) && self.synced.contains_key(&inode) {
                self.files.insert(path.clone(), fs::read(path).expect("it is there"));
            }
        }
    }
}
