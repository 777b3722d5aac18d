//! Joins that fail, and a membership after the end of its runtime.

use std::sync::Arc;
use std::time::Duration;

use tenure::store::MemoryStore;
use tenure::{Epoch, ErrorKind, Loss};
use tenure_groups::{Group, MembershipEvent, Partition};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{secs, wait, within};

use super::{Fleet, Node, VALIDITY, balanced};
use tenure_testkit::logged::logged;

/// Before the fix, if the runtime that ran the member's tasks ended, the application waited forever
/// for the member's next event.
#[test]
fn regression_a_membership_is_lost_when_the_runtime_of_its_join_ends() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let group = Group::builder(Arc::new(MemoryStore::new()), "app").name("a").partitions(0..2);
    let group = group.validity(Duration::from_millis(500)).build().unwrap();
    // In the first case the runtime ends and drops the member's tasks. In the second case the
    // runtime lives, but no thread polls the tasks.
    for ends in [true, false] {
        let first = runtime();
        let mut joined = first.block_on(group.join()).unwrap();
        let kept = (!ends).then_some(first);
        let lost = async {
            while let Some(event) = joined.next().await {
                if let MembershipEvent::Lost(loss) = event {
                    return Some(loss);
                }
            }
            None
        };
        let second = runtime();
        #[allow(clippy::disallowed_methods, reason = "it bounds the test")]
        let lost = second.block_on(async { tokio::time::timeout(secs(20), lost).await });
        let loss = lost.expect("the last event is delivered");
        match ends {
            // The runtime dropped the tasks, and the tasks dropped the session.
            true => assert!(matches!(loss, Some(Loss::Resigned)), "{loss:?}"),
            false => assert!(
                matches!(loss, Some(Loss::LeaseEnded { .. } | Loss::Suspended { .. })),
                "{loss:?}"
            ),
        }
        drop(kept);
    }
}

/// Before the fix, if the store denied one kind of request of a join, the join did not return. It
/// created one session after another, and each session lapsed.
#[tokio::test(start_paused = true)]
async fn regression_a_join_returns_an_error_if_one_of_its_requests_is_denied() {
    let denied = [Call::Get, Call::Create, Call::Replace];
    for (validity, call) in [VALIDITY, secs(3)].into_iter().flat_map(|v| denied.map(|c| (v, c))) {
        let fleet = Fleet::new(2);
        fleet.store.on(call).key("members/").always().fault(Fault::Denied);
        let group = fleet.node("a").validity(validity).build().unwrap();
        let joined = within(secs(30), group.join()).await;
        let error = joined.unwrap_or_else(|| panic!("{call:?}, {validity:?}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
        // If the store denies only a few requests, the join succeeds.
        fleet.store.heal();
        fleet.store.on(call).key("members/").times(3).fault(Fault::Denied);
        drop(within(secs(30), group.join()).await.expect("it returns").unwrap());
    }
}

/// A proxy may change answers so that the store seems unsuitable for the protocol, for example by
/// removing ETags. Before the fix, one such answer ended `run`, although the store had worked
/// before.
#[tokio::test(start_paused = true)]
async fn regression_answers_of_an_unfit_store_end_no_member_that_has_worked() {
    let faults = [Fault::NoEtag, Fault::Swallow, Fault::Unsupported];
    let calls: [&[Call]; 2] = [&[Call::Create, Call::Replace], &[Call::Replace]];
    for (fault, calls) in faults.into_iter().flat_map(|it| calls.map(|calls| (it, calls))) {
        let fleet = Fleet::new(2);
        let group = fleet.node("a").retry_denied(None).build().unwrap();
        let running = group.clone();
        let task = tokio::spawn(async move {
            let work = async |partition: Partition| {
                partition.revoked().cancelled().await;
                Ok(())
            };
            running.run(work).await
        });
        wait(VALIDITY).await;
        assert!(group.is_member());
        for call in calls {
            fleet.store.on(*call).always().fault(fault);
        }
        wait(VALIDITY * 10).await;
        assert!(!task.is_finished(), "{fault:?} {calls:?}");
        fleet.store.heal();
        wait(VALIDITY * 2).await;
        assert!(group.is_member(), "{fault:?} {calls:?}");
        group.leave();
        within(secs(30), task).await.expect("it leaves").unwrap().unwrap();
    }
}

/// `restore` writes to the store, but does not check the store. So after a successful `restore` the
/// join must still check the store.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_the_check_is_unsafe_even_after_a_write() {
    let fleet = Fleet::new(2);
    let group = fleet.node("a").check_store(true).retry_denied(None).build().unwrap();
    group.restore(Epoch::new(5).unwrap(), Duration::ZERO).await.unwrap();
    fleet.store.on(Call::Create).always().fault(Fault::IgnoreCondition);
    let error = within(secs(60), group.join()).await.expect("no waiting").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error}");
}

/// Before the fix, a member that lost its session and failed to join again logged nothing about
/// these failed joins.
#[tokio::test(start_paused = true)]
async fn regression_a_failed_rejoin_is_logged() {
    let fleet = Fleet::new(2);
    let group = fleet.node("a").retry_denied(None).build().unwrap();
    tokio::spawn(async move {
        let work = async |partition: Partition| {
            partition.revoked().cancelled().await;
            Ok(())
        };
        group.run(work).await
    });
    wait(VALIDITY).await;
    for call in [Call::Create, Call::Replace] {
        fleet.store.on(call).always().fault(Fault::Swallow);
    }
    let (_, log) = logged(wait(VALIDITY * 20)).await;
    let lines = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(lines("cannot join the group; trying again"), 1, "{log}");
    assert!(lines("without an ETag") > 0);
}

/// Before the fix, a member logged each failed read of an assignment, instead of one failure per
/// validity.
#[tokio::test(start_paused = true)]
async fn regression_failed_reads_are_logged_once_a_validity() {
    let fleet = Fleet::new(2);
    let group = fleet.group("a");
    tokio::spawn(async move {
        let work = async |partition: Partition| {
            partition.revoked().cancelled().await;
            Ok(())
        };
        group.run(work).await
    });
    wait(VALIDITY).await;
    fleet.store.on(Call::Get).key("assignment-").always().fault(Fault::FailBefore);
    let (_, log) = logged(wait(VALIDITY * 10)).await;
    let told = log.lines().filter(|line| line.contains("a request of this member failed")).count();
    assert!((5..=11).contains(&told), "{told}");
}

/// Before the fix, a member without partitions created a group without partitions. So members that
/// joined later had no work.
#[tokio::test(start_paused = true)]
async fn regression_a_member_without_partitions_waits_for_another_member() {
    let fleet = Fleet::new(2);
    let waiting = fleet.node("a").partitions([""; 0]).build().unwrap();
    let join = async { Node::of(waiting.join().await.unwrap()) };
    let (a, log) = logged(async { (join.await, wait(VALIDITY).await).0 }).await;
    assert_eq!(log.matches("a member that sets `partitions`").count(), 1, "{log}");
    assert_eq!(waiting.snapshot().await.unwrap().epoch, None);
    let b = fleet.member("b").await;
    balanced(&[&a, &b], 2, VALIDITY).await;
}
