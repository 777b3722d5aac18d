//! Tests of `Election::restore`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tenure::{Deposed, Election, EpochEnd, ErrorKind, Layout, Leadership, Restored};
use tenure::{Epoch, Store};

use super::rival::Interposed;
use super::scene::{LAYOUTS, Scene, depose, epoch, is_sealed};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs, timed, wait, within};
use tenure_testkit::world::{VALIDITY, elect};
use tenure_testkit::write_faults::WRITE_FAULTS;

mod held;

const NO_WAIT: Duration = Duration::ZERO;

async fn restored(election: &Election, number: u64) -> Restored {
    election.restore(epoch(number), NO_WAIT).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn epochs_continue_immediately_above_a_restored_epoch() {
    for layout in LAYOUTS {
        for scene in [Scene::new(layout), Scene::in_a_directory(layout)] {
            let ann = scene.election("ann");
            let now = restored(&ann, 41).await;
            assert!(matches!(now, Restored::Sealed { wait, .. } if wait < millis(3)), "{now:?}");
            let record = scene.record(41).await;
            assert!(is_sealed(&record), "{record}");
            assert_eq!(
                (&record["ended"], &record["sealed_by"]),
                (&json!("restored"), &json!("ann"))
            );
            assert_eq!(ann.snapshot().await.unwrap().end, Some(EpochEnd::Restored));
            assert_eq!(restored(&ann, 41).await, Restored::Already(epoch(41)), "again");
            let (took, b) = timed(elect(&scene.election("b"))).await;
            assert_eq!(b.epoch(), epoch(42));
            assert!(took < secs(1), "{took:?}");
            let exists = restored(&scene.election("cy"), 41).await;
            let Restored::Exists(leader) = exists else { panic!("{exists:?}") };
            assert_eq!((leader.epoch, leader.name()), (epoch(42), "b"));
        }
    }
}

/// A version may be too old to know the value of `ended` in a restored epoch. To simulate such a
/// version, the test writes a value that the present version does not know.
#[tokio::test(start_paused = true)]
async fn an_older_version_continues_above_a_restored_epoch() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        restored(&scene.election("ann"), 7).await;
        scene.edit(7, |record| record["ended"] = json!("a word of the future")).await;
        let (took, b) = timed(elect(&scene.election("b"))).await;
        assert!(b.epoch() == epoch(8) && took < secs(1), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_on_an_empty_prefix_costs_at_most_five_requests() {
    use Call::{Create, Get, List, Replace};
    for (layout, calls) in [
        (Layout::EpochFiles, &[List, Create, Get, List, Replace][..]),
        (Layout::SingleObject, &[Get, Create][..]),
    ] {
        let scene = Scene::new(layout);
        restored(&scene.election("ann"), 41).await;
        assert_eq!(scene.store.take_calls(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_waits_for_an_earlier_leader_if_requested() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let a = scene.cut_off_leader(secs(4)).await;
        scene.store.inner().delete(vec![scene.key(1)]).await.unwrap();
        scene.election("ann").restore(epoch(9), VALIDITY).await.unwrap();
        let b = elect(&scene.election("b")).await;
        assert!(a.check().is_err() && b.epoch() == epoch(10));
    }
}

#[tokio::test(start_paused = true)]
async fn an_epoch_below_an_existing_or_seen_epoch_is_not_restored() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        for _ in 0..3 {
            scene.leader("a").await.resign().await.unwrap();
        }
        let before = scene.record(3).await;
        for number in 1..=3 {
            let exists = restored(&scene.election("ann"), number).await;
            assert!(matches!(&exists, Restored::Exists(leader) if leader.epoch == epoch(3)));
        }
        assert_eq!(scene.record(3).await, before);
        let a = scene.election("a");
        assert!(a.leader().await.unwrap().is_none());
        scene.store.inner().delete(vec![scene.key(3)]).await.unwrap();
        let error = a.restore(epoch(2), NO_WAIT).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        let error = a.campaign().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NewestDeleted);
        restored(&a, 3).await;
        assert_eq!(elect(&a).await.epoch(), epoch(4));
        for (number, waits, kind) in [
            (Epoch::MAX, NO_WAIT, ErrorKind::EpochsExhausted),
            (epoch(50), secs(24 * 3600 + 1), ErrorKind::InvalidInput),
        ] {
            assert_eq!(a.restore(number, waits).await.unwrap_err().kind(), kind);
        }
        let day = secs(24 * 3600);
        let now = a.restore(epoch(50), day).await.unwrap();
        assert!(matches!(now, Restored::Sealed { wait, .. } if wait >= day), "{now:?}");
    }
}

/// All objects under the prefix were lost, and then a process was elected with a low token. The
/// restore deposes this leader and waits for its lease.
#[tokio::test(start_paused = true)]
async fn a_restore_deposes_the_leader_of_a_lower_epoch_and_waits_for_its_lease() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let a = scene.cut_off_leader(secs(4)).await;
        let now = restored(&scene.election("ann"), 41).await;
        assert!(matches!(now, Restored::Sealed { wait, .. } if wait >= VALIDITY), "{now:?}");
        let b = elect(&scene.election("b")).await;
        assert!(a.check().is_err(), "{layout:?}: two processes lead");
        assert_eq!(b.epoch(), epoch(42));
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_waits_for_the_lease_of_a_lower_deposed_epoch() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let a = scene.cut_off_leader(Duration::ZERO).await;
        let ann = scene.election("ann");
        ann.depose(None).await.unwrap();
        restored(&ann, 41).await;
        let _b = elect(&scene.election("b")).await;
        assert!(a.check().is_err(), "{layout:?}: two processes lead");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lower_epoch_without_a_validity_requires_a_forced_deposition() {
    for (layout, body) in [
        (LAYOUTS[0], r#"{"expired":false,"validity_ms":60000}"#),
        (LAYOUTS[0], "no record"),
        (LAYOUTS[1], r#"{"expires_at":9e9,"token":1}"#),
    ] {
        let scene = Scene::new(layout);
        scene.put(1, body).await;
        let ann = scene.election("ann");
        assert!(matches!(restored(&ann, 41).await, Restored::NeedsForce(_)));
        assert!(!scene.store.take_calls().contains(&Call::Create), "nothing was written");
        let deposed = ann.depose_dead(None).await.unwrap();
        assert!(matches!(deposed, Deposed::Sealed { .. }));
        assert!(matches!(restored(&ann, 41).await, Restored::Sealed { .. }));
        assert_eq!(elect(&scene.election("b")).await.epoch(), epoch(42));
    }
}

/// For each fault of each write, the outcome of the restore matches the objects on the store, and a
/// second run finishes the restore.
#[tokio::test(start_paused = true)]
async fn faults_are_survived_or_reported_and_a_second_run_finishes_the_restore() {
    for layout in LAYOUTS {
        for (call, times) in
            [(Call::Create, 1), (Call::Replace, 1), (Call::Create, 99), (Call::Replace, 99)]
        {
            for fault in WRITE_FAULTS {
                let scene = Scene::new(layout);
                scene.store.on(call).times(times).fault(fault);
                let ann = scene.election("ann");
                let first = ann.restore(epoch(41), NO_WAIT).await;
                let survivable = times == 1 || (layout, call) == (LAYOUTS[1], Call::Replace);
                let told = matches!(&first, Ok(Restored::Sealed { .. } | Restored::Already(_)));
                let own = matches!(&first, Ok(Restored::Sealed { .. }));
                assert!(own || times > 1, "{layout:?} {call:?} {fault:?}: {first:?}");
                if told {
                    assert!(is_sealed(&scene.record(41).await), "{call:?} {fault:?}");
                } else {
                    assert!(!survivable, "{layout:?} {call:?} {fault:?}: {first:?}");
                    let error = first.unwrap_err();
                    let kind = match fault {
                        Fault::NoEtag | Fault::Swallow => ErrorKind::UnsafeStore,
                        _ => ErrorKind::Unavailable,
                    };
                    assert_eq!(error.kind(), kind, "{fault:?}: {error}");
                    let nothing = matches!(fault, Fault::Refuse | Fault::FailBefore);
                    assert_eq!(error.may_have_happened(), !nothing, "{fault:?}: {error}");
                }
                scene.store.heal();
                wait(secs(15)).await;
                let again = restored(&scene.election("ann"), 41).await;
                assert!(matches!(again, Restored::Sealed { .. } | Restored::Already(_)));
                assert_eq!(elect(&scene.election("b")).await.epoch(), epoch(42));
            }
        }
    }
}

/// In each case of this test, a rival campaigns for a second just before one request of the
/// restore. In some cases the rival is then cut off from the store. Two leaders never overlap, and
/// the tokens continue above the restored epoch.
#[tokio::test(start_paused = true)]
async fn a_rival_during_a_restore_never_overlaps_with_a_successor() {
    for layout in LAYOUTS {
        for below in [false, true] {
            for cut_off in [false, true] {
                for before in 0..9 {
                    one_rival(layout, below, cut_off, before).await;
                }
            }
        }
    }
}

async fn one_rival(layout: Layout, below: bool, cut_off: bool, before: usize) {
    let scene = Scene::new(layout);
    if below {
        scene.leader("z").await.resign().await.unwrap();
    }
    let way = scene.another_way();
    let rival = scene.behind(&way, "rival").build().unwrap();
    let led: Arc<Mutex<Option<Leadership>>> = Arc::default();
    let deed = {
        let led = Arc::clone(&led);
        Box::pin(async move {
            // While the restore holds the newest epoch, the rival is not elected, so its campaign
            // has a time limit.
            let elected = within(secs(1), rival.campaign()).await;
            *led.lock().unwrap() = elected.map(|elected| elected.unwrap());
            if cut_off {
                way.always(Fault::Hang);
            }
        })
    };
    let store = Arc::new(Interposed::over(Arc::clone(scene.store.inner()), before, deed));
    let ann = Election::builder(Arc::clone(&store) as Arc<dyn Store>, "app")
        .layout(layout)
        .check_store(false)
        .process(tenure_testkit::time::process(&scene.clock, 99))
        .build()
        .unwrap();
    let outcome = restored(&ann, 41).await;
    let place = format!("{layout:?}, below {below}, cut off {cut_off}, before {before}");
    let rival = led.lock().unwrap().take();
    let b = elect(&scene.election("b")).await;
    if let Some(rival) = rival {
        assert!(rival.check().is_err(), "{place}: two processes lead: {outcome:?}");
        assert_ne!(rival.epoch(), b.epoch(), "{place}");
    } else if !store.0.is_left() {
        assert!(matches!(outcome, Restored::Sealed { .. }), "{place}: {outcome:?}");
    }
    assert!(b.epoch() > epoch(41), "{place}: {outcome:?}");
}

// With `Layout::SingleObject`, an unreadable object does not show the token or the validity of the
// holder. So the operator must know the token and the validity.

/// Before the fix, the restore overwrote an unreadable object, and did not wait for the lease of
/// its live leader.
#[tokio::test(start_paused = true)]
async fn regression_a_restore_waits_for_the_holder_of_an_unreadable_object() {
    let too_long = " ".repeat(65 * 1024);
    for body in ["no lock", r#"{"expires_at":1740151473.2}"#, &too_long] {
        let scene = Scene::new(Layout::SingleObject);
        let a = scene.cut_off_leader(Duration::ZERO).await;
        scene.put(1, body).await;
        scene.store.take_calls();
        let ann = scene.election("ann");
        assert_eq!(ann.restore(epoch(41), Duration::ZERO).await.unwrap(), Restored::NeedsWait);
        assert_eq!(scene.store.take_calls(), [Call::Get], "no write was sent");
        let now = ann.restore(epoch(41), VALIDITY).await.unwrap();
        assert!(matches!(now, Restored::Sealed { wait, .. } if wait >= VALIDITY), "{now:?}");
        let b = elect(&scene.election("b")).await;
        assert_eq!(b.epoch(), epoch(42));
        assert!(a.check().is_err(), "two processes lead");
    }
}

/// If the operator knows that the holder is dead, a restore with a wait of 1 ms is sufficient.
#[tokio::test(start_paused = true)]
async fn a_short_wait_is_enough_after_the_death_of_the_holder() {
    let scene = Scene::new(Layout::SingleObject);
    scene.put(1, "no lock").await;
    let now = scene.election("ann").restore(epoch(41), millis(1)).await.unwrap();
    assert!(matches!(now, Restored::Sealed { wait, .. } if wait < millis(3)), "{now:?}");
    assert_eq!(elect(&scene.election("b")).await.epoch(), epoch(42));
}
