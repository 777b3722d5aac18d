//! The lock among the processes that share a directory.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use super::failure::{failed, in_the_way};
use super::folder::{Child, Folder};
use super::holder::{self, Holder};
use super::thread_lock::{Mode, ThreadLockGuard, ThreadLockRefusal};
use super::{draft, key};
use crate::store::{Determinacy, StoreError, StoreErrorKind};

const LOCK_FILE: &str = "lock";

/// Maximum wait for another process. A suspended process (SIGSTOP) holds the lock until it is
/// continued or killed. Without this limit, more and more threads would wait for the suspended
/// process.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// Maximum wait for the other threads of this process. Each thread holds the lock for a few syncs
/// of the disk.
const THREAD_WAIT: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_micros(100);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// The held lock. Dropping this value releases the lock, and the operating system releases it when
/// the process dies.
#[derive(Debug)]
#[must_use]
pub(super) struct Locked {
    file: File,
    /// Guard of the thread lock. The thread lock is released after the file lock.
    _thread_lock: ThreadLockGuard,
}

/// Opens the work folder of the store, or returns `None` if no process has written to the store.
pub(super) fn find_work_folder(root: &Folder) -> Result<Option<Folder>, StoreError> {
    match root.child(key::WORK_FOLDER)? {
        Child::Folder(work) => Ok(Some(work)),
        Child::Missing => Ok(None),
        Child::NotAFolder => Err(in_the_way(&root.path_of(key::WORK_FOLDER), "a file")),
    }
}

/// Opens the work folder of the store, and creates it if it is missing. A new work folder gets its
/// name only after the lock file is in it. A rename replaces only empty folders, so no process can
/// replace the work folder of another process.
pub(super) fn work_folder(root: &Folder) -> Result<Folder, StoreError> {
    if let Some(work) = find_work_folder(root)? {
        return Ok(work);
    }
    // No key contains `~`, so this name is not the name of an object.
    let draft = format!("{}~{}", key::WORK_FOLDER, draft::new_name());
    let made = root
        .new_folder(&draft)
        .and_then(|work| work.lock_file(LOCK_FILE).map(drop))
        .and_then(|()| root.rename(&draft, root, key::WORK_FOLDER));
    if let Err(error) = made {
        let _ = root.remove(&format!("{draft}/{LOCK_FILE}"));
        root.remove_empty_folder(&draft);
        return find_work_folder(root)?.ok_or(error);
    }
    root.existing(key::WORK_FOLDER)
}

impl Locked {
    /// Acquires the exclusive lock of a writer. Waits for the other threads of this process, and
    /// then up to 2 s for other processes.
    pub(super) fn alone(work: &Folder) -> Result<Locked, StoreError> {
        Locked::acquire(work, Mode::Alone, THREAD_WAIT)
    }

    /// Acquires the shared lock of a reader. A shared lock excludes writers, but not other readers.
    /// Returns `None` if no process has written to the store, or if this process may not open the
    /// lock file.
    pub(super) fn shared(root: &Folder) -> Result<Option<Locked>, StoreError> {
        let work = find_work_folder(root);
        let locked = work.and_then(|work| {
            work.map(|work| Locked::acquire(&work, Mode::Shared, THREAD_WAIT)).transpose()
        });
        locked.or_else(|error| match error.kind() {
            StoreErrorKind::AccessDenied => Ok(None),
            _ => Err(error),
        })
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
        let file = match mode {
            Mode::Alone => work.lock_file(LOCK_FILE),
            Mode::Shared => work.existing_lock_file(LOCK_FILE),
        }?;
        lock_at(file, &work.path_of(LOCK_FILE), mode)
    }
}

/// Tries once to lock this file. Returns `None` if another process holds the lock, or if the file
/// is no longer at its path.
fn lock_at(file: File, path: &Path, mode: Mode) -> Result<Option<File>, StoreError> {
    let tried = match mode {
        Mode::Alone => file.try_lock(),
        Mode::Shared => file.try_lock_shared(),
    };
    match tried {
        Ok(()) => Ok(Some(file).filter(|file| is_at(file, path))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => {
            Err(failed("lock", path, Determinacy::Determinate, error))
        }
    }
}

/// Returns true if the locked file is still at its path. If a program has deleted the lock file,
/// some processes may hold the old file, and others may lock a new file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // It is not enough to close the file: a forked child has a copy of the descriptor until its
        // `exec`, and this copy would hold the lock. A failure of the unlock is ignored, because no
        // caller can handle it.
        let _ = self.file.unlock();
    }
}

/// Returns the error for a call that waited too long for other threads of this process.
fn held_here(work: &Folder, waited: Duration) -> StoreError {
    let (path, waited) = (work.path_of(LOCK_FILE), waited.as_secs());
    let path = path.display();
    let why = format!(
        "this process has held the lock {path} for {waited} s; check whether the \
                       disk is slow"
    );
    StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why)
}

fn held_by_another(work: &Folder) -> StoreError {
    let (path, waited) = (work.path_of(LOCK_FILE), LOCK_WAIT.as_secs());
    let why = match holder::of(&path) {
        Some(Holder { pid, name, stopped: true }) => format!(
            "process {pid} ({name}) holds the lock and is stopped: continue the process with \
             `kill -CONT {pid}`, or end it with `kill -KILL {pid}`"
        ),
        Some(Holder { pid, name, stopped: false }) => format!(
            "process {pid} ({name}) holds the lock: check whether the disk is slow; if the \
             process hangs, end it with `kill -KILL {pid}`"
        ),
        None => format!(
            "check whether the disk is slow, or a process is stopped: find it with `fuser {}`, \
             and continue it with `kill -CONT`, or end it with `kill -KILL`",
            path.display()
        ),
    };
    let path = path.display();
    let why = format!("another process has held the lock {path} for {waited} s; {why}");
    StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why)
}

/// The pauses between attempts to lock the file. Each pause is longer than the pause before it, up
/// to a maximum. The time limit applies to the sum of the requested pauses, so a slow machine waits
/// longer.
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
    /// Sleeps before the next attempt to lock the file. Returns an error after 2 s in total.
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
    fn a_call_fails_without_effect_if_another_process_keeps_the_lock() {
        let (dir, work) = work();
        // A second root has a separate thread lock, so it acts like another process.
        let other = Folder::root(&root_of(&dir)).and_then(|root| work_folder(&root));
        let other = other.expect("the path exists");
        let held = Locked::alone(&other).expect("the lock is free");
        let error = Locked::alone(&work).expect_err("the other root holds the lock");
        assert_eq!(
            (error.kind(), error.determinacy()),
            (StoreErrorKind::Transient, Determinacy::Determinate)
        );
        // The holder is this test's own process, which is not suspended.
        let (message, pid) = (error.to_string(), std::process::id());
        assert!(message.contains("another process has held the lock"), "{message}");
        if cfg!(target_os = "linux") {
            let remedy = format!("end it with `kill -KILL {pid}`");
            assert!(message.contains(&format!("process {pid} (")), "{message}");
            assert!(message.contains(&remedy) && !message.contains("is stopped"), "{message}");
        }

        drop(held);
        let shared = || Locked::acquire(&work, Mode::Shared, Duration::ZERO);
        let first = shared().expect("the lock is free");
        let second = shared().expect("the lock can be shared");
        drop((first, second));
        let _alone = Locked::alone(&work).expect("the lock is free again");
    }

    /// Before the fix, the threads of a process did not queue for the file lock. On a busy disk,
    /// one of 32 writers in a process then waited more than 2 s for the file lock, and failed.
    #[test]
    fn regression_the_threads_of_a_process_queue_for_the_lock() {
        let (_dir, work) = work();
        let held = Locked::alone(&work).expect("the lock is free");
        // The limit for the thread lock is zero here. So the call fails immediately, and does not
        // wait 2 s for the file lock.
        let error = Locked::acquire(&work, Mode::Alone, Duration::ZERO).expect_err("held");
        assert!(error.to_string().contains("this process has held the lock"), "{error}");
        const { assert!(THREAD_WAIT.as_secs() > LOCK_WAIT.as_secs()) };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Locked::alone(&work).map(drop));
            drop(held);
            waiting.join().expect("no panic").expect("the thread gets the lock");
        });
    }

    #[test]
    fn regression_queued_threads_give_up_when_the_first_thread_gives_up() {
        let (dir, work) = work();
        // A second root has a separate thread lock, so it acts like another process.
        let other = Folder::root(&root_of(&dir)).and_then(|root| work_folder(&root));
        let _held = Locked::alone(&other.expect("the path exists")).expect("the lock is free");
        let thread_lock =
            work.thread_lock().wait(Mode::Alone, Duration::ZERO).expect("the lock is free");
        std::thread::scope(|scope| {
            let wait = || work.thread_lock().wait(Mode::Alone, THREAD_WAIT).expect_err("refused");
            let queued: Vec<_> = (0..8).map(|_| scope.spawn(wait)).collect();
            // The loop repeats `give_up`, because a thread may begin to wait only after a call of
            // `give_up`.
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
        assert_eq!(
            given_up(),
            before + 1,
            "the thread that waits for the file lock gives up for \
                                            all threads"
        );
    }

    fn mode(work: &Folder) -> u32 {
        fs::metadata(work.path_of(LOCK_FILE)).expect("the path exists").mode() & 0o7777
    }

    #[test]
    fn regression_only_participants_may_open_the_lock() {
        use std::os::unix::fs::PermissionsExt as _;
        let (dir, work) = work();
        drop(Locked::alone(&work).expect("the lock is free"));
        assert_eq!(mode(&work), 0o600);
        let group = Root { access: Access::Group, ..root_of(&dir) };
        let of_group =
            work_folder(&Folder::root(&group).expect("opened")).expect("the path exists");
        for (before, owner, group) in [
            // Modes that earlier versions gave to the lock file. These modes depended on the umask.
            (0o644, 0o600, 0o660),
            (0o664, 0o600, 0o660),
            (0o640, 0o600, 0o660),
            (0o600, 0o600, 0o660),
            // A process that opens the directory for one user does not change the mode that the
            // lock file has for a group.
            (0o660, 0o660, 0o660),
        ] {
            for (work, after) in [(&work, owner), (&of_group, group)] {
                let set = fs::Permissions::from_mode(before);
                fs::set_permissions(work.path_of(LOCK_FILE), set).expect("the mode is set");
                drop(Locked::alone(work).expect("the lock is free"));
                assert_eq!(mode(work), after, "{before:o}");
            }
        }
    }

    #[test]
    fn a_deleted_lock_file_is_created_and_locked_again() {
        let (dir, work) = work();
        let old = Locked::alone(&work).expect("the lock is free");
        let opened = work.lock_file(LOCK_FILE).expect("the path exists");
        fs::remove_file(work.path_of(LOCK_FILE)).expect("the lock file exists");
        let again = Folder::root(&root_of(&dir)).and_then(|root| work_folder(&root));
        let again = again.expect("the path exists");
        let new = Locked::alone(&again).expect("the new lock file is free");
        assert!(is_at(&new.file, &work.path_of(LOCK_FILE)));
        drop(old);
        // A process that opened the old file before its deletion does not hold the lock.
        let late = lock_at(opened, &work.path_of(LOCK_FILE), Mode::Alone).expect("no error");
        assert!(late.is_none());
    }
}
