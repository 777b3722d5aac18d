//! Tests of the drafts with which a process writes a possibly lost object again.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use nix::errno::Errno;

use super::disk::{Fate, children};
use super::write::{self, Condition};
use super::{Access, Root, Scene, maybe};
use crate::store::Determinacy;
use crate::store::dir::draft::Draft;
use crate::store::dir::folder::Folder;
use crate::store::dir::lock::work_folder;

/// A read may have to write a possibly lost object again, with a draft that has the object's old
/// date. Before the fix, a process that wrote at the same time removed this draft as a leftover,
/// and the read failed.
#[test]
fn regression_the_draft_of_an_old_object_is_no_leftover() {
    let scene = Scene::new();
    scene.folders(&[Fate::Fails]);
    maybe(scene.put("a", "one", None));
    let a =
        fs::File::options().write(true).open(scene.root.path.join("a")).expect("the object exists");
    a.set_modified(SystemTime::UNIX_EPOCH).expect("aged");
    let path = Arc::clone(&scene.root.path);
    scene.fates(move |synced| {
        if !synced.is_dir() {
            let root = Root::new(Arc::clone(&path), Access::Owner);
            let write = move || {
                let folder = Folder::root(&root).expect("the root exists");
                write::put(&folder, "b", b"two", &Condition::Absent).expect_err("the lock is held")
            };
            std::thread::spawn(write).join().expect("no panic");
        }
        Fate::Works
    });
    scene.get("a").expect("read");
    scene.is_on_the_disk("a", "it was read");
}

/// Before the fix, a write on a full disk failed before it removed the leftovers that filled the
/// disk.
#[test]
fn regression_a_failed_write_removes_old_drafts() {
    let scene = Scene::new();
    scene.put("a", "one", None).expect("the process is alive").expect("written");
    let work = scene.root.path.join(".tenure");
    for number in 0..3_000 {
        let old = fs::File::create(work.join(format!("tmp-0-{number}-0"))).expect("created");
        old.set_modified(SystemTime::UNIX_EPOCH).expect("aged");
    }
    scene.fates(|path| if path.is_dir() { Fate::Works } else { Fate::Says(Errno::ENOSPC) });
    let left = || {
        scene.put("b", "two", None).expect("the process is alive").expect_err("the disk is full");
        children(&work).1.len()
    };
    let first = left();
    assert!(
        (1_000..1_100).contains(&first),
        "{first} drafts left: one call removes at most 2,000, because other writers wait"
    );
    assert_eq!(left(), 1, "the lock file");
}

/// If another program deletes the lock file, two processes may both hold a lock. Before the fix,
/// each of these two processes could then create the same object. When the lock file was deleted
/// during the writes of four processes, 1 of 400 objects was created twice.
#[test]
fn regression_a_new_object_replaces_no_object() {
    let scene = Scene::new();
    scene.put("a", "one", None).expect("the process is alive").expect("written");
    let before = scene.seen("a");
    let root = Folder::root(&scene.root).expect("the root exists");
    let work = work_folder(&root).expect("the work folder exists");
    let draft = Draft::write(&work, |file| file.write_all(b"two")).expect("written");
    let error = draft.publish_new(&root, "a").expect_err("the object exists");
    assert_eq!((error.determinacy(), scene.seen("a")), (Determinacy::Determinate, before));
}
