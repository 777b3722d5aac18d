//! Pauses of a deletion of many folders, which takes the lock once for each folder.
//!
//! A waiter tries to take the lock, and tries again after a pause. If a loop takes the lock again
//! as soon as it has released it, a waiter rarely finds the lock free.

use std::time::Duration;

use super::lock::{LONGEST_PAUSE, sleep};
use crate::env::clock::{Clock as _, SystemClock};

/// Longer than the longest pause of a waiter, so that each waiter tries once in a rest.
const SHORTEST_REST: Duration = LONGEST_PAUSE.saturating_add(Duration::from_millis(1));
const LONGEST_REST: Duration = Duration::from_millis(50);

/// Time of the last rest, on the boot clock.
#[derive(Debug)]
pub(super) struct Pace(Duration);

impl Pace {
    pub(super) fn start() -> Pace {
        Pace(SystemClock.now().boot)
    }

    /// Sleeps for as long as the caller has worked since the last rest, waits for the lock
    /// included: at most 50 ms, and not at all before 6 ms. The caller does not hold the lock.
    pub(super) fn rest(&mut self) {
        let worked = SystemClock.now().boot.saturating_sub(self.0);
        if worked >= SHORTEST_REST {
            sleep(worked.min(LONGEST_REST));
            *self = Pace::start();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::store::dir::delete;
    use crate::store::dir::folder::{Access, Folder, Root};
    use crate::store::dir::write::{self, Condition};

    const FOLDERS: usize = 300;

    /// Returns how many writes another process makes while folders are deleted.
    fn writes_during_a_deletion(round: usize) -> usize {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // Each has a separate lock, like two processes.
        let (deletes, writes) = (root(&dir), root(&dir));
        let keys: Vec<_> = (0..FOLDERS).map(|number| format!("app/ended/{number}/a")).collect();
        for key in &keys {
            let path = dir.path().join(key);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, "x").expect("made");
        }
        let deleted = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let written = scope.spawn(|| {
                let mut written = 0;
                while !deleted.load(Ordering::SeqCst) {
                    let key = format!("app/{round}-{written}");
                    let folder = Folder::root(&writes).expect("the root is there");
                    write::put(&folder, &key, b"x", &Condition::Absent).expect("written");
                    written += 1;
                }
                written
            });
            assert!(delete::delete(&deletes, &keys).expect("deleted").is_empty());
            deleted.store(true, Ordering::SeqCst);
            written.join().expect("no panic")
        })
    }

    fn root(dir: &tempfile::TempDir) -> Root {
        Root::new(dir.path().into(), Access::Owner)
    }

    /// It was 1 to 3, in place of about 200: a waiter tries again after a pause, and the deletion
    /// took the lock again without one.
    #[test]
    fn regression_other_processes_write_during_a_deletion_of_many_folders() {
        let rounds: Vec<_> = (0..3).map(writes_during_a_deletion).collect();
        assert!(rounds.iter().any(|written| *written >= FOLDERS / 10), "{rounds:?}");
    }
}
