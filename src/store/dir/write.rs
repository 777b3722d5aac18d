//! Conditional writes. A write first creates a draft, and then, under the lock, checks the
//! condition and gives the draft the name of the object.

use std::io::Write as _;

use super::content;
use super::draft::{Draft, remove_leftovers};
use super::failure::in_the_way;
use super::folder::{Folder, Named};
use super::folder_chain::FolderChain;
use super::key;
use super::lock::{Locked, work_folder};
use super::time::first_count;
use super::unsynced;
use crate::store::{Determinacy, ETag, PutOutcome, StoreError};

/// The condition of a write.
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
    // This early check needs no lock. Most writes whose condition does not hold are refused here,
    // before they create a draft.
    let writes = match condition.check(FolderChain::find(root, path)?.as_ref(), name)? {
        Ok(writes) => writes,
        Err(refusal) => {
            // The caller may conclude from a refusal that its earlier write took effect. So the
            // object must be on the disk before the refusal.
            unsynced::ensure(root, key)?;
            return Ok(refusal);
        }
    };
    let work = work_folder(root)?;
    let bytes = content::encode(writes, body);
    // No promise depends on the removal of leftovers, so its failure is ignored. On a full disk,
    // the removal may free the space that the next attempt and `settle` need.
    let draft = Draft::write(&work, |file| file.write_all(&bytes)).inspect_err(|_| {
        let _ = Locked::alone(&work).and_then(|locked| remove_leftovers(&locked, &work));
    })?;
    let locked = Locked::alone(&work)?;
    let _ = remove_leftovers(&locked, &work);
    unsynced::settle(&locked, root, &work)?;
    // The folder is searched again, because a deletion may have removed it before this process
    // acquired the lock.
    if let Err(refusal) = condition.check(FolderChain::find(root, path)?.as_ref(), name)? {
        return Ok(refusal);
    }
    let chain = FolderChain::make(&locked, root, &work, path)?;
    unsynced::mark(&locked, &work, key)?;
    let published = match condition {
        Condition::Absent => draft.publish_new(chain.folder(), name),
        Condition::Is(_) => draft.publish(chain.folder(), name),
    };
    if let Err(error) = published {
        if error.determinacy() == Determinacy::Determinate {
            unsynced::clear(&work);
        }
        return Err(error);
    }
    // The lock is held until the mark is removed. So if a process holds the lock and finds a mark,
    // the writer of the mark has died or failed.
    chain.sync()?;
    unsynced::clear(&work);
    drop(locked);
    Ok(PutOutcome::Done { etag: Some(content::etag(writes, body)) })
}

impl Condition {
    /// Checks the condition. Returns the counter for the next write, or the refusal. If the folder
    /// is missing, the caller passes `None`.
    fn check(
        &self,
        chain: Option<&FolderChain>,
        name: &str,
    ) -> Result<Result<u64, PutOutcome>, StoreError> {
        let Some(folder) = chain.map(FolderChain::folder) else {
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
                Some(Named::Other(file_type)) => Err(in_the_way(&path, file_type)),
            },
            Condition::Is(etag) => match folder.open_object(name)? {
                None => Ok(Err(PutOutcome::NotFound)),
                Some(file) => {
                    let current = content::read(&file, &path, 0)?;
                    // The counter in a file that another program wrote may overflow. An overflow is
                    // harmless, because the ETag still changes.
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
