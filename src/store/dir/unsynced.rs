//! The object that is not known to be on the disk yet.
//!
//! All processes see a rename immediately, but it outlives a power loss only after a sync of its
//! folder. In between there is a mark: a file in the work folder that holds the object's key. The
//! writer makes the mark before the rename and removes it after the sync, and holds the lock all the
//! while. So a process that finds the mark while it holds the lock knows that its writer died or
//! that a sync failed. A later sync that succeeds proves nothing then, as Linux may have forgotten
//! the data of a failed one. The process writes the object again, and syncs it. Each writer does so
//! before its own write, so there is one mark at most.
//!
//! The mark itself needs no sync. All that the disk shows after a power loss is on the disk.

use std::fs::{File, FileTimes};
use std::io::{self, Read as _, Write as _};

use super::draft::Draft;
use super::failure::failed;
use super::folder::{Folder, Named, work_folder};
use super::folder_chain::FolderChain;
use super::key;
use super::lock::{Locked, Waiting};
use crate::store::{Determinacy, StoreError, StoreErrorKind};

const MARK: &str = "unsynced";

/// Says that the object of this key is not known to be on the disk.
pub(super) fn mark(_: &Locked, work: &Folder, key: &str) -> Result<(), StoreError> {
    let mut file = work.new_file(MARK)?;
    file.write_all(key.as_bytes()).map_err(|error| {
        clear(work);
        failed("write", &work.path_of(MARK), Determinacy::Determinate, error)
    })
}

/// Says that it is, or that nothing was written. A mark that stays costs another write.
pub(super) fn clear(work: &Folder) {
    let _ = work.remove(MARK);
}

/// The key in the mark. A writer that died before its rename may have left a part of it.
pub(super) fn marked(root: &Folder) -> Result<Option<String>, StoreError> {
    let name = format!("{}/{MARK}", key::WORK_FOLDER);
    let Some(mut file) = root.open_object(&name)? else { return Ok(None) };
    let mut key = Vec::new();
    file.read_to_end(&mut key)
        .map_err(|error| failed("read", &root.path_of(&name), Determinacy::Determinate, error))?;
    Ok(Some(String::from_utf8_lossy(&key).into_owned()))
}

/// Opens an object that is on the disk; `None` if it is missing. Waits for the writer of an object
/// with the mark. Costs one `open` more unless there is a mark.
pub(super) fn open(root: &Folder, key: &str) -> Result<Option<File>, StoreError> {
    let (path, name) = key::split(key);
    let find = || match FolderChain::find(root, path)? {
        Some(chain) => chain.folder().open_object(name),
        None => Ok(None),
    };
    let mut waiting = Waiting::default();
    loop {
        let file = find()?;
        // Only now: the writer of this file made the mark before the file had its name.
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

/// Makes sure that this object is on the disk, if it has the mark.
pub(super) fn ensure(root: &Folder, key: &str) -> Result<(), StoreError> {
    if marked(root)?.as_deref() == Some(key) { open(root, key).map(drop) } else { Ok(()) }
}

/// Makes sure that the object with the mark is on the disk.
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
    // Its writer may have died before the rename.
    if !missing
        && let Some(Named::Object { .. }) = chain.folder().look_up(name)?
        && let Some(file) = chain.folder().open_object(name)?
    {
        let times = file.metadata().and_then(|metadata| metadata.modified());
        let draft = Draft::write(work, |mut draft| {
            io::copy(&mut &file, &mut draft)?;
            draft.set_times(FileTimes::new().set_modified(times?))
        })?;
        draft.publish(chain.folder(), name)?;
    }
    chain.sync()
}

/// The request itself changed nothing.
fn cannot_settle(root: &Folder, key: &str, error: &StoreError) -> StoreError {
    let message = format!(
        "{} was written, but a power loss may undo that, and it cannot be written again: {}",
        root.path_of(key).display(),
        error.message()
    );
    // A process that may only read waits for one that writes.
    let kind = match error.kind() {
        StoreErrorKind::AccessDenied => StoreErrorKind::Transient,
        kind => kind,
    };
    StoreError::new(kind, Determinacy::Determinate, message)
}
