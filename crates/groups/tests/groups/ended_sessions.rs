//! Groups without a compaction: they keep the ended sessions of all former members.

use std::time::Duration;

use tenure_testkit::fault_store::{Call, Fault, overwrite};
use tenure_testkit::time::wait;

use super::{Fleet, Node, POLL, VALIDITY, balanced};

const LATENCY: Duration = Duration::from_millis(20);

/// Writes this number of ended sessions.
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

/// The time and the requests of a takeover.
struct Takeover {
    time: Duration,
    gets: usize,
}

/// Measures a takeover in a group with this number of ended sessions. The coordinator leaves or
/// dies.
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

/// Before the fix, each successor read all ended sessions, 16 at a time: 30,000 GETs in 17 s. If
/// the coordinator lapsed during the listing, only the next poll noticed it.
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
