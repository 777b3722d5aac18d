//! Tests of the number of requests that each step of an election costs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use mockall::{Sequence, mock};
use tenure::store::{ETag, GetOutcome, MemoryStore, Page, PutOutcome, Store, StoreError};
use tenure::{CampaignOutcome, Election, ElectionBuilder, Leadership, Process};
use tenure_testkit::time::{TestClock, process, secs, wait, within};

mod single;

mock! {
    #[derive(Debug)]
    Store {}

    #[async_trait::async_trait]
    impl Store for Store {
        async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError>;
        async fn get(
            &self,
            key: &str,
            unless: Option<ETag>,
            max_len: usize,
        ) -> Result<GetOutcome, StoreError>;
        async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError>;
        async fn replace(
            &self,
            key: &str,
            body: Bytes,
            etag: ETag,
        ) -> Result<PutOutcome, StoreError>;
        async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError>;
        async fn list_last(
            &self,
            prefix: &str,
            after: &str,
            limit: usize,
        ) -> Result<Option<Page>, StoreError>;
        fn describe(&self) -> String;
    }
}

/// An expected request. The text is the end of the requested key.
#[derive(Debug, Clone, Copy)]
enum Want {
    List(&'static str),
    Get(&'static str),
    Poll(&'static str),
    Create(&'static str),
    Replace(&'static str),
}

use Want::{Create, Get, List, Poll, Replace};

const START: &str = "lock-0000000000.json";
const FIRST: &str = "lock-0000000001.json";
const SECOND: &str = "lock-0000000002.json";

/// Returns a store that answers only these requests, in this order, from `memory`.
fn scripted(memory: &MemoryStore, script: &[Want]) -> Arc<MockStore> {
    let mut mock = MockStore::new();
    let order = &mut Sequence::new();
    for want in script.iter().copied() {
        let memory = memory.clone();
        let done = "a store in memory answers immediately";
        match want {
            List(end) => {
                mock.expect_list()
                    .withf(move |prefix, after, _| prefix == "app/lock-" && after.ends_with(end))
                    .times(1)
                    .in_sequence(order)
                    .returning(move |prefix, after, limit| {
                        memory.list(prefix, after, limit).now_or_never().expect(done)
                    });
            }
            Get(end) | Poll(end) => {
                let poll = matches!(want, Poll(_));
                mock.expect_get()
                    .withf(move |key, unless, _| key.ends_with(end) && unless.is_some() == poll)
                    .times(1)
                    .in_sequence(order)
                    .returning(move |key, unless, most| {
                        memory.get(key, unless, most).now_or_never().expect(done)
                    });
            }
            Create(end) => {
                mock.expect_create()
                    .withf(move |key, _| key.ends_with(end))
                    .times(1)
                    .in_sequence(order)
                    .returning(move |key, body| {
                        memory.create(key, body).now_or_never().expect(done)
                    });
            }
            Replace(end) => {
                mock.expect_replace()
                    .withf(move |key, _, _| key.ends_with(end))
                    .times(1)
                    .in_sequence(order)
                    .returning(move |key, body, etag| {
                        memory.replace(key, body, etag).now_or_never().expect(done)
                    });
            }
        }
    }
    mock.expect_list_last().returning(|_, _, _| Ok(None));
    mock.expect_describe().returning(|| "scripted".to_owned());
    Arc::new(mock)
}

/// On a store that can list in descending order, one LIST in this order finds the newest epoch. The
/// confirmation of a grant requires a LIST in ascending order.
#[tokio::test(start_paused = true)]
async fn a_search_lists_from_the_end_and_a_confirmation_from_the_start() {
    let world = World::new();
    for _ in 0..3 {
        world.leader().await.resign().await.unwrap();
    }
    let mut mock = MockStore::new();
    let order = &mut Sequence::new();
    let done = "a store in memory answers immediately";
    let memory = world.memory.clone();
    mock.expect_list_last().times(1).in_sequence(order).returning(move |prefix, after, limit| {
        assert!(after.ends_with(START) && limit < 10);
        memory.list_last(prefix, after, limit).now_or_never().expect(done)
    });
    let third = "app/lock-0000000003.json";
    let memory = world.memory.clone();
    mock.expect_get().withf(move |key, _, _| key == third).times(1).in_sequence(order).returning(
        move |key, unless, most| memory.get(key, unless, most).now_or_never().expect(done),
    );
    let memory = world.memory.clone();
    mock.expect_create()
        .times(1)
        .in_sequence(order)
        .returning(move |key, body| memory.create(key, body).now_or_never().expect(done));
    let memory = world.memory.clone();
    mock.expect_list()
        .withf(|_, after, _| after.ends_with("lock-0000000004.json"))
        .times(1)
        .in_sequence(order)
        .returning(move |prefix, after, limit| {
            memory.list(prefix, after, limit).now_or_never().expect(done)
        });
    mock.expect_describe().returning(|| "scripted".to_owned());
    let election = Election::builder(Arc::new(mock), "app").validity(secs(10)).check_store(false);
    let election = election.process(world.process(1)).build().unwrap();
    let elected = within(secs(60), election.campaign()).await.expect("the mock has each answer");
    end(elected.unwrap()).await;
}

/// A machine, a store in memory, and elections that must send exactly the scripted requests.
struct World {
    memory: MemoryStore,
    clock: TestClock,
}

impl World {
    fn new() -> World {
        let clock = TestClock::new();
        World { memory: MemoryStore::with_clock(Arc::new(clock.clone())), clock }
    }

    fn process(&self, seed: u64) -> Process {
        process(&self.clock, seed)
    }

    fn election(&self, seed: u64, script: &[Want]) -> Election {
        self.builder(seed, script).build().unwrap()
    }

    fn builder(&self, seed: u64, script: &[Want]) -> ElectionBuilder {
        Election::builder(scripted(&self.memory, script), "app")
            .validity(secs(10))
            .poll_interval(secs(4))
            .check_store(false)
            .process(self.process(seed))
    }

    /// Elects a leader. The test does not check the requests of this campaign.
    async fn leader(&self) -> Leadership {
        let store = Arc::new(self.memory.clone());
        let election = Election::builder(store, "app").validity(secs(10)).check_store(false);
        election.process(self.process(99)).build().unwrap().campaign().await.unwrap()
    }
}

/// Drops a leadership and waits until its driver has ended.
async fn end(leadership: Leadership) {
    drop(leadership);
    wait(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_first_campaign_on_an_empty_prefix() {
    let world = World::new();
    let election = world.election(1, &[List(START), Create(FIRST), List(FIRST)]);
    end(election.campaign().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_first_and_a_second_campaign_on_a_sealed_epoch() {
    let world = World::new();
    world.leader().await.resign().await.unwrap();
    let script = [
        List(START),
        Get(FIRST),
        Create(SECOND),
        List(SECOND),
        Replace(SECOND),
        // The next campaign of the same election lists only the keys after the known epoch.
        List(FIRST),
        Get(SECOND),
        Create("lock-0000000003.json"),
        List("lock-0000000003.json"),
    ];
    let election = world.election(1, &script);
    election.campaign().await.unwrap().resign().await.unwrap();
    end(election.campaign().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_polls_and_sees_a_seal() {
    let world = World::new();
    let leader = world.leader().await;
    let script = [
        List(START),
        Get(FIRST),
        // The first poll occurs after a random part of the poll interval.
        Poll(FIRST),
        Poll(FIRST),
        Poll(FIRST),
        Poll(FIRST),
        Create(SECOND),
        List(SECOND),
    ];
    let election = world.election(1, &script);
    let follow = tokio::spawn(async move { election.campaign().await });
    wait(secs(10)).await;
    leader.resign().await.unwrap();
    end(follow.await.unwrap().unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_after_a_lapse() {
    let world = World::new();
    end(world.leader().await).await;
    let script = [
        List(START),
        Get(FIRST),
        Poll(FIRST),
        Poll(FIRST),
        Poll(FIRST),
        Replace(FIRST),
        Create(SECOND),
        List(SECOND),
    ];
    end(world.election(1, &script).campaign().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn renewals_with_a_search_each_validity_and_a_resignation() {
    let world = World::new();
    let script = [
        List(START),
        Create(FIRST),
        List(FIRST),
        Replace(FIRST),
        Replace(FIRST),
        // Every ten seconds, the leader searches for a greater epoch.
        Get(SECOND),
        Replace(FIRST),
        Replace(FIRST),
        // One write for the proclamation, and one write for the resignation.
        Replace(FIRST),
        Replace(FIRST),
    ];
    let leader = world.election(1, &script).campaign().await.unwrap();
    wait(secs(14)).await;
    leader.proclaim("here").await.unwrap();
    leader.resign().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn verified_renewals_cost_a_list_each() {
    let world = World::new();
    let script = [
        List(START),
        Create(FIRST),
        List(FIRST),
        Replace(FIRST),
        List(FIRST),
        Replace(FIRST),
        List(FIRST),
    ];
    let election = Election::builder(scripted(&world.memory, &script), "app")
        .validity(secs(10))
        .verify_renewals(true)
        .check_store(false)
        .process(world.process(1));
    let leader = election.build().unwrap().campaign().await.unwrap();
    wait(secs(8)).await;
    end(leader).await;
}

#[tokio::test(start_paused = true)]
async fn two_single_attempts_on_a_held_epoch() {
    let world = World::new();
    let _leader = world.leader().await;
    let election = world.election(1, &[List(START), Get(FIRST), List(START), Get(FIRST)]);
    for _ in 0..2 {
        assert!(matches!(election.try_campaign().await.unwrap(), CampaignOutcome::Held(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_predecessors_epoch_is_sealed_in_the_first_campaign() {
    let world = World::new();
    end(world.leader().await).await;
    let script = [List(START), Get(FIRST), Replace(FIRST), Create(SECOND), List(SECOND)];
    let election = Election::builder(scripted(&world.memory, &script), "app")
        .validity(secs(10))
        .name(world.name().await)
        .name_is_unique(true)
        .check_store(false)
        .process(world.process(1));
    end(election.build().unwrap().campaign().await.unwrap()).await;
}

impl World {
    /// Returns the name of the holder of the newest epoch.
    async fn name(&self) -> String {
        let election = Election::builder(Arc::new(self.memory.clone()), "app").build().unwrap();
        election.leader().await.unwrap().unwrap().name().to_owned()
    }
}
