//! Tests of deletions, and of the removal of empty folders.

use std::fs;

use super::disk::{Fate, children};
use super::{Scene, delete, unless_it_dies};

/// A deletion removes a folder while another process writes the draft of an object for this folder.
/// The writer must create the folder again, and the object must survive a power loss.
#[test]
fn regression_a_write_creates_a_concurrently_removed_folder_again() {
    for meanwhile_made_again in [false, true] {
        let scene = Scene::new();
        scene.put("app/deep/a", "one", None).expect("the process is alive").expect("written");
        let folder = scene.root.path.join("app/deep");
        scene.fates(move |path| {
            if !path.is_dir() && folder.join("a").exists() {
                fs::remove_file(folder.join("a")).expect("the path exists");
                fs::remove_dir(&folder).expect("the folder is empty");
                if meanwhile_made_again {
                    fs::create_dir(&folder).expect("made");
                }
            }
            Fate::Works
        });
        scene.put("app/deep/b", "two", None).expect("the process is alive").expect("written");
        assert_eq!(scene.survives("app/deep/a"), None);
        scene.is_on_the_disk("app/deep/b", "it was written");
    }
}

/// The process of the first deletion dies after it has removed the object, and before it has synced
/// the folder. The second deletion finds no object, but must sync the folder. If it does not sync
/// the folder, a power loss restores the object.
#[test]
fn regression_a_repeated_deletion_survives_a_power_loss() {
    let scene = Scene::new();
    scene.put("app/deep/a", "one", None).expect("the process is alive").expect("written");
    scene.folders(&[Fate::Dies]);
    let keys = ["app/deep/a".to_owned()];
    assert!(unless_it_dies(|| delete::delete(&scene.root, &keys)).is_none(), "the process dies");
    assert!(scene.seen("app/deep/a").is_none() && scene.survives("app/deep/a").is_some());
    delete::delete(&scene.root, &keys).expect("nothing to delete");
    assert_eq!(scene.survives("app/deep/a"), None);
}

#[test]
fn regression_a_deletion_removes_empty_folders_of_earlier_versions() {
    let scene = Scene::new();
    let path = &scene.root.path;
    for number in 0..200 {
        fs::create_dir_all(path.join(format!("app/members/{number}"))).expect("made");
    }
    fs::create_dir(path.join("app/members/not a key")).expect("made");
    fs::create_dir(path.join("other")).expect("made");
    for key in ["app/members/a/lock.json", "app/members/b/lock.json"] {
        scene.put(key, "one", None).expect("the process is alive").expect("written");
    }
    let delete = |key: &str| delete::delete(&scene.root, &[key.to_owned()]).expect("deleted");
    let left = || children(&path.join("app/members")).0.len();
    delete("app/members/a/lock.json");
    assert!(left() < 202, "{}", left());
    delete("app/members/a/lock.json");
    // Each deletion removes only some of the empty folders, because other writers wait for the
    // lock.
    for _ in 0..200 {
        if left() == 2 {
            break;
        }
        scene
            .put("app/members/c/lock.json", "one", None)
            .expect("the process is alive")
            .expect("written");
        delete("app/members/c/lock.json");
    }
    assert_eq!(
        left(),
        2,
        "only the folder b, and a folder whose name no key may contain, are left"
    );
    scene.is_on_the_disk("app/members/b/lock.json", "it was not deleted");
    fs::remove_dir(path.join("app/members/not a key")).expect("empty");
    delete("app/members/b/lock.json");
    assert!(!path.join("app/members").exists() && path.join("app").exists());
    assert!(path.join("other").exists());
}

/// The mark in the work folder names an object that may be missing on the disk. Before the fix, a
/// deletion removed its objects before it read the mark. If this read failed, the error said that
/// the deletion had no effect. In this test, the work folder is replaced during the deletion.
#[test]
fn regression_a_deletion_that_removed_an_object_returns_no_determinate_error() {
    let scene = Scene::new();
    scene.put("app/a", "one", None).expect("the process is alive").expect("written");
    let (work, moved) = (scene.root.path.join(".tenure"), scene.root.path.join("moved"));
    scene.fates(move |path| {
        if path.is_dir() && work.is_dir() {
            fs::rename(&work, &moved).expect("the folder exists");
            fs::write(&work, "").expect("written");
        }
        Fate::Works
    });
    let failed = delete::delete(&scene.root, &["app/a".to_owned()]).expect("deleted");
    assert_eq!((failed.len(), scene.seen("app/a")), (0, None));
}
