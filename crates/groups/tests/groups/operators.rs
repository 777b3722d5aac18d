//! Changes that operators make, and snapshots that observers receive.

use std::sync::Arc;

use futures::StreamExt as _;
use tenure::ErrorKind;
use tenure_groups::Group;
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::logged::logged;
use tenure_testkit::time::{secs, wait, within};
use tenure_testkit::write_faults::WRITE_FAULTS;

use super::{Fleet, POLL, VALIDITY, balanced};

#[tokio::test(start_paused = true)]
async fn a_group_is_resized() {
    let fleet = Fleet::new(4);
    let operator = fleet.group("operator");
    let none = operator.resize(0..6).await.unwrap_err();
    assert_eq!(none.kind(), ErrorKind::InvalidInput, "{none}");
    assert!(none.to_string().contains("there is no group"), "{none}");
    let [a, b] = [fleet.member("a").await, fleet.member("b").await];
    balanced(&[&a, &b], 4, secs(60)).await;
    let larger = operator.resize(0..6).await.unwrap();
    assert_eq!(larger.partitions.len(), 6);
    balanced(&[&a, &b], 6, POLL * 4).await;
    operator.resize(["0", "1", "4"]).await.unwrap();
    balanced(&[&a, &b], 3, POLL * 4).await;
    wait(POLL * 2).await;
    let now = operator.snapshot().await.unwrap();
    let names: Vec<_> = now.partitions.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["0", "1", "4"]);
    assert_eq!(now.partitions[2].number.0, 4);
    assert_eq!(
        operator.resize(["0", "1", "4"]).await.unwrap().epoch,
        now.epoch,
        "no change is needed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_member_with_other_partitions_than_the_group_logs_a_warning() {
    let fleet = Fleet::new(4);
    let first = fleet.member("a").await;
    balanced(&[&first], 4, secs(60)).await;
    let joined = async |names: std::ops::Range<u32>| {
        let group = fleet.node("b").partitions(names).build().unwrap();
        logged(async { drop((group.join().await.unwrap(), wait(POLL * 2).await)) }).await.1
    };
    let log = joined(2..5).await;
    assert_eq!(
        log.matches("lacks 1 of the 3 partitions of this member, and has 2 that").count(),
        1,
        "{log}"
    );
    let log = joined(0..4).await;
    assert!(!log.contains("no effect"), "{log}");
}

/// Before the fix, a call of `resize` with the name of a retiring partition succeeded, although the
/// group removed this partition later.
#[tokio::test(start_paused = true)]
async fn regression_resize_refuses_the_name_of_a_retiring_partition() {
    let fleet = Fleet::new(8);
    let operator = fleet.group("operator");
    let a = fleet.group("a");
    let running = a.clone();
    let slow = async |partition: tenure_groups::Partition| {
        partition.revoked().cancelled().await;
        wait(secs(60)).await;
        Ok(())
    };
    tokio::spawn(async move { running.run(slow).await });
    wait(secs(20)).await;
    operator.resize(0..4).await.unwrap();
    let error = operator.resize(0..8).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("the partition \"4\" is retiring"), "{error}");
    assert!(!error.may_have_happened());
    operator.resize(0..4).await.unwrap();
    wait(secs(60) + POLL * 4).await;
    operator.resize(0..8).await.unwrap();
    wait(POLL * 4).await;
    let now = operator.snapshot().await.unwrap();
    let numbers: Vec<_> = now.partitions.iter().map(|it| it.number.0).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 8, 9, 10, 11]);
    assert!(now.partitions.iter().all(|it| it.owner.is_some()));
}

/// A partition is reserved for `b`, but a mark excludes `b`. Before the fix, no member could own
/// the partition until the reservation expired. No operation could end a reservation early.
#[tokio::test(start_paused = true)]
async fn regression_a_contradicting_mark_or_an_operator_ends_a_reservation() {
    let fleet = Fleet::new(6);
    let operator = fleet.group("operator");
    let [a, b] = [fleet.member("a").await, fleet.member("b").await];
    balanced(&[&a, &b], 6, secs(60)).await;
    b.leave_for(secs(3_600));
    wait(VALIDITY).await;
    let now = operator.snapshot().await.unwrap();
    let reserved = now.partitions.iter().filter(|it| it.reserved_for.as_deref() == Some("b"));
    let names: Vec<_> = reserved.map(|it| it.name.as_str()).collect();
    assert_eq!(names.len(), 3);
    operator.bar(&names[..1], Some("b")).await.unwrap();
    operator.pin(&names[1..2], Some("a")).await.unwrap();
    balanced(&[&a], 5, POLL * 3).await;
    operator.unreserve(&names).await.unwrap();
    balanced(&[&a], 6, POLL * 3).await;
    let again = operator.unreserve(&names).await.unwrap();
    assert!(again.partitions.iter().all(|it| it.reserved_for.is_none()));
}

#[tokio::test(start_paused = true)]
async fn marks_are_kept() {
    let fleet = Fleet::new(4);
    let operator = fleet.group("operator");
    let [a, b] = [fleet.member("a").await, fleet.member("b").await];
    balanced(&[&a, &b], 4, secs(60)).await;
    operator.pause(&["0"], true).await.unwrap();
    balanced(&[&a, &b], 3, POLL * 4).await;
    // The pause ends after the owner has begun to release the partition.
    operator.pause(&["0"], false).await.unwrap();
    balanced(&[&a, &b], 4, POLL * 4).await;
    operator.pin(&["0", "1", "2"], Some("a")).await.unwrap();
    wait(POLL * 6).await;
    assert_eq!(a.owned().keys().map(String::as_str).collect::<Vec<_>>(), ["0", "1", "2"]);
    operator.pin(&["0", "1", "2"], None).await.unwrap();
    operator.bar(&["3"], Some("b")).await.unwrap();
    wait(POLL * 8).await;
    assert!(a.owned().contains_key("3") && b.owned().len() == 2, "{:?}", a.owned());
    let unknown = operator.retire(&["7"]).await.unwrap_err();
    assert!(unknown.to_string().contains("no partition \"7\""), "{unknown}");
}

#[tokio::test(start_paused = true)]
async fn a_router_sees_the_owners() {
    let fleet = Fleet::new(2);
    let router = fleet.group("router");
    let mut seen = router.observe();
    assert_eq!(seen.next().await.unwrap().unwrap().epoch, None);
    let addr = serde_json::json!({ "addr": "10.0.0.7:80" });
    let joined = fleet.node("a").data(addr.clone()).build().unwrap().join().await.unwrap();
    let node = super::Node::of(joined);
    balanced(&[&node], 2, secs(20)).await;
    let owned = async {
        loop {
            let now = seen.next().await.unwrap().unwrap();
            if let Some(owner) = now.owner("1") {
                return owner.clone();
            }
        }
    };
    let owner = within(POLL * 2, owned).await.expect("the router sees the owner");
    assert_eq!((owner.name.as_str(), &owner.data, owner.coordinates), ("a", &addr, true));
}

#[tokio::test]
async fn bad_settings_are_refused_with_their_values() {
    let fleet = Fleet::new(1);
    let refused = |change: fn(tenure_groups::GroupBuilder) -> tenure_groups::GroupBuilder| {
        let error = change(fleet.node("a")).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    assert!(
        refused(|it| it.partitions(["x", "y", "x"])).contains("two partitions have the name \"x\"")
    );
    assert!(refused(|it| it.partitions(["x".repeat(257)])).contains("1 to 256 bytes"));
    assert!(refused(|it| it.partitions(["a\nb"])).contains("control"));
    assert!(refused(|it| it.partitions(0..100_001)).contains("100001"));
    assert!(
        refused(|it| it.partitions((0..20_000).map(|n| format!("{n:0>255}")))).contains("4194304")
    );
    assert!(refused(|it| it.validity(secs(3_601))).contains("3601s"));
    assert!(refused(|it| it.rebalance_delay(secs(3_601))).contains("3601s"));
    assert!(refused(|it| it.weight(0)).contains("at least 1, got 0"));
    assert!(refused(|it| it.name("")).contains("name"));
    assert!(refused(|it| it.data("x".repeat(50_000))).contains("49152"));
    assert!(refused(|it| it.poll_interval(secs(31))).contains("31s"));
}

/// Returns an operator and its own access to the store. A test adds faults to this access, so that
/// only the operator's requests fail.
fn operator(fleet: &Fleet) -> (FaultStore, Group) {
    let way = FaultStore::new(Arc::clone(fleet.store.inner()));
    let group = fleet.node_behind(&way, "operator").build().unwrap();
    (way, group)
}

/// The store does not answer the write of `retire`, although this write removes the partition.
/// Before the fix, the call failed with `InvalidInput`.
#[tokio::test(start_paused = true)]
async fn regression_retire_succeeds_if_its_unanswered_write_removed_the_partition() {
    let fleet = Fleet::new(4);
    let a = fleet.member("a").await;
    balanced(&[&a], 4, secs(60)).await;
    let (way, operator) = operator(&fleet);
    operator.pause(&["3"], true).await.unwrap();
    balanced(&[&a], 3, POLL * 4).await;
    wait(POLL * 2).await;
    way.on(Call::Create).fault(Fault::HangAfter);
    let now = operator.retire(&["3"]).await.unwrap();
    assert_eq!((now.partition("3"), now.partitions.len()), (None, 3));
    let gone = operator.retire(&["3"]).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::InvalidInput, "{gone}");
    assert!(!gone.may_have_happened());
}

/// A call of `pin` takes effect, but the store does not answer it. Another operator then retires
/// the partition, so the second attempt of `pin` fails. Before the fix, its error did not say that
/// the change may have happened.
#[tokio::test(start_paused = true)]
async fn regression_an_operation_that_is_written_and_then_refused_may_have_happened() {
    let fleet = Fleet::new(4);
    let a = fleet.member("a").await;
    balanced(&[&a], 4, secs(60)).await;
    let (way, slow) = operator(&fleet);
    slow.pause(&["3"], true).await.unwrap();
    balanced(&[&a], 3, POLL * 4).await;
    wait(POLL * 2).await;
    way.on(Call::Create).fault(Fault::HangAfter);
    way.on(Call::List).skip(2).times(2).fault(Fault::Hang);
    let pinned = tokio::spawn(async move { slow.pin(&["3"], Some("b")).await });
    wait(secs(1)).await;
    fleet.group("other").retire(&["3"]).await.unwrap();
    let error = pinned.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.may_have_happened(), "{error}");
}

/// Before the fix, if the store answered no write, an operator's call sent 256 writes. One write
/// took effect later, although the error of the call did not say that the change may have happened.
#[tokio::test(start_paused = true)]
async fn regression_an_operation_without_an_answer_may_have_happened() {
    for fault in [Fault::Late(secs(600)), Fault::Conflict, Fault::Hang] {
        let fleet = Fleet::new(4);
        let a = fleet.member("a").await;
        balanced(&[&a], 4, secs(60)).await;
        let (way, operator) = operator(&fleet);
        way.on(Call::Create).always().fault(fault);
        let error = operator.pause(&["3"], true).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{fault:?}: {error}");
        assert!(error.may_have_happened(), "{fault:?}: {error}");
        let writes = way.take_calls().into_iter().filter(|call| *call == Call::Create).count();
        assert_eq!(writes, 16, "{fault:?}");
        wait(secs(700)).await;
        let paused = a.owned().len() == 3;
        assert_eq!(paused, matches!(fault, Fault::Late(_)), "{fault:?}");
    }
}

/// Tests each fault of a write, at the first attempt or at all attempts. If the call fails although
/// the change took effect, the error must say that the change may have happened.
#[tokio::test(start_paused = true)]
async fn an_operation_reports_whether_it_may_have_happened() {
    for fault in WRITE_FAULTS {
        for times in [1, usize::MAX] {
            let fleet = Fleet::new(4);
            let a = fleet.member("a").await;
            balanced(&[&a], 4, secs(60)).await;
            let (way, operator) = operator(&fleet);
            way.on(Call::Create).times(times).fault(fault);
            let outcome = operator.retire(&["3"]).await;
            way.heal();
            wait(secs(60)).await;
            let retired = !a.owned().contains_key("3");
            match outcome {
                Ok(_) => assert!(retired, "{fault:?}"),
                Err(error) => {
                    assert!(times > 1, "{fault:?}: {error}");
                    assert!(!retired || error.may_have_happened(), "{fault:?}: {error}");
                    assert_ne!(error.kind(), ErrorKind::InvalidInput, "{fault:?}: {error}");
                }
            }
        }
    }
}
