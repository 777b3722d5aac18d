//! Pauses during a deletion of many folders. The deletion acquires the lock once for each folder.
//!
//! A waiting process pauses between its attempts to lock the file. If the deletion acquired the
//! lock again without a pause, a waiting process would rarely find the lock free.

use std::time::Duration;

use super::lock::{LONGEST_PAUSE, sleep};
use crate::env::clock::{Clock as _, SystemClock};

/// Minimum length of a rest, that is, of a pause of the deletion. A rest is longer than the longest
/// pause of a waiting process. So each waiting process tries to lock the file during a rest.
const SHORTEST_REST: Duration = LONGEST_PAUSE.saturating_add(Duration::from_millis(1));
const LONGEST_REST: Duration = Duration::from_millis(50);

/// Time at which the last rest of a deletion ended, on the boot clock.
#[derive(Debug)]
pub(super) struct Pace(Duration);

impl Pace {
    pub(super) fn start() -> Pace {
        Pace(SystemClock.now().boot)
    }

    /// Sleeps for as long as the caller has worked after its last rest, but at most 50 ms. The time
    /// in which the caller waited for the lock counts as work. After less than 6 ms of work, this
    /// function does not sleep. The caller must not hold the lock.
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

    /// Returns the number of writes that another process completes during a deletion of folders.
    fn writes_during_a_deletion(round: usize) -> usize {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // Two roots have separate thread locks, so they act like two processes.
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
                    let folder = Folder::root(&writes).expect("the root exists");
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

    /// Before the fix, a deletion did not pause. Then the other process made only 1 to 3 writes
    /// during the deletion, instead of about 200.
    #[test]
    fn regression_other_processes_write_during_a_long_deletion() {
        let rounds: Vec<_> = (0..3).map(writes_during_a_deletion).collect();
        assert!(rounds.iter().any(|written| *written >= FOLDERS / 10), "{rounds:?}");
    }
}
