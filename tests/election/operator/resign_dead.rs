//! Tests of `Election::resign_dead`.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure::{Deposed, Election, EpochEnd, ErrorKind, Layout, Loss, ResignKey, Resigned};

use super::rival::Interposed;
use super::scene::{LAYOUTS, Scene, epoch, is_sealed};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{secs, timed, wait};
use tenure_testkit::world::{VALIDITY, elect};
use tenure_testkit::write_faults::WRITE_FAULTS;

/// Returns the key of a leader that stops without a resignation, like a killed process.
async fn dead_leader(scene: &Scene) -> ResignKey {
    let a = elect(&scene.node("a").data(json!({ "x": 1 })).build().unwrap()).await;
    let key = a.resign_key();
    drop(a);
    key
}

fn guard(scene: &Scene) -> Election {
    scene.election("a")
}

/// Asserts that the record `after` is sealed as resigned and has no data, and that it keeps the
/// other fields of the record `before`.
fn check_seal(before: &Value, after: &Value) {
    assert!(is_sealed(after), "{after}");
    let heartbeat = |record: &Value| record["heartbeat"].as_u64().unwrap();
    assert!(heartbeat(after) == heartbeat(before) + 1, "{before} {after}");
    assert_eq!((&after["ended"], &after["data"]), (&json!("resigned"), &Value::Null));
    for kept in ["validity_ms", "format", "candidate", "nonce", "elected_at", "token", "epoch"] {
        assert_eq!(after[kept], before[kept], "{kept}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_successor_of_a_dead_process_does_not_wait() {
    for layout in LAYOUTS {
        for scene in [Scene::new(layout), Scene::in_a_directory(layout)] {
            let key = dead_leader(&scene).await;
            assert_eq!(key.epoch(), epoch(1));
            let before = scene.record(1).await;
            scene.store.take_log();
            let key: ResignKey = key.to_string().parse().unwrap();
            assert_eq!(guard(&scene).resign_dead(key, None).await.unwrap(), Resigned::Sealed);
            assert_eq!(scene.store.take_calls(), [Call::Get, Call::Replace]);
            let after = scene.record(1).await;
            check_seal(&before, &after);
            assert_eq!((&after["sealed_by"], &after["successor"]), (&json!("a"), &Value::Null));
            let (took, b) = timed(elect(&scene.election("b"))).await;
            assert!(took < secs(1) && b.epoch() == epoch(2), "{took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_named_successor_is_elected_first_after_a_seal() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let key = dead_leader(&scene).await;
        let wrong = guard(&scene).resign_dead(key, Some("")).await.unwrap_err();
        assert_eq!(wrong.kind(), ErrorKind::InvalidInput);
        assert!(!is_sealed(&scene.record(1).await));
        guard(&scene).resign_dead(key, Some("c")).await.unwrap();
        assert_eq!(scene.record(1).await["successor"], "c");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_with_another_epoch_or_nonce_is_left_unchanged() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let key = dead_leader(&scene).await;
        let before = scene.record(1).await;
        let other: ResignKey = format!("1-{:032x}", 7).parse().unwrap();
        let guard = guard(&scene);
        assert_eq!(guard.resign_dead(other, None).await.unwrap(), Resigned::NotCurrent);
        assert_eq!(scene.record(1).await, before);
        // This key has the nonce of the holder, but another epoch.
        let (_, nonce) =
            key.to_string().split_once('-').map(|(a, b)| (a.len(), b.to_owned())).unwrap();
        let other: ResignKey = format!("2-{nonce}").parse().unwrap();
        assert_eq!(guard.resign_dead(other, None).await.unwrap(), Resigned::NotCurrent);
        assert_eq!(scene.record(1).await, before);
        // After a takeover, the result depends on the layout. With `Layout::EpochFiles`, the epoch
        // object shows that the epoch of the `ResignKey` has ended. With `Layout::SingleObject`,
        // the only object already has another token.
        guard.resign_dead(key, None).await.unwrap();
        let _b = scene.leader("b").await;
        let expected = match layout {
            Layout::EpochFiles => Resigned::Already(EpochEnd::Resigned),
            _ => Resigned::NotCurrent,
        };
        assert_eq!(guard.resign_dead(key, None).await.unwrap(), expected);
        assert!(!is_sealed(&scene.record(2).await));
    }
}

#[tokio::test(start_paused = true)]
async fn an_epoch_that_ended_in_another_way_is_left_unchanged() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let key = dead_leader(&scene).await;
        let deposed = scene.election("ann").depose(None).await.unwrap();
        assert!(matches!(deposed, Deposed::Sealed { .. }));
        let sealed = scene.record(1).await;
        let resigned = guard(&scene).resign_dead(key, None).await.unwrap();
        assert_eq!(resigned, Resigned::Already(EpochEnd::Deposed));
        assert_eq!(scene.record(1).await, sealed);
    }
}

/// The last renewal of the dead process arrives between the read and the seal.
#[tokio::test(start_paused = true)]
async fn after_a_late_renewal_the_record_is_read_again_and_sealed() {
    for layout in LAYOUTS {
        let scene = Arc::new(Scene::new(layout));
        let key = dead_leader(&scene).await;
        let before = scene.record(1).await;
        let other = Arc::clone(&scene);
        let renewal = Box::pin(async move { other.renew(1).await });
        let way = Arc::new(Interposed::over(Arc::clone(scene.store.inner()), 1, renewal));
        let guard = Election::builder(way.clone(), "app").layout(layout).name("a");
        let guard = guard.validity(VALIDITY).check_store(false).build().unwrap();
        assert_eq!(guard.resign_dead(key, None).await.unwrap(), Resigned::Sealed);
        assert!(!way.0.is_left());
        let after = scene.record(1).await;
        assert!(is_sealed(&after));
        let heartbeat = |record: &Value| record["heartbeat"].as_u64().unwrap();
        assert_eq!(heartbeat(&after), heartbeat(&before) + 2);
    }
}

/// The guard calls `resign_dead` for a process that is alive. Then the store refuses the next
/// renewal of this process.
#[tokio::test(start_paused = true)]
async fn a_renewal_after_the_seal_is_refused() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let a = scene.leader("a").await;
        guard(&scene).resign_dead(a.resign_key(), None).await.unwrap();
        let sealed = scene.record(1).await;
        let lost = a.lost().await;
        assert!(matches!(lost, Loss::Sealed { ended: EpochEnd::Resigned, .. }), "{lost:?}");
        assert_eq!(scene.record(1).await, sealed);
    }
}

/// The store refuses every seal, as if the holder had just renewed its lease. So the guard treats
/// the holder as alive, and does not change its record.
#[tokio::test(start_paused = true)]
async fn a_holder_that_keeps_renewing_is_left_unchanged() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let key = dead_leader(&scene).await;
        scene.store.on(Call::Replace).always().fault(Fault::Refuse);
        assert_eq!(guard(&scene).resign_dead(key, None).await.unwrap(), Resigned::Renewed);
        assert!(!is_sealed(&scene.record(1).await));
    }
}

#[tokio::test(start_paused = true)]
async fn a_seal_by_a_supervisor_with_an_unknown_effect_is_read_back() {
    for layout in LAYOUTS {
        for fault in WRITE_FAULTS {
            for times in 1..=3 {
                let scene = Scene::new(layout);
                let key = dead_leader(&scene).await;
                let before = scene.record(1).await;
                scene.store.on(Call::Replace).times(times).fault(fault);
                let resigned = guard(&scene).resign_dead(key, None).await.unwrap();
                assert_eq!(resigned, Resigned::Sealed, "{fault:?}");
                let told = scene.record(1).await;
                check_seal(&before, &told);
                wait(secs(15)).await;
                assert_eq!(scene.record(1).await, told, "{fault:?} took effect later");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_effect_is_reported_as_unknown() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let key = dead_leader(&scene).await;
        scene.store.on(Call::Replace).always().fault(Fault::Conflict);
        let error = guard(&scene).resign_dead(key, None).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable && error.may_have_happened(), "{error}");
        scene.put(1, "no record").await;
        let error = guard(&scene).resign_dead(key, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CorruptRecord, "{error}");
    }
}
