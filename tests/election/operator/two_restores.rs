//! Two operators restore the same election to different epochs, and may be killed during the
//! restore.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tenure::{Deposed, Election, Layout, Leadership, Restored, Store};

use super::rival::Interposed;
use super::scene::{Scene, depose, epoch, is_sealed};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, process, secs, wait, within};
use tenure_testkit::world::{VALIDITY, elect};

const NO_WAIT: Duration = Duration::ZERO;

/// Returns a leader that is cut off from the store and whose epoch object was lost. Only an
/// operator knows of this leader.
async fn lost_leader(scene: &Scene) -> Leadership {
    let a = scene.cut_off_leader(Duration::ZERO).await;
    scene.store.inner().delete(vec![scene.key(a.epoch().get())]).await.unwrap();
    a
}

/// Two restores run at the same time. The restore to the lower epoch sends its LIST before the
/// other restore creates the greater epoch. The outcome of the lower restore must name the greater
/// epoch.
#[tokio::test(start_paused = true)]
async fn regression_a_restore_to_a_lower_epoch_reports_the_greater_epoch() {
    for dies in [false, true] {
        let scene = Scene::new(Layout::EpochFiles);
        let a = lost_leader(&scene).await;
        let slow = scene.another_way();
        slow.on(Call::Create).key("10").fault(Fault::Slow(millis(800)));
        let ann = scene.behind(&slow, "ann").build().unwrap();
        let lower = tokio::spawn(async move { ann.restore(epoch(10), VALIDITY).await.unwrap() });
        wait(millis(100)).await;
        if dies {
            scene.store.on(Call::Replace).always().fault(Fault::Hang);
        }
        let ben = scene.election("ben");
        let greater = within(millis(500), ben.restore(epoch(20), NO_WAIT)).await;
        assert_eq!(greater.is_none(), dies);
        scene.store.heal();
        let told = lower.await.unwrap();
        assert!(is_sealed(&scene.record(10).await), "no epoch remains held without need");
        let number = if dies {
            assert_eq!(told, Restored::Held(epoch(20)));
            20
        } else {
            assert_eq!(told, Restored::WaitsLess { epoch: epoch(20), wait: millis(1) });
            21
        };
        let now = scene.election("ann").restore(epoch(number), VALIDITY).await.unwrap();
        assert!(matches!(now, Restored::Sealed { wait, .. } if wait >= VALIDITY), "{now:?}");
        let b = elect(&scene.election("b")).await;
        assert_eq!(b.epoch(), epoch(number + 1));
        assert!(a.check().is_err(), "two processes lead");
    }
}

/// Returns the record of an epoch that a killed restore holds.
fn held(above: u64) -> String {
    let held = json!({
        "expired": false, "nonce": format!("{above:032x}"), "heartbeat": 1, "ended": "restored",
        "data": { "restored_above": above, "wait_ms": 0 },
    });
    held.to_string()
}

/// Two killed restores hold two epochs. While the greater epoch is held, no candidate can be
/// elected. Before the fix, the outcome of a call told the operator to finish the lower epoch, or
/// reported that the restore was finished.
#[tokio::test(start_paused = true)]
async fn regression_the_newest_held_epoch_must_be_finished() {
    let scene = Scene::new(Layout::EpochFiles);
    scene.put(10, held(0)).await;
    scene.put(20, held(0)).await;
    let ann = scene.election("ann");
    assert_eq!(ann.restore(epoch(10), NO_WAIT).await.unwrap(), Restored::Held(epoch(20)));
    for force in [false, true] {
        let deposed = depose(&ann, force, Some(epoch(10))).await.unwrap();
        assert_eq!(deposed, Deposed::Held(epoch(20)));
    }
    assert!(within(secs(3_600), scene.election("b").campaign()).await.is_none());
    let now = ann.restore(epoch(20), NO_WAIT).await.unwrap();
    assert!(matches!(now, Restored::Sealed { .. }), "{now:?}");
    assert_eq!(elect(&scene.election("b")).await.epoch(), epoch(21));
}

/// A restore finds a leader whose lease is longer than the wait in the held epoch. The restore is
/// killed after it has sealed the leader's epoch, and the object of this epoch is lost. The next
/// restore must nevertheless wait for the lease. So a restore must write the longer wait into the
/// held epoch before it seals the leader's epoch.
#[tokio::test(start_paused = true)]
async fn regression_a_longer_wait_is_written_before_the_first_seal() {
    let scene = Scene::new(Layout::EpochFiles);
    let way = scene.another_way();
    let long = VALIDITY * 6;
    let a = elect(&scene.behind(&way, "a").validity(long).build().unwrap()).await;
    way.always(Fault::Hang);
    scene.put(41, held(0)).await;
    scene.store.on(Call::Replace).key("0001").fault(Fault::HangAfter);
    let killed = within(millis(300), scene.election("ann").restore(epoch(41), NO_WAIT)).await;
    assert!(killed.is_none());
    assert!(is_sealed(&scene.record(1).await), "the leader was not deposed");
    scene.store.heal();
    scene.store.delete(vec![scene.key(1)]).await.unwrap();
    let now = scene.election("ben").restore(epoch(41), NO_WAIT).await.unwrap();
    assert!(matches!(now, Restored::Sealed { wait, .. } if wait >= long), "{now:?}");
    let _b = elect(&scene.election("b")).await;
    assert!(a.check().is_err(), "two processes lead");
}

/// A lower epoch is held with a long wait. The restore is killed after it has sealed this epoch,
/// and the sealed object is deleted. The second run must nevertheless wait for the long time.
#[tokio::test(start_paused = true)]
async fn the_wait_of_a_lower_held_epoch_is_written_before_its_seal() {
    let scene = Scene::new(Layout::EpochFiles);
    scene.put(20, held(0).replace(r#""wait_ms":0"#, r#""wait_ms":600000"#)).await;
    scene.put(41, held(0)).await;
    scene.store.on(Call::Replace).key("0020").fault(Fault::HangAfter);
    let killed = within(millis(300), scene.election("ann").restore(epoch(41), NO_WAIT)).await;
    assert!(killed.is_none());
    assert!(is_sealed(&scene.record(20).await), "the lower epoch is still held");
    scene.store.heal();
    scene.store.delete(vec![scene.key(20)]).await.unwrap();
    let now = scene.election("ben").restore(epoch(41), NO_WAIT).await.unwrap();
    assert!(matches!(now, Restored::Sealed { wait, .. } if wait >= secs(600)), "{now:?}");
}

/// The arguments of one restore: the epoch, and the requested wait.
type Run = (u64, Duration);

/// The test runs an inner restore, or only its first requests, before each request of an outer
/// restore. If an outcome promises a wait, successors must wait. If an outcome names a remedy, a
/// candidate must be elected after this remedy.
#[tokio::test(start_paused = true)]
async fn every_interleaving_keeps_the_promised_wait() {
    let mut scenes = 0;
    for (outer, inner) in [
        ((10, VALIDITY), (20, NO_WAIT)),
        ((10, NO_WAIT), (20, VALIDITY)),
        ((20, VALIDITY), (10, NO_WAIT)),
        ((20, NO_WAIT), (10, VALIDITY)),
        ((10, VALIDITY), (10, NO_WAIT)),
        ((10, NO_WAIT), (10, VALIDITY)),
    ] {
        for lost in [false, true] {
            for kill in (1..9).map(Some).chain([None]) {
                for before in 0.. {
                    if !interleave(outer, inner, lost, before, kill).await {
                        break;
                    }
                    scenes += 1;
                }
            }
        }
    }
    assert!(scenes > 600, "{scenes}");
}

fn operator(scene: &Scene, store: Arc<dyn Store>, seed: u64) -> Election {
    let builder = Election::builder(store, "app").check_store(false);
    builder.process(process(&scene.clock, seed)).build().unwrap()
}

/// Returns whether the outcome promises that successors wait for the requested time.
fn promises((_, asked): Run, told: Option<&Restored>) -> bool {
    let sealed = matches!(told, Some(Restored::Sealed { .. } | Restored::Already(_)));
    asked > NO_WAIT && sealed
}

/// Runs the inner restore just before request number `before` of the outer restore. Returns false
/// if the outer restore sends at most `before` requests.
async fn interleave(
    outer: Run,
    inner: Run,
    lost: bool,
    before: usize,
    kill: Option<usize>,
) -> bool {
    let scene = Scene::new(Layout::EpochFiles);
    let a =
        if lost { lost_leader(&scene).await } else { scene.cut_off_leader(Duration::ZERO).await };
    let told: Arc<Mutex<Option<Restored>>> = Arc::default();
    let deed = {
        let inner_store = Arc::clone(scene.store.inner());
        let after = kill.unwrap_or(usize::MAX);
        let dying = Interposed::over(inner_store, after, Box::pin(pending()));
        let (ben, told) = (operator(&scene, Arc::new(dying), 77), Arc::clone(&told));
        Box::pin(async move {
            let now = within(millis(500), ben.restore(epoch(inner.0), inner.1)).await;
            *told.lock().unwrap() = now.map(|now| now.unwrap());
        })
    };
    let store = Arc::new(Interposed::over(Arc::clone(scene.store.inner()), before, deed));
    let ann = operator(&scene, store.clone(), 99);
    let outer_told = ann.restore(epoch(outer.0), outer.1).await.unwrap();
    if store.0.is_left() {
        return false;
    }
    let inner_told = told.lock().unwrap().take();
    let place = format!(
        "{outer:?} with {inner:?} before {before}, killed after {kill:?}, lost {lost}: \
         {outer_told:?}, {inner_told:?}"
    );
    let mut promised = promises(outer, Some(&outer_told)) || promises(inner, inner_told.as_ref());
    let mut b = within(secs(100), scene.election("b").campaign()).await;
    if b.is_none() {
        // An epoch may remain held only if the inner restore was killed. In this case, the operator
        // must run the restore again.
        assert!(kill.is_some(), "{place}: no candidate is elected");
        let held = match outer_told {
            Restored::Held(held) => held,
            _ => epoch(inner.0),
        };
        let now = scene.election("cy").restore(held, VALIDITY).await.unwrap();
        promised |= promises((held.get(), VALIDITY), Some(&now));
        b = within(secs(100), scene.election("b").campaign()).await;
    }
    let b = b.unwrap_or_else(|| panic!("{place}: no candidate is elected")).unwrap();
    assert!(b.epoch().get() > outer.0, "{place}: {b:?}");
    assert!(a.check().is_err() || (lost && !promised), "{place}: two processes lead");
    true
}
