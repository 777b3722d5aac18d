//! The folders from the root of a store to the one that holds an object.
//!
//! A deletion removes the folders that it leaves empty, while it holds the lock. So a way that was
//! found without the lock may lead to a folder that is removed, and another folder may have its name
//! by now. Such a way serves for reads alone: a removed folder is empty, so a read finds no object
//! there, and there was none at the moment of the removal.

use std::time::Duration;

use super::folder::{Child, Folder, Hint};
use super::key;
use super::lock::Locked;
use crate::env::clock::{Clock as _, SystemClock};
use crate::store::StoreError;

/// The most names that one search for empty folders of earlier versions reads.
const MOST_NAMES: usize = 2_000;
/// The longest such search: the others wait for the lock.
const LONGEST: Duration = Duration::from_millis(20);

/// The folders from the root to the one that holds an object.
#[derive(Debug)]
pub(super) struct Way<'r> {
    root: &'r Folder,
    /// Each with its name in the one above.
    below: Vec<(String, Folder)>,
}

impl<'r> Way<'r> {
    /// The way to the folder of this path (empty: the root); `None` if it is missing.
    pub(super) fn find(root: &'r Folder, path: &str) -> Result<Option<Way<'r>>, StoreError> {
        let (way, missing) = Way::as_far_as_there(root, path)?;
        Ok(Some(way).filter(|_| !missing))
    }

    /// The way to the folder of this path, or to the lowest one above it that is there; and whether
    /// the folder is missing.
    pub(super) fn as_far_as_there(
        root: &'r Folder,
        path: &str,
    ) -> Result<(Way<'r>, bool), StoreError> {
        let mut way = Way { root, below: Vec::new() };
        for name in names(path) {
            match way.folder().child(name)? {
                Child::Folder(folder) => way.below.push((name.to_owned(), folder)),
                Child::Missing | Child::NotAFolder => return Ok((way, true)),
            }
        }
        Ok((way, false))
    }

    /// The same, making the folders that are missing.
    pub(super) fn make(_: &Locked, root: &'r Folder, path: &str) -> Result<Way<'r>, StoreError> {
        let mut way = Way { root, below: Vec::new() };
        for name in names(path) {
            let folder = way.folder().child_or_new(name)?;
            way.below.push((name.to_owned(), folder));
        }
        Ok(way)
    }

    /// The folder that holds the object.
    pub(super) fn folder(&self) -> &Folder {
        self.below.last().map_or(self.root, |(_, folder)| folder)
    }

    /// Removes the folder if it is empty, and those above it that are empty then. Folders directly
    /// below the root stay. The way ends at the lowest one that is left.
    /// Whether one was removed.
    pub(super) fn remove_empty(&mut self, _: &Locked) -> bool {
        let mut some = false;
        while self.below.len() > 1
            && let Some((name, folder)) = self.below.pop()
        {
            if !self.folder().remove_empty_folder(&name) {
                self.below.push((name, folder));
                break;
            }
            some = true;
        }
        some
    }

    /// Makes what happened in the folder outlive a crash of the machine, and the folder itself:
    /// another process may have made it, or one above it, a moment ago.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.below.iter().rev().try_for_each(|(_, folder)| folder.sync())?;
        self.root.sync()
    }
}

/// Removes the empty folders in the folder of this path, as earlier versions left them: for 20 ms,
/// and 2,000 names at most, as others wait. Folders directly below the root stay.
pub(super) fn remove_empty_in(_: &Locked, root: &Folder, path: &str) -> Result<(), StoreError> {
    let Some(way) = Way::find(root, path)?.filter(|way| !way.below.is_empty()) else {
        return Ok(());
    };
    let now = || SystemClock.now().boot;
    let until = now() + LONGEST;
    let names = way.folder().names()?.take(MOST_NAMES).collect::<Result<Vec<_>, _>>()?;
    for (name, hint) in names {
        if now() > until {
            break;
        }
        if hint != Hint::Object && key::join(path, &name).is_some() {
            way.folder().remove_empty_folder(&name);
        }
    }
    Ok(())
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}
