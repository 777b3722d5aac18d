//! Tests epochs that a restore holds. Candidates wait while an epoch is held, and the next restore
//! finishes the held epoch.

use tenure::Compactor;

use super::*;

/// A killed restore leaves a held epoch, which no follower takes over.
#[tokio::test(start_paused = true)]
async fn an_interrupted_restore_is_finished_by_a_second_run() {
    let scene = Scene::new(Layout::EpochFiles);
    let rival = scene.leader("rival").await;
    scene.store.on(Call::Replace).key("41").always().fault(Fault::Hang);
    let ann = scene.election("ann");
    let killed = within(secs(1), ann.restore(epoch(41), NO_WAIT)).await;
    assert!(killed.is_none());
    let b = scene.election("b");
    let follow = tokio::spawn(async move { elect(&b).await });
    wait(secs(120)).await;
    assert!(!follow.is_finished());
    assert!(rival.check().is_err(), "the restore did not depose the rival");
    scene.store.heal();
    let now = restored(&scene.election("cy"), 41).await;
    assert!(matches!(now, Restored::Sealed { wait, .. } if wait >= VALIDITY), "{now:?}");
    let (took, b) = timed(follow).await;
    assert_eq!(b.unwrap().epoch(), epoch(42));
    assert!(took >= VALIDITY && took < VALIDITY + secs(4), "{took:?}");
}

/// Several processes that follow Morling's blog post were elected before the restore. Such a
/// process does not seal the epoch of its predecessor, so several epochs are unsealed.
#[tokio::test(start_paused = true)]
async fn all_leaders_below_the_held_epoch_are_deposed_with_short_pages() {
    let scene = Scene::new(Layout::EpochFiles);
    scene.store.on(Call::Replace).key("41").always().fault(Fault::Hang);
    let killed = within(secs(1), scene.election("ann").restore(epoch(41), NO_WAIT)).await;
    assert!(killed.is_none());
    for number in 1..=3 {
        let nonce = format!("{number:032x}");
        let body = json!({ "expired": false, "validity_ms": 60_000, "nonce": nonce });
        scene.put(number, body.to_string()).await;
    }
    scene.store.heal();
    scene.store.on(Call::List).always().fault(Fault::Pages(1));
    let now = restored(&scene.election("ben"), 41).await;
    assert!(matches!(now, Restored::Sealed { wait, .. } if wait >= secs(60)), "{now:?}");
    for number in 1..=3 {
        assert!(is_sealed(&scene.record(number).await), "epoch {number}");
    }
}

/// The leader has a validity of 12 h and renews its lease every 4 h. A restore to epoch 41 is
/// killed while it holds this epoch. The object of the leader's epoch is older than `min_age`, so a
/// compactor of an earlier version deletes this object. The next restore must nevertheless wait for
/// the leader's lease.
#[tokio::test(start_paused = true)]
async fn regression_a_restore_waits_for_the_leader_below_a_held_epoch() {
    const HOUR: Duration = secs(3_600);
    for deleted in [false, true] {
        let scene = Scene::new(Layout::EpochFiles);
        let long = |name| scene.node(name).validity(HOUR * 12).build().unwrap();
        let way = scene.another_way();
        let a = elect(&scene.behind(&way, "a").validity(HOUR * 12).build().unwrap()).await;
        wait(HOUR * 2).await;
        way.always(Fault::Hang);
        scene.store.on(Call::Replace).always().fault(Fault::Hang);
        assert!(within(secs(1), long("ann").restore(epoch(41), NO_WAIT)).await.is_none());
        scene.store.heal();
        assert_eq!(scene.record(41).await["data"]["wait_ms"], 12 * 3_600_000);
        let compactor = Compactor::builder(Arc::new(scene.store.clone()), "app").keep_epochs(1);
        let report = compactor.build().unwrap().run_once().await.unwrap();
        assert_eq!((report.deleted, report.held), (0, true), "{report}");
        if deleted {
            scene.store.delete(vec![scene.key(1)]).await.unwrap();
        }
        let now = long("ben").restore(epoch(41), NO_WAIT).await.unwrap();
        assert!(matches!(now, Restored::Sealed { wait, .. } if wait >= HOUR * 12), "{now:?}");
        let b = within(HOUR * 24, long("b").campaign()).await.expect("elected in a day");
        assert_eq!(b.unwrap().epoch(), epoch(42));
        assert!(a.check().is_err(), "two processes lead");
    }
}

/// Before the fix, the message for a held epoch recommended a forced deposition. After this
/// deposition, two processes led at the same time for an unbounded time.
#[tokio::test(start_paused = true)]
async fn regression_a_restore_to_a_greater_epoch_finishes_a_held_epoch() {
    for force in [false, true] {
        let scene = Scene::new(Layout::EpochFiles);
        let a = scene.leader("a").await;
        scene.store.on(Call::Replace).always().fault(Fault::Hang);
        let killed = within(secs(1), scene.election("ann").restore(epoch(10), NO_WAIT)).await;
        assert!(killed.is_none());
        scene.store.heal();
        let ben = scene.election("ben");
        for only in [None, Some(epoch(10))] {
            assert_eq!(depose(&ben, force, only).await.unwrap(), Deposed::Held(epoch(10)));
        }
        assert!(!is_sealed(&scene.record(10).await), "nothing was written");
        a.check().expect("the leader was not deposed");
        let now = restored(&ben, 20).await;
        assert!(matches!(now, Restored::Sealed { wait, .. } if wait >= VALIDITY), "{now:?}");
        assert!(is_sealed(&scene.record(10).await) && is_sealed(&scene.record(1).await));
        let b = elect(&scene.election("b")).await;
        assert_eq!(b.epoch(), epoch(21));
        assert!(a.check().is_err(), "two processes lead");
    }
}

/// A killed restore holds an epoch above the epoch of the leader. Before the fix, no command could
/// depose the leader. `depose` reported that another epoch is the newest, and `restore` required a
/// forced deposition.
#[tokio::test(start_paused = true)]
async fn regression_a_forced_deposition_ends_an_epoch_below_a_held_epoch() {
    let scene = Scene::new(Layout::EpochFiles);
    scene.store.on(Call::List).skip(1).always().fault(Fault::Hang);
    let killed = within(secs(1), scene.election("ann").restore(epoch(20), NO_WAIT)).await;
    assert!(killed.is_none());
    scene.put(2, r#"{"expired":false,"validity_ms":60000}"#).await;
    scene.store.heal();
    let ben = scene.election("ben");
    let now = restored(&ben, 20).await;
    assert!(matches!(now, Restored::NeedsForce(ref leader) if leader.epoch == epoch(2)), "{now:?}");
    let none = ben.depose(Some(epoch(3))).await.unwrap();
    assert_eq!(none, Deposed::Held(epoch(20)), "epoch 3 does not exist");
    let deposed = ben.depose_dead(Some(epoch(2))).await.unwrap();
    assert!(matches!(deposed, Deposed::Sealed { .. }), "{deposed:?}");
    assert!(matches!(restored(&ben, 20).await, Restored::Sealed { .. }));
    assert_eq!(elect(&scene.election("b")).await.epoch(), epoch(21));
    let other = ben.depose(Some(epoch(2))).await.unwrap();
    assert!(matches!(other, Deposed::NotCurrent(_)), "{other:?}");
}

/// The leader is cut off and its object is lost, so only the operator knows of this leader. Before
/// the fix, a restore could succeed without the wait that the operator had requested. This happened
/// if an earlier restore had sealed or held the same epoch, or held a lower epoch.
#[tokio::test(start_paused = true)]
async fn regression_a_requested_wait_is_kept_or_refused() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        restored(&scene.election("ann"), 9).await;
        let now = scene.election("ben").restore(epoch(9), VALIDITY).await.unwrap();
        let told = Restored::WaitsLess { epoch: epoch(9), wait: millis(1) };
        assert_eq!(now, told, "{layout:?}: candidates may have begun to wait");
        let now = scene.election("ben").restore(epoch(10), VALIDITY).await.unwrap();
        assert!(matches!(now, Restored::Sealed { wait, .. } if wait >= VALIDITY), "{now:?}");
        let again = scene.election("ben").restore(epoch(10), VALIDITY).await.unwrap();
        assert_eq!(again, Restored::Already(epoch(10)), "{layout:?}: the same wait is accepted");
    }
    for (number, dies) in [(10, false), (20, false), (20, true)] {
        let scene = Scene::new(Layout::EpochFiles);
        let a = scene.cut_off_leader(Duration::ZERO).await;
        scene.store.delete(vec![scene.key(1)]).await.unwrap();
        scene.store.on(Call::Replace).always().fault(Fault::Hang);
        let killed = within(secs(1), scene.election("ann").restore(epoch(10), NO_WAIT)).await;
        assert!(killed.is_none());
        scene.store.heal();
        let b = scene.election("b");
        let follow = tokio::spawn(async move { elect(&b).await });
        if dies {
            scene.store.on(Call::Create).key("20").always().fault(Fault::Slow(secs(5)));
        }
        let ben = scene.election("ben");
        let now = within(secs(1), ben.restore(epoch(number), VALIDITY)).await;
        assert_eq!(now.is_none(), dies, "{now:?}");
        if dies {
            wait(secs(4)).await;
            assert!(!follow.is_finished(), "the restore still holds epoch 10");
            scene.store.heal();
            scene.election("cy").restore(epoch(number), VALIDITY).await.unwrap();
        }
        let _b = follow.await.unwrap();
        assert!(a.check().is_err(), "{number}: two processes lead");
    }
}

/// Returns the record of a held epoch as an earlier version wrote it. This record contains no wait.
fn held(above: u64) -> String {
    let held = json!({
        "expired": false, "nonce": format!("{above:032x}"), "heartbeat": 1, "ended": "restored",
        "data": { "restored_above": above },
    });
    held.to_string()
}

/// Restores of an earlier version hold two epochs, 20 and 41. A process of another implementation
/// leads epoch 2, and a restore must not seal this epoch without force. So epoch 41 remains held.
#[tokio::test(start_paused = true)]
async fn a_lower_held_epoch_that_cannot_be_sealed_keeps_the_higher_epoch_held() {
    let scene = Scene::new(Layout::EpochFiles);
    scene.put(2, r#"{"expired":false,"validity_ms":60000}"#).await;
    scene.put(20, held(2)).await;
    scene.put(41, held(15)).await;
    let now = restored(&scene.election("ann"), 41).await;
    assert!(matches!(now, Restored::NeedsForce(ref leader) if leader.epoch == epoch(2)), "{now:?}");
}

/// The held epoch records no wait. The object of the lower epoch is missing, or no lower epoch
/// exists.
#[tokio::test(start_paused = true)]
async fn a_restore_without_a_recorded_wait_or_a_lower_epoch_waits_for_the_longest_lease() {
    for (above, least) in [(7, secs(24 * 3_600)), (0, Duration::ZERO)] {
        let scene = Scene::new(Layout::EpochFiles);
        scene.put(41, held(above)).await;
        let now = restored(&scene.election("ann"), 41).await;
        let Restored::Sealed { wait, .. } = now else { panic!("{now:?}") };
        assert!(wait >= least && wait < least + secs(1_000), "above {above}: {wait:?}");
    }
}
