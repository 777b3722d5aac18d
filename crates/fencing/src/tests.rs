//! Tests with rare or wrong responses of the store.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;

use tenure::store::{
    Determinacy, ETag, GetOutcome, MemoryStore, Object, Page, PutOutcome, Store, StoreError,
    StoreErrorKind,
};

use tenure::Epoch;

use super::*;
use crate::mock_store::MockStore;

fn found(body: Bytes, etag: &str) -> GetOutcome {
    let etag = ETag::new(etag.to_owned());
    GetOutcome::Found(Object::new(body, etag))
}

fn done(etag: &str) -> PutOutcome {
    PutOutcome::Done { etag: Some(ETag::new(etag.to_owned())) }
}

#[tokio::test]
async fn a_store_that_lists_out_of_order_is_refused() {
    let mut store = MockStore::new();
    store.expect_describe().return_const("a store".to_owned());
    store.expect_list().times(1).returning(|prefix, after, _| {
        let entry = |key: &str| tenure::store::Entry::new(key, 1);
        assert_eq!((prefix, after), ("log/", "log/00000000000000000000"));
        let entries = vec![entry("log/00000000000000000002"), entry("log/00000000000000000001")];
        Ok(Page::new(entries, false))
    });
    let log = FencedLog::new(Arc::new(store), "log").unwrap();
    let FencingError::Failed(error) = log.open(Epoch::FIRST).await.unwrap_err() else { panic!() };
    assert_eq!(error.kind(), tenure::ErrorKind::UnsafeStore);
    assert!(!error.may_have_happened());
}

#[tokio::test]
async fn a_gate_that_knows_a_greater_token_sends_no_request() {
    let mut store = MockStore::new();
    store.expect_describe().return_const("a store".to_owned());
    store.expect_get().times(1).returning(|_, _, _| Ok(GetOutcome::NotFound));
    store.expect_create().times(1).returning(|_, _| Ok(done("1")));
    let gate = DurableGate::new(Arc::new(store), "g").sole_instance();
    let (old, new) = (Epoch::FIRST, Epoch::new(2).unwrap());
    gate.admit(new).await.unwrap();
    gate.admit(new).await.unwrap();
    assert_eq!(gate.admit(old).await.unwrap_err().stale().unwrap().newest, new);
}

/// A store may respond to a conditional GET with the whole object, although the ETag matches.
#[tokio::test]
async fn a_gate_accepts_an_unchanged_object_but_no_lower_token() {
    let mut store = MockStore::new();
    store.expect_describe().return_const("a store".to_owned());
    for newest in [3, 3, 2] {
        let body = format!("{{\"tenure_gate\":1,\"newest\":{newest}}}\n");
        let answer = move |_: &str, _, _| Ok(found(body.clone().into(), "e"));
        store.expect_get().times(1).returning(answer);
    }
    let gate = DurableGate::new(Arc::new(store), "g");
    let three = Epoch::new(3);
    assert_eq!(gate.newest().await.unwrap(), three);
    assert_eq!(gate.newest().await.unwrap(), three);
    let error = gate.newest().await.unwrap_err();
    assert_eq!(error.kind(), tenure::ErrorKind::UnsafeStore);
    assert_eq!(error.to_string(), "g was lowered from 3 to 2, and not by a reset (in a store)");
}

/// An instance that has seen a greater token accepts a lower token only after a reset.
#[tokio::test]
async fn running_instances_accept_the_reset_of_a_gate() {
    let store = Arc::new(tenure::store::MemoryStore::new());
    let gate = || DurableGate::new(store.clone(), "g");
    let (one, other) = (gate(), gate());
    let (old, new, wrong) = (Epoch::new(6).unwrap(), Epoch::new(7).unwrap(), Epoch::MAX);
    one.admit(new).await.unwrap();
    other.admit(wrong).await.unwrap();
    assert_eq!(one.admit(new).await.unwrap_err().stale().unwrap().newest, wrong);
    gate().inspect().await.unwrap().reset(new).await.unwrap();
    for gate in [one, other, gate()] {
        gate.admit(new).await.unwrap();
        assert_eq!(gate.admit(old).await.unwrap_err().stale().unwrap().newest, new);
        // This instance has seen the first reset. It must also accept a second reset.
        gate.admit(wrong).await.unwrap();
        gate.inspect().await.unwrap().reset(new).await.unwrap();
    }
    let sole = gate().sole_instance();
    sole.admit(wrong).await.unwrap();
    sole.inspect().await.unwrap().reset(new).await.unwrap();
    sole.admit(new).await.unwrap();
}

#[tokio::test]
async fn a_gate_sends_one_put_for_a_greater_token_and_one_get_for_the_known_one() {
    let mut store = MockStore::new();
    store.expect_describe().return_const("a store".to_owned());
    let mut order = mockall::Sequence::new();
    store.expect_get().times(1).in_sequence(&mut order).returning(|_, unless, _| {
        assert_eq!(unless, None);
        Ok(GetOutcome::NotFound)
    });
    store.expect_create().times(1).in_sequence(&mut order).returning(|_, _| Ok(done("1")));
    store.expect_replace().times(1).in_sequence(&mut order).returning(|_, _, etag| {
        assert_eq!(etag, ETag::new("1"));
        Ok(done("2"))
    });
    store.expect_get().times(1).in_sequence(&mut order).returning(|_, unless, _| {
        assert_eq!(unless, Some(ETag::new("2")));
        Ok(GetOutcome::NotModified)
    });
    let gate = DurableGate::new(Arc::new(store), "g");
    for token in [1, 2, 2] {
        gate.admit(Epoch::new(token).unwrap()).await.unwrap();
    }
}

#[test]
fn an_error_names_its_source() {
    use std::error::Error as _;

    let stale = Stale { offered: Epoch::FIRST, newest: Epoch::new(2).unwrap() };
    let refused =
        FencingError::Stale { stale, determinacy: tenure::store::Determinacy::Determinate };
    let source = refused.source().and_then(|source| source.downcast_ref());
    assert_eq!(source, Some(&stale));
    let error = tenure::Error::new(tenure::ErrorKind::Unavailable, "503");
    let failed = FencingError::Failed(error);
    assert_eq!(failed.source().expect("the error has a source").to_string(), "503");
    assert!(FencingError::Trimmed { oldest: 3 }.source().is_none());
}

/// A reset creates a deleted object again. Before the fix, a running instance mistook this new
/// object for an old version, and returned `UnsafeStore` for every token.
#[tokio::test(start_paused = true)]
async fn regression_instances_accept_a_reset_after_the_deletion_of_the_gate() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let gate = || DurableGate::new(Arc::clone(&store), "g");
    let epoch = |number| Epoch::new(number).expect("an epoch");
    let running = gate();
    running.admit(epoch(5)).await.expect("admitted");
    gate().inspect().await.expect("read").reset(epoch(6)).await.expect("reset");
    running.admit(epoch(999)).await.expect("a wrong token is admitted");
    store.delete(vec!["g".to_owned()]).await.expect("deleted");
    gate().inspect().await.expect("read").reset(epoch(7)).await.expect("reset");
    running.admit(epoch(7)).await.expect("accepted");
    running.admit(epoch(8)).await.expect("real tokens are admitted again");
}

/// Before the fix, if the store reported a deletion but deleted nothing, the trim returned `Ok`,
/// and no later trim deleted those entries.
#[tokio::test(start_paused = true)]
async fn regression_a_trim_detects_entries_that_the_store_did_not_delete() {
    for says_so in [true, false] {
        let memory = Arc::new(MemoryStore::new());
        let log = FencedLog::new(memory.clone(), "log").expect("a prefix");
        let mut writer = log.open(Epoch::FIRST).await.expect("opened");
        for _ in 0..10 {
            writer.append("x").await.expect("appended");
        }
        let mut liar = MockStore::new();
        liar.expect_describe().return_const("a store".to_owned());
        let at = memory.clone();
        liar.expect_get().returning(move |key, unless, max| {
            at.get(key, unless, max).now_or_never().expect("no wait")
        });
        let at = memory.clone();
        liar.expect_list().returning(move |prefix, after, max| {
            at.list(prefix, after, max).now_or_never().expect("no wait")
        });
        let at = memory.clone();
        liar.expect_create()
            .returning(move |key, body| at.create(key, body).now_or_never().expect("no wait"));
        liar.expect_delete().returning(move |mut keys| {
            keys.truncate(usize::from(says_so));
            Ok(keys
                .into_iter()
                .map(|key| {
                    (
                        key,
                        StoreError::new(
                            StoreErrorKind::Transient,
                            Determinacy::Indeterminate,
                            "held",
                        ),
                    )
                })
                .collect())
        });
        let lied = FencedLog::new(Arc::new(liar), "log").expect("a prefix");
        let FencingError::Failed(error) =
            lied.trim(9).await.expect_err("the store deleted nothing")
        else {
            panic!("a failure")
        };
        assert_eq!(error.kind(), tenure::ErrorKind::Unavailable);
        assert!(error.may_have_happened());
        let why = if says_so { "was not deleted: held" } else { "still listed" };
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(log.trim(9).await.expect("trimmed"), 9);
        let left = memory.list("log/", "", 99).await.expect("listed").entries.len();
        assert_eq!(left, 1 + 3 + 1, "the claim, the entries from 9 on, and the marker");
    }
}
