//! Reader/writer locks on pseudo-folders, so that renames, copies, deletions and reads of whole
//! folders on an object store do not interleave.
//!
//! # What they do not do
//!
//! They exclude the tasks of **one process** from each other. Between processes only leadership
//! excludes, or the ownership of a partition: let only the leader or the owner write, and create its
//! locks with [`PathLocks::under`]. They do not undo half a rename if the process dies in the middle
//! of it. They are advisory: they lock nothing in the store, and stop no code that does not take
//! them.
//!
//! # What they do
//!
//! Any two operations run at the same time, unless one writes in the lineage (the path itself, its
//! ancestors, its descendants) of what the other reads or writes. The idea and the modes are those
//! of Michal Charemza's *S3 path/pseudo-folder locking*; docs/path-locks.md describes them, the
//! arguments, and the differences.
//!
//! ```
//! use tenure_paths::{Access, Path, PathLocks};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = PathLocks::new(); // PathLocks::under(&leadership)
//! let (draft, album) = (Path::new("/draft")?, Path::new("/albums/may")?);
//!
//! let guard = locks.lock(Access::to_rename(&draft, &album)).await?;
//! // Copy each object, then delete each. Meanwhile nobody who asks for a lock reads either folder,
//! // nor `/albums`; but `/albums/june` can be read, or written.
//! assert!(locks.try_lock(Access::to_read(&Path::root()))?.is_none());
//! assert!(locks.try_lock(Access::to_write(&Path::new("/albums/june")?))?.is_some());
//! drop(guard);
//! # Ok(())
//! # }
//! ```
//!
//! **Fair.** A call waits only for conflicting calls that came before it, never for one that came
//! after. So readers cannot starve a writer, nor writers a reader.
//!
//! **No deadlock**, for the same reason, as long as no task that holds a guard waits for another: a
//! task that locks `/a` and then `/a/b` waits for itself. Name all paths in one [`Access`], or use
//! [`try_lock`](PathLocks::try_lock) for the second.
//!
//! **Cost.** No request. One lock operation for each named path and for each of their ancestors,
//! counted once (keys on S3 have at most 512 components), however many locks are held and however
//! many objects are below: a hash lookup, and a search among the calls that wait at that path, if
//! any. A lock exists as long as a call holds it or waits for it: 200 bytes or so, and the text of
//! a path.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

use std::fmt;
use std::sync::{Arc, Mutex};

use tenure::{Epoch, Loss, Term};

mod access;
mod claim;
mod mode;
mod path;
mod table;
#[cfg(test)]
mod tests;

pub use access::Access;
pub use path::Path;

use claim::{Cell as _, Claim, ClaimState};

type LockTable = Mutex<ClaimState>;

/// Reader/writer locks on paths. Clones share the locks: give one to each task.
///
/// The [crate] documents their promises and cost.
///
/// # Examples
///
/// Locks that only the leader can take:
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Election, Loss, store::MemoryStore};
/// # use tenure_paths::{Access, Path, PathLocks};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let election = Election::builder(Arc::new(MemoryStore::new()), "albums/leader").build()?;
/// let leadership = election.campaign().await?;
/// let (locks, album) = (PathLocks::under(&leadership), Path::new("/albums/may")?);
/// let deleting = locks.lock(Access::to_delete(&album)).await?;
/// let upload = Access::to_write(&album.join("1.jpg")?);
/// assert!(locks.clone().try_lock(upload.clone())?.is_none()); // in another task
/// drop(deleting); // once the last object is deleted
/// assert!(locks.try_lock(upload.clone())?.is_some());
///
/// leadership.resign().await?;
/// assert!(matches!(locks.lock(upload).await, Err(Loss::Resigned)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PathLocks {
    table: Arc<LockTable>,
    term: Option<Arc<dyn Term>>,
}

/// Holds the locks of one call until it is dropped.
///
/// In a long operation call [`check`](PathGuard::check) before each write, and send the
/// [`token`](PathGuard::token) with it. Dropping the guard never blocks and never panics.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Election, Loss, store::MemoryStore};
/// # use tenure_paths::{Access, Path, PathLocks};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let election = Election::builder(Arc::new(MemoryStore::new()), "albums/leader").build()?;
/// # let leadership = election.campaign().await?;
/// let locks = PathLocks::under(&leadership);
/// let (draft, album) = (Path::new("/draft")?, Path::new("/albums/may")?);
/// let guard = locks.lock(Access::to_rename(&draft, &album)).await?;
/// // For each object, right before it is copied or deleted:
/// guard.check()?;
/// assert_eq!(guard.token(), leadership.token()); // sent with the write
///
/// leadership.resign().await?; // too early: the guard notices
/// assert!(matches!(guard.check(), Err(Loss::Resigned)));
/// assert_eq!(guard.token(), None);
/// # Ok(())
/// # }
/// ```
#[must_use = "the paths are unlocked when the guard is dropped"]
pub struct PathGuard {
    claim: Claim,
    term: Option<Arc<dyn Term>>,
}

impl PathLocks {
    /// Creates free locks without a leadership or a partition. They need no runtime, and `lock`
    /// never fails. Each call creates independent locks.
    #[must_use]
    pub fn new() -> PathLocks {
        PathLocks { table: Arc::default(), term: None }
    }

    /// Returns the locks of this leadership, or of this ownership of a partition: all calls with
    /// it, and all clones, share them. They can outlive it, and then fail. Waiting for one needs a
    /// Tokio runtime with timers, as it checks the lease every second.
    ///
    /// The next leadership has other locks, all free. So before the process campaigns again its
    /// tasks should have ended, as they have after [`Leadership::run`](tenure::Leadership::run).
    /// Only its `check`, or the guarded resource that refuses its token, stops a task that is left
    /// over. The same holds for the next ownership of a partition.
    ///
    /// The locks of a partition fail once it is released or taken ([`Resigned`](Loss::Resigned),
    /// [`Superseded`](Loss::Superseded)), or the session of the member ends. A revocation alone
    /// ends nothing: the work has its locks until it stops. Other partitions have other locks, so
    /// no path may belong to two partitions.
    #[must_use]
    pub fn under(term: &impl Term) -> PathLocks {
        PathLocks { table: term.shared().get(), term: Some(term.handle()) }
    }

    /// Waits until no other call reads what this one writes, nor writes what this one reads or
    /// writes, then locks it.
    ///
    /// The call takes its place in the queue when first polled. Cancel-safe: dropping the future
    /// gives up the place. No request.
    ///
    /// # Errors
    /// The reason of the loss, as soon as the leadership or the partition is lost, also while
    /// waiting: stop the work. None without either.
    pub async fn lock(&self, access: Access) -> Result<PathGuard, Loss> {
        self.check()?;
        let claim = Claim::enter(&self.table, access.into_modes());
        match &self.term {
            None => claim.granted().await,
            Some(term) => tokio::select! {
                biased;
                () = claim.granted() => {}
                loss = term.lost() => return Err(loss),
            },
        }
        // It may have been lost while this task did not run.
        self.check()?;
        Ok(PathGuard { claim, term: self.term.clone() })
    }

    /// Locks it if no earlier call that conflicts holds it or waits for it; otherwise returns
    /// `None` and changes nothing. No request.
    ///
    /// # Errors
    /// The reason of the loss, once the leadership or the partition is lost: stop the work. None
    /// without either.
    pub fn try_lock(&self, access: Access) -> Result<Option<PathGuard>, Loss> {
        self.check()?;
        let claim = Claim::try_enter(&self.table, access.into_modes());
        Ok(claim.map(|claim| PathGuard { claim, term: self.term.clone() }))
    }

    /// Returns how many paths have a lock in memory, ancestors included: 0 when no call holds one
    /// or waits.
    #[must_use]
    pub fn locked_paths(&self) -> usize {
        self.table.with(|state| state.table.locked_paths())
    }

    fn check(&self) -> Result<(), Loss> {
        check(self.term.as_ref())
    }
}

impl PathGuard {
    /// Checks that the leadership or the ownership under which this was locked still lasts. Always
    /// succeeds without either. No request.
    ///
    /// # Errors
    /// The reason of the loss: stop, as another process may be at work on the same folders.
    pub fn check(&self) -> Result<(), Loss> {
        check(self.term.as_ref())
    }

    /// Returns the fencing token under which this was locked, as long as `check` succeeds; `None`
    /// without a leadership or a partition. Send it with each write. No request.
    #[must_use]
    pub fn token(&self) -> Option<Epoch> {
        self.term.as_ref().and_then(|term| term.check().ok())
    }
}

fn check(term: Option<&Arc<dyn Term>>) -> Result<(), Loss> {
    term.map_or(Ok(()), |term| term.check().map(drop))
}

impl Default for PathLocks {
    fn default() -> PathLocks {
        PathLocks::new()
    }
}

impl fmt::Debug for PathLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathLocks")
            .field("epoch", &self.term.as_ref().map(|term| term.epoch()))
            .field("locked_paths", &self.locked_paths())
            .finish()
    }
}

impl fmt::Debug for PathGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathGuard")
            .field("epoch", &self.term.as_ref().map(|term| term.epoch()))
            .field("modes", self.claim.modes())
            .finish()
    }
}
