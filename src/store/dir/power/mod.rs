//! Tests on a simulated disk with power losses and failing syncs. Each thread has a separate
//! simulated disk.
//!
//! A failed sync has the worst result that Linux allows: the contents are lost, and a later sync
//! succeeds without them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::folder::{Access, Root};
use super::write::{self, Condition};
use super::{GetOutcome, PutOutcome, StoreError, delete, get, listing};
use crate::store::{Determinacy, ETag, StoreErrorKind};
use disk::{Choose, DISK, Died, Disk, Fate, children, with_disk};

mod disk;
mod drafts;
mod folders;

pub(super) use disk::sync;

/// A directory on a simulated disk.
struct Scene {
    dir: tempfile::TempDir,
    root: Root,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = fs::canonicalize(dir.path()).expect("the directory exists").into();
        let scene = Scene { dir, root: Root::new(path, Access::Owner) };
        scene.fates(|_| Fate::Works);
        scene
    }

    fn fates(&self, choose: impl FnMut(&Path) -> Fate + 'static) {
        let choose: Choose = Box::new(choose);
        DISK.with_borrow_mut(|disk| match disk {
            Some(disk) => disk.choose = choose,
            None => *disk = Some(Disk::new(choose)),
        });
    }

    /// Sets the outcomes of the next syncs of folders. Later syncs succeed.
    fn folders(&self, fates: &[Fate]) {
        let fates = fates.to_vec();
        let mut fates = fates.into_iter();
        self.fates(
            move |path| {
                if path.is_dir() { fates.next().unwrap_or(Fate::Works) } else { Fate::Works }
            },
        );
    }

    fn put(&self, key: &str, body: &str, over: Option<&ETag>) -> Option<PutResult> {
        let condition = over.map_or(Condition::Absent, |etag| Condition::Is(etag.clone()));
        let folder = super::Folder::root(&self.root).expect("the root exists");
        unless_it_dies(|| write::put(&folder, key, body.as_bytes(), &condition))
    }

    fn get(&self, key: &str) -> Result<GetOutcome, StoreError> {
        get(&self.root, key, None, 1_000)
    }

    /// Returns the contents that processes see before a power loss.
    fn seen(&self, key: &str) -> Option<Vec<u8>> {
        fs::read(self.root.path.join(key)).ok()
    }

    /// Returns the contents after a power loss.
    fn survives(&self, key: &str) -> Option<Vec<u8>> {
        with_disk(|disk| disk.survives(&self.root.path, Path::new(key)))
    }

    #[track_caller]
    fn is_on_the_disk(&self, key: &str, why: &str) {
        let (seen, survives) = (self.seen(key), self.survives(key));
        assert!(seen.is_some(), "{key} does not exist: {why}");
        assert_eq!(seen, survives, "{key} would be lost: {why}");
    }
}

type PutResult = Result<PutOutcome, StoreError>;

impl Drop for Scene {
    fn drop(&mut self) {
        DISK.with_borrow_mut(Option::take);
    }
}

/// Runs `work` as a simulated process. Returns the result of `work`, or `None` if the process died.
fn unless_it_dies<T>(work: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Some(done),
        Err(died) if died.is::<Died>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

#[track_caller]
fn maybe(put: Option<PutResult>) {
    let error = put.expect("the process is alive").expect_err("the sync failed");
    assert_eq!(
        (error.kind(), error.determinacy()),
        (StoreErrorKind::Transient, Determinacy::Indeterminate)
    );
}

#[test]
fn regression_a_read_after_a_failed_sync_returns_only_an_object_on_the_disk() {
    for folders in [0, 1] {
        let scene = Scene::new();
        scene.folders(&[&vec![Fate::Works; folders][..], &[Fate::Fails]].concat());
        maybe(scene.put("app/a", "one", None));
        assert_eq!(scene.survives("app/a"), None);
        assert!(matches!(scene.get("app/a"), Ok(GetOutcome::Found(_))));
        scene.is_on_the_disk("app/a", "it was read");
    }
}

#[test]
fn regression_a_read_after_a_failed_sync_does_not_trust_a_later_sync() {
    let scene = Scene::new();
    scene.folders(&[Fate::Fails]);
    maybe(scene.put("a", "one", None));
    super::Folder::root(&scene.root)
        .expect("the root exists")
        .sync()
        .expect("the disk works again");
    assert_eq!(scene.survives("a"), None, "the disk has lost the write");
    scene.get("a").expect("read");
    scene.is_on_the_disk("a", "it was read");
}

#[test]
fn regression_a_refusal_implies_that_the_object_is_on_the_disk() {
    let scene = Scene::new();
    scene.folders(&[Fate::Fails]);
    maybe(scene.put("a", "one", None));
    let refused = scene.put("a", "again", None).expect("the process is alive").expect("answered");
    assert_eq!(refused, PutOutcome::PreconditionFailed);
    scene.is_on_the_disk("a", "the store refused a write because this object exists");
}

#[test]
fn regression_a_listed_object_of_a_killed_process_is_on_the_disk() {
    let scene = Scene::new();
    scene.folders(&[Fate::Dies]);
    assert!(scene.put("a", "one", None).is_none(), "the process dies");
    assert!(scene.seen("a").is_some() && scene.survives("a").is_none());
    let page = listing::list(&scene.root, "", "", 10).expect("listed");
    assert_eq!(page.entries.len(), 1);
    scene.is_on_the_disk("a", "it was listed");
}

#[test]
fn a_store_on_a_failing_disk_returns_no_object_that_may_be_lost() {
    let scene = Scene::new();
    scene.folders(&[Fate::Fails; 4]);
    maybe(scene.put("a", "one", None));
    for error in [
        scene.get("a").map(drop),
        scene.put("a", "again", None).expect("the process is alive").map(drop),
        listing::list(&scene.root, "", "", 10).map(drop),
    ] {
        let error = error.expect_err("the disk fails");
        assert_eq!(
            (error.kind(), error.determinacy()),
            (StoreErrorKind::Transient, Determinacy::Determinate)
        );
        let said = error.to_string();
        let cause = "the file cannot be written again: cannot sync";
        assert!(said.contains("may undo this write") && said.contains(cause), "{said}");
    }
    scene.get("a").expect("the disk works again");
    scene.is_on_the_disk("a", "it was read");
    assert_eq!(marks(&scene), 0);
}

#[test]
fn an_object_written_again_keeps_its_version_date_mode_and_owner() {
    let scene = Scene::new();
    scene.folders(&[Fate::Fails]);
    maybe(scene.put("a", "one", None));
    let path = scene.root.path.join("a");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
    // Only root can change the owner.
    let _ = chown(&path, Some(65_534), Some(65_534));
    let file = || fs::metadata(&path).expect("the file exists");
    let kept = || (scene.seen("a"), file().modified().ok(), file().mode(), file().uid());
    let (before, inode) = (kept(), file().ino());
    scene.get("a").expect("read");
    assert_eq!(kept(), before);
    assert_ne!(file().ino(), inode, "written again");
}

/// The mark of a possibly lost object can contain only one key. So a writer must write the marked
/// object again before it marks another object.
#[test]
fn a_write_first_writes_the_marked_object_again() {
    let scene = Scene::new();
    scene.folders(&[Fate::Fails, Fate::Fails]);
    maybe(scene.put("a", "one", None));
    let error = scene
        .put("b", "two", None)
        .expect("the process is alive")
        .expect_err("the object a cannot be written again");
    assert_eq!(error.determinacy(), Determinacy::Determinate, "{error}");
    assert!(error.to_string().contains("/a was written"), "{error}");
    assert_eq!((scene.seen("b"), marks(&scene)), (None, 1));
    scene.put("b", "two", None).expect("the process is alive").expect("written");
    scene.is_on_the_disk("a", "the write of b wrote it again");
    scene.is_on_the_disk("b", "it was written");
    assert_eq!(marks(&scene), 0);
}

/// On a full disk, the object that may be missing on the disk cannot be written again. A deletion
/// of another object must still succeed.
#[test]
fn a_deletion_writes_no_other_object_again() {
    let scene = Scene::new();
    scene.put("b", "two", None).expect("the process is alive").expect("written");
    scene.folders(&[Fate::Fails]);
    maybe(scene.put("a", "one", None));
    scene.fates(|path| if path.is_dir() { Fate::Works } else { Fate::Says(Errno::ENOSPC) });
    let failed = delete::delete(&scene.root, &["b".to_owned()]).expect("deleted");
    assert_eq!((failed.len(), marks(&scene), scene.survives("b")), (0, 1, None));
    scene.fates(|_| Fate::Works);
    scene.get("a").expect("read");
    scene.is_on_the_disk("a", "it was read");
}

/// The mark of a possibly lost object was a file in earlier versions, and is a link to the object's
/// key in the present version. A file, or a link to an invalid key, names no object.
#[test]
fn a_mark_without_a_key_is_removed() {
    let scene = Scene::new();
    scene.put("a", "one", None).expect("the process is alive").expect("written");
    let mark = scene.root.path.join(".tenure/unsynced");
    fs::write(&mark, "a").expect("written");
    scene.put("b", "two", None).expect("the process is alive").expect("written");
    symlink("../etc", &mark).expect("written");
    scene.put("c", "two", None).expect("the process is alive").expect("written");
    assert_eq!(marks(&scene), 0);
}

/// This test removes the draft before the rename, so the rename fails.
#[test]
fn a_failed_write_leaves_no_mark() {
    let scene = Scene::new();
    scene.fates(|path| {
        if !path.is_dir() {
            fs::remove_file(path).expect("the draft exists");
        }
        Fate::Works
    });
    let error =
        scene.put("app/a", "one", None).expect("the process is alive").expect_err("no draft");
    assert!(error.to_string().contains("cannot rename a new file"), "{error}");
    assert_eq!((error.determinacy(), marks(&scene)), (Determinacy::Determinate, 0));
}

#[test]
fn a_failed_removal_leaves_the_mark() {
    let scene = Scene::new();
    scene.folders(&[Fate::Fails]);
    maybe(scene.put("a", "one", None));
    let path = scene.root.path.join("a");
    fs::remove_file(&path).expect("the object exists");
    fs::create_dir(&path).expect("the name is free");
    let outcome = delete::delete(&scene.root, &["a".to_owned()]).expect("answered");
    assert_eq!((outcome.len(), marks(&scene)), (1, 1));
    fs::remove_dir(&path).expect("the folder is empty");
    let outcome = delete::delete(&scene.root, &["a".to_owned()]).expect("answered");
    assert_eq!((outcome.len(), marks(&scene)), (0, 0));
}

#[test]
fn regression_an_object_is_hidden_until_its_sync_ends() {
    use std::sync::mpsc::channel;
    let scene = Scene::new();
    let (reached, at_sync) = channel();
    let (go_on, told) = channel::<()>();
    // A second root has a separate thread lock, so it acts like another process.
    let root = Root::new(scene.root.path.clone(), Access::Owner);
    let writer = std::thread::spawn(move || {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let scene = Scene { dir, root };
        scene.fates(move |path| {
            if path.is_dir() {
                reached.send(()).expect("the reader waits");
                told.recv().expect("the reader tells the writer to continue");
            }
            Fate::Works
        });
        scene.put("a", "one", None).expect("the process is alive").expect("written")
    });
    at_sync.recv().expect("the writer has reached its sync");
    let error = scene.get("a").expect_err("the sync has not ended");
    assert_eq!(error.kind(), StoreErrorKind::Transient, "{error}");
    go_on.send(()).expect("the writer waits");
    assert!(matches!(writer.join().expect("no panic"), PutOutcome::Done { .. }));
    assert!(matches!(scene.get("a"), Ok(GetOutcome::Found(_))));
}

/// Returns the number of marks, 0 or 1. A mark names an object that is possibly not on the disk.
fn marks(scene: &Scene) -> usize {
    let work = scene.dir.path().join(".tenure");
    let files = if work.exists() { children(&work).1 } else { Vec::new() };
    let marked = |path: &&PathBuf| path.ends_with("unsynced");
    files.iter().filter(marked).count()
}

/// Syncs fail and processes die at random. If a call returns an object, a power loss directly after
/// the call must not undo this object.
#[test]
fn each_result_survives_a_power_loss() {
    const KEYS: [&str; 4] = ["a", "app/b", "app/deep/c", "app/deep/d"];
    let (mut shown, mut settled) = (0, 0);
    for seed in 0..300 {
        let (scene, mut rng) = (Scene::new(), fastrand::Rng::with_seed(seed));
        let mut fates = fastrand::Rng::with_seed(seed + 1_000_000);
        scene.fates(move |_| match fates.u32(..10) {
            0 | 1 => Fate::Fails,
            2 => Fate::Dies,
            _ => Fate::Works,
        });
        let mut etags = BTreeMap::<&str, ETag>::new();
        for step in 0..40 {
            let (key, why) = (KEYS[rng.usize(..KEYS.len())], format!("seed {seed}, step {step}"));
            let before = marks(&scene);
            match rng.u32(..10) {
                0..4 => match scene.put(key, &why, etags.get(key)) {
                    Some(Ok(PutOutcome::Done { etag })) => {
                        etags.insert(key, etag.expect("an ETag"));
                        scene.is_on_the_disk(key, &why);
                    }
                    Some(Ok(PutOutcome::PreconditionFailed)) => scene.is_on_the_disk(key, &why),
                    _ => {}
                },
                4..8 => match unless_it_dies(|| scene.get(key)) {
                    Some(Ok(GetOutcome::Found(object))) => {
                        etags.insert(key, object.etag);
                        scene.is_on_the_disk(key, &why);
                        shown += 1;
                    }
                    Some(Ok(GetOutcome::NotFound)) => drop(etags.remove(key)),
                    _ => {}
                },
                8 => {
                    let page = unless_it_dies(|| listing::list(&scene.root, "", "", 10));
                    let entries = page.and_then(Result::ok).map(|page| page.entries);
                    for entry in entries.unwrap_or_default() {
                        scene.is_on_the_disk(&entry.key, &why);
                    }
                }
                _ => {
                    let deleted = unless_it_dies(|| delete::delete(&scene.root, &[key.to_owned()]));
                    if let Some(Ok(failed)) = deleted {
                        assert_eq!((failed.len(), scene.survives(key)), (0, None), "{why}");
                    }
                }
            }
            settled += usize::from(marks(&scene) < before);
        }
        scene.fates(|_| Fate::Works);
        for key in KEYS {
            if let GetOutcome::Found(_) = scene.get(key).expect("the disk works again") {
                scene.is_on_the_disk(key, &format!("seed {seed}, at the end"));
            }
        }
    }
    assert!(shown > 1_000 && settled > 100, "{shown} shown, {settled} settled");
}

/// Some file systems cannot sync folders, and a read-only file system has no unsynced writes. On
/// both kinds of file systems, the store must open the directory.
#[test]
fn an_unsupported_sync_is_not_a_failure() {
    let scene = Scene::new();
    let open = |errno| {
        scene.fates(move |_| Fate::Says(errno));
        super::DirStore::open(scene.dir.path())
    };
    open(Errno::EINVAL).expect("the file system needs no sync of folders");
    open(Errno::EROFS).expect("on a read-only file system, the directory needs no sync");
    let error = open(Errno::ENOSPC).expect_err("a crash may remove the directory");
    assert_eq!(error.determinacy(), Determinacy::Determinate, "{error}");
}
