//! Reader/writer locks on pseudo-folders. Operations on whole folders of an object store (renames,
//! copies, deletions and reads) do not interleave if they hold these locks.
//!
//! # Limits
//!
//! - The locks exclude the tasks of **one process** from each other. Only leadership, or the
//!   ownership of a partition, excludes other processes. So only the leader or the owner may write.
//!   Create the locks of a leader or an owner with [`PathLocks::under`].
//! - If the process dies during a rename, the locks do not undo the partial rename.
//! - The locks are advisory. They lock nothing in the store, and do not stop code that takes no
//!   locks.
//!
//! # Guarantees
//!
//! Two operations run at the same time unless they conflict. Two operations conflict if one of them
//! writes in the lineage of a path that the other reads or writes. The lineage of a path consists
//! of the path itself, its ancestors and its descendants. The idea and the modes come from Michal
//! Charemza's *S3 path/pseudo-folder locking*. docs/how-to/lock-folders.md describes the idea, the
//! modes with their reasons, and the differences from that post.
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
//! // Copy each object, then delete each. Meanwhile no other task can lock either folder or
//! // `/albums` for reading, but a task can lock `/albums/june`.
//! assert!(locks.try_lock(Access::to_read(&Path::root()))?.is_none());
//! assert!(locks.try_lock(Access::to_write(&Path::new("/albums/june")?))?.is_some());
//! drop(guard);
//! # Ok(())
//! # }
//! ```
//!
//! **Fair.** A call waits only for conflicting calls that came before it. So readers cannot starve
//! a writer, and writers cannot starve a reader.
//!
//! **No deadlock**, as long as no task waits for a lock while it holds a guard. For example, a task
//! that locks `/a` and then `/a/b` waits for itself. Put all paths into one [`Access`], or use
//! [`try_lock`](PathLocks::try_lock) for the second lock.
//!
//! **Cost.** The locks send no requests. A call makes one lock operation for each named path and
//! each distinct ancestor. A path has at most 512 components, because its key has at most 1,024
//! bytes. A lock operation is a hash lookup, and a search among the calls that wait at the path.
//! The cost of a lock operation does not depend on the number of other locks or of objects. A lock
//! exists while a call holds it or waits for it. A lock takes about 200 bytes and the text of a
//! path.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

use std::fmt;
use std::sync::{Arc, Mutex};

use tenure::{Epoch, Loss, Term};

mod access;
mod claim;
mod lock_modes;
mod path;
mod table;
#[cfg(test)]
mod tests;

pub use access::Access;
pub use path::Path;

use claim::{Cell as _, Claim, ClaimState};

type LockTable = Mutex<ClaimState>;

/// Reader/writer locks on paths. Clones share the locks: give one clone to each task.
///
/// The [crate] documents the guarantees and the cost.
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
/// drop(deleting); // after the last object is deleted
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

/// Holds the locks of one call until the guard is dropped.
///
/// In a long operation, call [`check`](PathGuard::check) before each write, and send the
/// [`token`](PathGuard::token) with the write. Dropping the guard never blocks and never panics.
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
/// leadership.resign().await?; // before the end of the work: `check` fails
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
    /// Creates locks that depend on no leadership and on no partition. These locks need no runtime,
    /// and `lock` never fails. Each call creates independent locks.
    #[must_use]
    pub fn new() -> PathLocks {
        PathLocks { table: Arc::default(), term: None }
    }

    /// Returns the locks of this leadership, or of this ownership of a partition. All calls with
    /// the same leadership and all clones share the locks. The locks can outlive the leadership.
    /// After the end of the leadership, every call fails. `lock` needs a Tokio runtime with timers,
    /// because it checks the lease every second.
    ///
    /// The next leadership of this process has other locks, and all of them are free. So all tasks
    /// of this leadership should end before the process campaigns again. All tasks have ended once
    /// [`Leadership::run`](tenure::Leadership::run) has returned. A remaining task is stopped only
    /// by its own `check`, or by a guarded resource that refuses its token. The same rules apply to
    /// the next ownership of a partition.
    ///
    /// The locks of a partition fail when the partition is released or taken
    /// ([`Resigned`](Loss::Resigned), [`Superseded`](Loss::Superseded)), or when the session of the
    /// member ends. A revocation alone does not end the locks. The work keeps its locks until the
    /// work stops. Different partitions have different locks, so a path must belong to only one
    /// partition.
    #[must_use]
    pub fn under(term: &impl Term) -> PathLocks {
        PathLocks { table: term.shared().get(), term: Some(term.handle()) }
    }

    /// Waits until no conflicting call holds a lock, and locks the paths.
    ///
    /// The call enters the queue when it is first polled. Cancel-safe: dropping the future removes
    /// the call from the queue. Sends no request.
    ///
    /// # Errors
    /// Returns the reason of the loss when the leadership or the partition is lost, even while the
    /// call waits. Stop the work then. Locks from [`PathLocks::new`] never fail.
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
        // The leadership may have been lost between the grant of the locks and this point.
        self.check()?;
        Ok(PathGuard { claim, term: self.term.clone() })
    }

    /// Locks the paths if no earlier conflicting call holds a lock or waits. If an earlier call
    /// conflicts, returns `None` and changes nothing. Sends no request.
    ///
    /// # Errors
    /// Returns the reason of the loss when the leadership or the partition is lost. Stop the work
    /// then. Locks from [`PathLocks::new`] never fail.
    pub fn try_lock(&self, access: Access) -> Result<Option<PathGuard>, Loss> {
        self.check()?;
        let claim = Claim::try_enter(&self.table, access.into_modes());
        Ok(claim.map(|claim| PathGuard { claim, term: self.term.clone() }))
    }

    /// Returns the number of paths that have a lock in memory, including ancestors. The number is 0
    /// when no call holds a lock or waits.
    #[must_use]
    pub fn locked_paths(&self) -> usize {
        self.table.with(|state| state.table.locked_paths())
    }

    fn check(&self) -> Result<(), Loss> {
        check(self.term.as_ref())
    }
}

impl PathGuard {
    /// Checks that the leadership or the ownership of this guard still lasts. Always succeeds for
    /// locks from [`PathLocks::new`]. Sends no request.
    ///
    /// # Errors
    /// Returns the reason of the loss. Stop the work, because another process may work on the same
    /// folders.
    pub fn check(&self) -> Result<(), Loss> {
        check(self.term.as_ref())
    }

    /// Returns the fencing token of this guard. Returns `None` after a loss, and for locks from
    /// [`PathLocks::new`]. Send the token with each write. This method sends no request.
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
