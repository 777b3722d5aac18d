//! The folders from the root of a store to the one that holds an object.

use super::folder::{Child, Folder};
use crate::store::StoreError;

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
