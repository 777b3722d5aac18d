//! Tests of `depose`, `depose_dead` and `resign_dead` across stores.

use serde_json::Value;
use tenure::{Deposed, Election, EpochEnd, ErrorKind, Resigned};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs};
use tenure_testkit::world::VALIDITY;
use tenure_testkit::write_faults::WRITE_FAULTS;

use super::scene::{Scene, unsealed};

async fn depose(election: &Election, dead: bool) -> Result<Deposed, tenure::Error> {
    match dead {
        true => election.depose_dead(None).await,
        false => election.depose(None).await,
    }
}

/// Returns the ends of an epoch at all stores. `-` means that the epoch is unsealed, and an empty
/// word that the epoch is missing.
async fn ends(scene: &Scene, epoch: u64) -> Vec<String> {
    let mut ends = Vec::new();
    for store in 0..scene.stores.len() {
        let record = scene.record(store, epoch).await;
        ends.push(match (&record, &record["ended"]) {
            (Value::Null, _) => String::new(),
            (_, Value::String(ended)) => ended.clone(),
            _ => "-".to_owned(),
        });
    }
    ends
}

#[tokio::test(start_paused = true)]
async fn the_newest_epoch_is_sealed_at_all_stores() {
    for (dead, ended, wait) in [(false, "deposed", VALIDITY * 101 / 100), (true, "lapsed", secs(0))]
    {
        let scene = Scene::with_set(3).await;
        assert_eq!(depose(&scene.operator(), dead).await.unwrap(), Deposed::NoLeader);
        scene.leads(6, &[0, 1, 2]).await;
        scene.leads(7, &[0, 1, 2]).await;
        scene.stores.iter().for_each(|store| drop(store.take_log()));
        let deposed = depose(&scene.operator(), dead).await.unwrap();
        let Deposed::Sealed { leader, wait: waits } = deposed else { panic!("{deposed:?}") };
        assert_eq!((leader.name(), leader.epoch.get(), waits), ("a", 7, wait));
        assert_eq!(ends(&scene, 7).await, [ended; 3]);
        assert_eq!(ends(&scene, 6).await, ["-"; 3]);
        assert_eq!(scene.record(1, 7).await["format"], 2);
        for store in &scene.stores {
            assert_eq!(store.take_calls(), [Call::List, Call::Get, Call::Replace]);
        }
        let again = depose(&scene.operator(), false).await.unwrap();
        assert!(matches!(again, Deposed::Already { .. }), "{again:?}");
    }
}

/// The stores that answer first are a majority, but one of them has no marker and does not count.
#[tokio::test(start_paused = true)]
async fn depose_waits_for_a_slow_store_if_another_lost_its_marker() {
    let scene = Scene::with_set(3).await;
    scene.leads(7, &[0, 1, 2]).await;
    scene.wipe(0).await;
    scene.stores[2].on(Call::List).always().fault(Fault::Slow(millis(1_500)));
    let deposed = depose(&scene.operator(), false).await.unwrap();
    assert!(matches!(deposed, Deposed::Sealed { .. }), "{deposed:?}");
    assert_eq!(ends(&scene, 7).await, ["", "deposed", "deposed"]);
}

/// A note at store 2 names a greater generation of store 1, so the old contents there do not count.
#[tokio::test(start_paused = true)]
async fn regression_depose_waits_for_a_slow_store_if_another_has_old_contents() {
    let scene = Scene::with_set(3).await;
    scene.leads(7, &[0, 1, 2]).await;
    let keys = scene.keys(0).await;
    let marker = keys.iter().find_map(|key| key.strip_suffix("-1of3-0000000001.json")).unwrap();
    scene.put(1, &format!("{marker}-note-1-0000000002.json"), &unsealed(1)).await;
    scene.stores[2].on(Call::List).always().fault(Fault::Slow(millis(1_500)));
    let deposed = depose(&scene.operator(), false).await.unwrap();
    assert!(matches!(deposed, Deposed::Sealed { .. }), "{deposed:?}");
    assert_eq!(ends(&scene, 7).await, ["-", "deposed", "deposed"]);
}

#[tokio::test(start_paused = true)]
async fn a_majority_of_seals_suffices() {
    for dead in [false, true] {
        let scene = Scene::with_set(3).await;
        scene.leads(1, &[0, 1, 2]).await;
        scene.stores[1].always(Fault::Hang);
        let deposed = depose(&scene.operator(), dead).await.unwrap();
        assert!(matches!(deposed, Deposed::Sealed { .. }), "{deposed:?}");
        assert_eq!(ends(&scene, 1).await[1], "-");
        // A second call seals the epoch at the other stores.
        scene.stores[1].heal();
        let deposed = depose(&scene.operator(), dead).await.unwrap();
        assert!(matches!(deposed, Deposed::Sealed { .. }), "{deposed:?}");
        assert!(ends(&scene, 1).await.iter().all(|end| end != "-"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_minority_of_seals_contains_their_number() {
    let scene = Scene::with_set(3).await;
    scene.leads(1, &[0, 1, 2]).await;
    scene.stores[0].on(Call::Replace).always().fault(Fault::Denied);
    scene.stores[1].on(Call::Replace).always().fault(Fault::FailBefore);
    let error = scene.operator().depose(None).await.unwrap_err();
    assert!(error.may_have_happened(), "{error}");
    assert!(
        error.to_string().contains("is sealed at 1 of 3 stores, and a majority is 2"),
        "{error}"
    );
    scene.stores.iter().for_each(|store| store.heal());
    scene.operator().depose(None).await.unwrap();
    assert_eq!(ends(&scene, 1).await, ["deposed"; 3]);
    // No majority answers.
    scene.stores[0].always(Fault::Hang);
    scene.stores[2].always(Fault::FailBefore);
    let error = scene.operator().depose(None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("1 of 3 stores answer"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_becomes_a_placeholder_if_a_majority_needs_it() {
    let scene = Scene::with_set(3).await;
    scene.leads(4, &[1]).await;
    let deposed = scene.operator().depose(None).await.unwrap();
    let Deposed::Sealed { leader, .. } = deposed else { panic!("{deposed:?}") };
    assert_eq!(leader.name(), "a");
    assert_eq!(ends(&scene, 4).await, ["lapsed", "deposed", "lapsed"]);
    // The two existing objects are a majority, so the missing object needs no placeholder.
    let scene = Scene::with_set(3).await;
    scene.leads(4, &[0, 1]).await;
    scene.operator().depose(None).await.unwrap();
    assert_eq!(ends(&scene, 4).await, ["deposed", "deposed", ""]);
}

#[tokio::test(start_paused = true)]
async fn only_the_given_epoch_is_deposed() {
    let scene = Scene::with_set(3).await;
    scene.leads(4, &[0, 1, 2]).await;
    for other in [3, 5] {
        let only = tenure::Epoch::new(other);
        let deposed = scene.operator().depose(only).await.unwrap();
        assert!(matches!(&deposed, Deposed::NotCurrent(it) if it.name() == "a"), "{deposed:?}");
    }
    assert_eq!(ends(&scene, 4).await, ["-"; 3]);
    scene.operator().depose(tenure::Epoch::new(4)).await.unwrap();
    assert_eq!(ends(&scene, 4).await, ["deposed"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_validity_needs_force() {
    let scene = Scene::with_set(3).await;
    for store in 0..3 {
        let mut record = unsealed(1);
        record["validity_ms"] = Value::Null;
        scene.put(store, &tenure_testkit::world::key(1), &record).await;
    }
    let deposed = scene.operator().depose(None).await.unwrap();
    assert!(matches!(deposed, Deposed::NeedsForce(_)), "{deposed:?}");
    scene.operator().depose_dead(None).await.unwrap();
    assert_eq!(ends(&scene, 1).await, ["lapsed"; 3]);
}

/// A store without its marker does not count towards the majority, so its epochs are ignored.
#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_count_is_ignored() {
    let scene = Scene::with_set(3).await;
    scene.wipe(2).await;
    scene.leads(9, &[2]).await;
    scene.leads(4, &[0, 1]).await;
    scene.operator().depose(None).await.unwrap();
    assert_eq!(ends(&scene, 4).await, ["deposed", "deposed", ""]);
    assert_eq!(ends(&scene, 9).await, ["", "", "-"]);
}

#[tokio::test(start_paused = true)]
async fn a_deposition_survives_each_fault_of_a_write() {
    for fault in WRITE_FAULTS {
        let scene = Scene::with_set(3).await;
        scene.leads(1, &[0, 1, 2]).await;
        for store in &scene.stores[..2] {
            store.on(Call::Replace).fault(fault);
        }
        let deposed = scene.operator().depose(None).await.unwrap();
        assert!(matches!(deposed, Deposed::Sealed { .. }), "{fault:?}: {deposed:?}");
        assert_eq!(ends(&scene, 1).await, ["deposed"; 3], "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_resigns_at_all_stores() {
    let key = format!("5-{:032x}", 5);
    let scene = Scene::with_set(3).await;
    scene.leads(5, &[0, 1, 2]).await;
    scene.stores.iter().for_each(|store| drop(store.take_log()));
    let resign =
        async |successor| scene.operator().resign_dead(key.parse().unwrap(), successor).await;
    assert_eq!(resign(Some("b")).await.unwrap(), Resigned::Sealed);
    assert_eq!(ends(&scene, 5).await, ["resigned"; 3]);
    assert_eq!(scene.record(1, 5).await["successor"], "b");
    for store in &scene.stores {
        assert_eq!(store.take_calls(), [Call::Get, Call::Replace]);
    }
    assert_eq!(resign(None).await.unwrap(), Resigned::Already(EpochEnd::Resigned));
    // The leader held its epoch at only two stores.
    scene.leads(5, &[0, 1]).await;
    scene.wipe(2).await;
    assert_eq!(resign(None).await.unwrap(), Resigned::Sealed);
    // One seal is not a majority.
    scene.leads(5, &[0, 1, 2]).await;
    scene.stores[0].always(Fault::Hang);
    scene.stores[1].on(Call::Replace).always().fault(Fault::FailBefore);
    let error = resign(None).await.unwrap_err();
    assert!(
        error.to_string().contains("is resigned at 1 of 3 stores, and a majority is 2"),
        "{error}"
    );
    scene.stores.iter().for_each(|store| store.heal());
    assert_eq!(resign(None).await.unwrap(), Resigned::Sealed);
    let other = format!("5-{:032x}", 6).parse().unwrap();
    let outcome = scene.operator().resign_dead(other, None).await.unwrap();
    assert_eq!(outcome, Resigned::NotCurrent);
}
