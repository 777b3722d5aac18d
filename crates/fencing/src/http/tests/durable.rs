//! Tests of the layer with a durable gate.

use tenure::store::MemoryStore;

use super::*;
use tenure_testkit::logged::logged;

#[tokio::test]
async fn a_durable_gate_remembers_its_token_across_restarts() {
    let (store, resource) = (Arc::new(MemoryStore::new()), Resource::default());
    let service = || {
        let durable = DurableGate::new(store.clone(), "gates/board");
        FenceLayer::new(Gate::new()).durable(durable)
    };
    assert_eq!(put(&service(), &resource, &["5"]).await.status(), StatusCode::OK);
    let refused = put(&service(), &resource, &["4"]).await;
    assert_eq!(
        Stale::from_problem(refused.body().as_bytes()),
        Some(Stale { offered: e(4), newest: e(5) })
    );
    assert_eq!(resource.written(), [5]);
}

/// Sends a request through a layer with a durable gate on this store. Returns the response and the
/// log.
async fn put_past_broken(store: Arc<dyn tenure::store::Store>) -> (Response<String>, String) {
    let resource = Resource::default();
    let layer = FenceLayer::new(Gate::new()).durable(DurableGate::new(store, "gates/board"));
    let answered = logged(put(&layer, &resource, &["5"])).await;
    assert!(resource.written().is_empty());
    answered
}

/// Before the fix, the layer responded with 503 and `Retry-After: 1` to every error of the gate,
/// and logged nothing.
#[tokio::test]
async fn regression_a_broken_durable_gate_is_logged_and_suggests_no_retry() {
    let store = MemoryStore::new();
    store.create("gates/board", bytes::Bytes::from_static(b"not a gate")).await.unwrap();
    let (answer, logged) = put_past_broken(Arc::new(store)).await;
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!answer.headers().contains_key(RETRY_AFTER));
    assert!(!answer.body().contains("gates/board"), "{}", answer.body());
    assert!(logged.contains("WARN") && logged.contains("gates/board is not a gate"), "{logged}");
    assert!(logged.contains(r#"outcome="failed""#), "{logged}");
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_of_a_durable_gate_is_logged_and_suggests_a_retry() {
    use tenure::store::{Determinacy, StoreError, StoreErrorKind};
    let mut store = crate::mock_store::MockStore::new();
    store.expect_describe().return_const("a store".to_owned());
    store.expect_get().returning(|_, _, _| {
        Err(StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, "slow down"))
    });
    let (answer, logged) = put_past_broken(Arc::new(store)).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()[RETRY_AFTER], "1");
    assert!(logged.contains("WARN") && logged.contains("slow down"), "{logged}");
    assert!(logged.contains(r#"outcome="unavailable""#), "{logged}");
}
