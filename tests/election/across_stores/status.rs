//! Tests of `Election::store_set`.

use serde_json::json;
use tenure::{EpochEnd, ErrorKind, SetState};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::world::{VALIDITY, key};

use super::scene::{Scene, unsealed};

async fn state(scene: &Scene) -> SetState {
    scene.operator().store_set().await.unwrap().state
}

#[tokio::test(start_paused = true)]
async fn a_healthy_set_shows_its_leader() {
    let scene = Scene::with_set(3).await;
    assert_eq!(state(&scene).await, SetState::NoLeader);
    scene.leads(2, &[0, 1]).await;
    scene.stores.iter().for_each(|store| drop(store.take_log()));
    let set = scene.operator().store_set().await.unwrap();
    let SetState::Leader(leader) = set.state else { panic!("{:?}", set.state) };
    assert_eq!((leader.name(), leader.epoch.get()), ("a", 2));
    for (index, store) in set.stores.iter().enumerate() {
        let marker = store.marker.clone().unwrap();
        assert_eq!((marker.number, marker.of, marker.generation), (index + 1, 3, 1));
        assert_eq!((marker.set.len(), store.store.as_str()), (16, "a store with faults"));
        assert!(store.error.is_none() && store.end.is_none(), "{store:?}");
        assert_eq!(store.newest.is_some(), index < 2);
        assert_eq!(store.holder.as_ref().map(|it| it.name()), (index < 2).then_some("a"));
    }
    assert_eq!(scene.stores[0].take_calls(), [Call::List, Call::Get]);
    assert_eq!(scene.stores[2].take_calls(), [Call::List]);
}

#[tokio::test(start_paused = true)]
async fn the_state_depends_on_a_majority() {
    let scene = Scene::with_set(3).await;
    scene.leads(2, &[0]).await;
    assert_eq!(state(&scene).await, SetState::Electing);
    scene.leads(2, &[0, 1]).await;
    assert!(matches!(state(&scene).await, SetState::Leader(_)));
    // One seal does not end the epoch, but two seals do.
    let sealed = json!({ "expired": true, "ended": "resigned", "nonce": null, "format": 2 });
    scene.put(0, &key(2), &sealed).await;
    assert_eq!(state(&scene).await, SetState::Electing);
    scene.put(2, &key(2), &sealed).await;
    assert_eq!(state(&scene).await, SetState::NoLeader);
    // Two candidates have created one epoch.
    scene.leads(3, &[0, 1]).await;
    let mut other = unsealed(3);
    other["nonce"] = json!(format!("{:032x}", 99));
    scene.put(1, &key(3), &other).await;
    assert_eq!(state(&scene).await, SetState::Electing);
}

#[tokio::test(start_paused = true)]
async fn stores_that_do_not_count_show_the_reason() {
    let scene = Scene::with_set(3).await;
    scene.leads(2, &[0, 1, 2]).await;
    let old = scene.keys(2).await.pop().unwrap();
    scene.wipe(2).await;
    scene.operator().replace_store(2, VALIDITY).await.unwrap();
    let set = scene.operator().store_set().await.unwrap();
    assert_eq!(set.stores[2].end, Some(EpochEnd::Restored));
    assert_eq!(set.stores[2].marker.as_ref().unwrap().generation, 2);
    // The old contents come back.
    scene.wipe(2).await;
    scene.put(2, &old, &json!(1)).await;
    let set = scene.operator().store_set().await.unwrap();
    let text = set.stores[2].error.as_ref().unwrap().to_string();
    assert!(text.contains("a replacement has begun generation 2"), "{text}");
    assert!(matches!(set.state, SetState::Leader(_)));
    // A store is lost, and another does not answer.
    scene.wipe(2).await;
    scene.stores[0].always(Fault::FailBefore);
    let set = scene.operator().store_set().await.unwrap();
    assert_eq!(set.state, SetState::NoMajority);
    let kind = |store: usize| set.stores[store].error.as_ref().map(tenure::Error::kind);
    assert_eq!(kind(0), Some(ErrorKind::Unavailable));
    // Two stores do not show the set, so no store counts.
    assert!(kind(1).is_some() && kind(2).is_some());
    assert!(set.stores[1].marker.is_some() && set.stores[1].newest.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_is_the_error_of_its_store() {
    let scene = Scene::with_set(3).await;
    scene.leads(2, &[0, 1]).await;
    scene.put(2, &key(2), &json!("no record")).await;
    let set = scene.operator().store_set().await.unwrap();
    let kind = set.stores[2].error.as_ref().map(tenure::Error::kind);
    assert_eq!(kind, Some(ErrorKind::CorruptRecord));
    assert!(matches!(set.state, SetState::Leader(_)));
}

#[tokio::test(start_paused = true)]
async fn the_status_of_new_stores_names_the_call_that_creates_the_markers() {
    let scene = Scene::new(3);
    let set = scene.operator().store_set().await.unwrap();
    assert_eq!(set.state, SetState::NoMajority);
    for store in set.stores {
        let text = store.error.unwrap().to_string();
        assert!(text.contains("`init_stores`"), "{text}");
    }
}
