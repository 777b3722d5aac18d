//! The library on the memory store, with paused time: waiting costs nothing and no test is timed.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tenure::store::MemoryStore;
use tenure::{Attempt, Election, ElectionBuilder, Loss, Observation};

fn election(store: &MemoryStore, name: &str) -> ElectionBuilder {
    Election::builder(Arc::new(store.clone()), "app")
        .name(name)
        .validity(Duration::from_millis(500))
}

#[tokio::test]
async fn elects_renews_resigns_and_elects_the_next() {
    let store = MemoryStore::new();
    let a = election(&store, "a").build().unwrap().campaign().await.unwrap();
    assert_eq!(a.epoch().get(), 1);
    assert_eq!(a.check().unwrap().get(), 1);
    let b = election(&store, "b").build().unwrap();
    assert!(
        matches!(b.try_campaign().await.unwrap(), Attempt::Held(leader) if leader.name() == "a")
    );
    let mut events = a.events();
    events.next().await.unwrap();
    events.next().await.unwrap();
    a.proclaim("here").await.unwrap();
    assert_eq!(b.leader().await.unwrap().unwrap().data, "here");
    a.resign().await.unwrap();
    let Attempt::Elected(b) = b.try_campaign().await.unwrap() else { panic!("not elected") };
    assert_eq!(b.epoch().get(), 2);
}

#[tokio::test]
async fn a_dead_leader_is_succeeded_and_learns_of_it() {
    let store = MemoryStore::new();
    let a = election(&store, "a").build().unwrap().campaign().await.unwrap();
    let observer = election(&store, "o").build().unwrap();
    let mut seen = observer.observe();
    assert!(
        matches!(seen.next().await.unwrap().unwrap(), Observation::Leader(l) if l.name() == "a")
    );
    drop(a);
    let b = election(&store, "b").build().unwrap().campaign().await.unwrap();
    assert_eq!(b.epoch().get(), 2);
    loop {
        if let Observation::Leader(l) = seen.next().await.unwrap().unwrap() {
            assert_eq!(l.name(), "b");
            break;
        }
    }
    let ran = b
        .run(|epoch, cancelled| async move {
            assert!(!cancelled.is_cancelled());
            epoch.get()
        })
        .await;
    assert_eq!(ran.value, 2);
    assert!(ran.lost.is_none());
}

#[tokio::test]
async fn a_deleted_epoch_object_is_a_loss() {
    use tenure::Store as _;
    let store = MemoryStore::new();
    let a = election(&store, "a").build().unwrap().campaign().await.unwrap();
    store.delete(vec!["app/lock-0000000001.json".into()]).await.unwrap();
    assert!(matches!(a.lost().await, Loss::Vanished));
    assert!(a.check().is_err());
}
