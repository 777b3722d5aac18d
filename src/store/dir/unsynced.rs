//! Which objects are not known to be on the disk yet.
//!
//! All processes see a rename at once, but it outlives a power loss only once its folder was
//! synced. In between the object has a mark: an empty file in the work folder, named after its key.
//! The writer makes the mark before the rename and removes it after the sync, and holds the lock
//! all the while. So a process that finds a mark while it holds the lock knows that its writer died
//! or that a sync failed. A later sync that succeeds proves nothing then, as Linux may have
//! forgotten what it could not write: the object is written once more, and synced.
//!
//! Marks themselves need no sync. What the disk shows after a power loss is on the disk.

use std::fs::{File, FileTimes};
use std::io;

use super::draft::Draft;
use super::folder::{Folder, work_folder};
use super::key;
use super::lock::{Locked, Waiting};
use super::way::Way;
use crate::store::{Determinacy, StoreError, StoreErrorKind, content_hash};

const PREFIX: &str = "unsynced-";

/// The mark of one object.
pub(super) struct Mark<'a> {
    work: &'a Folder,
    name: String,
    /// Whether nobody had made it before.
    fresh: bool,
}

impl Mark<'_> {
    /// Says that the object is not known to be on the disk.
    pub(super) fn set<'a>(work: &'a Folder, key: &str) -> Result<Mark<'a>, StoreError> {
        let name = name_of(key);
        let fresh = work.touch(&name)?;
        Ok(Mark { work, name, fresh })
    }

    /// Says that nothing was written. An older mark stays.
    pub(super) fn withdraw(self) {
        if self.fresh {
            self.clear();
        }
    }

    /// Says that it is.
    pub(super) fn clear(self) {
        // A mark that stays costs the next reader of the object another write.
        let _ = self.work.remove(&self.name);
    }
}

fn name_of(key: &str) -> String {
    format!("{PREFIX}{}", content_hash(key.as_bytes()))
}

fn is_marked(root: &Folder, key: &str) -> Result<bool, StoreError> {
    Ok(root.look_up(&format!("{}/{}", key::WORK_FOLDER, name_of(key)))?.is_some())
}

/// Opens an object that is on the disk; `None` if there is none. Waits up to 2 s for the writer of
/// one that is not there yet. One `stat` more than an open, unless there is a mark.
pub(super) fn open(root: &Folder, key: &str) -> Result<Option<File>, StoreError> {
    let (path, name) = key::split(key);
    let mut waiting = Waiting::default();
    loop {
        let Some(way) = Way::find(root, path)? else { return Ok(None) };
        let Some(file) = way.folder().open_object(name)? else { return Ok(None) };
        // Only now: the mark of what was opened was made before that had its name.
        if !is_marked(root, key)? {
            return Ok(Some(file));
        }
        let work = work_folder(root)?;
        match Locked::try_alone(&work) {
            Ok(Some(locked)) => {
                // The mark may be of an object in another folder, which was made since.
                let Some(way) = Way::find(root, path)? else { return Ok(None) };
                settle(&locked, &work, &way, key)?;
                return way.folder().open_object(name);
            }
            Ok(None) => waiting.pause(&work)?,
            Err(error) if error.kind() == StoreErrorKind::AccessDenied => {
                waiting.pause(&work).map_err(|_| cannot_settle(&way, key, &error))?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Makes sure that this object is on the disk, if it has a mark.
pub(super) fn ensure(root: &Folder, key: &str) -> Result<(), StoreError> {
    if is_marked(root, key)? { open(root, key).map(drop) } else { Ok(()) }
}

/// The same while holding the lock, on a way that was found since it is held.
pub(super) fn settle(_: &Locked, work: &Folder, way: &Way, key: &str) -> Result<(), StoreError> {
    if work.look_up(&name_of(key))?.is_none() {
        return Ok(());
    }
    let name = key::split(key).1;
    let written_again = match way.folder().open_object(name)? {
        // Its writer died before the rename, or it was deleted since.
        None => Ok(()),
        Some(file) => {
            let times = file.metadata().and_then(|metadata| metadata.modified());
            let draft = Draft::write(work, |mut draft| {
                io::copy(&mut &file, &mut draft)?;
                draft.set_times(FileTimes::new().set_modified(times?))
            });
            draft.and_then(|draft| draft.publish(way.folder(), name))
        }
    };
    written_again.and_then(|()| way.sync()).map_err(|error| cannot_settle(way, key, &error))?;
    clear(work, key);
    Ok(())
}

/// Says that this object is on the disk, or gone.
pub(super) fn clear(work: &Folder, key: &str) {
    Mark { work, name: name_of(key), fresh: false }.clear();
}

/// Makes sure that these objects are on the disk, those of them that have one of these marks.
pub(super) fn ensure_all<'k>(
    root: &Folder,
    marks: &[String],
    keys: impl Iterator<Item = &'k str>,
) -> Result<(), StoreError> {
    of(marks, keys).try_for_each(|key| ensure(root, key))
}

/// Those of these keys that have one of these marks.
pub(super) fn of<'k>(
    marks: &[String],
    keys: impl Iterator<Item = &'k str>,
) -> impl Iterator<Item = &'k str> {
    keys.filter(|key| !marks.is_empty() && marks.contains(&name_of(key)))
}

/// The names of all marks. While the lock is held, they are those of writers that died or failed.
pub(super) fn marks(work: &Folder) -> Result<Vec<String>, StoreError> {
    let names = work.names()?.map(|found| found.map(|(name, _)| name));
    names.filter(|name| name.as_ref().map_or(true, |name| name.starts_with(PREFIX))).collect()
}

/// The request itself changed nothing.
fn cannot_settle(way: &Way, key: &str, error: &StoreError) -> StoreError {
    let path = way.folder().path_of(key::split(key).1);
    let message = format!(
        "{} was written, but a power loss may undo that, and it cannot be written again: {}",
        path.display(),
        error.message()
    );
    // A process that may only read waits for one that writes.
    let kind = match error.kind() {
        StoreErrorKind::AccessDenied => StoreErrorKind::Transient,
        kind => kind,
    };
    StoreError::new(kind, Determinacy::Determinate, message)
}
