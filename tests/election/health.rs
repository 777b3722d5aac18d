//! Tests the values that an application can use in a health check: whether the lease is valid, and
//! whether the store answers.

use futures::StreamExt as _;
use tenure::Loss;
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs, wait};
use tenure_testkit::world::{TAKEOVER, VALIDITY, World, elect};

#[tokio::test(start_paused = true)]
async fn a_lease_reports_renewals_and_its_end() {
    let world = World::new();
    let lead = world.leader("a").await;
    let lease = lead.lease();
    assert_eq!((lease.epoch(), lease.candidate()), (lead.epoch(), "a"));
    assert_eq!(lease.check().unwrap(), lead.epoch());
    let first = lease.ends_at();
    wait(secs(5)).await;
    assert!(lease.ends_at().boot > first.boot, "the lease was renewed");
    assert_eq!((lease.ends_at(), lease.remaining()), (lead.ends_at(), lead.remaining()));
    lead.resign().await.unwrap();
    assert!(matches!(lease.check(), Err(Loss::Resigned)));
    assert!(lease.remaining().is_zero());
}

/// The timers of the driver stop while the machine sleeps, so the driver does not run at the end of
/// the lease. `check` must detect the end of the lease by the clock.
#[tokio::test(start_paused = true)]
async fn a_lease_ends_by_the_first_clock_that_reaches_its_end() {
    let world = World::new();
    for suspended in [true, false] {
        let lead = world.leader("a").await;
        let lease = lead.lease();
        match suspended {
            true => world.clock.suspend(VALIDITY),
            false => world.clock.set_wall_by(VALIDITY.as_millis() as i64),
        }
        assert!(lease.check().is_err() && lease.remaining().is_zero());
        world.clock.set_wall_by(-(VALIDITY.as_millis() as i64));
        assert!(lease.check().is_err(), "a clock that is set back does not extend a lease");
        wait(TAKEOVER).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_handle_does_not_keep_a_dropped_leadership_alive() {
    let world = World::new();
    let lead = world.leader("a").await;
    let lease = lead.lease();
    drop(lead);
    wait(millis(1)).await;
    assert!(matches!(lease.check(), Err(Loss::Resigned)));
}

#[tokio::test(start_paused = true)]
async fn a_leader_reports_the_time_since_the_last_answer() {
    let world = World::new();
    let election = world.node("a").build().unwrap();
    assert_eq!(election.since_last_answer(), None);
    let lead = elect(&election).await;
    wait(secs(1)).await;
    assert_eq!(election.since_last_answer(), Some(secs(1)));
    wait(secs(3)).await;
    let since = election.since_last_answer().unwrap();
    assert!(since < secs(1), "{since:?} after a renewal");
    for fault in [Fault::FailBefore, Fault::Conflict, Fault::Hang] {
        world.store.on(Call::Replace).always().fault(fault);
        wait(secs(4)).await;
        let since = election.since_last_answer().unwrap();
        assert!(since >= secs(3), "{since:?} with {fault:?}");
        world.store.heal();
        wait(secs(4)).await;
        assert!(lead.check().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_reports_the_time_since_the_last_answer() {
    let world = World::new();
    let lead = world.leader("a").await;
    let election = world.node("b").build().unwrap();
    let following = tokio::spawn({
        let election = election.clone();
        async move { election.campaign().await }
    });
    for _ in 0..20 {
        wait(millis(333)).await;
        let since = election.since_last_answer().unwrap();
        assert!(since <= secs(2), "polls are 1.7 s apart, the last answer is {since:?} old");
    }
    world.store.always(Fault::FailBefore);
    wait(secs(5)).await;
    assert!(election.since_last_answer().unwrap() >= secs(5));
    following.abort();
    drop(lead);
}

/// `last_seen` sends no request. It returns the holder of the newest known epoch, and whether the
/// lease of this holder may be valid.
#[tokio::test(start_paused = true)]
async fn the_lease_of_the_last_seen_leader_lapses_without_a_poll() {
    let world = World::new();
    let follower = world.node("b").build().unwrap();
    assert_eq!(follower.last_seen(), None);
    let lead = world.leader("a").await;
    lead.proclaim("here").await.unwrap();
    let mut changes = follower.observe();
    changes.next().await.unwrap().unwrap();
    let seen = follower.last_seen().expect("the follower has polled");
    assert_eq!((seen.leader.name(), seen.leader.epoch.get()), ("a", 1));
    assert!(seen.is_held() && seen.leader.data == "here", "{seen:?}");
    assert!(seen.lapses_in.is_some_and(|left| left >= VALIDITY && left < VALIDITY + secs(1)));
    // The follower does not poll during this wait. Afterwards it must assume that the lease may
    // have ended.
    wait(VALIDITY + secs(1)).await;
    let seen = follower.last_seen().expect("the last observation is kept");
    assert!(!seen.is_held() && !seen.sealed, "{seen:?}");
    lead.resign().await.unwrap();
    changes.next().await.unwrap().unwrap();
    assert!(follower.last_seen().is_some_and(|seen| seen.sealed && !seen.is_held()));
    let lead = elect(&follower).await;
    assert_eq!(follower.last_seen(), None, "its own epoch is newer");
    assert_eq!(lead.epoch().get(), 2);
}
