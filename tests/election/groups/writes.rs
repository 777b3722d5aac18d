//! Each fault of a write, of an assignment and of the seal of a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure::store::GetOutcome;
use tenure_testkit::fault_store::{Call, FaultStore};
use tenure_testkit::time::{millis, secs, wait};
use tenure_testkit::write_faults::WRITE_FAULTS;

use super::{Fleet, Node, POLL, VALIDITY, balanced};

/// Half of the partitions had no owner as long as their coordinator lived: it took an assignment
/// for created that the store did not have.
#[tokio::test(start_paused = true)]
async fn regression_an_assignment_of_unknown_fate_is_read_back() {
    for fault in WRITE_FAULTS {
        for writes_before in 0..2 {
            let fleet = Fleet::new(12);
            let a = fleet.member("a").await;
            balanced(&[&a], 12, secs(60)).await;
            fleet.store.on(Call::Create).key("assignment-").skip(writes_before).fault(fault);
            let b = fleet.member("b").await;
            let took = balanced(&[&a, &b], 12, VALIDITY).await;
            println!("{fault:?} of write {writes_before}: all owned after {took:?}");
        }
    }
}

/// Each took its own assignment for created, and both owned everything with the same tokens.
#[tokio::test(start_paused = true)]
async fn regression_no_token_goes_to_two_sessions_when_two_members_plan() {
    for fault in WRITE_FAULTS {
        for (times, apart) in [1, 4].into_iter().flat_map(|it| [0, 2, 4, 6, 8].map(|s| (it, s))) {
            let fleet = Fleet::new(6);
            let faulty = FaultStore::new(Arc::clone(fleet.store.inner()));
            faulty.on(Call::Create).key("assignment-").times(times).fault(fault);
            let a = fleet.node_behind(&faulty, "a").build().unwrap();
            let a = Node::of(a.join().await.unwrap());
            wait(secs(apart)).await;
            let nodes = [a, fleet.member("b").await];
            let mut granted = BTreeMap::new();
            for _ in 0..600 {
                wait(millis(100)).await;
                for (place, node) in nodes.iter().enumerate() {
                    for grant in node.owned() {
                        let first = *granted.entry(grant.clone()).or_insert(place);
                        assert_eq!(first, place, "{fault:?}: {grant:?} goes to two sessions");
                    }
                }
            }
            balanced(&[&nodes[0], &nodes[1]], 6, POLL * 4).await;
        }
    }
}

/// The partitions of a session moved although the store did not have its seal.
#[tokio::test(start_paused = true)]
async fn regression_partitions_move_only_from_a_session_that_is_sealed_in_the_store() {
    for fault in WRITE_FAULTS {
        let fleet = Fleet::new(6);
        let a = fleet.member("a").await;
        let b = fleet.group("b").join().await.unwrap();
        let key: &'static str = Box::leak(b.session().into_boxed_str());
        let b = Node::of(b);
        balanced(&[&a, &b], 6, POLL * 8).await;
        b.kill();
        fleet.store.on(Call::Replace).key(key).fault(fault);
        for tenth in 0.. {
            wait(millis(100)).await;
            let page = fleet.store.inner().list("app/members/", "", 10).await.unwrap();
            let session = page.entries.into_iter().find(|it| it.key.contains(key)).unwrap();
            let read = fleet.store.inner().get(&session.key, None, 1 << 20).await.unwrap();
            let GetOutcome::Found(object) = read else { panic!("it was listed") };
            let body: serde_json::Value = serde_json::from_slice(&object.body).unwrap();
            let moved = a.owned().len() > 3;
            assert!(!moved || body["ended"] == "lapsed", "{fault:?}: {body}");
            if moved {
                break;
            }
            assert!(tenth < 600, "{fault:?}: the partitions of the dead never move");
        }
    }
}
