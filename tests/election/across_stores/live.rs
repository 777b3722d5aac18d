//! The operator's calls while candidates campaign and lead.

use std::sync::Arc;

use serde_json::json;
use tenure::store::MemoryStore;
use tenure::{Deposed, EpochEnd, ErrorKind, HoldState, Loss, SetState};
use tenure_testkit::fault_store::{Fault, FaultStore};
use tenure_testkit::time::{secs, timed, wait, within};
use tenure_testkit::world::{VALIDITY, elect, key};

use super::scene::{Scene, unsealed};

/// Asserts that the leader keeps its lease with two stores, and that the next leader holds three.
async fn assert_replaced(scene: &Scene, leadership: tenure::Leadership) {
    wait(secs(60)).await;
    assert!(leadership.check().is_ok());
    let held = leadership.stores().iter().filter(|it| it.state == HoldState::Held).count();
    assert_eq!(held, 2, "{:?}", leadership.stores());
    leadership.resign().await.unwrap();
    let next = scene.elect("b").await;
    assert_eq!(next.epoch().get(), 2);
    wait(secs(5)).await;
    assert!(next.stores().iter().all(|it| it.state == HoldState::Held), "{:?}", next.stores());
    let set = scene.operator().store_set().await.unwrap();
    assert!(matches!(&set.state, SetState::Leader(it) if it.name() == "b"), "{:?}", set.state);
    assert!(set.stores.iter().all(|it| it.newest == Some(next.epoch())), "{set:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_keeps_its_lease_while_a_lost_store_is_replaced() {
    for store in 0..3 {
        let scene = Scene::with_set(3).await;
        let leadership = scene.elect("a").await;
        wait(secs(5)).await;
        scene.wipe(store).await;
        wait(secs(5)).await;
        scene.operator().replace_store(store, VALIDITY).await.unwrap();
        assert_replaced(&scene, leadership).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_keeps_its_lease_while_a_store_moves() {
    for store in 0..3 {
        let mut scene = Scene::with_set(3).await;
        let leadership = scene.elect("a").await;
        wait(secs(5)).await;
        let new = FaultStore::new(Arc::new(MemoryStore::new()));
        let old = std::mem::replace(&mut scene.stores[store], new);
        scene.operator().move_store(Arc::new(old), store, VALIDITY).await.unwrap();
        assert_replaced(&scene, leadership).await;
    }
}

/// The dead leader held the lost store, so its successor waits for the validity that the operator
/// gave.
#[tokio::test(start_paused = true)]
async fn a_candidate_waits_for_the_given_validity_at_the_new_contents() {
    let scene = Scene::with_set(3).await;
    let leadership = scene.elect("a").await;
    wait(secs(5)).await;
    scene.wipe(2).await;
    scene.stores[1].always(Fault::Hang);
    drop(leadership);
    scene.stores[1].heal();
    scene.operator().replace_store(2, secs(60)).await.unwrap();
    scene.stores[1].always(Fault::Hang);
    let (took, next) = timed(scene.elect("b")).await;
    assert_eq!(next.epoch().get(), 2);
    assert!(took >= secs(60) && took < secs(80), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_loses_its_lease_and_its_successor_waits() {
    for dead in [false, true] {
        let scene = Scene::with_set(3).await;
        let leadership = scene.elect("a").await;
        wait(secs(5)).await;
        let operator = scene.operator();
        let deposed = match dead {
            true => operator.depose_dead(None).await,
            false => operator.depose(None).await,
        };
        assert!(matches!(deposed, Ok(Deposed::Sealed { .. })), "{deposed:?}");
        let (took, next) = timed(scene.elect("b")).await;
        assert_eq!(next.epoch().get(), 2);
        assert_eq!(took > secs(5), !dead, "{took:?}");
        let loss = within(secs(30), leadership.lost()).await.unwrap();
        let ended = if dead { EpochEnd::Lapsed } else { EpochEnd::Deposed };
        let Loss::Sealed { ended: why, .. } = &loss else { panic!("{loss:?}") };
        assert!(*why == ended || *why == EpochEnd::DeposedDead, "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_resigns_for_a_dead_leader() {
    let scene = Scene::with_set(3).await;
    let leadership = scene.elect("a").await;
    let key = leadership.resign_key();
    wait(secs(5)).await;
    drop(leadership);
    scene.operator().resign_dead(key, None).await.unwrap();
    let (took, next) = timed(scene.elect("b")).await;
    assert!(took < secs(3) && next.epoch().get() == 2, "{took:?}");
}

/// The prefix of each store contains an election in one store.
#[tokio::test(start_paused = true)]
async fn a_candidate_across_stores_refuses_an_election_in_one_store() {
    let mut plain = unsealed(1);
    plain["format"] = json!(1);
    for name in ["app/lock.json".to_owned(), key(1)] {
        for is_marked in [false, true] {
            let scene = match is_marked {
                false => Scene::new(3),
                true => Scene::with_set(3).await,
            };
            for store in 0..3 {
                scene.put(store, &name, &plain).await;
            }
            let error = scene.candidate("a").try_campaign().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name} {is_marked}: {error}");
            assert!(error.to_string().contains("an election in one store"), "{error}");
        }
    }
    let scene = Scene::with_set(3).await;
    elect(&scene.candidate("a")).await.resign().await.unwrap();
}
