//! Elections on a single object, through the public API.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::Value;
use tenure::store::{GetOutcome, MemoryStore, PutOutcome, Store};
use tenure::{
    Election, ElectionBuilder, EpochEnd, ErrorKind, Layout, Leadership, Loss, Observation,
};
use tenure_testkit::time::{TestClock, millis, process, secs, timed, wait};

const KEY: &str = "app/lock.json";
const VALIDITY: Duration = Duration::from_secs(10);

struct World {
    store: MemoryStore,
    clock: TestClock,
}

impl World {
    fn new() -> World {
        let clock = TestClock::new();
        World { store: MemoryStore::with_clock(Arc::new(clock.clone())), clock }
    }

    fn builder(&self, seed: u64) -> ElectionBuilder {
        Election::builder(Arc::new(self.store.clone()), "app")
            .layout(Layout::SingleObject)
            .name(format!("c{seed}"))
            .validity(VALIDITY)
            .process(process(&self.clock, seed))
    }

    fn election(&self, seed: u64) -> Election {
        self.builder(seed).build().unwrap()
    }

    async fn body(&self) -> Value {
        let GetOutcome::Found(object) = self.store.get(KEY, None, 1 << 16).await.unwrap() else {
            panic!("{KEY} does not exist");
        };
        serde_json::from_slice(&object.body).unwrap()
    }

    /// Changes fields of the object, as an operator may do.
    async fn edit(&self, change: impl FnOnce(&mut Value)) {
        let GetOutcome::Found(object) = self.store.get(KEY, None, 1 << 16).await.unwrap() else {
            panic!("{KEY} does not exist");
        };
        let mut body: Value = serde_json::from_slice(&object.body).unwrap();
        change(&mut body);
        let body = Bytes::from(body.to_string());
        let outcome = self.store.replace(KEY, body, object.etag).await.unwrap();
        assert!(matches!(outcome, PutOutcome::Done { .. }));
    }

    async fn delete(&self) {
        self.store.delete(vec![KEY.to_owned()]).await.unwrap();
    }
}

/// Drops the leadership, and waits until the driver has ended.
async fn crash(leadership: Leadership) {
    drop(leadership);
    wait(millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn tokens_rise_by_one_and_a_release_keeps_the_token() {
    let world = World::new();
    let election = world.election(1);
    for token in 1..=3 {
        let leadership = election.campaign().await.unwrap();
        assert_eq!(leadership.epoch().get(), token);
        let held = world.body().await;
        assert_eq!((held["token"].as_u64(), held["epoch"].as_u64()), (Some(token), Some(token)));
        assert!(held["expires_at"].as_f64().unwrap() > 1e9);
        leadership.resign().await.unwrap();
        let released = world.body().await;
        assert_eq!(released["token"].as_u64(), Some(token));
        assert_eq!(released["expires_at"].as_f64(), Some(0.0));
        assert_eq!(released["ended"], "resigned");
    }
}

#[tokio::test(start_paused = true)]
async fn wall_clocks_do_not_affect_candidates() {
    let world = World::new();
    let leader = world.election(1).campaign().await.unwrap();
    let ahead = TestClock::new();
    ahead.set_wall_by(3_600_000);
    let election = world.builder(2).process(process(&ahead, 2)).build().unwrap();
    let follow = tokio::spawn(async move { election.campaign().await.unwrap() });
    wait(secs(60)).await;
    assert!(!follow.is_finished() && leader.check().is_ok());
    leader.resign().await.unwrap();
    assert_eq!(follow.await.unwrap().epoch().get(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_keeps_its_lease_and_learns_the_reason() {
    let world = World::new();
    let leader = world.election(1).campaign().await.unwrap();
    world
        .edit(|body| {
            body["expires_at"] = 0.into();
            body["ended"] = "deposed".into();
            body["sealed_by"] = "ann".into();
            body["heartbeat"] = (body["heartbeat"].as_u64().unwrap() + 1).into();
        })
        .await;
    let election = world.election(2);
    let (took, next) = timed(election.campaign()).await;
    assert!(took >= VALIDITY, "{took:?}");
    assert_eq!(next.unwrap().epoch().get(), 2);
    let Loss::Sealed { by, .. } = leader.check().unwrap_err() else { panic!("sealed") };
    assert_eq!(by.as_deref(), Some("ann"));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_remembers_tokens_refuses_a_deleted_object() {
    let world = World::new();
    let election = world.election(1);
    election.campaign().await.unwrap().resign().await.unwrap();
    election.campaign().await.unwrap().resign().await.unwrap();
    world.delete().await;
    let error = election.campaign().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NewestDeleted);
    let text = error.to_string();
    assert!(text.contains("had the token 2, and is missing") && text.contains("above 2"), "{text}");
    // A new process creates the object again with token 1. The next campaign of the old process
    // fails with the same error as before.
    world.election(2).campaign().await.unwrap().resign().await.unwrap();
    assert_eq!(election.campaign().await.unwrap_err().kind(), ErrorKind::NewestDeleted);
}

#[tokio::test(start_paused = true)]
async fn a_predecessor_with_a_unique_name_is_overwritten_immediately() {
    let world = World::new();
    crash(world.builder(1).name("one").build().unwrap().campaign().await.unwrap()).await;
    let next = world.builder(2).name("one").name_is_unique(true).build().unwrap();
    let (took, leadership) = timed(next.campaign()).await;
    assert!(took < secs(1), "{took:?}");
    assert_eq!(leadership.unwrap().epoch().get(), 2);
}

#[tokio::test(start_paused = true)]
async fn observers_and_snapshots_show_the_leader() {
    let world = World::new();
    let observing = world.election(3);
    let mut seen = observing.observe();
    assert_eq!(seen.next().await.unwrap().unwrap(), Observation::NoLeader);
    assert_eq!(observing.snapshot().await.unwrap().leader, None);
    let leader = world.builder(1).data("here").build().unwrap().campaign().await.unwrap();
    let Observation::Leader(shown) = seen.next().await.unwrap().unwrap() else {
        panic!("a leader");
    };
    assert_eq!((shown.epoch.get(), shown.name(), &shown.data), (1, "c1", &"here".into()));
    assert!(shown.expires_at.is_some());
    crash(leader).await;
    assert_eq!(seen.next().await.unwrap().unwrap(), Observation::NoLeader);
    let held = observing.snapshot().await.unwrap();
    assert!(held.leader.is_some() && held.end.is_none(), "{held:?}");
    world.election(2).campaign().await.unwrap().resign().await.unwrap();
    assert_eq!(observing.snapshot().await.unwrap().end, Some(EpochEnd::Resigned));
}

#[tokio::test(start_paused = true)]
async fn a_candidate_of_the_other_layout_is_refused() {
    let world = World::new();
    let other = || {
        let builder = Election::builder(Arc::new(world.store.clone()), "app");
        builder.process(process(&world.clock, 7)).build().unwrap()
    };
    world.election(1).campaign().await.unwrap().resign().await.unwrap();
    let error = other().campaign().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains(KEY), "{error}");

    let world = World::new();
    let builder = Election::builder(Arc::new(world.store.clone()), "app");
    let files = builder.process(process(&world.clock, 7)).build().unwrap();
    files.campaign().await.unwrap().resign().await.unwrap();
    let error = world.election(1).campaign().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("app/lock-0000000001.json"), "{error}");
}
