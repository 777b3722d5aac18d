//! Tests that each setting of an election has an effect.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::json;
use tenure::{Election, ErrorKind, Layout, LeadershipEvent, Loss, Store};
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{TestClock, millis, process, secs, timed, wait};
use tenure_testkit::world::{TAKEOVER, VALIDITY, World, elect, held, ready};

mod clocks;

#[tokio::test(start_paused = true)]
async fn a_candidate_with_a_unique_name_takes_over_from_its_predecessor_immediately() {
    for layout in [Layout::EpochFiles, Layout::SingleObject] {
        let world = World::new();
        let node = || world.node("a").layout(layout);
        drop(elect(&node().build().unwrap()).await);
        let election = node().name_is_unique(true).build().unwrap();
        let (took, after) = timed(elect(&election)).await;
        assert_eq!(after.epoch().get(), 2, "{layout:?}: each grant has a new epoch");
        assert!(took < millis(10), "{layout:?}: {took:?}");
        if layout == Layout::EpochFiles {
            assert_eq!(world.record(1).await["ended"], "lapsed");
        }
    }
}

/// A store with a different name.
#[derive(Debug)]
struct Named(FaultStore, &'static str);

impl Layer for Named {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    fn describe(&self) -> String {
        self.1.to_owned()
    }
}

/// A candidate that declares its name unique may seal an epoch whose holder has this name, but only
/// in its first campaign. The two store values name the same objects differently, so the process
/// treats each campaign as the first campaign of a separate election. The second campaign must not
/// seal the epoch that the same process leads.
#[tokio::test(start_paused = true)]
async fn a_candidate_with_a_unique_name_does_not_seal_an_epoch_of_the_same_process() {
    for layout in [Layout::EpochFiles, Layout::SingleObject] {
        let world = World::new();
        let process = process(&TestClock::new(), 7);
        let election = |place| {
            let store = Arc::new(Layered(Named(world.another_way(), place)));
            let election = Election::builder(store, "app").layout(layout).name("a");
            election.name_is_unique(true).process(process.clone()).build().unwrap()
        };
        let first = elect(&election("s3://one")).await;
        assert_eq!(held(election("s3://two").try_campaign().await.unwrap()).epoch, first.epoch());
        assert!(first.check().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_candidate_with_a_unique_name_does_not_seal_the_epochs_of_others() {
    let world = World::new();
    let other = world.leader("b").await;
    let election = world.node("a").name_is_unique(true).build().unwrap();
    assert_eq!(held(election.try_campaign().await.unwrap()).name(), "b");
    wait(VALIDITY * 3).await;
    assert!(other.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn only_the_first_campaign_takes_over_by_name() {
    let world = World::new();
    let other = world.leader("b").await;
    let election = world.node("a").name_is_unique(true).build().unwrap();
    held(election.try_campaign().await.unwrap());
    other.resign().await.unwrap();
    // Another candidate has the same name, although the name is declared unique. The other
    // candidate may have started after the first campaign of `election`, so `election` must not
    // seal the epoch of the other candidate.
    let twin = world.leader("a").await;
    assert_eq!(held(election.try_campaign().await.unwrap()).epoch, twin.epoch());
    assert!(twin.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_takeover_delay_follows_a_lapse_but_no_resignation() {
    let world = World::new();
    let delay = secs(25);
    let election = world.node("b").takeover_delay(delay).build().unwrap();
    let (took, first) = timed(elect(&election)).await;
    assert!(took < millis(10), "no leader preceded this one: {took:?}");
    first.resign().await.unwrap();
    let (took, second) = timed(elect(&election)).await;
    assert!(took < millis(10), "resigned: {took:?}");
    drop(second);
    let (took, third) = timed(elect(&election)).await;
    assert_eq!(third.epoch().get(), 3);
    assert!(took > VALIDITY + delay && took < TAKEOVER + delay, "lapsed: {took:?}");
}

/// Before the fix, a candidate waited for a random delay before it sealed the epoch of a leader
/// that died long ago. The delay was up to a tenth of the validity, which is six minutes in this
/// test.
#[tokio::test(start_paused = true)]
async fn a_leader_that_died_long_ago_by_the_stores_dates_is_replaced_immediately() {
    for seed in 0..8 {
        let world = World::new();
        for _ in 0..seed {
            drop(world.node("skips a seed"));
        }
        let hour = secs(3600);
        drop(elect(&world.node("a").validity(hour).build().unwrap()).await);
        wait(hour * 2).await;
        let election = world.node("b").store_clock_margin(secs(2)).build().unwrap();
        let (took, second) = timed(elect(&election)).await;
        assert_eq!(second.epoch().get(), 2);
        assert!(took < millis(10), "seed {seed}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_verified_renewals_send_a_list() {
    let world = World::new();
    for (verify, expected) in [(false, 0), (true, 1)] {
        let election = world.node("a").verify_renewals(verify).build().unwrap();
        let lead = elect(&election).await;
        let mut events = lead.events();
        world.store.take_log();
        assert!(matches!(events.next().await, Some(LeadershipEvent::Renewed { .. })));
        let calls = world.store.take_calls();
        assert_eq!(calls.iter().filter(|call| **call == Call::List).count(), expected);
        lead.resign().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_request_timeout_bounds_a_campaign_on_a_store_that_never_answers() {
    let world = World::new();
    world.store.always(Fault::Hang);
    for timeout in [millis(200), millis(900)] {
        let election = world.node("a").request_timeout(timeout).build().unwrap();
        let (took, result) = timed(election.leader()).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(took >= timeout && took < timeout + millis(50), "{took:?}");
        let (took, result) = timed(election.try_campaign()).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Unavailable);
        // The attempt sends three requests, and each of them times out. The attempt pauses between
        // the requests.
        assert!(took >= timeout * 3 && took < timeout * 3 + secs(2), "{took:?}");
    }
}

/// If `poll_backoff` is set, a follower increases its poll interval up to a bound. Hongli Lai's
/// algorithm for Cloud Storage proposes a back-off.
#[tokio::test(start_paused = true)]
async fn a_follower_backs_off_up_to_a_bound_if_configured() {
    for (backoff, polls) in [(None, 200..=203), (Some(secs(8)), 7..=12)] {
        let world = World::new();
        let lead = world.leader("a").await;
        let way = world.another_way();
        let mut follower = world.node_behind(&way, &world.clock, "b").poll_interval(millis(200));
        if let Some(longest) = backoff {
            follower = follower.poll_backoff(longest);
        }
        let election = follower.build().unwrap();
        let follow = tokio::spawn(async move { elect(&election).await });
        wait(millis(100)).await;
        way.take_log();
        wait(secs(40)).await;
        let looks = way.take_calls().iter().filter(|call| **call == Call::Get).count();
        assert!(polls.contains(&looks), "{backoff:?}: {looks} polls");
        drop(lead);
        let (took, next) = timed(follow).await;
        assert_eq!(next.unwrap().epoch().get(), 2);
        assert!(took < TAKEOVER + backoff.unwrap_or_default(), "{backoff:?}: {took:?}");
    }
}

/// After a change of the leader, the follower polls at the same short interval as at its start.
#[tokio::test(start_paused = true)]
async fn a_new_leader_ends_the_back_off() {
    let world = World::new();
    let lead = world.leader("a").await;
    let way = world.another_way();
    let follower = world.node_behind(&way, &world.clock, "c").poll_interval(millis(200));
    let election = follower.poll_backoff(secs(8)).build().unwrap();
    let _follow = tokio::spawn(async move { elect(&election).await });
    wait(secs(30)).await;
    lead.resign().await.unwrap();
    let _next = world.leader("b").await;
    way.take_log();
    // The follower sees the new leader at its next poll. From then on, its poll interval increases
    // again from 200 ms. If the interval remained long, the follower would poll only 3 times.
    wait(secs(16)).await;
    let looks = way.take_calls().iter().filter(|call| **call == Call::Get).count();
    assert!((6..=14).contains(&looks), "{looks}");
}

#[tokio::test(start_paused = true)]
async fn data_is_in_the_record_from_the_start() {
    let world = World::new();
    let election = world.node("a").data(json!({ "url": "http://a" })).build().unwrap();
    let lead = elect(&election).await;
    let leader = election.leader().await.unwrap().unwrap();
    assert_eq!((leader.epoch, leader.data), (lead.epoch(), json!({ "url": "http://a" })));
    let kind = world.node("a").data("x".repeat(60_000)).build().unwrap_err().kind();
    assert_eq!(kind, ErrorKind::InvalidInput);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_leadership_lapses_or_resigns_as_configured() {
    for (resign, ended) in [(false, json!(null)), (true, json!("resigned"))] {
        let world = World::new();
        let election = world.node("a").resign_on_drop(resign).build().unwrap();
        let lead = elect(&election).await;
        let mut events = lead.events();
        drop(lead);
        wait(millis(100)).await;
        assert_eq!(world.record(1).await["ended"], ended);
        let heartbeat = world.record(1).await["heartbeat"].clone();
        wait(VALIDITY).await;
        assert_eq!(world.record(1).await["heartbeat"], heartbeat, "no renewal after the drop");
        let told = ready(&mut events).await;
        assert!(matches!(told[..], [LeadershipEvent::Lost(Loss::Resigned)]), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drop_never_blocks() {
    for resign in [false, true] {
        for fault in [Fault::Hang, Fault::FailBefore, Fault::Denied] {
            let world = World::new();
            let election = world.node("a").resign_on_drop(resign).build().unwrap();
            let lead = elect(&election).await;
            world.store.always(fault);
            // Before the drop, a renewal has failed or begun to hang.
            wait(secs(4)).await;
            let (took, ()) = timed(async { drop(lead) }).await;
            assert_eq!(took, Duration::ZERO);
            wait(VALIDITY).await;
            world.store.heal();
            world.store.take_log();
            wait(VALIDITY).await;
            assert_eq!(world.store.take_calls(), [], "the driver has stopped");
            assert_eq!(elect(&world.node("b").build().unwrap()).await.epoch().get(), 2);
        }
    }
}

/// Candidates that begin to follow at the same moment must seal the epoch at different moments.
/// This also holds if the leader renews its lease while they follow.
#[tokio::test(start_paused = true)]
async fn candidates_that_start_together_do_not_seal_together() {
    // One poll interval is longer than a tenth of the validity, and the other is shorter.
    for (poll, renews) in [VALIDITY / 6, VALIDITY / 50].map(|p| [(p, false), (p, true)]).concat() {
        let world = World::new();
        let leader = world.leader("a").await;
        let names: Vec<_> = (0..20).map(|number| format!("b{number}")).collect();
        let nodes = names.iter().map(|name| world.node(name).poll_interval(poll).build().unwrap());
        let campaigns: Vec<_> =
            nodes.map(|election| tokio::spawn(async move { elect(&election).await })).collect();
        wait(if renews { VALIDITY } else { millis(1) }).await;
        drop(leader);
        let (mut all, mut at_once) = (0, 0);
        for _ in 0..TAKEOVER.as_millis() / 10 {
            world.store.take_calls();
            wait(millis(10)).await;
            let calls = world.store.take_calls();
            let seals = calls.iter().filter(|call| **call == Call::Replace).count();
            (all, at_once) = (all + seals, at_once.max(seals));
        }
        assert!(all > 0 && at_once <= 5, "{at_once} of {all} together, {poll:?}, {renews}");
        campaigns.iter().for_each(|campaign| campaign.abort());
    }
}
