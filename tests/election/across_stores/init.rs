//! Tests of `Election::init_stores`.

use futures::future::join_all;
use tenure::{Election, Epoch, ErrorKind};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs, wait, within};
use tenure_testkit::world::{VALIDITY, key};
use tenure_testkit::write_faults::WRITE_FAULTS;

use super::scene::{Scene, unsealed};

/// Returns the set of the markers, or the reason why the stores are not a complete set.
async fn set(scene: &Scene) -> Result<String, String> {
    let mut sets = Vec::new();
    for store in 0..scene.stores.len() {
        let keys = scene.keys(store).await;
        let end = format!("-{}of{}-0000000001.json", store + 1, scene.stores.len());
        match &keys[..] {
            [key] if key.ends_with(&end) => sets.push(key.strip_suffix(&end).unwrap().to_owned()),
            _ => return Err(format!("{keys:?}")),
        }
    }
    sets.dedup();
    match &sets[..] {
        [set] => Ok(set.clone()),
        _ => Err(format!("{sets:?}")),
    }
}

#[tokio::test(start_paused = true)]
async fn each_store_gets_its_marker_and_a_second_call_changes_nothing() {
    for stores in [3, 5] {
        let scene = Scene::new(stores);
        scene.operator().init_stores().await.unwrap();
        let first = set(&scene).await.unwrap();
        assert_eq!(first.len(), "app/lock-set-".len() + 16, "{first}");
        for store in &scene.stores {
            assert_eq!(store.take_calls(), [Call::List, Call::Create, Call::List]);
        }
        scene.operator().init_stores().await.unwrap();
        assert_eq!(set(&scene).await.unwrap(), first);
        for store in &scene.stores {
            assert_eq!(store.take_calls(), [Call::List]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_prefix_in_use_is_refused_and_nothing_is_written() {
    for name in ["lock-0000000001.json", "lock-backup", "lock.json"] {
        let scene = Scene::new(3);
        let used = format!("app/{name}");
        scene.put(1, &used, &unsealed(1)).await;
        let error = scene.operator().init_stores().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        let text = error.to_string();
        assert!(text.contains(&used) && text.contains("a store with faults"), "{text}");
        assert!(!error.may_have_happened());
        assert_eq!([scene.keys(0).await.len(), scene.keys(1).await.len()], [0, 1]);
    }
    // Objects that do not belong to an election do not prevent the call.
    let scene = Scene::new(3);
    scene.put(0, "app/data.json", &unsealed(1)).await;
    scene.operator().init_stores().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_stores_must_answer() {
    let scene = Scene::new(3);
    scene.stores[1].always(Fault::Hang);
    let error = scene.operator().init_stores().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(scene.keys(0).await.len() + scene.keys(2).await.len(), 0);
    scene.stores[1].heal();
    scene.operator().init_stores().await.unwrap();
    set(&scene).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_after_a_crash_completes_the_set() {
    for requests in 0.. {
        let scene = Scene::new(3);
        let call = async |election: tenure::Election, _| election.init_stores().await.unwrap();
        let survived = scene.crash(requests, &scene.stores, call).await;
        scene.operator().init_stores().await.unwrap();
        set(&scene).await.unwrap();
        if survived {
            assert_eq!(requests, 9);
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_after_a_failed_write_completes_the_set() {
    for fault in WRITE_FAULTS {
        for (store, times) in [(0, 1), (2, 1), (1, 2), (1, 9)] {
            let scene = Scene::new(3);
            scene.stores[store].on(Call::Create).times(times).fault(fault);
            let first = scene.operator().init_stores().await;
            wait(secs(60)).await;
            if first.is_ok() {
                set(&scene).await.unwrap();
            }
            scene.stores[store].heal();
            scene.operator().init_stores().await.unwrap();
            set(&scene).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_lost_its_contents_is_refused() {
    let scene = Scene::with_set(3).await;
    scene.leads(1, &[0, 1]).await;
    scene.wipe(2).await;
    let operator = scene.operator();
    let above = operator.init_stores_above(Epoch::new(41).unwrap(), secs(1)).await;
    for error in [operator.init_stores().await.unwrap_err(), above.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("`replace_store` with index 2"), "{error}");
    }
    assert!(scene.keys(2).await.is_empty());
}

/// Before the fix, the call mistook the epoch of the leader for the floor of an earlier call. The
/// wiped store got this epoch, sealed without a wait, although the leader could still renew there.
#[tokio::test(start_paused = true)]
async fn regression_the_epoch_of_a_leader_is_no_floor() {
    let scene = Scene::with_set(3).await;
    scene.leads(1, &[0, 1]).await;
    scene.wipe(2).await;
    let above = scene.operator().init_stores_above(Epoch::FIRST, secs(0)).await;
    assert_eq!(above.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(scene.keys(2).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn stores_in_another_order_or_of_another_number_are_refused() {
    let scene = Scene::with_set(3).await;
    let before = set(&scene).await.unwrap();
    let [a, b, c] = [0, 1, 2].map(|store| scene.stores[store].clone());
    let more = Scene::new(2).stores;
    let five = [a.clone(), b.clone(), c.clone(), more[0].clone(), more[1].clone()];
    for stores in [&[b, a, c][..], &five] {
        let error = scene.operator_of(stores).init_stores().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("in the order of their markers"), "{error}");
        assert_eq!(set(&scene).await.unwrap(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn one_store_that_is_named_twice_is_refused() {
    let scene = Scene::new(3);
    let [a, b] = [0, 1].map(|store| scene.stores[store].clone());
    let error = scene.operator_of(&[a.clone(), a, b]).init_stores().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    for store in 0..3 {
        assert_eq!(scene.keys(store).await, [""; 0], "the markers are deleted");
    }
}

/// With a floor, each store gets the sealed epoch of the floor before its marker, so every token is
/// above the floor.
#[tokio::test(start_paused = true)]
async fn a_set_above_an_epoch_grants_only_greater_tokens() {
    for down in 0..3 {
        let scene = Scene::new(3);
        scene.operator().init_stores_above(Epoch::new(41).unwrap(), VALIDITY).await.unwrap();
        for store in &scene.stores {
            let calls = [Call::List, Call::Get, Call::Get, Call::Create, Call::Create, Call::List];
            assert_eq!(store.take_calls(), calls);
        }
        let nonce = scene.record(0, 41).await["nonce"].clone();
        for store in [1, 2] {
            assert_eq!(scene.record(store, 41).await["nonce"], nonce, "the stores show one epoch");
        }
        scene.operator().init_stores_above(Epoch::new(41).unwrap(), VALIDITY).await.unwrap();
        scene.stores[down].always(Fault::Hang);
        let candidate = scene.candidate("ann");
        assert!(
            within(VALIDITY, candidate.campaign()).await.is_none(),
            "the leader waits for old leases"
        );
        let leader = scene.elect("ann").await;
        assert_eq!(leader.epoch().get(), 42);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_after_a_crash_completes_a_set_above_an_epoch() {
    let above = Epoch::new(41).unwrap();
    for requests in 0.. {
        let scene = Scene::new(3);
        let init =
            |election: Election| async move { election.init_stores_above(above, secs(1)).await };
        let call = async |election: Election, _| init(election).await.unwrap();
        let survived = scene.crash(requests, &scene.stores, call).await;
        // A majority of the markers is enough for a candidate.
        if let Some(Ok(leader)) = within(secs(60), scene.candidate("ann").campaign()).await {
            assert_eq!(leader.epoch().get(), 42, "after {requests} requests");
        } else {
            init(scene.operator()).await.unwrap();
            assert_eq!(scene.elect("ann").await.epoch().get(), 42);
        }
        if survived {
            assert_eq!(requests, 18);
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_epoch_in_use_is_no_floor() {
    let above = |epoch| Epoch::new(epoch).unwrap();
    let scene = Scene::new(3);
    scene.put(1, &key(3), &unsealed(3)).await;
    for epoch in [2, 3, 4] {
        let error = scene.operator().init_stores_above(above(epoch), secs(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(&key(3)), "{error}");
        assert_eq!([scene.keys(0).await.len(), scene.keys(2).await.len()], [0, 0]);
    }
    let scene = Scene::with_set(3).await;
    let refused = |election: Election, epoch, wait| async move {
        election.init_stores_above(epoch, wait).await.unwrap_err().kind()
    };
    assert_eq!(refused(scene.operator(), above(3), secs(1)).await, ErrorKind::InvalidInput);
    assert_eq!(refused(scene.operator(), above(3), secs(86_401)).await, ErrorKind::InvalidInput);
    assert_eq!(refused(scene.operator(), Epoch::MAX, secs(1)).await, ErrorKind::EpochsExhausted);
}

/// Concurrent calls may fail, but a call that returns success leaves one complete set, unless a
/// later call fails.
#[tokio::test(start_paused = true)]
async fn concurrent_calls_leave_one_set() {
    let (mut failures, mut both) = (0, 0);
    for seed in 0_u64..200 {
        let scene = Scene::new(3);
        let mut random = fastrand::Rng::with_seed(seed);
        for store in &scene.stores {
            for call in [Call::List, Call::Create, Call::List, Call::Create] {
                store.on(call).fault(Fault::Slow(millis(random.u64(0..4))));
            }
        }
        let operators = [scene.operator(), scene.operator()];
        let ends = join_all(operators.iter().map(|operator| operator.init_stores())).await;
        let failed: Vec<_> = ends.into_iter().filter_map(Result::err).collect();
        failures += failed.len();
        both += usize::from(failed.is_empty());
        assert!(failed.iter().all(|it| it.kind() == ErrorKind::Unavailable), "{failed:?}");
        scene.operator().init_stores().await.unwrap();
        set(&scene).await.unwrap();
    }
    assert!(failures > 10 && both > 10, "{failures} {both}");
}

/// A crash after the creation of the markers and before their check leaves two sets. The error
/// names the keys to delete.
#[tokio::test(start_paused = true)]
async fn the_error_names_the_markers_of_two_sets() {
    let scene = Scene::with_set(3).await;
    let foreign = "app/lock-set-00000000000000ab-2of3-0000000001.json";
    scene.put(1, foreign, &unsealed(1)).await;
    let error = scene.operator().init_stores().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    for store in 0..3 {
        for key in scene.keys(store).await {
            assert!(error.to_string().contains(&key), "{error}");
        }
    }
    scene.stores[1].inner().delete(vec![foreign.to_owned()]).await.unwrap();
    scene.operator().init_stores().await.unwrap();
}
