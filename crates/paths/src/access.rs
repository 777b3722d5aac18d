//! The locks of one call: folders to read and folders to write.

use std::collections::BTreeMap;

use super::lock_modes::Mode;
use super::path::Path;

/// The paths that an operation reads and writes. Pass this value to
/// [`PathLocks::lock`](super::PathLocks::lock).
///
/// A path represents its whole folder, including every object that is or could be below it. A path
/// can be added several times, for reading and for writing. An operation may also read the paths
/// that it writes. Put all paths of an operation into one `Access`.
///
/// # Examples
///
/// ```
/// # use tenure_paths::{Access, Path, PathLocks};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (a, b, c) = (Path::new("/a")?, Path::new("/b")?, Path::new("/c")?);
/// let locks = PathLocks::new();
/// let merge = locks.try_lock(Access::new().read([&a, &b]).write([&c]))?;
/// assert!(merge.is_some());
/// assert!(locks.try_lock(Access::to_copy(&a, &Path::new("/d")?))?.is_some()); // reads `/a`, too
/// assert!(locks.try_lock(Access::to_rename(&a, &b))?.is_none()); // writes `/a` and `/b`
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "pass the access to `PathLocks::lock`"]
pub struct Access {
    /// The paths that the caller named, each with its strongest mode, and the ancestors of these
    /// paths.
    modes: BTreeMap<Path, Mode>,
}

/// The paths that one call locks, each with its mode. Ancestors come before their descendants.
pub(super) type Modes = Box<[(Path, Mode)]>;

impl Access {
    /// Creates an access without paths.
    pub fn new() -> Access {
        Access::default()
    }

    /// Adds folders for reading.
    pub fn read<P: Into<Path>>(self, paths: impl IntoIterator<Item = P>) -> Access {
        self.with(paths, Mode::Read, Mode::ReadAncestor)
    }

    /// Adds folders for writing: to create, change or delete objects in them.
    pub fn write<P: Into<Path>>(self, paths: impl IntoIterator<Item = P>) -> Access {
        self.with(paths, Mode::Write, Mode::WriteAncestor)
    }

    /// Creates an access for an operation that reads several objects of a folder. During this
    /// operation, no other operation may change the folder. A GET of a single object needs no lock.
    pub fn to_read(folder: &Path) -> Access {
        Access::new().read([folder])
    }

    /// Creates an access to write into a folder.
    pub fn to_write(folder: &Path) -> Access {
        Access::new().write([folder])
    }

    /// Creates an access to delete a folder.
    pub fn to_delete(folder: &Path) -> Access {
        Access::new().write([folder])
    }

    /// Creates an access to copy a folder. The copy reads `from` and writes `to`.
    pub fn to_copy(from: &Path, to: &Path) -> Access {
        Access::new().read([from]).write([to])
    }

    /// Creates an access to rename a folder. The rename writes both paths.
    pub fn to_rename(from: &Path, to: &Path) -> Access {
        Access::new().write([from, to])
    }

    fn with<P: Into<Path>>(
        mut self,
        paths: impl IntoIterator<Item = P>,
        itself: Mode,
        ancestor: Mode,
    ) -> Access {
        for path in paths {
            let path = path.into();
            for above in path.ancestors() {
                self.add(above, ancestor);
            }
            self.add(path, itself);
        }
        self
    }

    fn add(&mut self, path: Path, mode: Mode) {
        self.modes.entry(path).and_modify(|known| *known = known.and(mode)).or_insert(mode);
    }

    pub(super) fn into_modes(self) -> Modes {
        self.modes.into_iter().collect()
    }
}
