//! Ended sessions that no compactor has deleted yet, and faults of the store that last for minutes
//! and affect only one session.

use std::time::Duration;

use tenure_testkit::fault_store::{Call, Fault, overwrite};
use tenure_testkit::time::{millis, secs, wait};

use super::{Fleet, Node, POLL, VALIDITY, balanced};

const LATENCY: Duration = Duration::from_millis(20);

/// Writes the objects of this number of ended sessions to the store.
async fn end_sessions(fleet: &Fleet, sessions: usize) {
    for id in 1..=sessions {
        let key = format!("app/members/{id:032}/lock.json");
        let body = format!(
            r#"{{"expires_at":0.0,"token":1,"epoch":1,"validity_ms":30000,"nonce":"{id:032}",
            "candidate":"x-{id}","heartbeat":9,"expired":true,"ended":"lapsed","data":{{"seen":1}}}}"#
        );
        overwrite(&**fleet.store.inner(), &key, body.into()).await;
    }
}

/// The duration of a takeover, and the number of its GETs.
struct Takeover {
    time: Duration,
    gets: usize,
}

/// Measures the takeover from a coordinator that leaves or dies. The group has this number of ended
/// sessions.
async fn takeover(sessions: usize, leaves: bool) -> Takeover {
    let fleet = Fleet::new(12);
    fleet.store.always(Fault::Slow(LATENCY));
    let a = fleet.member("a").await;
    balanced(&[&a], 12, VALIDITY * 2).await;
    end_sessions(&fleet, sessions).await;
    let mut others = Vec::new();
    for name in ["b", "c", "d", "e"] {
        others.push(fleet.member(name).await);
    }
    let all: Vec<_> = [&a].into_iter().chain(&others).collect();
    balanced(&all, 12, VALIDITY * 4).await;
    wait(VALIDITY * 2).await;
    fleet.store.take_calls();
    if leaves {
        a.leave();
    } else {
        a.kill();
    }
    let time = balanced(&others.iter().collect::<Vec<_>>(), 12, VALIDITY * 8).await;
    wait(VALIDITY).await;
    Takeover { time, gets: gets(&fleet) }
}

fn gets(fleet: &Fleet) -> usize {
    fleet.store.take_calls().iter().filter(|call| **call == Call::Get).count()
}

/// Before the fix, a takeover with 10,000 ended sessions took 17 s and 30,000 GETs, because each
/// successor read all ended sessions, 16 at a time. Also, if the coordinator's session lapsed
/// during a listing, the successors noticed the lapse only at their next poll.
#[tokio::test(start_paused = true)]
async fn regression_a_takeover_reads_each_ended_session_once() {
    for leaves in [false, true] {
        let clean = takeover(0, leaves).await;
        let full = takeover(10_000, leaves).await;
        println!(
            "leaves: {leaves}; {:?} and {} GETs; with 10,000 ended sessions {:?} and {} GETs",
            clean.time, clean.gets, full.time, full.gets
        );
        assert!(full.time <= clean.time + POLL, "{:?}, not {:?}", full.time, clean.time);
        assert!(full.gets <= 10_000 + 200, "{} GETs", full.gets);
    }
}

/// Before the fix, a process read all ended sessions again each time it became the coordinator.
#[tokio::test(start_paused = true)]
async fn regression_a_process_that_coordinates_again_reads_no_ended_session_again() {
    let fleet = Fleet::new(4);
    let group = fleet.group("a");
    let a = Node::of(group.join().await.unwrap());
    balanced(&[&a], 4, VALIDITY).await;
    end_sessions(&fleet, 1_000).await;
    fleet.store.take_calls();
    wait(POLL * 2).await;
    assert!(gets(&fleet) >= 1_000, "a new session must be read");
    a.leave();
    a.task.await.unwrap();
    let again = Node::of(group.join().await.unwrap());
    balanced(&[&again], 4, VALIDITY * 2).await;
    wait(VALIDITY).await;
    let gets = gets(&fleet);
    assert!(gets <= 60, "{gets} GETs");
}

/// Joins the group, and returns the member and the id of its session, which is part of the
/// session's key.
async fn with_key(fleet: &Fleet, name: &str) -> (Node, &'static str) {
    let membership = fleet.group(name).join().await.unwrap();
    let key = Box::leak(membership.session().into_boxed_str());
    (Node::of(membership), key)
}

/// Waits until the condition holds. Returns the duration of the wait.
async fn until(within: Duration, holds: impl Fn() -> bool) -> Duration {
    let mut waited = Duration::ZERO;
    while !holds() {
        assert!(waited < within, "the condition did not hold within {within:?}");
        wait(millis(100)).await;
        waited += millis(100);
    }
    waited
}

/// Before the fix, while the reads of one session failed, no new member was added to the group, and
/// no partition of a dead member moved.
#[tokio::test(start_paused = true)]
async fn regression_an_unreadable_session_delays_no_join_and_no_death() {
    for fault in [Fault::FailBefore, Fault::Denied, Fault::Hang] {
        let fleet = Fleet::new(12);
        let [a, c] = [fleet.member("a").await, fleet.member("c").await];
        let (b, key) = with_key(&fleet, "b").await;
        balanced(&[&a, &b, &c], 12, POLL * 8).await;
        fleet.store.on(Call::Get).key(key).always().fault(fault);
        wait(VALIDITY * 2).await;
        let d = fleet.member("d").await;
        // The releases in the session of `b` cannot be read, so `d` gets partitions only from the
        // other members.
        let joined = until(VALIDITY, || d.owned().len() >= 2).await;
        let before = b.owned();
        c.kill();
        let all = || a.owned().len() + b.owned().len() + d.owned().len();
        let died = until(VALIDITY * 2, || all() >= 11).await;
        println!("{fault:?}: a join took {joined:?}, a death {died:?}");
        assert!(joined <= secs(21), "{fault:?}: {joined:?}");
        assert!(died <= secs(47), "{fault:?}: {died:?}");
        assert!(before.iter().all(|(name, token)| b.owned().get(name) == Some(token)));
        fleet.store.heal();
        balanced(&[&a, &b, &d], 12, VALIDITY * 2).await;
    }
}

/// Before the fix, the coordinator granted a dead member half of the partitions of a leaving member
/// if it could not seal the dead member's session. A joining member waited for minutes for its
/// partitions.
#[tokio::test(start_paused = true)]
async fn regression_a_lapsed_unsealed_session_gets_no_partition() {
    for fault in [Fault::FailBefore, Fault::Denied, Fault::Hang] {
        let fleet = Fleet::new(12);
        let [a, c] = [fleet.member("a").await, fleet.member("c").await];
        let (b, key) = with_key(&fleet, "b").await;
        balanced(&[&a, &b, &c], 12, POLL * 8).await;
        b.kill();
        fleet.store.on(Call::Replace).key(key).always().fault(fault);
        wait(VALIDITY * 2).await;
        c.leave();
        until(VALIDITY, || a.owned().len() == 8).await;
        let d = fleet.member("d").await;
        let joined = until(VALIDITY, || !d.owned().is_empty()).await;
        println!("{fault:?}: a join took {joined:?}");
        assert!(joined <= secs(21), "{fault:?}: {joined:?}");
        wait(VALIDITY * 4).await;
        assert_eq!(a.owned().len() + d.owned().len(), 8, "{fault:?}");
        fleet.store.heal();
        balanced(&[&a, &d], 12, POLL * 4).await;
    }
}
