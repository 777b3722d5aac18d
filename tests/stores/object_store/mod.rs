//! Tests stores behind the interface of the crate object_store. Some stores are accepted, and
//! others are refused with a reason.
#![cfg(feature = "object-store")]

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::prefix::PrefixStore;
use tenure::store::{AnyObjectStore, GetOutcome, PutOutcome, Store, StoreErrorKind};
use tenure_testkit::conformance::{self, Capabilities};

#[cfg(feature = "object-store-tests")]
mod clients;
mod wrapped;

/// Returns capabilities that tell the conformance suite that a store does not distinguish a missing
/// object from another version. The in-memory store of object_store, Cloud Storage and Azure answer
/// "precondition failed" in both cases.
fn missing_is_refused() -> Capabilities {
    Capabilities { missing_is_refused: true, ..Capabilities::default() }
}

async fn taken(store: impl ObjectStore) -> AnyObjectStore {
    AnyObjectStore::new(Arc::new(store)).await.expect("the store is accepted")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_in_memory_passes_the_suite() {
    let store = Arc::new(taken(InMemory::new()).await);
    conformance::run_with(store.clone(), "", &missing_is_refused()).await;
    conformance::run_with(store, "a/folder/", &missing_is_refused()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_prefix_of_another_store_passes_the_suite() {
    let store = Arc::new(taken(PrefixStore::new(InMemory::new(), "a/part")).await);
    conformance::run_with(store, "app/", &missing_is_refused()).await;
}

#[tokio::test]
async fn keys_that_object_store_cannot_name_are_refused_before_any_request() {
    let store = taken(InMemory::new()).await;
    for key in ["a//b", "/a", "a/", "a/../b", "./a", "a\nb"] {
        let error = store.create(key, "x".into()).await.expect_err(key);
        assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
    }
    for key in ["a b", "é", "a%2Fb", "...", "a=1"] {
        assert!(
            matches!(store.create(key, "x".into()).await, Ok(PutOutcome::Done { .. })),
            "{key}"
        );
    }
}

#[tokio::test]
async fn the_description_is_the_name_of_the_wrapped_store() {
    let store = taken(PrefixStore::new(InMemory::new(), "p")).await;
    assert_eq!(store.describe(), "PrefixObjectStore(p)");
}

/// The caller has built the client, and the store cannot read how often this client retries. So the
/// store must assume that a request may be sent twice.
#[tokio::test]
async fn a_callers_client_may_send_a_request_twice() {
    assert!(taken(InMemory::new()).await.capabilities().may_send_twice);
}

/// The interface of object_store omits the dates of responses.
#[tokio::test]
async fn the_newest_date_that_was_seen_is_the_clock_of_the_store() {
    let store = taken(InMemory::new()).await;
    let dates = async |key: &str| match store.get(key, None, 9).await.unwrap() {
        GetOutcome::Found(object) => (object.served_at.unwrap(), object.last_modified.unwrap()),
        other => panic!("{other:?}"),
    };
    store.create("old", "1".into()).await.unwrap();
    let (_, old) = dates("old").await;
    store.create("new", "1".into()).await.unwrap();
    let (newest, _) = dates("new").await;
    assert!(newest > old);
    assert_eq!(dates("old").await, (newest, old));
    assert_eq!(store.list("old", "", 9).await.unwrap().served_at, Some(newest));
}
