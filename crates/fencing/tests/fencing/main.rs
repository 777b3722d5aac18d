//! Tests of the guards of `tenure_fencing` on every store, with zombie writers and with lost
//! responses.

mod busy;
#[cfg(feature = "tower")]
mod clients;
mod faults;
mod format;
mod lease;
mod log;
mod reset;
mod stale;
mod torn;
mod zombies;

use std::sync::Arc;

use futures::TryStreamExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure::store::{GetOutcome, MemoryStore, Store};
use tenure::{Epoch, Process};
use tenure_fencing::{DurableGate, FencedLog, FencedObject, FencingError, Generations, Stale};
use tenure_testkit::time::{TestClock, secs};

fn e(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

/// Returns a process with tokio's clock and a separate sequence of nonces.
fn process() -> Process {
    static SEEDS: AtomicU64 = AtomicU64::new(1);
    tenure_testkit::time::process(&TestClock::new(), SEEDS.fetch_add(1, Ordering::Relaxed))
}

fn object_of(store: &Arc<dyn Store>) -> FencedObject {
    FencedObject::new(Arc::clone(store), "o").process(process()).request_timeout(secs(50))
}

fn log_of(store: &Arc<dyn Store>) -> FencedLog {
    let log = FencedLog::new(Arc::clone(store), "log").unwrap();
    log.process(process()).request_timeout(secs(50))
}

fn gate_of(store: &Arc<dyn Store>) -> DurableGate {
    DurableGate::new(Arc::clone(store), "g").process(process()).request_timeout(secs(50))
}

/// Returns the body of the object at this key.
async fn object_at(memory: &MemoryStore, key: &str) -> String {
    match memory.get(key, None, 1_000).await.unwrap() {
        GetOutcome::Found(object) => String::from_utf8_lossy(&object.body).into_owned(),
        other => panic!("{key}: {other:?}"),
    }
}

/// Asserts that the call failed because of a greater epoch, and that nothing was written.
#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, FencingError>, offered: u64, newest: u64) {
    let error = outcome.unwrap_err();
    assert_eq!(error.stale(), Some(Stale::new(e(offered), e(newest))), "{error}");
    assert!(!error.may_have_happened(), "{error}");
}

async fn all(log: &FencedLog, from: u64) -> Vec<(u64, u64, String)> {
    let entries: Vec<_> = log.read_from(from).try_collect().await.unwrap();
    let words = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    entries.iter().map(|it| (it.number, it.epoch.get(), words(&it.body))).collect()
}

async fn every_guard(store: Arc<dyn Store>) {
    object(Arc::clone(&store)).await;
    log_on(Arc::clone(&store)).await;
    gate(Arc::clone(&store)).await;
    generations(store).await;
}

async fn object(store: Arc<dyn Store>) {
    let object = FencedObject::new(Arc::clone(&store), "fenced/object");
    assert_eq!(object.read().await.unwrap(), None);
    let mut old = object.open(e(1)).await.unwrap();
    assert_eq!(old.body(), None);
    let claimed = object.read().await.unwrap().unwrap();
    assert_eq!(
        (claimed.epoch, claimed.body),
        (e(1), None),
        "the object was claimed but never written"
    );
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    for body in [&b""[..], b"{\"tenure_object\":1}\n", b"\0\xff", &large] {
        old.write(body.to_vec()).await.unwrap();
        let contents = object.read().await.unwrap().unwrap();
        assert_eq!((contents.epoch, contents.body.as_deref()), (e(1), Some(body)));
    }
    old.write("old").await.unwrap();

    let mut new = object.open(e(2)).await.unwrap();
    assert_eq!(new.body().unwrap(), "old");
    refused(old.write("zombie").await, 1, 2);
    new.write("new").await.unwrap();
    refused(old.write("zombie").await, 1, 2);
    refused(object.open(e(1)).await, 1, 2);

    let mut again = object.open(e(2)).await.unwrap();
    // This epoch wrote the same body before. If the envelope had no nonce, a store that computes
    // the ETag from the body would now give the object its earlier ETag again.
    again.write("new").await.unwrap();
    let error = new.write("a second writer of the epoch").await.unwrap_err();
    assert!(matches!(error, FencingError::Replaced { epoch, .. } if epoch == e(2)), "{error}");
    again.write("last").await.unwrap();
    let contents = object.read().await.unwrap().unwrap();
    assert_eq!((contents.epoch, contents.body.as_deref()), (e(2), Some(&b"last"[..])));
}

async fn log_on(store: Arc<dyn Store>) {
    let log = FencedLog::new(store, "fenced/log/").unwrap();
    assert_eq!(log.latest().await.unwrap(), None);
    assert_eq!(all(&log, 0).await, []);
    let mut old = log.open(e(1)).await.unwrap();
    assert_eq!((log.latest().await.unwrap(), old.last()), (None, None));
    assert_eq!(old.append("a").await.unwrap(), 2);
    assert_eq!(old.append("b").await.unwrap(), 3);
    assert_eq!(log.latest().await.unwrap().unwrap().body, "b");

    let mut new = log.open(e(2)).await.unwrap();
    assert_eq!((log.latest().await.unwrap().unwrap().number, new.last()), (3, Some(3)));
    assert_eq!(new.latest().await.unwrap().unwrap().body, "b");
    refused(old.append("zombie").await, 1, 2);
    refused(old.append("zombie").await, 1, 2);
    refused(log.open(e(1)).await, 1, 2);
    assert_eq!(new.append("c").await.unwrap(), 5);
    let expected = [(2, 1, "a"), (3, 1, "b"), (5, 2, "c")].map(|(n, e, b)| (n, e, b.to_owned()));
    assert_eq!(all(&log, 1).await, expected);
    assert_eq!(all(&log, 3).await, expected[1..]);
    assert_eq!(all(&log, 6).await, []);

    assert_eq!(log.trim(3).await.unwrap(), 3);
    assert_eq!(log.oldest().await.unwrap(), 3);
    assert_eq!(all(&log, 3).await, expected[1..]);
    let error = log.read_from(2).try_collect::<Vec<_>>().await.unwrap_err();
    assert!(matches!(error, FencingError::Trimmed { oldest: 3 }), "{error}");
    assert_eq!(log.trim(u64::MAX).await.unwrap(), 5, "the newest entry is not trimmed");
    assert_eq!(log.latest().await.unwrap().unwrap().body, "c");
    assert_eq!(new.append("d").await.unwrap(), 6);

    let mut again = log.open(e(2)).await.unwrap();
    let error = new.append("a second writer of the epoch").await.unwrap_err();
    assert!(matches!(error, FencingError::Replaced { epoch, .. } if epoch == e(2)), "{error}");
    assert!(!error.may_have_happened());
    assert_eq!(again.append("e").await.unwrap(), 8);
}

async fn gate(store: Arc<dyn Store>) {
    let gate = DurableGate::new(Arc::clone(&store), "fenced/gate");
    assert_eq!(gate.newest().await.unwrap(), None);
    gate.admit(e(2)).await.unwrap();
    gate.admit(e(2)).await.unwrap();
    gate.admit(e(4)).await.unwrap();
    refused(gate.admit(e(3)).await, 3, 4);
    // `other` is an instance that has seen no token: a restarted service, or another instance.
    let other = DurableGate::new(Arc::clone(&store), "fenced/gate");
    refused(other.admit(e(3)).await, 3, 4);
    other.admit(e(5)).await.unwrap();
    refused(gate.admit(e(4)).await, 4, 5);
    gate.admit(e(6)).await.unwrap();
    assert_eq!(other.newest().await.unwrap(), Some(e(6)));
}

async fn generations(store: Arc<dyn Store>) {
    let generations = Generations::new(Arc::clone(&store), "fenced/data").unwrap();
    let newest = async || generations.newest().await.unwrap();
    assert_eq!(newest().await, None);
    for (epoch, name) in [(1, "a"), (3, "a"), (3, "b/c"), (12, "a"), (2, "zombie")] {
        let key = generations.key(e(epoch)) + name;
        store.create(&key, "x".into()).await.unwrap();
    }
    let foreign = ["epoch-99", "epoch-00000000130", "epoch-0000000014.bak/x", "epoch-x", "z"];
    for foreign in foreign.into_iter().chain(["epoch-98/x", "epoch-00000000131/x"]) {
        store.create(&format!("fenced/data/{foreign}"), "x".into()).await.unwrap();
    }
    assert_eq!(newest().await, Some(e(12)));
}

#[test]
fn the_keys_of_a_generation_begin_with_the_prefix() {
    for (prefix, key) in [
        ("data", "data/epoch-0000000007/"),
        ("data/", "data/epoch-0000000007/"),
        ("", "epoch-0000000007/"),
    ] {
        let generations = Generations::new(Arc::new(MemoryStore::new()), prefix).unwrap();
        assert_eq!(generations.key(e(7)), key);
    }
}

/// The search needs only one request to skip all remaining objects of a generation.
#[tokio::test]
async fn the_newest_generation_is_found_after_pages_of_an_older_one() {
    use tenure_testkit::fault_store::FaultStore;

    let faults = FaultStore::new(Arc::new(MemoryStore::new()));
    let generations = Generations::new(Arc::new(faults.clone()), "data").unwrap();
    let create = async |key: String| faults.create(&key, "x".into()).await.unwrap();
    for number in 0..2_500 {
        create(format!("{}{number:04}", generations.key(e(1)))).await;
    }
    create(generations.key(e(2)) + "a").await;
    // Some tools create an object for a folder. The generation of epoch 3 has only a folder object,
    // so `newest` ignores this generation.
    create(generations.key(e(3))).await;
    faults.take_calls();
    assert_eq!(generations.newest().await.unwrap(), Some(e(2)));
    let lists = faults.take_calls().len();
    assert!(lists <= 3, "{lists} LISTs");
}

#[tokio::test]
async fn on_memory() {
    every_guard(Arc::new(MemoryStore::new())).await;
}

#[cfg(unix)]
#[tokio::test]
async fn on_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    every_guard(Arc::new(tenure::store::DirStore::open(dir.path()).unwrap())).await;
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn on_s3_over_http() {
    use tenure_testkit::s3_server::{BUCKET, S3Server};
    let server = S3Server::start().await;
    every_guard(Arc::new(server.store(BUCKET))).await;
}

/// The guards refuse an object of another kind and leave it unchanged.
#[tokio::test]
async fn foreign_objects_are_left_unchanged() {
    let store = Arc::new(MemoryStore::new());
    for key in ["object", "gate", "log/00000000000000000001", "log2/trim"] {
        store.create(key, "{\"mine\":1}\n".into()).await.unwrap();
    }
    let shared = || Arc::clone(&store) as Arc<dyn Store>;
    let corrupt = |error: FencingError| {
        assert!(error.to_string().contains("left unchanged"), "{error}");
        assert!(!error.may_have_happened(), "{error}");
    };
    corrupt(FencedObject::new(shared(), "object").open(e(1)).await.unwrap_err());
    corrupt(DurableGate::new(shared(), "gate").admit(e(1)).await.unwrap_err());
    corrupt(FencedLog::new(shared(), "log").unwrap().open(e(1)).await.unwrap_err());
    corrupt(FencedLog::new(shared(), "log").unwrap().latest().await.unwrap_err());
    let log = FencedLog::new(shared(), "log2").unwrap();
    log.open(e(1)).await.unwrap().append("x").await.unwrap();
    corrupt(log.trim(2).await.unwrap_err());
    for key in ["object", "gate", "log/00000000000000000001", "log2/trim"] {
        let GetOutcome::Found(object) = store.get(key, None, 99).await.unwrap() else { panic!() };
        assert_eq!(object.body, "{\"mine\":1}\n", "{key}");
    }
}
