//! The lock of a directory, between the processes that share it.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use super::failure::failed;
use super::folder::{Folder, work_folder};
use super::key;
use crate::store::{Happened, StoreError, StoreErrorKind};

const LOCK_FILE: &str = "lock";

/// A process that was stopped while it held the lock keeps it until it is continued or killed.
/// Waiting for ever would pile up threads.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// The lock, held until this is dropped. The operating system releases it when the process dies.
#[derive(Debug)]
#[must_use]
pub(super) struct Locked {
    file: File,
}

#[derive(Debug, Clone, Copy)]
enum Mode {
    Alone,
    Shared,
}

impl Locked {
    /// Waits up to 2 s for the lock that one writer holds alone.
    pub(super) fn alone(work: &Folder) -> Result<Locked, StoreError> {
        Locked::acquire(work, Mode::Alone)
    }

    /// Waits up to 2 s for the lock that keeps writers out. `None` in a directory that nobody has
    /// written to yet and this process may not write to either.
    pub(super) fn shared(root: &Folder) -> Result<Option<Locked>, StoreError> {
        match work_folder(root) {
            Ok(work) => Locked::acquire(&work, Mode::Shared).map(Some),
            Err(error) if error.kind() == StoreErrorKind::AccessDenied => {
                match root.look_up(key::WORK_FOLDER)? {
                    None => Ok(None),
                    Some(_) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn acquire(work: &Folder, mode: Mode) -> Result<Locked, StoreError> {
        let path = work.path_of(LOCK_FILE);
        // Waits are counted, not measured: a slow machine waits longer, which is harmless.
        let mut waited = Duration::ZERO;
        let mut pause = FIRST_PAUSE;
        loop {
            let file = work.lock_file(LOCK_FILE)?;
            let tried = match mode {
                Mode::Alone => file.try_lock(),
                Mode::Shared => file.try_lock_shared(),
            };
            match tried {
                Ok(()) => {
                    let locked = Locked { file };
                    if locked.is_at(&path) {
                        return Ok(locked);
                    }
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(failed("lock", &path, Happened::No, error));
                }
            }
            if waited >= LOCK_WAIT {
                let path = path.display();
                return Err(StoreError::new(
                    StoreErrorKind::Transient,
                    Happened::No,
                    format!(
                        "the lock {path} is held by another process for {} s; is one stopped? \
                         `fuser {path}` names it",
                        LOCK_WAIT.as_secs()
                    ),
                ));
            }
            sleep(pause);
            waited += pause;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Somebody who deletes the lock file by hand must not split the processes into those that lock
    /// the old file and those that lock the new one.
    fn is_at(&self, path: &std::path::Path) -> bool {
        match (self.file.metadata(), fs::symlink_metadata(path)) {
            (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
            _ => false,
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing alone is not enough: a child that was forked a moment ago has a copy of the
        // descriptor until it becomes another program. There is nobody to tell of a failure.
        let _ = self.file.unlock();
    }
}

#[allow(clippy::disallowed_methods, reason = "waits for another process, in a blocking thread")]
fn sleep(pause: Duration) {
    std::thread::sleep(pause);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = Folder::root(dir.path()).expect("opened");
        let work = work_folder(&root).expect("made");
        (dir, work)
    }

    #[test]
    fn a_lock_that_is_never_released_is_an_error_and_no_write() {
        let (dir, work) = work();
        let held = Locked::alone(&work).expect("free");
        let error = Locked::alone(&work).expect_err("held");
        assert_eq!((error.kind(), error.happened()), (StoreErrorKind::Transient, Happened::No));
        assert!(error.to_string().contains("held by another process"), "{error}");

        drop(held);
        let root = Folder::root(dir.path()).expect("opened");
        let first = Locked::shared(&root).expect("free");
        let second = Locked::shared(&root).expect("shared");
        drop((first, second));
        let _alone = Locked::alone(&work).expect("free again");
    }

    #[test]
    fn a_lock_file_deleted_by_hand_is_locked_anew() {
        let (_dir, work) = work();
        let old = Locked::alone(&work).expect("free");
        fs::remove_file(work.path_of(LOCK_FILE)).expect("deleted by hand");
        assert!(!old.is_at(&work.path_of(LOCK_FILE)));
        let new = Locked::alone(&work).expect("another file");
        assert!(new.is_at(&work.path_of(LOCK_FILE)));
    }
}
