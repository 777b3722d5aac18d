//! Deleting, folder by folder.

use std::collections::BTreeMap;

use super::failure::in_the_way;
use super::folder::{Folder, Named, Root, work_folder};
use super::key;
use super::lock::Locked;
use super::unsynced;
use super::way::Way;
use crate::store::StoreError;

/// Deletes these objects; what is missing counts as deleted. Returns what could not be deleted, with
/// the reasons.
pub(super) fn delete(
    root: &Root,
    keys: &[String],
) -> Result<Vec<(String, StoreError)>, StoreError> {
    let mut folders = BTreeMap::<&str, Vec<&String>>::new();
    for key in keys {
        folders.entry(key::split(key).0).or_default().push(key);
    }
    let mut failed = Vec::new();
    for (number, (path, keys)) in folders.into_iter().enumerate() {
        match delete_in(root, path, &keys) {
            Ok(kept) => failed.extend(kept),
            Err(error) if number == 0 => return Err(error),
            // What earlier folders answered is still true.
            Err(error) => {
                failed.extend(keys.into_iter().map(|key| (key.clone(), error.clone())));
            }
        }
    }
    Ok(failed)
}

fn delete_in(
    root: &Root,
    path: &str,
    keys: &[&String],
) -> Result<Vec<(String, StoreError)>, StoreError> {
    let Some(way) = Way::find(Folder::root(root)?, path)? else {
        return Ok(Vec::new());
    };
    // Between the check and the rename of a replace, a delete would be undone.
    let work = work_folder(way.root())?;
    let locked = Locked::alone(&work)?;
    let mut failed = Vec::new();
    for &key in keys {
        if let Err(error) = remove(way.folder(), key::split(key).1) {
            failed.push((key.clone(), error));
        }
    }
    way.sync()?;
    for mark in unsynced::of(&unsynced::marks(&work)?, keys.iter().map(|key| key.as_str())) {
        if way.folder().look_up(key::split(mark).1)?.is_none() {
            unsynced::clear(&work, mark);
        }
    }
    drop(locked);
    Ok(failed)
}

fn remove(folder: &Folder, name: &str) -> Result<(), StoreError> {
    match folder.look_up(name)? {
        None => Ok(()),
        Some(Named::Object { .. }) => folder.remove(name),
        Some(Named::Folder) => Err(in_the_way(&folder.path_of(name), "a directory")),
        Some(Named::Other(what)) => Err(in_the_way(&folder.path_of(name), what)),
    }
}
