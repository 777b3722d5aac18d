//! Elections on a store with unusual answers: weak ETags, and answers that report a deletion
//! although the object remains.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tenure::store::{Determinacy, ETag, PutOutcome, StoreError, StoreErrorKind};
use tenure::{CampaignOutcome, Compactor, Election, Layout, Store};
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{process, secs, wait, within};
use tenure_testkit::world::{TAKEOVER, World, elect};

#[test]
fn a_weak_tag_equals_its_strong_tag() {
    assert_eq!(ETag::new("W/\"abc\""), ETag::new("\"abc\""));
    assert_eq!(ETag::new("W/abc").as_str(), "W/abc", "a tag without quotes is not changed");
}

/// The reads of this store return weak tags. Before the fix, a leader that had read its record back
/// used the weak tag as the condition of its next renewals. This condition never matched.
#[tokio::test(start_paused = true)]
async fn regression_a_leader_renews_on_a_store_with_weak_tags_in_reads() {
    let world = World::new();
    let lead = world.leader("a").await;
    world.store.on(Call::Get).always().fault(Fault::WeakEtag);
    for _ in 0..5 {
        world.store.on(Call::Replace).times(1).fault(Fault::FailAfter);
        wait(secs(60)).await;
        assert!(lead.check().is_ok(), "{:?}", lead.check());
    }
}

/// Before the fix, the follower used the weak tag of its read as the condition of its seal, so the
/// store always refused the seal.
#[tokio::test(start_paused = true)]
async fn regression_a_follower_takes_over_on_a_store_with_weak_tags_in_reads() {
    let world = World::new();
    let lead = world.leader("a").await;
    let election = world.node("b").build().unwrap();
    // The follower begins to follow while reads still return strong tags.
    let follower = tokio::spawn(async move { elect(&election).await });
    wait(secs(30)).await;
    world.store.on(Call::Get).always().fault(Fault::WeakEtag);
    wait(secs(30)).await;
    drop(lead);
    let next = within(TAKEOVER * 2, follower).await.expect("succeeded").unwrap();
    assert_eq!(next.epoch().get(), 2);
}

/// The store reports a deletion as done, but keeps the object. Elections continue above the
/// remaining epochs, and the next run of the compactor deletes their objects.
#[tokio::test(start_paused = true)]
async fn reported_deletions_without_effect_are_tolerated() {
    let world = World::new();
    for _ in 0..4 {
        world.leader("a").await.resign().await.unwrap();
    }
    let compactor = Compactor::builder(Arc::new(world.store.clone()), "app")
        .min_age(Duration::ZERO)
        .keep_epochs(2)
        .build()
        .unwrap();
    world.store.on(Call::Delete).times(1).fault(Fault::Claim);
    let claimed = compactor.run_once().await.unwrap();
    assert_eq!(world.epochs().await, [1, 2, 3, 4]);
    assert_eq!(world.leader("b").await.epoch().get(), 5, "the epochs continue");
    let again = compactor.run_once().await.unwrap();
    assert!(again.deleted >= claimed.deleted, "{again:?} after {claimed:?}");
    assert_eq!(*world.epochs().await.last().unwrap(), 5);
    assert!(world.epochs().await.len() < 5, "the next run deletes the objects");
}

/// A store whose first create takes effect but is answered with 403. A client that repeats requests
/// can return such a 403, if the store denies the second request.
#[derive(Debug)]
struct DeniedAfter(FaultStore, AtomicBool);

#[async_trait::async_trait]
impl Layer for DeniedAfter {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        let outcome = self.0.create(key, body).await;
        let (kind, effect) = (StoreErrorKind::AccessDenied, Determinacy::Indeterminate);
        match self.1.swap(true, Ordering::Relaxed) {
            true => outcome,
            false => Err(StoreError::new(kind, effect, "403 after a retry")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_with_an_unknown_effect_is_read_back() {
    for layout in [Layout::EpochFiles, Layout::SingleObject] {
        let world = World::new();
        let store = Layered(DeniedAfter(world.another_way(), AtomicBool::new(false)));
        let election = Election::builder(Arc::new(store), "app").layout(layout).check_store(false);
        let election = election.process(process(&world.clock, 7)).build().unwrap();
        let CampaignOutcome::Elected(elected) = election.try_campaign().await.unwrap() else {
            panic!("{layout:?}: the candidate does not recognize its own create")
        };
        assert_eq!(elected.epoch().get(), 1, "{layout:?}");
    }
}
