//! Reader/writer locks on pseudo-folders, so that renames, copies, deletions and reads of whole
//! folders on an object store do not interleave.
//!
//! # What they do not do
//!
//! They exclude the tasks of **one process** from each other. Between processes only leadership
//! excludes: let only the leader write, and create its locks with [`PathLocks::under`]. They do not
//! undo half a rename if the process dies in the middle of it. They are advisory: they lock nothing
//! in the store, and stop no code that does not take them.
//!
//! # What they do
//!
//! Any two operations run at the same time, unless one writes in the lineage (the path itself, its
//! ancestors, its descendants) of what the other reads or writes. The idea and the modes are those
//! of Michal Charemza's *S3 path/pseudo-folder locking*; docs/path-locks.md describes them, the
//! arguments, and the differences.
//!
//! ```
//! use tenure::paths::{Access, Path, PathLocks};
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

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::epoch::Epoch;
use crate::leadership::{Lead, Leadership, Loss};

mod access;
mod claim;
mod mode;
mod path;
mod table;
#[cfg(test)]
mod tests;

pub use access::Access;
pub use path::Path;

use claim::{Cell as _, Claim, State};

type LockTable = Mutex<State>;

/// Reader/writer locks on paths. Clones share the locks: give one to each task.
///
/// The [module](crate::paths) documents their promises and cost.
#[derive(Clone)]
pub struct PathLocks {
    table: Arc<LockTable>,
    lead: Option<Arc<Lead>>,
}

/// Holds the locks of one call until it is dropped.
///
/// In a long operation call [`check`](PathGuard::check) before each write, and send the
/// [`token`](PathGuard::token) with it. Dropping the guard never blocks and never panics.
#[must_use = "the paths are unlocked when the guard is dropped"]
pub struct PathGuard {
    claim: Claim,
    lead: Option<Arc<Lead>>,
}

impl PathLocks {
    /// Creates free locks without a leadership. They need no runtime, and `lock` never fails. Each
    /// call creates independent locks.
    #[must_use]
    pub fn new() -> PathLocks {
        PathLocks { table: Arc::default(), lead: None }
    }

    /// Returns the locks of this leadership: all calls with it, and all clones, share them. They
    /// can outlive the [`Leadership`], and then fail. Waiting for one needs a Tokio runtime with
    /// timers, as it checks the lease every second.
    ///
    /// The next leadership has other locks, all free. So before the process campaigns again its
    /// tasks should have ended, as they have after [`Leadership::run`]. Only its `check`, or the
    /// guarded resource that refuses its token, stops a task that is left over.
    #[must_use]
    pub fn under(leadership: &Leadership) -> PathLocks {
        let lead = Some(Arc::clone(&leadership.lead));
        PathLocks { table: leadership.shared(), lead }
    }

    /// Waits until no other call reads what this one writes, nor writes what this one reads or
    /// writes, then locks it.
    ///
    /// The call takes its place in the queue when first polled. Cancel-safe: dropping the future
    /// gives up the place. No request.
    ///
    /// # Errors
    /// The reason of the loss, as soon as the leadership is lost, also while waiting: stop the
    /// work. None without a leadership.
    pub async fn lock(&self, access: Access) -> Result<PathGuard, Loss> {
        self.check()?;
        let claim = Claim::enter(&self.table, access.into_modes());
        match &self.lead {
            None => claim.granted().await,
            Some(lead) => tokio::select! {
                biased;
                () = claim.granted() => {}
                loss = lead.lost() => return Err(loss),
            },
        }
        // It may have been lost while this task did not run.
        self.check()?;
        Ok(PathGuard { claim, lead: self.lead.clone() })
    }

    /// Locks it if no earlier call that conflicts holds it or waits for it; otherwise returns
    /// `None` and changes nothing. No request.
    ///
    /// # Errors
    /// The reason of the loss, once the leadership is lost: stop the work. None without a
    /// leadership.
    pub fn try_lock(&self, access: Access) -> Result<Option<PathGuard>, Loss> {
        self.check()?;
        let claim = Claim::try_enter(&self.table, access.into_modes());
        Ok(claim.map(|claim| PathGuard { claim, lead: self.lead.clone() }))
    }

    /// Returns how many paths have a lock in memory, ancestors included: 0 when no call holds one
    /// or waits.
    #[must_use]
    pub fn locked_paths(&self) -> usize {
        self.table.with(|state| state.table.locked_paths())
    }

    fn check(&self) -> Result<(), Loss> {
        check(self.lead.as_deref())
    }
}

impl PathGuard {
    /// Checks that the leadership under which this was locked still runs. Always succeeds without
    /// one. No request.
    ///
    /// # Errors
    /// The reason of the loss: stop, as another leader may be at work on the same folders.
    pub fn check(&self) -> Result<(), Loss> {
        check(self.lead.as_deref())
    }

    /// The fencing token under which this was locked, as long as the lease runs; `None` without a
    /// leadership. Send it with each write. No request.
    #[must_use]
    pub fn token(&self) -> Option<Epoch> {
        self.lead.as_ref().and_then(|lead| lead.check().ok())
    }
}

fn check(lead: Option<&Lead>) -> Result<(), Loss> {
    lead.map_or(Ok(()), |lead| lead.check().map(drop))
}

impl Default for PathLocks {
    fn default() -> PathLocks {
        PathLocks::new()
    }
}

impl fmt::Debug for PathLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathLocks")
            .field("epoch", &self.lead.as_ref().map(|lead| lead.epoch))
            .field("locked_paths", &self.locked_paths())
            .finish()
    }
}

impl fmt::Debug for PathGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathGuard")
            .field("epoch", &self.lead.as_ref().map(|lead| lead.epoch))
            .field("modes", self.claim.modes())
            .finish()
    }
}
