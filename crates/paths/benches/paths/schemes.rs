//! The simpler schemes of Charemza's post (docs/how-to/lock-folders.md), for a comparison with path
//! locks. Each of these schemes locks more than necessary.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tenure_paths::{Access, Path, PathGuard, PathLocks};
use tokio::sync::{OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The paths that an operation reads and writes.
#[derive(Debug, Clone)]
pub struct Operation {
    pub reads: Vec<Path>,
    pub writes: Vec<Path>,
}

/// A scheme for locking paths. Clones share the locks.
#[derive(Clone)]
pub enum Scheme {
    /// One mutex. Charemza's post rates the concurrency of this scheme with 0 of 4 points.
    GlobalMutex(Arc<tokio::sync::Mutex<()>>),
    /// One reader/writer lock. Charemza's post rates this scheme with 2 of 4 points.
    GlobalRwLock(Arc<RwLock<()>>),
    /// A reader/writer lock for each path. Charemza's post rates this scheme with 3 of 4 points.
    /// Ancestors are locked for reading. The named paths are locked for writing, even if the
    /// operation only reads them.
    AncestorRwLock(Arc<Ancestors>),
    /// The path locks of tenure. Charemza's post rates the scheme of these locks with 4 of 4
    /// points.
    PathLocks(PathLocks),
}

/// Holds the locks of one operation until the guard is dropped.
#[expect(dead_code, reason = "kept until it is dropped")]
pub enum Guard {
    GlobalMutex(OwnedMutexGuard<()>),
    Read(OwnedRwLockReadGuard<()>),
    Write(OwnedRwLockWriteGuard<()>),
    Several(Vec<Guard>),
    PathLocks(PathGuard),
}

impl Scheme {
    pub fn all() -> [(&'static str, Scheme); 4] {
        [
            ("global mutex", Scheme::GlobalMutex(Arc::default())),
            ("global RwLock", Scheme::GlobalRwLock(Arc::default())),
            ("ancestor RwLock", Scheme::AncestorRwLock(Arc::default())),
            ("PathLocks", Scheme::PathLocks(PathLocks::new())),
        ]
    }

    pub async fn lock(&self, operation: &Operation) -> Guard {
        match self {
            Scheme::GlobalMutex(mutex) => Guard::GlobalMutex(Arc::clone(mutex).lock_owned().await),
            Scheme::GlobalRwLock(lock) if operation.writes.is_empty() => {
                Guard::Read(Arc::clone(lock).read_owned().await)
            }
            Scheme::GlobalRwLock(lock) => Guard::Write(Arc::clone(lock).write_owned().await),
            Scheme::AncestorRwLock(ancestors) => ancestors.lock(operation).await,
            Scheme::PathLocks(locks) => {
                let access = Access::new().read(&operation.reads).write(&operation.writes);
                Guard::PathLocks(
                    locks.lock(access).await.expect("locks without a leadership cannot fail"),
                )
            }
        }
    }
}

/// The locks of the scheme `AncestorRwLock`, by path. The lock of a path exists only while an
/// operation uses it.
#[derive(Default)]
pub struct Ancestors(Mutex<HashMap<Path, Weak<RwLock<()>>>>);

impl Ancestors {
    async fn lock(&self, operation: &Operation) -> Guard {
        let mut modes = BTreeMap::new();
        for path in operation.reads.iter().chain(&operation.writes) {
            let mut above = path.parent();
            while let Some(folder) = above {
                above = folder.parent();
                modes.entry(folder).or_insert(false);
            }
            modes.insert(path.clone(), true);
        }
        let mut guards = Vec::new();
        for (path, exclusive) in modes {
            let lock = self.of(&path);
            guards.push(match exclusive {
                true => Guard::Write(lock.write_owned().await),
                false => Guard::Read(lock.read_owned().await),
            });
        }
        Guard::Several(guards)
    }

    fn of(&self, path: &Path) -> Arc<RwLock<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(path).and_then(Weak::upgrade) {
            return lock;
        }
        // Remove unused locks before the map grows.
        if locks.len() == locks.capacity() {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::default();
        locks.insert(path.clone(), Arc::downgrade(&lock));
        lock
    }
}
