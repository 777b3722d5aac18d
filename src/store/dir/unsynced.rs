//! The mark of an object that is possibly not on the disk yet.
//!
//! All processes see a rename immediately, but the rename survives a power loss only after a sync
//! of its folder. In the meantime, a mark exists: a link in the work folder to the object's key.
//! The writer creates the mark before the rename, removes it after the sync, and holds the lock
//! throughout. So if a process holds the lock and finds a mark, the mark's writer died or a sync
//! failed. After a failed sync, a later successful sync proves nothing, because Linux may have
//! discarded the data. So a process that finds a mark writes the object again and syncs it. Each
//! writer does this before its own write, so at most one mark exists.
//!
//! A power loss may delete the mark. No sync of the mark is needed, because after a power loss
//! every visible object is on the disk.

use std::fs::{File, FileTimes};
use std::io;
use std::os::unix::fs::{MetadataExt as _, fchown};

use super::draft::Draft;
use super::folder::{Folder, Named};
use super::folder_chain::FolderChain;
use super::key;
use super::lock::{Locked, Waiting, work_folder};
use crate::store::{Determinacy, StoreError, StoreErrorKind};

const MARK: &str = "unsynced";

/// Marks the object of this key as possibly not on the disk.
pub(super) fn mark(_: &Locked, work: &Folder, key: &str) -> Result<(), StoreError> {
    work.new_link(MARK, key)
}

/// Removes the mark after the object has reached the disk, or if nothing was written. If the
/// removal fails, the next process writes the object again.
pub(super) fn clear(work: &Folder) {
    let _ = work.remove(MARK);
}

/// Returns the key in the mark.
pub(super) fn marked(root: &Folder) -> Result<Option<String>, StoreError> {
    root.link_target(&format!("{}/{MARK}", key::WORK_FOLDER))
}

/// Opens an object that is on the disk, or returns `None` if it is missing. If the object is
/// marked, this function waits for the writer that created the mark. If no mark exists, the check
/// for a mark costs one additional `readlink`.
pub(super) fn open(root: &Folder, key: &str) -> Result<Option<File>, StoreError> {
    let (path, name) = key::split(key);
    let find = || match FolderChain::find(root, path)? {
        Some(chain) => chain.folder().open_object(name),
        None => Ok(None),
    };
    let mut waiting = Waiting::default();
    loop {
        let file = find()?;
        // The mark is read after the file is opened, because the writer creates the mark before the
        // rename.
        if file.is_none() || marked(root)?.as_deref() != Some(key) {
            return Ok(file);
        }
        let work = work_folder(root)?;
        match Locked::alone(&work) {
            Ok(locked) => {
                settle(&locked, root, &work)?;
                return find();
            }
            Err(error) if error.kind() == StoreErrorKind::AccessDenied => {
                waiting.pause(&work).map_err(|_| cannot_settle(root, key, &error))?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// If this object is marked, ensures that it is on the disk.
pub(super) fn ensure(root: &Folder, key: &str) -> Result<(), StoreError> {
    if marked(root)?.as_deref() == Some(key) { open(root, key).map(drop) } else { Ok(()) }
}

/// Ensures that the marked object, if there is one, is on the disk.
pub(super) fn settle(_: &Locked, root: &Folder, work: &Folder) -> Result<(), StoreError> {
    let Some(key) = marked(root)? else { return Ok(()) };
    if key::check(&key).is_ok() {
        write_again(root, work, &key).map_err(|error| cannot_settle(root, &key, &error))?;
    }
    clear(work);
    Ok(())
}

fn write_again(root: &Folder, work: &Folder, key: &str) -> Result<(), StoreError> {
    let (path, name) = key::split(key);
    let (chain, missing) = FolderChain::as_far_as_there(root, path)?;
    // If the writer died before the rename, the object is missing, and only its folder needs a
    // sync.
    if !missing
        && let Some(Named::Object { .. }) = chain.folder().look_up(name)?
        && let Some(file) = chain.folder().open_object(name)?
    {
        let draft = Draft::write(work, |mut draft| {
            io::copy(&mut &file, &mut draft)?;
            let before = file.metadata()?;
            // Only root can preserve the owner of another user's file, and only root writes such a
            // file again.
            let _ = fchown(&*draft, Some(before.uid()), Some(before.gid()));
            draft.set_permissions(before.permissions())?;
            draft.set_times(FileTimes::new().set_modified(before.modified()?))
        })?;
        draft.publish(chain.folder(), name)?;
    }
    chain.sync()
}

/// Returns the error for a marked object that could not be written again. The request of the caller
/// had no effect.
fn cannot_settle(root: &Folder, key: &str, error: &StoreError) -> StoreError {
    let message = format!(
        "{} was written, but a power loss may undo this write, and the file cannot be written \
         again: {}",
        root.path_of(key).display(),
        error.message()
    );
    // This process may lack the permission to write. The error is transient, because a retry
    // succeeds after another process has written the object again.
    let kind = match error.kind() {
        StoreErrorKind::AccessDenied => StoreErrorKind::Transient,
        kind => kind,
    };
    StoreError::new(kind, Determinacy::Determinate, message)
}
