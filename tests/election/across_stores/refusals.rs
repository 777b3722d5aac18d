//! Elections in one store and elections across stores refuse each other's objects.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Compactor, Election, ElectionBuilder, Epoch, ErrorKind, Layout};
use tenure_history::Reader;
use tenure_testkit::time::process;
use tenure_testkit::world::{VALIDITY, key};

use super::scene::{Scene, unsealed};

fn plain(scene: &Scene) -> ElectionBuilder {
    let clock = tenure_testkit::time::TestClock::new();
    let store = Arc::new(scene.stores[0].clone());
    Election::builder(store, "app").process(process(&clock, 7))
}

#[tokio::test(start_paused = true)]
async fn a_candidate_of_one_store_refuses_a_store_of_a_set() {
    for layout in [Layout::EpochFiles, Layout::SingleObject] {
        for has_epochs in [false, true] {
            let scene = Scene::with_set(3).await;
            if has_epochs {
                scene.leads(1, &[0]).await;
            }
            let election = plain(&scene).layout(layout).build().unwrap();
            let error = election.try_campaign().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            let text = error.to_string();
            assert!(text.contains("name all its stores") && text.contains("lock-set-"), "{text}");
        }
    }
    // A note alone also causes the refusal.
    let scene = Scene::with_set(3).await;
    scene.wipe(0).await;
    scene.put(0, "app/lock-set-00000000000000ab-note-2-0000000001.json", &unsealed(1)).await;
    let error = plain(&scene).build().unwrap().try_campaign().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_one_store_explains_a_record_of_a_set() {
    let scene = Scene::with_set(3).await;
    scene.leads(1, &[0]).await;
    let election = plain(&scene).check_store(false).build().unwrap();
    for error in [
        election.try_campaign().await.unwrap_err(),
        election.leader().await.unwrap_err(),
        election.depose(None).await.unwrap_err(),
        election.depose_dead(None).await.unwrap_err(),
        election.restore(Epoch::new(5).unwrap(), VALIDITY).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("name all its stores"), "{error}");
    }
    assert_eq!(scene.record(0, 1).await, unsealed(1));
}

#[tokio::test(start_paused = true)]
async fn an_election_in_one_store_refuses_the_calls_for_several_stores() {
    let scene = Scene::new(3);
    let election = plain(&scene).build().unwrap();
    let store = Arc::new(scene.stores[1].clone());
    for error in [
        election.init_stores().await.unwrap_err(),
        election.store_set().await.unwrap_err(),
        election.replace_store(0, VALIDITY).await.unwrap_err(),
        election.move_store(store, 0, VALIDITY).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("the election has one store"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_cannot_be_restored() {
    let scene = Scene::with_set(3).await;
    let epoch = Epoch::new(5).unwrap();
    let error = scene.operator().restore(epoch, VALIDITY).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(scene.stores.iter().all(|store| store.take_log().is_empty()));
}

/// A compactor of one store keeps the marker, the notes and the newest epoch.
#[tokio::test(start_paused = true)]
async fn a_compactor_keeps_the_markers_the_notes_and_the_newest_epoch() {
    let scene = Scene::with_set(3).await;
    for epoch in 1..=5 {
        scene.leads(epoch, &[0, 1]).await;
    }
    scene.wipe(2).await;
    scene.operator().replace_store(2, VALIDITY).await.unwrap();
    let names: Vec<String> =
        scene.keys(0).await.into_iter().filter(|key| key.contains("lock-set-")).collect();
    assert_eq!(names.len(), 2, "a marker and a note");
    let store = Arc::new(scene.stores[0].clone());
    let compactor = Compactor::builder(store, "app").keep_epochs(1).min_age(Duration::ZERO);
    let report = compactor.build().unwrap().run_once().await.unwrap();
    assert_eq!((report.deleted, report.newest), (4, Epoch::new(5)));
    assert_eq!(scene.keys(0).await, [vec![key(5)], names].concat());
    assert_eq!(scene.keys(1).await.len(), 7, "the other stores keep their epochs");
}

#[tokio::test(start_paused = true)]
async fn the_history_of_one_store_shows_its_leaders() {
    let scene = Scene::with_set(3).await;
    scene.leads(1, &[0]).await;
    scene.operator().depose(None).await.unwrap();
    scene.leads(2, &[0, 1]).await;
    let store = Arc::new(scene.stores[0].clone());
    let history = Reader::new(store, "app").unwrap().read().await.unwrap();
    let spans: Vec<_> = history.spans.iter().map(|it| (it.epoch.get(), it.name())).collect();
    assert_eq!(spans, [(1, "a"), (2, "a")]);
    assert_eq!(history.spans[0].end, Some(tenure::EpochEnd::Deposed));
}
