//! Tests of the directory store: its files, the calls that it refuses, and its users.

#![cfg(unix)]

use std::fs::{self, FileTimes};
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use nix::sys::stat::Mode;
use tenure::store::{
    Determinacy, DirStore, ETag, GetOutcome, PutOutcome, Store as _, StoreError, StoreErrorKind,
};

mod listings;
mod permissions;
mod processes;

fn store() -> (tempfile::TempDir, DirStore) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = DirStore::open(dir.path()).expect("opened");
    (dir, store)
}

fn done(outcome: Result<PutOutcome, StoreError>) -> ETag {
    match outcome.expect("written") {
        PutOutcome::Done { etag: Some(etag) } => etag,
        other => panic!("not written: {other:?}"),
    }
}

async fn body_of(store: &DirStore, key: &str) -> Bytes {
    match store.get(key, None, 1_000).await.expect("read") {
        GetOutcome::Found(object) => object.body,
        other => panic!("not found: {other:?}"),
    }
}

async fn keys_of(store: &DirStore, prefix: &str) -> Vec<String> {
    let page = store.list(prefix, "", 1_000).await.expect("listed");
    page.entries.into_iter().map(|entry| entry.key).collect()
}

/// Returns the date of a new file.
fn now() -> SystemTime {
    let file = tempfile::tempfile().and_then(|file| file.metadata()?.modified());
    file.expect("a date")
}

fn drafts(store: &DirStore) -> Vec<String> {
    let names = fs::read_dir(store.path().join(".tenure")).expect("the work folder");
    let names = names.map(|entry| entry.expect("an entry").file_name().into_string());
    names.map(|name| name.expect("UTF-8")).filter(|name| name.starts_with("tmp-")).collect()
}

#[track_caller]
fn refuses<T: std::fmt::Debug>(result: Result<T, StoreError>, kind: StoreErrorKind, words: &str) {
    let error = result.expect_err(words);
    assert_eq!((error.kind(), error.determinacy()), (kind, Determinacy::Determinate), "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[tokio::test]
async fn a_file_contains_the_number_of_writes_and_the_body() {
    let (dir, store) = store();
    let first = done(store.create("app/a.json", "{\"n\":1}".into()).await);
    let second = done(store.replace("app/a.json", "{\"n\":2}".into(), first).await);
    let text = fs::read_to_string(dir.path().join("app/a.json")).expect("a file");
    let (header, body) = text.split_once('\n').expect("two lines");
    assert_eq!(body, "{\"n\":2}");
    let header: serde_json::Value = serde_json::from_str(header).expect("JSON");
    assert_eq!(header["tenure_dir"], 1);
    assert!(second.as_str().ends_with(&format!("-{}\"", header["writes"])), "{second}");
    assert_eq!(drafts(&store), [""; 0]);
}

#[tokio::test]
async fn an_etag_never_becomes_valid_again() {
    let (_dir, store) = store();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let mut etag = done(store.create("a", "same".into()).await);
        assert!(seen.insert(etag.clone()));
        for _ in 0..3 {
            etag = done(store.replace("a", "same".into(), etag).await);
            assert!(seen.insert(etag.clone()));
        }
        store.delete(vec!["a".to_owned()]).await.expect("deleted");
    }
}

#[tokio::test]
async fn a_file_that_an_operator_wrote_is_an_object() {
    let (dir, store) = store();
    fs::write(dir.path().join("lock-0000000001.json"), "{\"expired\":true}").expect("by hand");
    let GetOutcome::Found(object) =
        store.get("lock-0000000001.json", None, 100).await.expect("read")
    else {
        panic!("not found")
    };
    assert_eq!(&object.body[..], b"{\"expired\":true}");
    assert!(object.etag.as_str().ends_with("-0\""), "{}", object.etag);
    assert_eq!(keys_of(&store, "lock-").await, ["lock-0000000001.json"]);
    let etag = done(store.replace("lock-0000000001.json", "{}".into(), object.etag).await);
    assert!(etag.as_str().ends_with("-1\""), "{etag}");
}

#[tokio::test]
async fn keys_outside_the_directory_are_refused_by_every_call() {
    let (dir, store) = store();
    for key in ["../a", "/etc/passwd", "a/../../b", ".tenure/lock", "", "a//b", "a b"] {
        let invalid = StoreErrorKind::Invalid;
        let etag = ETag::new("\"x\"");
        refuses(store.get(key, None, 1).await, invalid, "cannot hold the key");
        refuses(store.create(key, "".into()).await, invalid, "cannot hold the key");
        refuses(store.replace(key, "".into(), etag).await, invalid, "cannot hold the key");
        refuses(store.delete(vec![key.to_owned()]).await, invalid, "cannot hold the key");
    }
    refuses(store.list("../", "", 10).await, StoreErrorKind::Invalid, "cannot hold the key");
    let here = fs::read_dir(dir.path()).expect("listed").count();
    assert_eq!(here, 0, "no file is created");
}

#[tokio::test]
async fn symbolic_links_are_never_followed() {
    let (dir, store) = store();
    let outside = tempfile::tempdir().expect("a temporary directory");
    fs::write(outside.path().join("secret"), "secret").expect("written");
    symlink(outside.path(), dir.path().join("linked")).expect("a link to a folder");
    symlink(outside.path().join("secret"), dir.path().join("object")).expect("a link to a file");
    symlink("nowhere", dir.path().join("dangling")).expect("a link to nothing");
    for key in ["linked/secret", "linked/new", "object", "dangling", "linked"] {
        let (invalid, etag) = (StoreErrorKind::Invalid, ETag::new("\"x\""));
        refuses(store.get(key, None, 100).await, invalid, "symbolic link");
        refuses(store.create(key, "x".into()).await, invalid, "symbolic link");
        refuses(store.replace(key, "x".into(), etag).await, invalid, "symbolic link");
    }
    refuses(
        store.delete(vec!["linked/secret".to_owned()]).await,
        StoreErrorKind::Invalid,
        "symbolic link",
    );
    let outcome = store.delete(vec!["object".to_owned(), "gone".to_owned()]).await.expect("tried");
    assert_eq!((outcome.len(), outcome[0].0.as_str()), (1, "object"));
    refuses(store.list("linked/", "", 10).await, StoreErrorKind::Invalid, "symbolic link");
    assert_eq!(keys_of(&store, "").await, [""; 0]);
    assert_eq!(fs::read_to_string(outside.path().join("secret")).expect("there"), "secret");
    assert_eq!(fs::read_dir(outside.path()).expect("listed").count(), 1);
    // The store refuses a lock file that is a link. If the link led two processes to different lock
    // files, the two processes would write concurrently.
    let lock = dir.path().join(".tenure/lock");
    fs::rename(&lock, outside.path().join("lock")).expect("moved");
    symlink(outside.path().join("lock"), &lock).expect("a link");
    store.create("a", "x".into()).await.expect_err("the lock is a link");
}

#[tokio::test]
async fn the_root_may_be_a_link_and_is_described_as_a_url() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let real = dir.path().join("real folder");
    fs::create_dir(&real).expect("made");
    symlink(&real, dir.path().join("link")).expect("a link");
    let store = DirStore::open(dir.path().join("link")).expect("opened");
    done(store.create("a", "x".into()).await);
    assert!(real.join("a").is_file());
    let url = store.describe();
    assert!(url.starts_with("file:///") && url.ends_with("/real%20folder"), "{url}");
}

#[tokio::test]
async fn the_error_names_a_file_of_another_type() {
    let (dir, store) = store();
    fs::create_dir_all(dir.path().join("folder/sub")).expect("made");
    nix::unistd::mkfifo(&dir.path().join("pipe"), Mode::S_IRWXU).expect("made");
    done(store.create("file", "x".into()).await);
    for (key, words) in [("folder", "is a directory"), ("pipe", "is a special file")] {
        let (invalid, etag) = (StoreErrorKind::Invalid, ETag::new("\"x\""));
        refuses(store.get(key, None, 100).await, invalid, words);
        refuses(store.create(key, "x".into()).await, invalid, words);
        refuses(store.replace(key, "x".into(), etag).await, invalid, words);
        let outcome = store.delete(vec![key.to_owned()]).await.expect("tried");
        assert!(outcome[0].1.to_string().contains(words), "{outcome:?}");
    }
    refuses(store.create("file/a", "x".into()).await, StoreErrorKind::Invalid, "is a file");
    assert_eq!(store.get("file/a", None, 1).await.expect("read"), GetOutcome::NotFound);
    assert_eq!(keys_of(&store, "file/").await, [""; 0]);
    fs::write(dir.path().join("not a key"), "x").expect("written");
    assert_eq!(keys_of(&store, "").await, ["file"]);
}

#[tokio::test]
async fn an_incomplete_file_of_a_killed_process_is_ignored_and_removed() {
    let (dir, store) = store();
    done(store.create("a", "x".into()).await);
    let fresh = dir.path().join(".tenure/tmp-1-1-1");
    fs::write(&fresh, "").expect("torn");
    let modified = fs::metadata(&fresh).and_then(|it| it.modified()).expect("a date");
    let hour = Duration::from_secs(3_700);
    // The second file has a date in the future, as if the clock of its process was ahead.
    for (name, date) in [("tmp-2-2-2", modified - hour), ("tmp-3-3-3", modified + hour)] {
        let path = dir.path().join(".tenure").join(name);
        fs::write(&path, "{\"tenure_dir\":1,\"wri").expect("torn");
        let file = fs::File::options().write(true).open(&path).expect("opened");
        file.set_times(FileTimes::new().set_modified(date)).expect("aged");
    }
    fs::create_dir(dir.path().join(".tenure/tmp-4-4-4")).expect("the draft folder is created");

    assert_eq!(keys_of(&store, "").await, ["a"]);
    let again = DirStore::open(dir.path()).expect("opened");
    assert_eq!(drafts(&again).len(), 4, "a reader removes no file");
    done(again.create("b", "x".into()).await);
    assert_eq!(drafts(&again), ["tmp-1-1-1"]);
    assert!(dir.path().join(".tenure/lock").is_file());
    assert_eq!(&body_of(&again, "a").await[..], b"x");
}

/// A deletion may remove a folder while other calls write and read in the folder. The other calls
/// must succeed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_deletions_do_not_fail_writers_in_their_folder() {
    let (dir, store) = store();
    let rounds = |writer: usize| {
        // Each store value has a separate thread lock, so it acts like the store of another
        // process.
        let store = DirStore::open(dir.path()).expect("opened");
        tokio::spawn(async move {
            for round in 0..25 {
                let key = format!("app/deep/deeper/{writer}");
                let body = format!("{writer} {round}");
                done(store.create(&key, body.clone().into()).await);
                assert_eq!(&body_of(&store, &key).await[..], body.as_bytes());
                assert!(keys_of(&store, "app/").await.contains(&key), "{key} is not listed");
                assert!(store.delete(vec![key.clone()]).await.expect("deleted").is_empty());
                assert!(!keys_of(&store, "app/").await.contains(&key), "{key} is listed");
            }
        })
    };
    let writers: Vec<_> = (0..4).map(rounds).collect();
    for writer in writers {
        writer.await.expect("no panic");
    }
    assert!(dir.path().join("app").exists() && !dir.path().join("app/deep").exists());
    assert_eq!(keys_of(&store, "").await, [""; 0]);
}

/// Each `DirStore` that is opened separately has its own thread lock, so the eight stores act like
/// the stores of eight processes. All of them try to create the lock file of the new directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_the_first_writers_wins() {
    for round in 0..40 {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let stores = [(); 8].map(|()| DirStore::open(dir.path()).expect("opened"));
        let creates = stores.iter().map(|store| store.create("app/a", "x".into()));
        let outcomes = futures::future::join_all(creates).await;
        let won = |outcome: &&Result<_, _>| matches!(outcome, Ok(PutOutcome::Done { .. }));
        let lost = |outcome: &&Result<_, _>| matches!(outcome, Ok(PutOutcome::PreconditionFailed));
        let counts = (outcomes.iter().filter(won).count(), outcomes.iter().filter(lost).count());
        assert_eq!(counts, (1, 7), "round {round}: {outcomes:?}");
    }
}

#[tokio::test]
async fn a_lock_held_by_a_stopped_process_is_a_transient_error() {
    let (dir, store) = store();
    let etag = done(store.create("a", "x".into()).await);
    let lock = fs::File::open(dir.path().join(".tenure/lock")).expect("there");
    lock.lock().expect("free");
    let (create, replace, delete) = futures::join!(
        store.create("b", "x".into()),
        store.replace("a", "y".into(), etag),
        store.delete(vec!["a".to_owned()]),
    );
    let transient = StoreErrorKind::Transient;
    refuses(create, transient, "another process has held the lock");
    refuses(replace, transient, "another process has held the lock");
    refuses(delete, transient, "another process has held the lock");
    assert_eq!(&body_of(&store, "a").await[..], b"x");
    assert_eq!(drafts(&store), [""; 0], "each call removes its draft");
    // The folder has just changed, so the listing needs the lock.
    let root = fs::File::open(dir.path()).expect("there");
    root.set_modified(now()).expect("set");
    refuses(store.list("", "", 10).await, transient, "another process has held the lock");
}

#[tokio::test]
async fn a_refused_write_leaves_no_file() {
    let (_dir, store) = store();
    done(store.create("a", "x".into()).await);
    let wrong = ETag::new("\"wrong\"");
    assert_eq!(store.create("a", "y".into()).await.expect("asked"), PutOutcome::PreconditionFailed);
    let outcome = store.replace("a", "y".into(), wrong.clone()).await.expect("asked");
    assert_eq!(outcome, PutOutcome::PreconditionFailed);
    let outcome = store.replace("no/such", "y".into(), wrong).await.expect("asked");
    assert_eq!(outcome, PutOutcome::NotFound);
    assert_eq!(drafts(&store), [""; 0]);
    assert!(!store.path().join("no").exists(), "a refused replace creates no folder");
}

#[tokio::test]
async fn a_missing_root_is_created_at_open_and_is_an_error_later() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let root = dir.path().join("deep/down");
    let store = DirStore::open(&root).expect("made");
    done(store.create("a", "x".into()).await);
    fs::remove_dir_all(&root).expect("the root is removed");
    let gone = StoreErrorKind::NoSuchStore;
    refuses(store.get("a", None, 1).await, gone, "no directory exists at");
    refuses(store.list("", "", 1).await, gone, "no directory exists at");
    refuses(store.create("a", "x".into()).await, gone, "no directory exists at");

    fs::write(&root, "a file").expect("written");
    refuses(DirStore::open(&root), gone, "no directory exists at");
    refuses(DirStore::open(root.join("below")), gone, "no directory exists at");
    symlink("nowhere", dir.path().join("dangling")).expect("a link");
    refuses(DirStore::open(dir.path().join("dangling")), gone, "no directory exists at");
}

#[test]
fn a_work_folder_that_is_a_file_is_refused_at_open() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join(".tenure"), "").expect("written");
    refuses(DirStore::open(dir.path()), StoreErrorKind::Invalid, ".tenure is a file");
}

#[tokio::test]
async fn a_key_has_at_most_1024_bytes() {
    let (_dir, store) = store();
    let segment = "k".repeat(200);
    let longest = [&segment; 4].map(String::as_str).join("/") + "/" + &"k".repeat(220);
    assert_eq!(longest.len(), 1_024);
    done(store.create(&longest, "x".into()).await);
    assert_eq!(keys_of(&store, "").await, std::slice::from_ref(&longest));
    let longer = longest + "k";
    let refused = store.create(&longer, "x".into()).await;
    refuses(refused, StoreErrorKind::Invalid, "at most 1024 bytes, got 1025");
}
