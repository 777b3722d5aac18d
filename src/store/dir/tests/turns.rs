//! What other processes can do during a deletion of many folders.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const FOLDERS: usize = 300;

/// Returns how many writes another process makes while folders are deleted.
fn writes_during_a_deletion(round: usize) -> usize {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Each with a lock of its own, as in two processes.
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

/// It was 1 to 3, in place of about 200: a waiter tries again after a pause, and the deletion took
/// the lock again at once.
#[test]
fn regression_other_processes_write_during_a_deletion_of_many_folders() {
    let rounds: Vec<_> = (0..3).map(writes_during_a_deletion).collect();
    assert!(rounds.iter().any(|written| *written >= FOLDERS / 10), "{rounds:?}");
}
