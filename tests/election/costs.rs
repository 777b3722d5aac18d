//! Tests of the requests that each step of an election sends.

use tenure::{CampaignOutcome, Election, ElectionBuilder, Layout, Leadership};
use tenure_testkit::fault_store::Call::{self, Create, Get, List, Replace};
use tenure_testkit::fault_store::FaultStore;
use tenure_testkit::time::{millis, secs, wait};
use tenure_testkit::world::{World, elect};

const START: &str = "lock-0000000000.json";
const FIRST: &str = "lock-0000000001.json";
const SECOND: &str = "lock-0000000002.json";
const THIRD: &str = "lock-0000000003.json";
/// Key of the object of an election with `Layout::SingleObject`.
const LOCK: &str = "lock.json";

/// Returns a candidate, and its separate connection to the objects of `world`.
fn candidate(world: &World, layout: Layout) -> (ElectionBuilder, FaultStore) {
    let way = world.another_way();
    let node = world.node_behind(&way, &world.clock, "b").layout(layout);
    (node.poll_interval(secs(4)), way)
}

fn of_files(world: &World) -> (Election, FaultStore) {
    let (node, way) = candidate(world, Layout::EpochFiles);
    (node.build().unwrap(), way)
}

fn of_an_object(world: &World) -> (Election, FaultStore) {
    let (node, way) = candidate(world, Layout::SingleObject);
    (node.build().unwrap(), way)
}

async fn leader_of_an_object(world: &World) -> Leadership {
    elect(&world.node("a").layout(Layout::SingleObject).build().unwrap()).await
}

/// Asserts that the candidate has sent exactly these requests. For a listing, the expected key is
/// the key after which the listing starts.
#[track_caller]
fn sent(way: &FaultStore, expected: &[(Call, &str)]) {
    let log = way.take_log();
    let log = log.iter().map(|(call, key)| (*call, key.trim_start_matches("app/")));
    assert_eq!(log.collect::<Vec<_>>(), expected);
}

/// Drops a leadership and waits until its driver has ended.
async fn end(leadership: Leadership) {
    drop(leadership);
    wait(millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_first_campaign() {
    let world = World::new();
    let (election, way) = of_files(&world);
    end(election.campaign().await.unwrap()).await;
    sent(&way, &[(List, START), (Create, FIRST), (List, FIRST)]);
    let (election, way) = of_an_object(&world);
    end(election.campaign().await.unwrap()).await;
    sent(&way, &[(Get, LOCK), (Create, LOCK)]);
}

#[tokio::test(start_paused = true)]
async fn a_campaign_after_an_ended_epoch_sends_no_seal() {
    let world = World::new();
    world.leader("a").await.resign().await.unwrap();
    let (election, way) = of_files(&world);
    election.campaign().await.unwrap().resign().await.unwrap();
    sent(&way, &[(List, START), (Get, FIRST), (Create, SECOND), (List, SECOND), (Replace, SECOND)]);
    // The LIST of the election's next campaign starts after the key of the known epoch.
    end(election.campaign().await.unwrap()).await;
    sent(&way, &[(List, FIRST), (Get, SECOND), (Create, THIRD), (List, THIRD)]);

    leader_of_an_object(&world).await.resign().await.unwrap();
    let (election, way) = of_an_object(&world);
    election.campaign().await.unwrap().resign().await.unwrap();
    sent(&way, &[(Get, LOCK), (Replace, LOCK), (Replace, LOCK)]);
    end(election.campaign().await.unwrap()).await;
    sent(&way, &[(Get, LOCK), (Replace, LOCK)]);
}

/// The first poll occurs after a random part of the poll interval.
#[tokio::test(start_paused = true)]
async fn a_follower_sends_one_get_per_poll_until_it_sees_the_end() {
    let world = World::new();
    let leader = world.leader("a").await;
    let (election, way) = of_files(&world);
    let follow = tokio::spawn(async move { election.campaign().await });
    wait(millis(100)).await;
    sent(&way, &[(List, START), (Get, FIRST)]);
    wait(secs(8)).await;
    sent(&way, &[(Get, FIRST); 2]);
    leader.resign().await.unwrap();
    end(follow.await.unwrap().unwrap()).await;
    sent(&way, &[(Get, FIRST), (Create, SECOND), (List, SECOND)]);

    let leader = leader_of_an_object(&world).await;
    let (election, way) = of_an_object(&world);
    let follow = tokio::spawn(async move { election.campaign().await });
    wait(millis(100)).await;
    sent(&way, &[(Get, LOCK)]);
    wait(secs(8)).await;
    sent(&way, &[(Get, LOCK); 2]);
    leader.resign().await.unwrap();
    end(follow.await.unwrap().unwrap()).await;
    sent(&way, &[(Get, LOCK), (Replace, LOCK)]);
}

#[tokio::test(start_paused = true)]
async fn a_takeover_after_a_lapse_sends_at_most_four_requests() {
    let world = World::new();
    end(world.leader("a").await).await;
    let (election, way) = of_files(&world);
    let follow = tokio::spawn(async move { election.campaign().await });
    wait(secs(9)).await;
    way.take_log();
    end(follow.await.unwrap().unwrap()).await;
    let log = way.take_log();
    let writes = log.iter().filter(|(call, _)| *call != Get).map(|(call, _)| *call);
    assert_eq!(writes.collect::<Vec<_>>(), [Replace, Create, List]);
    assert!(log.len() <= 4, "{log:?}");

    end(leader_of_an_object(&world).await).await;
    let (election, way) = of_an_object(&world);
    let follow = tokio::spawn(async move { election.campaign().await });
    wait(secs(9)).await;
    way.take_log();
    end(follow.await.unwrap().unwrap()).await;
    let log = way.take_log();
    assert_eq!(log.iter().filter(|(call, _)| *call == Replace).count(), 1);
    assert!(log.len() <= 2, "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn each_renewal_and_the_resignation_cost_one_write() {
    let world = World::new();
    let (election, way) = of_files(&world);
    let leader = election.campaign().await.unwrap();
    way.take_log();
    wait(secs(14)).await;
    // Every ten seconds, the leader searches for a greater epoch.
    let renewal = (Replace, FIRST);
    sent(&way, &[renewal, renewal, (Get, SECOND), renewal, renewal]);
    leader.proclaim("here").await.unwrap();
    leader.resign().await.unwrap();
    sent(&way, &[renewal; 2]);

    // With `Layout::SingleObject`, no search for a greater epoch is necessary.
    let (election, way) = of_an_object(&world);
    let leader = election.campaign().await.unwrap();
    way.take_log();
    wait(secs(14)).await;
    sent(&way, &[(Replace, LOCK); 4]);
    leader.proclaim("here").await.unwrap();
    leader.resign().await.unwrap();
    sent(&way, &[(Replace, LOCK); 2]);
}

#[tokio::test(start_paused = true)]
async fn each_verified_renewal_costs_a_list() {
    let world = World::new();
    let (node, way) = candidate(&world, Layout::EpochFiles);
    let leader = elect(&node.verify_renewals(true).build().unwrap()).await;
    way.take_log();
    wait(secs(8)).await;
    end(leader).await;
    sent(&way, &[(Replace, FIRST), (List, FIRST), (Replace, FIRST), (List, FIRST)]);
}

#[tokio::test(start_paused = true)]
async fn single_attempts_and_snapshots_on_a_held_epoch_only_read() {
    let world = World::new();
    let _leader = world.leader("a").await;
    let (election, way) = of_files(&world);
    for _ in 0..2 {
        assert!(matches!(election.try_campaign().await.unwrap(), CampaignOutcome::Held(_)));
        sent(&way, &[(List, START), (Get, FIRST)]);
    }
    let leader = leader_of_an_object(&world).await;
    let (election, way) = of_an_object(&world);
    for _ in 0..2 {
        assert!(matches!(election.try_campaign().await.unwrap(), CampaignOutcome::Held(_)));
        sent(&way, &[(Get, LOCK)]);
    }
    assert_eq!(election.leader().await.unwrap().unwrap().epoch, leader.epoch());
    sent(&way, &[(Get, LOCK)]);
}

#[tokio::test(start_paused = true)]
async fn a_predecessors_epoch_is_sealed_in_the_first_campaign() {
    let world = World::new();
    end(world.leader("b").await).await;
    let (node, way) = candidate(&world, Layout::EpochFiles);
    end(elect(&node.name_is_unique(true).build().unwrap()).await).await;
    sent(&way, &[(List, START), (Get, FIRST), (Replace, FIRST), (Create, SECOND), (List, SECOND)]);
}
