//! Elections with `Layout::SingleObject`, through the public API.

use futures::StreamExt as _;
use tenure::{EpochEnd, ErrorKind, Layout, Leadership, Observation};
use tenure_testkit::time::{TestClock, millis, process, secs, wait};

use super::operator::scene::Scene;

fn scene() -> Scene {
    Scene::new(Layout::SingleObject)
}

/// Drops the leadership, and waits until the driver has ended.
async fn crash(leadership: Leadership) {
    drop(leadership);
    wait(millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn tokens_rise_by_one_and_a_release_keeps_the_token() {
    let scene = scene();
    let election = scene.election("c1");
    for token in 1..=3 {
        let leadership = election.campaign().await.unwrap();
        assert_eq!(leadership.epoch().get(), token);
        let held = scene.record(1).await;
        assert_eq!((held["token"].as_u64(), held["epoch"].as_u64()), (Some(token), Some(token)));
        assert!(held["expires_at"].as_f64().unwrap() > 1e9);
        leadership.resign().await.unwrap();
        let released = scene.record(1).await;
        assert_eq!(released["token"].as_u64(), Some(token));
        assert_eq!(released["expires_at"].as_f64(), Some(0.0));
        assert_eq!(released["ended"], "resigned");
    }
}

#[tokio::test(start_paused = true)]
async fn wall_clocks_do_not_affect_candidates() {
    let scene = scene();
    let leader = scene.election("c1").campaign().await.unwrap();
    let ahead = TestClock::new();
    ahead.set_wall_by(3_600_000);
    let election = scene.node("c2").process(process(&ahead, 2)).build().unwrap();
    let follow = tokio::spawn(async move { election.campaign().await.unwrap() });
    wait(secs(60)).await;
    assert!(!follow.is_finished() && leader.check().is_ok());
    leader.resign().await.unwrap();
    assert_eq!(follow.await.unwrap().epoch().get(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_remembers_tokens_refuses_a_deleted_object() {
    let scene = scene();
    let election = scene.election("c1");
    election.campaign().await.unwrap().resign().await.unwrap();
    election.campaign().await.unwrap().resign().await.unwrap();
    scene.store.inner().delete(vec![scene.key(1)]).await.unwrap();
    let error = election.campaign().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NewestDeleted);
    let text = error.to_string();
    assert!(text.contains("had the token 2, and is missing") && text.contains("above 2"), "{text}");
    // A new process creates the object again with token 1. The next campaign of the old process
    // fails with the same error as before.
    scene.election("c2").campaign().await.unwrap().resign().await.unwrap();
    assert_eq!(election.campaign().await.unwrap_err().kind(), ErrorKind::NewestDeleted);
}

#[tokio::test(start_paused = true)]
async fn observers_and_snapshots_show_the_leader() {
    let scene = scene();
    let observing = scene.election("c3");
    let mut seen = observing.observe();
    assert_eq!(seen.next().await.unwrap().unwrap(), Observation::NoLeader);
    assert_eq!(observing.snapshot().await.unwrap().leader, None);
    let leader = scene.node("c1").data("here").build().unwrap().campaign().await.unwrap();
    let Observation::Leader(shown) = seen.next().await.unwrap().unwrap() else {
        panic!("a leader");
    };
    assert_eq!((shown.epoch.get(), shown.name(), &shown.data), (1, "c1", &"here".into()));
    assert!(shown.expires_at.is_some());
    crash(leader).await;
    assert_eq!(seen.next().await.unwrap().unwrap(), Observation::NoLeader);
    let held = observing.snapshot().await.unwrap();
    assert!(held.leader.is_some() && held.end.is_none(), "{held:?}");
    scene.election("c2").campaign().await.unwrap().resign().await.unwrap();
    assert_eq!(observing.snapshot().await.unwrap().end, Some(EpochEnd::Resigned));
}
