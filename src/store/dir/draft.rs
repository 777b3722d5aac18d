//! Files that are not objects yet.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::failure::failed;
use super::folder::{Folder, Named, work_folder};
use super::sync;
use super::time::first_count;
use crate::env::clock;
use crate::store::{Determinacy, StoreError};

/// Leftovers of killed processes start with this.
const DRAFT_PREFIX: &str = "tmp-";

/// No write takes this long unless its process was stopped; the write then fails, as its file is
/// gone.
const LEFTOVER_AGE: chrono::TimeDelta = chrono::TimeDelta::hours(1);

/// A file that is not an object yet. Removed when dropped.
pub(super) struct Draft<'a> {
    work: &'a Folder,
    name: String,
}

impl Draft<'_> {
    /// A new file on the disk, with the contents that `fill` writes.
    pub(super) fn write<'a>(
        work: &'a Folder,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<Draft<'a>, StoreError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        // The time keeps apart processes that share a number, as in two containers.
        let name = format!(
            "{DRAFT_PREFIX}{}-{}-{}",
            std::process::id(),
            COUNTER.fetch_add(1, Ordering::Relaxed),
            first_count()
        );
        let mut file = work.new_file(&name)?;
        let draft = Draft { work, name };
        let path = work.path_of(&draft.name);
        fill(&mut file)
            .and_then(|()| sync::file(&file, &path))
            .map_err(|error| failed("write", &path, Determinacy::Determinate, error))?;
        Ok(draft)
    }

    /// Makes it the object of this name.
    pub(super) fn publish(self, folder: &Folder, name: &str) -> Result<(), StoreError> {
        self.work.rename(&self.name, folder, name)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // A published draft has moved. A file that cannot be removed now is a leftover later.
        let _ = self.work.remove(&self.name);
    }
}

/// Removes the leftovers of killed processes.
pub(super) fn remove_leftovers(root: &Folder) -> Result<(), StoreError> {
    let work = work_folder(root)?;
    let now = clock::wall_clock();
    for found in work.names()? {
        let (name, _) = found?;
        if !name.starts_with(DRAFT_PREFIX) {
            continue;
        }
        if let Some(Named::Object { last_modified: Some(written), .. }) = work.look_up(&name)?
            && now.signed_duration_since(written) > LEFTOVER_AGE
        {
            work.remove(&name)?;
        }
    }
    Ok(())
}
