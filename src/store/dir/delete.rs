//! Deleting, folder by folder.

use std::collections::BTreeMap;

use super::failure::in_the_way;
use super::folder::{Folder, Named, Root, Way, work_folder};
use super::key;
use super::lock::Locked;
use super::unsynced;
use crate::store::{DeleteOutcome, StoreError};

/// Deletes these objects; what is missing counts as deleted.
pub(super) fn delete(root: &Root, keys: &[String]) -> Result<DeleteOutcome, StoreError> {
    let mut folders = BTreeMap::<&str, Vec<&String>>::new();
    for key in keys {
        folders.entry(key::split(key).0).or_default().push(key);
    }
    let mut outcome = DeleteOutcome::default();
    for (path, keys) in folders {
        if let Err(error) = delete_in(root, path, &keys, &mut outcome) {
            // What earlier folders answered is still true.
            if outcome == DeleteOutcome::default() {
                return Err(error);
            }
            let reason = error.to_string();
            outcome.failed.extend(keys.into_iter().map(|key| (key.clone(), reason.clone())));
        }
    }
    Ok(outcome)
}

fn delete_in(
    root: &Root,
    path: &str,
    keys: &[&String],
    outcome: &mut DeleteOutcome,
) -> Result<(), StoreError> {
    let Some(way) = Way::find(Folder::root(root)?, path)? else {
        outcome.deleted += keys.len();
        return Ok(());
    };
    // Between the check and the rename of a replace, a delete would be undone.
    let work = work_folder(way.root())?;
    let locked = Locked::alone(&work)?;
    let mut deleted = 0;
    let mut failed = Vec::new();
    for &key in keys {
        match remove(way.folder(), key::split(key).1) {
            Ok(()) => deleted += 1,
            Err(error) => failed.push((key.clone(), error.to_string())),
        }
    }
    way.sync()?;
    for mark in unsynced::of(&unsynced::marks(&work)?, keys.iter().map(|key| key.as_str())) {
        if way.folder().look_up(key::split(mark).1)?.is_none() {
            unsynced::clear(&work, mark);
        }
    }
    drop(locked);
    outcome.deleted += deleted;
    outcome.failed.append(&mut failed);
    Ok(())
}

fn remove(folder: &Folder, name: &str) -> Result<(), StoreError> {
    match folder.look_up(name)? {
        None => Ok(()),
        Some(Named::Object { .. }) => folder.remove(name),
        Some(Named::Folder) => Err(in_the_way(&folder.path_of(name), "a directory")),
        Some(Named::Other(what)) => Err(in_the_way(&folder.path_of(name), what)),
    }
}
