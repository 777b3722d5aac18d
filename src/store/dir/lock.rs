//! The lock of a directory, between the processes that share it.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use super::failure::failed;
use super::folder::{Folder, work_folder};
use super::holder::{self, Holder};
use super::thread_lock::{Mode, ThreadLockGuard, ThreadLockRefusal};
use crate::store::{Determinacy, StoreError, StoreErrorKind};

const LOCK_FILE: &str = "lock";

/// Longest wait for another process. A process that was stopped with the lock keeps it until it is
/// continued or killed, and waits without a limit would pile up threads.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// Longest wait for the other threads of this process. Each of them takes a few syncs of the disk.
const THREAD_WAIT: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_micros(100);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// The lock, held until this is dropped. The operating system releases it when the process dies.
#[derive(Debug)]
#[must_use]
pub(super) struct Locked {
    file: File,
    /// Given up after the file is unlocked.
    _thread_lock: ThreadLockGuard,
}

impl Locked {
    /// Waits for the other threads of this process, and then up to 2 s for the lock that one writer
    /// holds alone.
    pub(super) fn alone(work: &Folder) -> Result<Locked, StoreError> {
        Locked::acquire(work, Mode::Alone, THREAD_WAIT)
    }

    /// Waits as [`alone`](Locked::alone) does for the lock that keeps writers out. `None` where
    /// this process may not open it, or may not make it in a directory that is new.
    pub(super) fn shared(root: &Folder) -> Result<Option<Locked>, StoreError> {
        let locked =
            work_folder(root).and_then(|work| Locked::acquire(&work, Mode::Shared, THREAD_WAIT));
        match locked {
            Ok(locked) => Ok(Some(locked)),
            Err(error) if error.kind() == StoreErrorKind::AccessDenied => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn acquire(work: &Folder, mode: Mode, thread_wait: Duration) -> Result<Locked, StoreError> {
        let thread_lock = work.thread_lock().wait(mode, thread_wait).map_err(|why| match why {
            ThreadLockRefusal::Taken => held_here(work, thread_wait),
            ThreadLockRefusal::GivenUp => held_by_another(work),
        })?;
        let mut waiting = Waiting::default();
        loop {
            match Locked::attempt(work, mode)? {
                Some(file) => return Ok(Locked { file, _thread_lock: thread_lock }),
                None => waiting.pause(work).inspect_err(|_| work.thread_lock().give_up())?,
            }
        }
    }

    fn attempt(work: &Folder, mode: Mode) -> Result<Option<File>, StoreError> {
        let path = work.path_of(LOCK_FILE);
        let file = work.lock_file(LOCK_FILE)?;
        let tried = match mode {
            Mode::Alone => file.try_lock(),
            Mode::Shared => file.try_lock_shared(),
        };
        match tried {
            Ok(()) => Ok(Some(file).filter(|file| is_at(file, &path))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(failed("lock", &path, Determinacy::Determinate, error))
            }
        }
    }
}

/// Whether the lock file is still the locked one. After a deletion of the file some processes would
/// lock the old file, and others the new file.
fn is_at(file: &File, path: &std::path::Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing is not enough: a child that was just forked has a copy of the descriptor until it
        // becomes another program. No caller can handle a failure here.
        let _ = self.file.unlock();
    }
}

/// Other threads of this process hold it.
fn held_here(work: &Folder, waited: Duration) -> StoreError {
    let (path, waited) = (work.path_of(LOCK_FILE), waited.as_secs());
    let path = path.display();
    let why = format!("this process has held the lock {path} for {waited} s; is the disk slow?");
    StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why)
}

fn held_by_another(work: &Folder) -> StoreError {
    let (path, waited) = (work.path_of(LOCK_FILE), LOCK_WAIT.as_secs());
    let why = match holder::of(&path) {
        Some(Holder { pid, name, stopped: true }) => format!(
            "process {pid} ({name}) holds it and is stopped: continue it with `kill -CONT {pid}`, \
             or end it with `kill -KILL {pid}`"
        ),
        Some(Holder { pid, name, stopped: false }) => format!(
            "process {pid} ({name}) holds it: is the disk slow? If it hangs, end it with \
             `kill -KILL {pid}`"
        ),
        None => format!(
            "is a process stopped, or the disk slow? `fuser {}` names the process: continue it \
             with `kill -CONT`, or end it with `kill -KILL`",
            path.display()
        ),
    };
    let path = path.display();
    let why = format!("another process has held the lock {path} for {waited} s; {why}");
    StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why)
}

/// Growing pauses. The pauses are counted, not measured, so a slow machine waits longer.
#[derive(Debug)]
pub(super) struct Waiting {
    waited: Duration,
    pause: Duration,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting { waited: Duration::ZERO, pause: FIRST_PAUSE }
    }
}

impl Waiting {
    /// Waits a moment for the process that holds the lock. Returns an error after 2 s in total.
    pub(super) fn pause(&mut self, work: &Folder) -> Result<(), StoreError> {
        if self.waited >= LOCK_WAIT {
            return Err(held_by_another(work));
        }
        sleep(self.pause);
        self.waited += self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "waits for another process, in a blocking thread")]
pub(super) fn sleep(pause: Duration) {
    std::thread::sleep(pause);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::dir::folder::{Access, Root};

    fn root_of(dir: &tempfile::TempDir) -> Root {
        Root::new(dir.path().into(), Access::Owner)
    }

    fn work() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = Folder::root(&root_of(&dir)).expect("opened");
        let work = work_folder(&root).expect("made");
        (dir, work)
    }

    #[test]
    fn a_lock_that_is_never_released_is_an_error_and_no_write() {
        let (dir, work) = work();
        // A second root acts as another process.
        let other = Folder::root(&root_of(&dir)).and_then(|root| work_folder(&root));
        let other = other.expect("there");
        let held = Locked::alone(&other).expect("free");
        let error = Locked::alone(&work).expect_err("held");
        assert_eq!(
            (error.kind(), error.determinacy()),
            (StoreErrorKind::Transient, Determinacy::Determinate)
        );
        // The holder is this very process, which is not stopped.
        let (message, pid) = (error.to_string(), std::process::id());
        assert!(message.contains("another process has held the lock"), "{message}");
        if cfg!(target_os = "linux") {
            let remedy = format!("end it with `kill -KILL {pid}`");
            assert!(message.contains(&format!("process {pid} (")), "{message}");
            assert!(message.contains(&remedy) && !message.contains("is stopped"), "{message}");
        }

        drop(held);
        let root = Folder::root(&root_of(&dir)).expect("opened");
        let first = Locked::shared(&root).expect("free");
        let second = Locked::shared(&root).expect("shared");
        drop((first, second));
        let _alone = Locked::alone(&work).expect("free again");
    }

    /// 32 writers of one process tried for the file with pauses, and on a busy disk one of them
    /// missed it for more than 2 s.
    #[test]
    fn regression_the_threads_of_a_process_wait_for_their_turn() {
        let (_dir, work) = work();
        let held = Locked::alone(&work).expect("free");
        // The file, which is tried for 2 s, is not reached before.
        let error = Locked::acquire(&work, Mode::Alone, Duration::ZERO).expect_err("held");
        assert!(error.to_string().contains("this process has held the lock"), "{error}");
        const { assert!(THREAD_WAIT.as_secs() > LOCK_WAIT.as_secs()) };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Locked::alone(&work).map(drop));
            drop(held);
            waiting.join().expect("no panic").expect("taken");
        });
    }

    #[test]
    fn regression_queued_threads_give_up_with_the_one_that_waited() {
        let (dir, work) = work();
        // A second root acts as another process.
        let other = Folder::root(&root_of(&dir)).and_then(|root| work_folder(&root));
        let _held = Locked::alone(&other.expect("there")).expect("free");
        let thread_lock = work.thread_lock().wait(Mode::Alone, Duration::ZERO).expect("free");
        std::thread::scope(|scope| {
            let wait = || work.thread_lock().wait(Mode::Alone, THREAD_WAIT).expect_err("refused");
            let queued: Vec<_> = (0..8).map(|_| scope.spawn(wait)).collect();
            // A thread that has not begun to wait by then is given up with the next.
            while !queued.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                work.thread_lock().give_up();
                sleep(FIRST_PAUSE);
            }
            for thread in queued {
                assert_eq!(thread.join().expect("no panic"), ThreadLockRefusal::GivenUp);
            }
        });
        drop(thread_lock);
        let given_up = || work.thread_lock().times_given_up();
        let before = given_up();
        Locked::alone(&work).expect_err("held");
        assert_eq!(given_up(), before + 1, "a thread that waits for the file gives up for all");
    }

    fn mode(work: &Folder) -> u32 {
        fs::metadata(work.path_of(LOCK_FILE)).expect("there").mode() & 0o7777
    }

    #[test]
    fn regression_only_participants_may_open_the_lock() {
        use std::os::unix::fs::PermissionsExt as _;
        let (dir, work) = work();
        drop(Locked::alone(&work).expect("free"));
        assert_eq!(mode(&work), 0o600);
        let group = Root { access: Access::Group, ..root_of(&dir) };
        let of_group = work_folder(&Folder::root(&group).expect("opened")).expect("there");
        for (before, owner, group) in [
            // The mode of earlier versions, by the umask.
            (0o644, 0o600, 0o660),
            (0o664, 0o600, 0o660),
            (0o640, 0o600, 0o660),
            (0o600, 0o600, 0o660),
            // Left as the group has it.
            (0o660, 0o660, 0o660),
        ] {
            for (work, after) in [(&work, owner), (&of_group, group)] {
                let set = fs::Permissions::from_mode(before);
                fs::set_permissions(work.path_of(LOCK_FILE), set).expect("set");
                drop(Locked::alone(work).expect("free"));
                assert_eq!(mode(work), after, "{before:o}");
            }
        }
    }

    #[test]
    fn a_deleted_lock_file_is_created_and_locked_again() {
        let (dir, work) = work();
        let old = Locked::alone(&work).expect("free");
        fs::remove_file(work.path_of(LOCK_FILE)).expect("deleted by hand");
        assert!(!is_at(&old.file, &work.path_of(LOCK_FILE)));
        let again = Folder::root(&root_of(&dir)).and_then(|root| work_folder(&root));
        let again = again.expect("there");
        let new = Locked::alone(&again).expect("another file");
        assert!(is_at(&new.file, &work.path_of(LOCK_FILE)));
    }
}
