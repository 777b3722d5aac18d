//! Tests the permissions of other users, and reads by users that cannot open the lock.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[tokio::test]
async fn the_group_may_write_files_of_its_directory() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = DirStore::open_for_group(dir.path()).expect("opened");
    done(store.create("app/deep/a", "x".into()).await);
    let mode = |path: &str| {
        fs::metadata(dir.path().join(path)).expect("the object exists").permissions().mode()
            & 0o7777
    };
    for folder in [".tenure", "app", "app/deep"] {
        assert_eq!(mode(folder) & 0o2070, 0o2070, "{folder}: {:o}", mode(folder));
    }
    assert_eq!(mode("app/deep/a") & 0o7173, 0o060);
    assert_eq!(mode(".tenure/lock"), 0o660);
}

/// Before the fix, a new file or folder got its name before it got the group's permissions. Until
/// then, the calls of other members of the group failed. If the process was killed before it set
/// the permissions, these calls failed permanently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_the_group_may_use_each_file_from_the_start() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (over, path) = (Arc::new(AtomicBool::new(false)), dir.path().to_owned());
    let watcher = tokio::task::spawn_blocking({
        let over = Arc::clone(&over);
        move || {
            while !over.load(Ordering::Relaxed) {
                for name in [".tenure", ".tenure/lock", ".tenure/unsynced", "app"] {
                    let Ok(file) = fs::symlink_metadata(path.join(name)) else { continue };
                    assert_eq!(file.mode() & 0o060, 0o060, "{name}: {:o}", file.mode());
                }
            }
        }
    });
    for _ in 0..60 {
        let store = DirStore::open_for_group(dir.path()).expect("opened");
        done(store.create("app/a", "x".into()).await);
        for name in [".tenure", "app"] {
            fs::remove_dir_all(dir.path().join(name)).expect("it exists");
        }
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 0, "no leftovers");
    }
    over.store(true, Ordering::Relaxed);
    watcher.await.expect("the group may use each file");
}

/// Returns whether this test runs as root, that is, whether root owns the new directory `dir`.
fn is_root(dir: &tempfile::TempDir) -> bool {
    fs::metadata(dir.path()).expect("the directory exists").uid() == 0
}

/// If the present user is root, runs the test `test` again as the user 65534, because root ignores
/// permissions. Returns true if this user has run the test. Returns false if the present user is
/// not root, or if the user 65534 lacks the permission to start this program.
fn done_by_another_user(test: &str) -> bool {
    use std::os::unix::process::CommandExt as _;
    if !is_root(&tempfile::tempdir().expect("a temporary directory")) {
        return false;
    }
    let mut command =
        std::process::Command::new(std::env::current_exe().expect("this test has a path"));
    command
        .args(["--exact", &format!("dir_store::permissions::{test}"), "--nocapture"])
        .uid(65_534);
    let Ok(output) = command.current_dir("/").output() else { return false };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
    true
}

#[tokio::test]
async fn regression_a_reader_cannot_stop_an_election() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let (dir, store) = store();
    let etag = done(store.create("app/a", "x".into()).await);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("set");
    // Only root can act as other users.
    if is_root(&dir) {
        for (path, readable) in [("app/a", true), (".tenure/lock", false)] {
            let mut cat = std::process::Command::new("cat");
            let output = cat.arg(dir.path().join(path)).uid(65_534).output().expect("started");
            assert_eq!(output.status.success(), readable, "{path}: {output:?}");
        }
    }
    done(store.replace("app/a", "y".into(), etag).await);
}

/// A reader that cannot open the lock file lists a folder again if the folder has changed during
/// the listing.
#[tokio::test]
async fn a_user_who_cannot_open_the_lock_can_list() {
    use std::os::unix::fs::PermissionsExt as _;
    if done_by_another_user("a_user_who_cannot_open_the_lock_can_list") {
        return;
    }
    let (dir, store) = store();
    done(store.create("app/a", "x".into()).await);
    let lock = dir.path().join(".tenure/lock");
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o000)).expect("set");
    assert_eq!(keys_of(&store, "").await, ["app/a"]);
    // If root runs the test, skip this part, because root may open all files.
    if !is_root(&dir) {
        let denied = StoreErrorKind::AccessDenied;
        refuses(store.create("b", "x".into()).await, denied, "all processes must run as one user");
    }
}

#[tokio::test]
async fn the_error_for_a_missing_permission_names_the_path() {
    use std::os::unix::fs::PermissionsExt as _;
    if done_by_another_user("the_error_for_a_missing_permission_names_the_path") {
        return;
    }
    let (dir, store) = store();
    done(store.create("a", "x".into()).await);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).expect("set");
    // If root runs the test, skip this part, because root ignores permissions.
    if fs::create_dir(dir.path().join("probe")).is_err() {
        let denied = StoreErrorKind::AccessDenied;
        let path = store.path().display().to_string();
        refuses(store.create("b", "x".into()).await, denied, &path);
        refuses(store.create("b/c", "x".into()).await, denied, &path);
        refuses(DirStore::open(dir.path().join("new")), denied, &path);
        assert_eq!(keys_of(&store, "").await, ["a"], "reading works");
        DirStore::open(dir.path()).expect("can be read");
        let work = dir.path().join(".tenure");
        fs::set_permissions(&work, fs::Permissions::from_mode(0o000)).expect("set");
        DirStore::open(dir.path()).expect("a user who may not write can open the store");
        fs::set_permissions(&work, fs::Permissions::from_mode(0o755)).expect("set");
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("set");
}

/// If a process is killed after the rename of an object, the object may be missing on the disk. The
/// next holder of the lock writes the object again. Until then, readers that cannot open the lock
/// file get an error for this object.
#[tokio::test]
async fn a_user_who_cannot_open_the_lock_reads_synced_objects() {
    use std::os::unix::fs::PermissionsExt as _;
    if done_by_another_user("a_user_who_cannot_open_the_lock_reads_synced_objects") {
        return;
    }
    let (dir, store) = store();
    for key in ["settled", "open"] {
        done(store.create(key, "x".into()).await);
    }
    symlink("open", dir.path().join(".tenure/unsynced")).expect("set");
    let lock = dir.path().join(".tenure/lock");
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o000)).expect("set");
    body_of(&store, "settled").await;
    if !is_root(&dir) {
        let read = store.get("open", None, 9).await;
        refuses(read, StoreErrorKind::Transient, "a power loss may undo this write");
    }
}

/// No process can open the lock file, so no process can write the object again. The reader gets an
/// error without a wait.
#[tokio::test]
async fn an_unsynced_object_cannot_be_read_if_no_process_can_open_the_lock() {
    let (dir, store) = store();
    done(store.create("open", "x".into()).await);
    symlink("open", dir.path().join(".tenure/unsynced")).expect("set");
    let lock = dir.path().join(".tenure/lock");
    fs::remove_file(&lock).expect("there");
    symlink("nowhere", &lock).expect("a link");
    let error =
        store.get("open", None, 9).await.expect_err("the object is not settled").to_string();
    assert!(error.starts_with("cannot open") && error.contains(".tenure/lock"), "{error}");
}

/// The contents of a file (`None` for a folder), its mode, owner, inode, and dates of changes.
type FileState = (Option<Vec<u8>>, [u64; 3], [i64; 4]);

/// Returns the state of this directory and of all files below it.
fn tree(path: &Path) -> BTreeMap<PathBuf, FileState> {
    let of = fs::symlink_metadata(path).expect("it exists");
    let state = [u64::from(of.mode()), u64::from(of.uid()), of.ino()];
    let dates = [of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec()];
    let mut tree = BTreeMap::new();
    if of.is_dir() {
        for entry in fs::read_dir(path).expect("listed") {
            tree.append(&mut self::tree(&entry.expect("an entry").path()));
        }
    }
    tree.insert(path.to_owned(), (fs::read(path).ok(), state, dates));
    tree
}

/// Before the fix, each process that opened or listed a store created `.tenure/lock`. If root
/// created this file, the candidate of another user could no longer write.
#[tokio::test]
async fn regression_readers_change_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    // If this test runs as root, it also runs as another user. Root can write a read-only
    // directory, and the other user cannot.
    done_by_another_user("regression_readers_change_nothing");
    let modes = [0o755, 0o555];
    for (mode, written) in modes.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("by-hand"), "x").expect("written");
        if written {
            let writer = DirStore::open(dir.path()).expect("opened");
            done(writer.create("app/a", "x".into()).await);
            let (lock, draft) = (dir.path().join(".tenure/lock"), dir.path().join(".tenure/tmp-1"));
            // Earlier versions gave this mode to the lock file. Only a writer corrects the mode.
            fs::set_permissions(lock, fs::Permissions::from_mode(0o644)).expect("set");
            let long_ago = std::time::SystemTime::UNIX_EPOCH;
            let draft = fs::File::create(draft).expect("created");
            draft.set_times(FileTimes::new().set_modified(long_ago)).expect("aged");
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).expect("set");
        let before = tree(dir.path());
        for store in [DirStore::open(dir.path()), DirStore::open_for_group(dir.path())] {
            let store = store.expect("opened");
            let found = keys_of(&store, "").await;
            assert_eq!(found, ["app/a", "by-hand"][usize::from(!written)..]);
            assert_eq!(&body_of(&store, "by-hand").await[..], b"x");
            let missing = store.get("app/b", None, 9).await.expect("read");
            assert_eq!(missing, GetOutcome::NotFound);
        }
        assert_eq!(tree(dir.path()), before, "mode {mode:o}, written: {written}");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("set");
    }
}
