//! Conditional writes: aside first, then checked and renamed under the lock.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use super::content;
use super::failure::{failed, in_the_way};
use super::folder::{Folder, Named, time_of_day, work_folder};
use super::lock::Locked;
use super::unsynced::{self, Mark};
use super::way::Way;
use super::{key, sync};
use crate::env::clock;
use crate::store::{Determinacy, ETag, PutOutcome, StoreError};

/// Leftovers of killed processes start with this.
const DRAFT_PREFIX: &str = "tmp-";

/// No write takes this long unless its process was stopped; the write then fails, as its file is
/// gone.
const LEFTOVER_AGE: chrono::TimeDelta = chrono::TimeDelta::hours(1);

/// When a write is allowed.
#[derive(Debug)]
pub(super) enum Condition {
    Absent,
    Is(ETag),
}

/// Writes the object if the condition holds.
pub(super) fn put(
    root: &Folder,
    key: &str,
    body: &[u8],
    condition: &Condition,
) -> Result<PutOutcome, StoreError> {
    let (path, name) = key::split(key);
    // Looked at before anything is written, so that losing a race costs no file.
    let writes = match condition.check(Way::find(root, path)?.as_ref(), name)? {
        Ok(writes) => writes,
        Err(refusal) => {
            // A refusal may show the caller that an earlier write of its own succeeded, unanswered
            // so far. It will count on that write.
            unsynced::ensure(root, key)?;
            return Ok(refusal);
        }
    };
    let work = work_folder(root)?;
    let bytes = content::encode(writes, body);
    let draft = Draft::write(&work, |file| file.write_all(&bytes))?;
    let locked = Locked::alone(&work)?;
    // A deletion may have removed the folder meanwhile, and from now on none does.
    let way = Way::find(root, path)?;
    if let Err(refusal) = condition.check(way.as_ref(), name)? {
        if let Some(way) = &way {
            unsynced::settle(&locked, &work, way, key)?;
        }
        return Ok(refusal);
    }
    let way = Way::make(&locked, root, path)?;
    let mark = Mark::set(&work, key)?;
    if let Err(error) = draft.publish(way.folder(), name) {
        if error.determinacy() == Determinacy::Determinate {
            mark.withdraw();
        }
        return Err(error);
    }
    // The lock is held until the mark is gone: a process that has the lock and finds a mark knows
    // that no other process is about to remove it.
    way.sync()?;
    mark.clear();
    drop(locked);
    Ok(PutOutcome::Done { etag: Some(content::etag(writes, body)) })
}

impl Condition {
    /// Whether it holds now: the count that the next write gets, or the refusal. `None`: the folder
    /// is missing.
    fn check(&self, way: Option<&Way>, name: &str) -> Result<Result<u64, PutOutcome>, StoreError> {
        let Some(folder) = way.map(Way::folder) else {
            return Ok(match self {
                Condition::Absent => Ok(first_count()),
                Condition::Is(_) => Err(PutOutcome::NotFound),
            });
        };
        let path = folder.path_of(name);
        match self {
            Condition::Absent => match folder.look_up(name)? {
                None => Ok(Ok(first_count())),
                Some(Named::Object { .. }) => Ok(Err(PutOutcome::PreconditionFailed)),
                Some(Named::Folder) => Err(in_the_way(&path, "a directory")),
                Some(Named::Other(what)) => Err(in_the_way(&path, what)),
            },
            Condition::Is(etag) => match folder.open_object(name)? {
                None => Ok(Err(PutOutcome::NotFound)),
                Some(file) => {
                    let current = content::read(&file, &path, 0)?;
                    // Wrapping past what a hand wrote there still changes the ETag.
                    let next = current.writes.wrapping_add(1);
                    Ok(if current.etag == *etag {
                        Ok(next)
                    } else {
                        Err(PutOutcome::PreconditionFailed)
                    })
                }
            },
        }
    }
}

/// Counting from the time of day gives an object that is deleted and made again new ETags.
fn first_count() -> u64 {
    let nanos = clock::wall_clock().timestamp_nanos_opt();
    nanos.and_then(|nanos| u64::try_from(nanos).ok()).unwrap_or(0)
}

/// A file that is not an object yet. Removed when dropped.
pub(super) struct Draft<'a> {
    work: &'a Folder,
    name: String,
}

impl Draft<'_> {
    /// A new file with what `fill` writes into it, on the disk.
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
        // Once published it is not there any more. What cannot be removed now is a leftover later.
        let _ = self.work.remove(&self.name);
    }
}

/// Removes what killed processes left behind.
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

/// The modification time of an open file.
pub(super) fn last_modified(file: &std::fs::File) -> Option<chrono::DateTime<chrono::Utc>> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.metadata().ok()?;
    time_of_day(metadata.mtime(), metadata.mtime_nsec())
}
