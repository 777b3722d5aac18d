//! Elections, logs, objects and gates as version 0.1 left them on the store, in `fixtures/`: this
//! version reads and continues each of them, and still writes the same bytes.
//!
//! The files are kept as they are. If the format changes on purpose, the old files stay, and those
//! of the new format get folders of their own.

#[cfg(unix)]
mod directory;
mod elections;
mod fenced;
mod scenes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tenure::store::GetOutcome;
use tenure_testkit::world::World;

use scenes::SCENES;

/// The objects below `app/`, by the rest of their keys.
type Objects = BTreeMap<String, Vec<u8>>;

fn folder(scene: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocol/fixtures").join(scene)
}

fn kept(scene: &str) -> Objects {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let files = fs::read_dir(folder(scene)).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (name(&path), fs::read(&path).unwrap())).collect()
}

/// A store that holds the files of this scene, under `app/`.
async fn load(scene: &str) -> World {
    let world = World::new();
    for (name, body) in kept(scene) {
        world.put(&name, body).await;
    }
    world
}

async fn objects(world: &World) -> Objects {
    let store = world.store.inner();
    let mut objects = Objects::new();
    for entry in store.list("app/", "", 1_000).await.unwrap().entries {
        let found = store.get(&entry.key, None, usize::MAX).await.unwrap();
        let GetOutcome::Found(object) = found else { panic!("{} is listed", entry.key) };
        objects.insert(entry.key["app/".len()..].to_owned(), object.body.to_vec());
    }
    objects
}

#[tokio::test(start_paused = true)]
async fn this_version_writes_the_same_bytes() {
    for scene in SCENES {
        let (old, new) = (kept(scene), objects(&scenes::play(scene).await).await);
        assert_eq!(old.keys().collect::<Vec<_>>(), new.keys().collect::<Vec<_>>(), "{scene}");
        for (name, old) in old {
            let (old, new) = (String::from_utf8_lossy(&old), String::from_utf8_lossy(&new[&name]));
            assert_eq!(old, new, "{scene}/{name}: the format of what is written has changed");
        }
    }
}

/// For a scene that is new. The other files must come out as they are.
#[tokio::test(start_paused = true)]
#[ignore = "writes the fixtures anew: cargo test --test protocol write_fixtures -- --ignored"]
async fn write_fixtures() {
    for scene in SCENES {
        fs::create_dir_all(folder(scene)).unwrap();
        for (name, body) in objects(&scenes::play(scene).await).await {
            fs::write(folder(scene).join(name), body).unwrap();
        }
    }
    #[cfg(unix)]
    directory::write().await;
}
