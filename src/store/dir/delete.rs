//! Deletes objects, one folder after the other.

use std::collections::{BTreeMap, BTreeSet};

use super::failure::in_the_way;
use super::folder::{Folder, Named, Root};
use super::folder_chain::{self, FolderChain};
use super::lock::{Locked, work_folder};
use super::pace::Pace;
use super::{key, unsynced};
use crate::store::StoreError;

/// Deletes these objects. A missing object counts as deleted. Returns the objects that could not be
/// deleted, each with its error.
pub(super) fn delete(
    root: &Root,
    keys: &[String],
) -> Result<Vec<(String, StoreError)>, StoreError> {
    let mut folders = BTreeMap::<&str, Vec<&String>>::new();
    for key in keys {
        folders.entry(key::split(key).0).or_default().push(key);
    }
    let root = Folder::root(root)?;
    let (mut failed, mut parents) = (Vec::new(), BTreeSet::new());
    let mut pace = Pace::start();
    for (number, (path, keys)) in folders.into_iter().enumerate() {
        pace.rest();
        match delete_in(&root, path, &keys) {
            Ok((kept, is_removed)) => {
                failed.extend(kept);
                parents.extend(is_removed.then_some(key::split(path).0));
            }
            Err(error) if number == 0 => return Err(error),
            // The results for earlier folders remain valid, so this error applies only to the keys
            // of this folder.
            Err(error) => {
                failed.extend(keys.into_iter().map(|key| (key.clone(), error.clone())));
            }
        }
    }
    for parent in parents {
        pace.rest();
        // The objects are already deleted, so a failure to remove empty folders is ignored.
        let _ = remove_leftovers(&root, parent);
    }
    Ok(failed)
}

fn remove_leftovers(root: &Folder, parent: &str) -> Result<(), StoreError> {
    if parent.is_empty() {
        return Ok(());
    }
    folder_chain::remove_empty_in(&Locked::alone(&work_folder(root)?)?, root, parent)
}

/// Deletes these objects of one folder. Returns the failures, and whether the folder was removed.
fn delete_in(
    root: &Folder,
    path: &str,
    keys: &[&String],
) -> Result<(Vec<(String, StoreError)>, bool), StoreError> {
    // Without the lock, a concurrent replace could undo the deletion with its rename.
    let work = work_folder(root)?;
    let locked = Locked::alone(&work)?;
    // Read the mark (module `unsynced`) before the first removal, because the error of a failed
    // read states that the deletion had no effect.
    let marked = unsynced::marked(root)?;
    let (mut chain, missing) = FolderChain::as_far_as_there(root, path)?;
    let (mut failed, mut is_removed) = (Vec::new(), false);
    if !missing {
        for &key in keys {
            if let Err(error) = remove(chain.folder(), key::split(key).1) {
                failed.push((key.clone(), error));
            }
        }
        is_removed = chain.remove_empty(&locked);
    }
    // The sync is needed even if the folder is missing, because the process that removed the folder
    // may have died before its own sync.
    chain.sync()?;
    // If an object has the mark, a create or a replace first writes this object again. A deletion
    // omits this write: on a full disk, the write would fail, and the deletion could not free
    // space. A deletion removes the mark if it has deleted the marked object.
    if let Some(marked) = marked
        && keys.iter().any(|key| **key == marked)
        && !failed.iter().any(|(key, _)| *key == marked)
    {
        unsynced::clear(&work);
    }
    drop(locked);
    Ok((failed, is_removed))
}

fn remove(folder: &Folder, name: &str) -> Result<(), StoreError> {
    match folder.look_up(name)? {
        None => Ok(()),
        Some(Named::Object { .. }) => folder.remove(name),
        Some(Named::Folder) => Err(in_the_way(&folder.path_of(name), "a directory")),
        Some(Named::Other(file_type)) => Err(in_the_way(&folder.path_of(name), file_type)),
    }
}
