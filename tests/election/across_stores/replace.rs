//! Tests of `Election::replace_store`.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tenure::store::DirStore;
use tenure::{Election, ErrorKind, ReplacedStore, SetState};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs, wait};
use tenure_testkit::world::{VALIDITY, key};
use tenure_testkit::write_faults::WRITE_FAULTS;

use super::scene::{Scene, unsealed};

/// The objects that a replacement changes.
pub struct Replaced {
    /// Generation of the marker of the new contents. 0 means no marker.
    marker: u32,
    /// The greatest generation in the notes of each other store.
    notes: Vec<u32>,
    newest: Value,
}

impl Replaced {
    pub async fn of(scene: &Scene, store: usize, newest: u64) -> Replaced {
        let greatest = async |at: usize, name: String| {
            let keys = scene.keys(at).await;
            let generations = keys.iter().filter(|key| key.contains(&name)).map(|key| {
                let (_, generation) = key.strip_suffix(".json").unwrap().rsplit_once('-').unwrap();
                generation.parse().unwrap()
            });
            generations.max().unwrap_or(0)
        };
        let (number, stores) = (store + 1, scene.stores.len());
        let mut notes = Vec::new();
        for other in (0..stores).filter(|other| *other != store) {
            notes.push(greatest(other, format!("-note-{number}-")).await);
        }
        let marker = greatest(store, format!("-{number}of{stores}-")).await;
        Replaced { marker, notes, newest: scene.record(store, newest).await }
    }

    /// Returns the broken rule, or `None`. Processes may see the stores at any moment of a
    /// replacement.
    pub fn broken(&self) -> Option<&'static str> {
        if !self.counts() {
            return None;
        }
        let noted = self.notes.iter().filter(|noted| **noted == self.marker).count();
        if noted <= self.notes.len() / 2 {
            return Some("the marker is older than its notes");
        }
        let restored = self.newest["expired"] == true && self.newest["ended"] == "restored";
        if !restored || self.newest["nonce"].is_null() || self.newest["format"] != 2 {
            return Some("the newest epoch is not restored before the marker");
        }
        (self.newest["validity_ms"] != 10_000).then_some("candidates do not wait")
    }

    /// Returns true if the new contents count.
    pub fn counts(&self) -> bool {
        self.marker > 0 && self.notes.iter().all(|noted| *noted <= self.marker)
    }
}

/// Returns stores with epoch 3 of a leader. Store 2 is lost, and a candidate that does not know of
/// the loss has created epoch 3 there.
async fn lost() -> Scene {
    let scene = Scene::with_set(3).await;
    scene.leads(3, &[0, 1]).await;
    scene.wipe(2).await;
    scene.leads(3, &[2]).await;
    scene
}

fn replaced(generation: u32, epoch: Option<u64>) -> impl Fn(&ReplacedStore) -> bool {
    move |it| (it.generation, it.epoch.map(tenure::Epoch::get)) == (generation, epoch)
}

#[tokio::test(start_paused = true)]
async fn a_lost_store_gets_the_newest_epoch_and_a_marker() {
    for stores in [3, 5] {
        let scene = Scene::with_set(stores).await;
        scene.leads(2, &[0]).await;
        scene.leads(3, &[0, 1]).await;
        scene.wipe(2).await;
        let outcome = scene.operator().replace_store(2, VALIDITY).await.unwrap();
        assert!(replaced(2, Some(3))(&outcome), "{outcome:?}");
        let now = Replaced::of(&scene, 2, 3).await;
        assert_eq!((now.broken(), now.counts()), (None, true));
        assert_eq!(scene.record(0, 3).await, unsealed(3), "the leader stays");
        let new = [Call::List, Call::List, Call::Get, Call::Create, Call::Create];
        assert_eq!(scene.stores[2].take_calls(), new);
        let other = [Call::List, Call::Create, Call::List, Call::Get];
        assert_eq!(scene.stores[0].take_calls(), other);
        // A second replacement raises the generation again.
        scene.wipe(2).await;
        let outcome = scene.operator().replace_store(2, VALIDITY).await.unwrap();
        assert!(replaced(3, Some(3))(&outcome), "{outcome:?}");
        assert!(Replaced::of(&scene, 2, 3).await.counts());
    }
}

#[tokio::test]
async fn a_set_of_directories_has_the_same_objects() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let open = |dir: &tempfile::TempDir| Arc::new(DirStore::open(dir.path()).unwrap()) as _;
    let scene = Scene::on(dirs.iter().map(open));
    scene.operator().init_stores().await.unwrap();
    scene.operator().init_stores().await.unwrap();
    scene.leads(3, &[0, 1]).await;
    scene.wipe(2).await;
    let outcome = scene.operator().replace_store(2, VALIDITY).await.unwrap();
    assert!(replaced(2, Some(3))(&outcome), "{outcome:?}");
    let now = Replaced::of(&scene, 2, 3).await;
    assert_eq!((now.broken(), now.counts()), (None, true));
    let set = scene.operator().store_set().await.unwrap();
    assert!(matches!(set.state, SetState::Leader(_)), "{set:?}");
    assert!(set.stores.iter().all(|store| store.error.is_none()), "{set:?}");
    scene.operator().depose(None).await.unwrap();
    assert_eq!(scene.record(1, 3).await["ended"], "deposed");
}

#[tokio::test(start_paused = true)]
async fn without_an_epoch_only_the_marker_is_written() {
    let scene = Scene::with_set(3).await;
    scene.wipe(0).await;
    let outcome = scene.operator().replace_store(0, VALIDITY).await.unwrap();
    assert!(replaced(2, None)(&outcome), "{outcome:?}");
    assert_eq!(scene.keys(0).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_candidate_in_the_new_contents_is_overwritten() {
    for body in [unsealed(3), json!({ "format": 2, "expired": true, "ended": "lapsed" }), json!(7)]
    {
        let scene = lost().await;
        scene.put(2, &key(3), &body).await;
        let outcome = scene.operator().replace_store(2, VALIDITY).await.unwrap();
        assert!(replaced(2, Some(3))(&outcome), "{outcome:?}");
        let now = Replaced::of(&scene, 2, 3).await;
        assert_eq!((now.broken(), now.counts()), (None, true));
    }
    // The replacement also keeps a greater epoch that the new contents have.
    let scene = lost().await;
    scene.leads(4, &[2]).await;
    let outcome = scene.operator().replace_store(2, VALIDITY).await.unwrap();
    assert!(replaced(2, Some(4))(&outcome), "{outcome:?}");
    assert_eq!(Replaced::of(&scene, 2, 4).await.broken(), None);
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_at_each_request_another_call_completes_the_replacement() {
    for requests in 0.. {
        let scene = lost().await;
        let call = async |election: Election, _| {
            election.replace_store(2, VALIDITY).await.unwrap();
        };
        let survived = scene.crash(requests, &scene.stores, call).await;
        let crashed = Replaced::of(&scene, 2, 3).await;
        assert_eq!(crashed.broken(), None, "after {requests} requests");
        assert!(crashed.counts() == survived, "after {requests} requests");
        let outcome = scene.operator().replace_store(2, VALIDITY).await.unwrap();
        let now = Replaced::of(&scene, 2, 3).await;
        assert_eq!((now.broken(), now.counts()), (None, true));
        assert_eq!(now.marker, outcome.generation);
        if survived {
            assert_eq!(requests, 14);
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_write_another_call_completes_the_replacement() {
    for fault in WRITE_FAULTS {
        for (store, call) in
            [(0, Call::Create), (1, Call::Create), (2, Call::Create), (2, Call::Replace)]
        {
            for times in [1, 9] {
                let scene = lost().await;
                scene.stores[store].on(call).times(times).fault(fault);
                let first = scene.operator().replace_store(2, VALIDITY).await;
                let now = Replaced::of(&scene, 2, 3).await;
                assert_eq!((now.broken(), first.is_ok() && !now.counts()), (None, false));
                wait(secs(60)).await;
                assert_eq!(Replaced::of(&scene, 2, 3).await.broken(), None, "{fault:?}");
                scene.stores[store].heal();
                scene.operator().replace_store(2, VALIDITY).await.unwrap();
                let now = Replaced::of(&scene, 2, 3).await;
                assert_eq!((now.broken(), now.counts()), (None, true), "{fault:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_use_different_generations() {
    let mut failures = 0;
    for seed in 0_u64..100 {
        let scene = lost().await;
        let mut random = fastrand::Rng::with_seed(seed);
        for store in &scene.stores {
            for call in [Call::List, Call::Create, Call::Get, Call::Replace].repeat(4) {
                store.on(call).fault(Fault::Slow(millis(random.u64(0..4))));
            }
        }
        let operators = [scene.operator(), scene.operator()];
        let calls = operators.iter().map(|operator| operator.replace_store(2, VALIDITY));
        let ends = join_all(calls).await;
        let now = Replaced::of(&scene, 2, 3).await;
        assert_eq!(now.broken(), None);
        let generations: Vec<u32> = ends.iter().flatten().map(|it| it.generation).collect();
        if let Some(greatest) = generations.iter().max() {
            assert_eq!(now.marker, *greatest);
        }
        if let [Ok(one), Ok(other)] = &ends[..] {
            assert_ne!(one.generation, other.generation);
        }
        for error in ends.into_iter().filter_map(Result::err) {
            failures += 1;
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("another call replaces"), "{error}");
        }
        scene.operator().replace_store(2, VALIDITY).await.unwrap();
        assert!(Replaced::of(&scene, 2, 3).await.counts());
    }
    assert!(failures > 0);
}

#[tokio::test(start_paused = true)]
async fn a_replacement_needs_a_majority_of_other_stores_that_count() {
    for (stores, down) in [(3, vec![0]), (5, vec![0, 1])] {
        let scene = Scene::with_set(stores).await;
        scene.leads(1, &[0, 1, 2]).await;
        scene.wipe(2).await;
        for store in &down[1..] {
            scene.stores[*store].always(Fault::Hang);
        }
        if stores == 5 {
            scene.operator().replace_store(2, VALIDITY).await.unwrap();
        }
        scene.wipe(2).await;
        scene.stores[0].always(Fault::Hang);
        let error = scene.operator().replace_store(2, VALIDITY).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(scene.keys(2).await, [""; 0]);
        // A store without its marker does not count towards the majority.
        scene.stores.iter().for_each(|store| store.heal());
        for store in &down {
            scene.wipe(*store).await;
        }
        let error = scene.operator().replace_store(2, VALIDITY).await.unwrap_err();
        let kinds = [ErrorKind::UnsafeStore, ErrorKind::InvalidInput];
        assert!(kinds.contains(&error.kind()), "{error:?}");
        assert_eq!(scene.keys(2).await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_another_election_and_wrong_arguments_are_refused() {
    let other = Scene::with_set(3).await.keys(2).await.remove(0);
    let mut plain = unsealed(9);
    plain["format"] = json!(1);
    let misplaced = "app/lock-set-00000000000000ab-3of3-0000000001.json".to_owned();
    for (name, body) in
        [("app/lock.json".to_owned(), unsealed(1)), (key(9), plain), (misplaced, json!(1))]
    {
        let scene = Scene::with_set(3).await;
        scene.leads(3, &[0, 1]).await;
        scene.wipe(2).await;
        scene.put(2, &name, &body).await;
        let error = scene.operator().replace_store(2, VALIDITY).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(&name), "{error}");
        assert_eq!(scene.keys(2).await, [name]);
        assert!(scene.keys(0).await.iter().all(|key| !key.contains("note")));
    }
    let scene = lost().await;
    for (index, validity) in [(3, VALIDITY), (2, Duration::ZERO), (2, secs(86_401))] {
        let error = scene.operator().replace_store(index, validity).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert!(scene.stores.iter().all(|store| store.take_log().is_empty()), "{other}");
}

/// The broken replacements write the marker first, keep the object of a candidate, write no epoch,
/// or do not make candidates wait.
#[test]
fn broken_replacements_are_caught() {
    let restored = |validity_ms: u64| {
        json!({
            "expired": true, "ended": "restored", "nonce": "1", "format": 2,
            "validity_ms": validity_ms,
        })
    };
    let of = |marker, notes: [u32; 2], newest| Replaced { marker, notes: notes.to_vec(), newest };
    assert_eq!(of(2, [2, 2], restored(10_000)).broken(), None);
    assert_eq!(of(0, [2, 0], unsealed(3)).broken(), None);
    assert_eq!(of(2, [3, 2], unsealed(3)).broken(), None);
    for broken in [
        of(2, [2, 1], restored(10_000)),
        of(2, [2, 2], unsealed(3)),
        of(2, [2, 2], Value::Null),
        of(2, [2, 2], restored(1)),
    ] {
        assert!(broken.broken().is_some());
    }
}

/// Store 1 is lost a second time, after each other store was replaced.
#[tokio::test(start_paused = true)]
async fn regression_a_generation_is_never_used_again() {
    let scene = Scene::with_set(3).await;
    for (store, generation) in [(1, 2), (0, 2), (2, 2), (1, 3)] {
        scene.wipe(store).await;
        let replaced = scene.operator().replace_store(store, VALIDITY).await.unwrap();
        assert_eq!(replaced.generation, generation, "store {store}");
    }
}

/// Before the fix, a successor waited only for the validity that the operator gave, although the
/// leader relied on a longer lease in the old contents.
#[tokio::test(start_paused = true)]
async fn regression_a_successor_waits_for_the_longest_validity_in_the_records() {
    let scene = Scene::with_set(3).await;
    scene.put(0, &key(3), &json!("damaged")).await;
    scene.leads(3, &[1]).await;
    scene.wipe(2).await;
    for (given, waits) in [(millis(1), 10_000), (secs(60), 60_000)] {
        scene.operator().replace_store(2, given).await.unwrap();
        assert_eq!(scene.record(2, 3).await["validity_ms"], waits);
        scene.wipe(2).await;
    }
    // A store that does not show its record may have the longest validity.
    scene.stores[1].on(Call::Get).always().fault(Fault::FailBefore);
    let error = scene.operator().replace_store(2, millis(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(scene.record(2, 3).await, Value::Null);
}
