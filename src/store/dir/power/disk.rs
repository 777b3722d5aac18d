//! A simulated disk: its contents, and the outcome of each sync.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// The outcome of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Works,
    Fails,
    /// The sync returns this error, and no data is lost.
    Says(Errno),
    /// The process dies before the sync.
    Dies,
}

/// Panic payload that simulates the death of a process.
pub(super) struct Died;

pub(super) type Choose = Box<dyn FnMut(&Path) -> Fate>;

/// An entry of a folder on the disk.
#[derive(Debug, PartialEq)]
pub(super) enum DiskEntry {
    File(Vec<u8>),
    /// A folder with this inode. A folder that is created again with the same name has another
    /// inode.
    Folder(u64),
}

pub(super) struct Disk {
    pub(super) choose: Choose,
    /// Entries of each synced folder, by inode.
    folders: BTreeMap<u64, BTreeMap<OsString, DiskEntry>>,
    /// Synced files, by inode.
    synced: BTreeMap<u64, File>,
    forgotten: BTreeMap<u64, File>,
    /// Open files of all recorded inodes. While these files are open, the system does not reuse
    /// their inodes.
    opened: Vec<File>,
}

thread_local! {
    pub(super) static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
}

pub(super) fn with_disk<T: Default>(work: impl FnOnce(&mut Disk) -> T) -> T {
    DISK.with_borrow_mut(|disk| disk.as_mut().map(work).unwrap_or_default())
}

/// Returns the outcome of the sync of a file or a folder, or `None` if this thread has no simulated
/// disk.
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
    let file = File::open(path).expect("the path exists");
    (file.metadata().expect("the file is open").ino(), file)
}

/// Returns the folders and the other files in a folder.
pub(super) fn children(path: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let entries = fs::read_dir(path).expect("the path exists");
    entries.map(|entry| entry.expect("an entry").path()).partition(|path| path.is_dir())
}

fn name_of(path: &Path) -> OsString {
    path.file_name().expect("a name in a folder").to_owned()
}

impl Disk {
    pub(super) fn new(choose: Choose) -> Disk {
        let (folders, synced, forgotten) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Disk { choose, folders, synced, forgotten, opened: Vec::new() }
    }

    /// Returns the content of the file at this path below `root` after a power loss.
    pub(super) fn survives(&self, root: &Path, path: &Path) -> Option<Vec<u8>> {
        let mut folder = opened(root).0;
        for name in path.iter() {
            match self.folders.get(&folder)?.get(name)? {
                DiskEntry::Folder(inode) => folder = *inode,
                DiskEntry::File(bytes) => return Some(bytes.clone()),
            }
        }
        None
    }

    /// Discards the contents that a failed sync should have written.
    fn forget(&mut self, path: &Path) {
        let (inode, file) = opened(path);
        if !path.is_dir() {
            self.forgotten.insert(inode, file);
            return;
        }
        let disk = self.folders.entry(inode).or_default();
        for path in children(path).1 {
            let (inode, file) = opened(&path);
            let now = fs::read(&path).ok().map(DiskEntry::File);
            if disk.get(&name_of(&path)) != now.as_ref() {
                self.forgotten.insert(inode, file);
            }
        }
        self.opened.push(file);
    }

    fn keep(&mut self, path: &Path) {
        if !path.exists() {
            return;
        }
        let (inode, file) = opened(path);
        if !path.is_dir() {
            self.synced.insert(inode, file);
            return;
        }
        self.opened.push(file);
        let mut before = self.folders.remove(&inode).unwrap_or_default();
        let mut now = BTreeMap::new();
        let (folders, files) = children(path);
        for folder in folders {
            let (inode, file) = opened(&folder);
            self.opened.push(file);
            now.insert(name_of(&folder), DiskEntry::Folder(inode));
        }
        for path in files {
            let (inode, name) = (opened(&path).0, name_of(&path));
            let kept =
                match !self.forgotten.contains_key(&inode) && self.synced.contains_key(&inode) {
                    true => Some(DiskEntry::File(fs::read(&path).expect("the path exists"))),
                    false => before.remove(&name).filter(|it| matches!(it, DiskEntry::File(_))),
                };
            now.extend(kept.map(|kept| (name, kept)));
        }
        self.folders.insert(inode, now);
    }
}
