//! Tests of the drafts of settled objects.

use std::fs;
use std::sync::Arc;
use std::time::SystemTime;

use super::disk::Fate;
use super::write::{self, Condition};
use super::{Access, Root, Scene, maybe};
use crate::store::dir::folder::Folder;

/// The draft of a settled object has the date of the object. Set-up: another process writes before
/// the draft becomes the object.
#[test]
fn regression_the_draft_of_an_old_object_is_no_leftover() {
    let scene = Scene::new();
    scene.folders(&[Fate::Fails]);
    maybe(scene.put("a", "one", None));
    let a = fs::File::options().write(true).open(scene.root.path.join("a")).expect("it exists");
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
