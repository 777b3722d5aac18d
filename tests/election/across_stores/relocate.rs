//! Tests of `Election::move_store`.

use std::sync::Arc;

use tenure::store::MemoryStore;
use tenure::{Election, ErrorKind};
use tenure_testkit::fault_store::{Call, Fault, FaultStore, overwrite};
use tenure_testkit::time::{secs, wait};
use tenure_testkit::world::{VALIDITY, key};
use tenure_testkit::write_faults::WRITE_FAULTS;

use super::replace::Replaced;
use super::scene::{Scene, unsealed};

/// Moves store 2 of a set. `scene.stores[2]` is the new store.
async fn moving() -> (Scene, FaultStore) {
    let mut scene = Scene::with_set(3).await;
    scene.leads(3, &[0, 1, 2]).await;
    let new = FaultStore::new(Arc::new(MemoryStore::new()));
    let old = std::mem::replace(&mut scene.stores[2], new);
    (scene, old)
}

/// Returns the broken rule, or `None`. Before the new contents count, the marker in the old
/// contents must be deleted, and the newest epoch there must be sealed.
async fn broken(scene: &mut Scene, old: &FaultStore) -> Option<&'static str> {
    let now = Replaced::of(scene, 2, 3).await;
    let new = std::mem::replace(&mut scene.stores[2], old.clone());
    let is_marked = scene.keys(2).await.iter().any(|key| key.contains("of3"));
    let is_sealed = scene.record(2, 3).await["expired"] == true;
    scene.stores[2] = new;
    match now.broken() {
        None if now.counts() && (is_marked || !is_sealed) => Some("the old contents count"),
        None if is_sealed && is_marked => Some("the marker is deleted before the seal"),
        other => other,
    }
}

async fn assert_moved(scene: &mut Scene, old: &FaultStore) {
    assert_eq!(broken(scene, old).await, None);
    assert!(Replaced::of(scene, 2, 3).await.counts());
}

#[tokio::test(start_paused = true)]
async fn the_old_contents_stop_counting_before_the_new_contents_count() {
    let (mut scene, old) = moving().await;
    let election = scene.operator();
    let outcome = election.move_store(Arc::new(old.clone()), 2, VALIDITY).await.unwrap();
    assert_eq!((outcome.generation, outcome.epoch.unwrap().get()), (2, 3));
    let calls = [Call::List, Call::Delete, Call::List, Call::Get, Call::Replace];
    assert_eq!(old.take_calls(), calls);
    assert_moved(&mut scene, &old).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_at_each_request_another_call_completes_the_move() {
    for requests in 0.. {
        let (mut scene, old) = moving().await;
        let from = old.clone();
        let call = async move |election: Election, fuse: Arc<super::scene::Fuse>| {
            election.move_store(fuse.store(&from), 2, VALIDITY).await.unwrap();
        };
        let survived = scene.crash(requests, &scene.stores, call).await;
        assert_eq!(broken(&mut scene, &old).await, None, "after {requests} requests");
        let election = scene.operator();
        election.move_store(Arc::new(old.clone()), 2, VALIDITY).await.unwrap();
        assert_moved(&mut scene, &old).await;
        if survived {
            assert_eq!(requests, 21);
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_request_another_call_completes_the_move() {
    let deletes =
        [Fault::FailBefore, Fault::FailAfter, Fault::Hang, Fault::HangAfter, Fault::Claim];
    let deletes = deletes.map(|fault| (Call::Delete, fault));
    let replaces = WRITE_FAULTS.map(|fault| (Call::Replace, fault));
    for (call, fault) in deletes.into_iter().chain(replaces) {
        for times in [1, 9] {
            let (mut scene, old) = moving().await;
            old.on(call).times(times).fault(fault);
            let election = scene.operator();
            let _ = election.move_store(Arc::new(old.clone()), 2, VALIDITY).await;
            wait(secs(60)).await;
            assert_eq!(broken(&mut scene, &old).await, None, "{fault:?}");
            old.heal();
            election.move_store(Arc::new(old.clone()), 2, VALIDITY).await.unwrap();
            assert_moved(&mut scene, &old).await;
        }
    }
}

/// The old contents stay in use if the new contents cannot replace them.
#[tokio::test(start_paused = true)]
async fn unusable_new_contents_are_refused_before_the_old_marker_is_deleted() {
    let (scene, old) = moving().await;
    let from = Arc::new(old.clone());
    scene.put(2, "app/lock.json", &serde_json::json!(1)).await;
    let error = scene.operator().move_store(from.clone(), 2, VALIDITY).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    scene.wipe(2).await;
    scene.stores[0].always(Fault::FailBefore);
    let error = scene.operator().move_store(from, 2, VALIDITY).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!error.may_have_happened() && old.take_log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn another_store_of_the_set_is_refused() {
    let (scene, old) = moving().await;
    let before = scene.keys(0).await;
    let other = Arc::new(scene.stores[0].clone());
    let error = scene.operator().move_store(other, 2, VALIDITY).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("Nothing was changed"), "{error}");
    // Store 2 has no marker, so too few stores count for a move of store 1.
    let error = scene.operator().move_store(Arc::new(old.clone()), 1, VALIDITY).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error}");
    assert_eq!(scene.keys(0).await, before);
    assert!(old.take_log().is_empty());
}

/// Before the fix, the call changed nothing in such a store and returned `Ok`. The leader kept its
/// lease in the real old contents, and a second leader used the new ones.
#[tokio::test(start_paused = true)]
async fn regression_a_store_that_was_not_the_old_one_is_refused() {
    let (scene, _) = moving().await;
    let wrong = FaultStore::new(Arc::new(MemoryStore::new()));
    // First the store is empty. Then it has the epochs of contents that were moved earlier.
    for stale in [None, Some(2)] {
        if let Some(epoch) = stale {
            overwrite(&**wrong.inner(), &key(epoch), unsealed(epoch).to_string().into()).await;
        }
        let before = scene.keys(0).await;
        let call = scene.operator().move_store(Arc::new(wrong.clone()), 2, VALIDITY).await;
        let error = call.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        for part in ["no marker of store 3 of the set", "Check `old`", "Nothing was written"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(!error.may_have_happened() && wrong.take_calls() == [Call::List]);
        assert_eq!((scene.keys(0).await, scene.keys(2).await.len()), (before, 0));
    }
}

/// The old contents have no epoch, so after the deletion of their marker nothing shows that they
/// are the right ones.
#[tokio::test(start_paused = true)]
async fn after_a_crash_before_the_first_epoch_the_remedy_is_a_replacement() {
    let mut scene = Scene::with_set(3).await;
    let new = FaultStore::new(Arc::new(MemoryStore::new()));
    let old = Arc::new(std::mem::replace(&mut scene.stores[2], new));
    scene.stores[0].on(Call::Create).always().fault(Fault::FailBefore);
    scene.operator().move_store(old.clone(), 2, VALIDITY).await.unwrap_err();
    scene.stores[0].heal();
    let error = scene.operator().move_store(old, 2, VALIDITY).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("`replace_store` with index 2"), "{error}");
    scene.operator().replace_store(2, VALIDITY).await.unwrap();
}
