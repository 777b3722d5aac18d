//! Drafts are files in the work folder. A write first creates a draft, and then gives it the name
//! of the object.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::failure::failed;
use super::folder::{Folder, Named};
use super::folder_chain::MOST_NAMES;
use super::lock::Locked;
use super::sync;
use super::time::first_count;
use crate::env::clock;
use crate::store::{Determinacy, StoreError};

/// Prefix of the names of drafts.
const DRAFT_PREFIX: &str = "tmp-";

/// Age after which a draft counts as a leftover of a killed process. If a suspended process
/// continues after the removal of its draft, its write fails, because the draft is missing.
const LEFTOVER_AGE: chrono::TimeDelta = chrono::TimeDelta::hours(1);

/// Returns the name of a new draft. The time makes the name unique, because processes in different
/// containers may have the same process ID.
pub(super) fn new_name() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{DRAFT_PREFIX}{}-{number}-{}", std::process::id(), first_count())
}

/// A file that will become an object. Dropping this value removes the file.
pub(super) struct Draft<'a> {
    work: &'a Folder,
    name: String,
}

impl Draft<'_> {
    /// Creates a draft with the contents that `fill` writes, and syncs it.
    pub(super) fn write<'a>(
        work: &'a Folder,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<Draft<'a>, StoreError> {
        let name = new_name();
        let mut file = work.new_file(&name)?;
        let draft = Draft { work, name };
        let path = work.path_of(&draft.name);
        fill(&mut file)
            .and_then(|()| sync::file(&file, &path))
            .map_err(|error| failed("write", &path, Determinacy::Determinate, error))?;
        Ok(draft)
    }

    /// Renames the draft to the object of this name.
    pub(super) fn publish(self, folder: &Folder, name: &str) -> Result<(), StoreError> {
        self.work.rename(&self.name, folder, name)
    }

    /// Gives the draft the name of a new object. Fails if an object already has this name. If a
    /// program deletes the lock file, two processes may both hold a lock. Even then, only one of
    /// them can create the object.
    pub(super) fn publish_new(self, folder: &Folder, name: &str) -> Result<(), StoreError> {
        self.work.link(&self.name, folder, name)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // After `publish`, the draft's name is free, so this removal has no effect. After
        // `publish_new`, the file has two names, and keeps the name of the object. If the removal
        // fails, a later call removes the draft as a leftover.
        let _ = self.work.remove(&self.name);
    }
}

/// Removes the drafts of killed processes, which it recognises by their old dates. A process that
/// writes an old object again gives its draft the object's old date, but only while it holds the
/// lock. Now the caller of this function holds the lock, so no such draft is in use. Other writers
/// wait for this function, so it reads at most 2,000 names.
pub(super) fn remove_leftovers(_: &Locked, work: &Folder) -> Result<(), StoreError> {
    let now = clock::wall_clock();
    for found in work.names()?.take(MOST_NAMES) {
        let (name, _) = found?;
        if !name.starts_with(DRAFT_PREFIX) {
            continue;
        }
        match work.look_up(&name)? {
            // The date may also be in the future, because the clock may have been wrong.
            Some(Named::Object { last_modified: Some(written), .. })
                if now.signed_duration_since(written).abs() > LEFTOVER_AGE =>
            {
                work.remove(&name)?;
            }
            // This process holds the lock, and folders are created and renamed only under the lock.
            // So the folder belongs to a killed process.
            Some(Named::Folder) => drop(work.remove_empty_folder(&name)),
            _ => {}
        }
    }
    Ok(())
}
