//! The open folders from the root of a store to the folder of an object.
//!
//! A deletion holds the lock and removes the folders that it leaves empty. So a chain that was
//! opened without the lock may end at a removed folder, and a new folder may have the same name.
//! Only reads may use such a chain. A removed folder is empty, so a read finds no object. "No
//! object" was the correct result at the moment of the removal.

use std::time::Duration;

use super::folder::{Child, Folder, Hint};
use super::key;
use super::lock::Locked;
use crate::env::clock::{Clock as _, SystemClock};
use crate::store::StoreError;

/// A search for empty folders or leftovers reads at most this number of names.
pub(super) const MOST_NAMES: usize = 2_000;
/// Maximum duration of one search. The limit exists because other processes wait for the lock
/// during a search.
const LONGEST: Duration = Duration::from_millis(20);

/// The open folders from the root to the folder of an object.
#[derive(Debug)]
pub(super) struct FolderChain<'r> {
    root: &'r Folder,
    /// Folders below the root, each with its name.
    below: Vec<(String, Folder)>,
}

impl<'r> FolderChain<'r> {
    /// Returns the chain to the folder of this path (empty for the root), or `None` if the folder
    /// is missing.
    pub(super) fn find(
        root: &'r Folder,
        path: &str,
    ) -> Result<Option<FolderChain<'r>>, StoreError> {
        let (chain, missing) = FolderChain::as_far_as_there(root, path)?;
        Ok(Some(chain).filter(|_| !missing))
    }

    /// Returns the chain to the folder of this path or to its nearest existing ancestor, and
    /// whether the folder is missing.
    pub(super) fn as_far_as_there(
        root: &'r Folder,
        path: &str,
    ) -> Result<(FolderChain<'r>, bool), StoreError> {
        let mut chain = FolderChain { root, below: Vec::new() };
        for name in names(path) {
            match chain.folder().child(name)? {
                Child::Folder(folder) => chain.below.push((name.to_owned(), folder)),
                Child::Missing | Child::NotAFolder => return Ok((chain, true)),
            }
        }
        Ok((chain, false))
    }

    /// Returns the chain to the folder of this path, and creates the missing folders.
    pub(super) fn make(
        _: &Locked,
        root: &'r Folder,
        work: &Folder,
        path: &str,
    ) -> Result<FolderChain<'r>, StoreError> {
        let mut chain = FolderChain { root, below: Vec::new() };
        for name in names(path) {
            let folder = chain.folder().child_or_new(name, work)?;
            chain.below.push((name.to_owned(), folder));
        }
        Ok(chain)
    }

    /// Returns the last folder of the chain. This folder contains the object.
    pub(super) fn folder(&self) -> &Folder {
        self.below.last().map_or(self.root, |(_, folder)| folder)
    }

    /// Removes the last folder if it is empty, and then each ancestor that becomes empty. This
    /// method keeps the folders directly below the root. The chain then ends at the last remaining
    /// folder. Returns true if a folder was removed.
    pub(super) fn remove_empty(&mut self, _: &Locked) -> bool {
        let mut removed = false;
        while self.below.len() > 1
            && let Some((name, folder)) = self.below.pop()
        {
            if !self.folder().remove_empty_folder(&name) {
                self.below.push((name, folder));
                break;
            }
            removed = true;
        }
        removed
    }

    /// Syncs the last folder and all its ancestors, because another process may just have created
    /// any of these folders.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.below.iter().rev().try_for_each(|(_, folder)| folder.sync())?;
        self.root.sync()
    }
}

/// Removes the empty subfolders that earlier versions left in this folder. Other writers wait
/// during this function, so it reads at most 2,000 names and takes at most 20 ms. The folders
/// directly below the root stay.
pub(super) fn remove_empty_in(_: &Locked, root: &Folder, path: &str) -> Result<(), StoreError> {
    let Some(chain) = FolderChain::find(root, path)?.filter(|chain| !chain.below.is_empty()) else {
        return Ok(());
    };
    let now = || SystemClock.now().boot;
    let until = now() + LONGEST;
    let names = chain.folder().names()?.take(MOST_NAMES).collect::<Result<Vec<_>, _>>()?;
    for (name, hint) in names {
        if now() > until {
            break;
        }
        if hint != Hint::Object && key::join(path, &name).is_some() {
            chain.folder().remove_empty_folder(&name);
        }
    }
    Ok(())
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}
