//! Restoring a group after assignments were deleted (docs/design/groups.md, D8 to D12).

use std::sync::Arc;
use std::time::Duration;

use tenure::{Epoch, ErrorKind};
use tenure_groups::GroupRestored;
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::time::{secs, timed, wait, within};

use super::{Fleet, Node, POLL, VALIDITY, balanced};

const PARTITIONS: u32 = 4;
const ABOVE: u64 = 41;

fn above() -> Epoch {
    Epoch::new(ABOVE).unwrap()
}

async fn delete_all(fleet: &Fleet, prefix: &str) {
    let page = fleet.store.inner().list(prefix, "", 1_000).await.unwrap();
    let keys = page.entries.into_iter().map(|entry| entry.key).collect();
    fleet.store.inner().delete(keys).await.unwrap();
}

async fn restore(fleet: &Fleet, wait: Duration) -> GroupRestored {
    fleet.group("operator").restore(above(), wait).await.unwrap()
}

fn is_restored(restored: &GroupRestored) {
    let GroupRestored::Restored(now) = restored else { panic!("{restored:?}") };
    assert_eq!((now.epoch, now.restoring), (Epoch::new(ABOVE + 2), false));
    assert!(now.members.is_empty() && now.partitions.iter().all(|it| it.owner.is_none()));
    assert_eq!(now.partitions.len(), PARTITIONS as usize);
}

/// Asserts that a new member owns all partitions, and that each of its tokens is above the epoch of
/// the restore.
async fn takes_all(fleet: &Fleet, name: &str) -> Node {
    let member = fleet.member(name).await;
    balanced(&[&member], PARTITIONS, VALIDITY * 3).await;
    assert!(member.owned().values().all(|token| *token > ABOVE), "{:?}", member.owned());
    member
}

#[tokio::test(start_paused = true)]
async fn a_group_without_assignments_continues_above_the_epoch() {
    let fleet = Fleet::new(PARTITIONS);
    let a = fleet.member("a").await;
    balanced(&[&a], PARTITIONS, VALIDITY).await;
    a.leave();
    within(VALIDITY, a.task).await.unwrap().unwrap();
    delete_all(&fleet, "app/assignment-").await;
    let error = fleet.group("operator").restore(Epoch::FIRST, secs(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("has seen"), "{error}");
    let unnamed = fleet.node("operator").partitions([""; 0]).build().unwrap();
    let error = unnamed.restore(above(), secs(0)).await.unwrap_err();
    assert!(error.to_string().contains("set the partitions"), "{error}");
    is_restored(&restore(&fleet, secs(0)).await);
    let again = restore(&fleet, secs(0)).await;
    assert!(matches!(again, GroupRestored::Exists(_)), "{again:?}");
    takes_all(&fleet, "b").await;
}

/// Before the fix, the assignments after a restore named no assignor. So no member moved a
/// partition that had an owner, and the group stayed unbalanced.
#[tokio::test(start_paused = true)]
async fn regression_a_group_restored_without_assignments_is_balanced() {
    let fleet = Fleet::new(PARTITIONS);
    is_restored(&restore(&fleet, secs(0)).await);
    let a = takes_all(&fleet, "a").await;
    let b = fleet.member("b").await;
    balanced(&[&a, &b], PARTITIONS, VALIDITY * 3).await;
}

#[tokio::test(start_paused = true)]
async fn live_members_are_deposed_and_join_again_above_the_epoch() {
    let fleet = Fleet::new(PARTITIONS);
    let group = fleet.group("a");
    let a = Node::of(group.join().await.unwrap());
    balanced(&[&a], PARTITIONS, VALIDITY).await;
    fleet.group("operator").pause(&["3"], true).await.unwrap();
    wait(VALIDITY).await;
    let restored = restore(&fleet, secs(0)).await;
    is_restored(&restored);
    let GroupRestored::Restored(now) = restored else { unreachable!() };
    assert!(now.partition("3").unwrap().marks.paused, "marks are kept");
    within(VALIDITY, a.task).await.unwrap().unwrap();
    let again = Node::of(group.join().await.unwrap());
    balanced(&[&again], PARTITIONS - 1, VALIDITY * 3).await;
    assert!(again.owned().values().all(|token| *token > ABOVE), "{:?}", again.owned());
}

/// A member that has lost its connection to the store believes that it owns its partitions until
/// its lease ends.
#[tokio::test(start_paused = true)]
async fn a_restore_waits_for_the_leases_of_former_owners() {
    for deleted in [false, true] {
        let fleet = Fleet::new(PARTITIONS);
        let way = FaultStore::new(Arc::clone(fleet.store.inner()));
        let a = fleet.node_behind(&way, "a").build().unwrap();
        let a = Node::of(a.join().await.unwrap());
        balanced(&[&a], PARTITIONS, VALIDITY).await;
        way.always(Fault::Hang);
        delete_all(&fleet, if deleted { "app/" } else { "app/assignment-" }).await;
        let asked = if deleted { VALIDITY } else { secs(0) };
        let restoring = timed(restore(&fleet, asked));
        let joining = async {
            wait(secs(1)).await;
            fleet.member("b").await
        };
        let checks = async {
            for _ in 0..200 {
                wait(Duration::from_millis(200)).await;
                let newest = fleet.group("observer").snapshot().await;
                let owned =
                    newest.is_ok_and(|it| it.partitions.iter().any(|it| it.owner.is_some()));
                assert!(!owned || a.owned().is_empty(), "two members own a partition");
            }
        };
        let ((took, restored), b, ()) = tokio::join!(restoring, joining, checks);
        is_restored(&restored);
        // The restore waits for validity × (1 + drift). The default drift is 1 %.
        assert!(took >= VALIDITY + VALIDITY / 100, "{took:?}");
        balanced(&[&b], PARTITIONS, VALIDITY * 3).await;
        assert!(b.owned().values().all(|token| *token > ABOVE), "{:?}", b.owned());
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_restore_blocks_the_group_until_it_runs_again() {
    let fleet = Fleet::new(PARTITIONS);
    let a = fleet.member("a").await;
    balanced(&[&a], PARTITIONS, VALIDITY).await;
    wait(VALIDITY).await;
    assert!(within(secs(1), restore(&fleet, secs(40))).await.is_none());
    let b = fleet.member("b").await;
    wait(VALIDITY * 6).await;
    assert!(a.owned().is_empty() && b.owned().is_empty());
    let operator = fleet.group("operator");
    let error = operator.pause(&["1"], true).await.unwrap_err();
    assert!(error.to_string().contains("restore"), "{error}");
    let lower = operator.restore(Epoch::new(7).unwrap(), secs(0)).await.unwrap();
    assert_eq!(lower, GroupRestored::Unfinished(above()));
    let (took, restored) = timed(restore(&fleet, secs(0))).await;
    is_restored(&restored);
    assert!(took >= secs(40), "the wait of the first run counts: {took:?}");
    balanced(&[&b], PARTITIONS, VALIDITY * 3).await;
    b.leave();
    let events = within(VALIDITY * 2, b.task).await.unwrap().unwrap();
    assert!(events.iter().any(|it| it.contains("tenure group restore")), "{events:?}");
}

/// The first run of the restore deposed the member. Until its lease ends, the member believes that
/// it owns its partitions.
#[tokio::test(start_paused = true)]
async fn the_second_run_waits_for_members_that_the_first_run_deposed() {
    let fleet = Fleet::new(PARTITIONS);
    let a = fleet.member("a").await;
    balanced(&[&a], PARTITIONS, VALIDITY).await;
    assert!(within(secs(1), restore(&fleet, secs(0))).await.is_none());
    let (took, restored) = timed(restore(&fleet, secs(0))).await;
    is_restored(&restored);
    assert!(took >= VALIDITY, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_refuses_a_restore_below_an_assignment_that_it_has_seen() {
    let fleet = Fleet::new(PARTITIONS);
    let a = fleet.member("a").await;
    balanced(&[&a], PARTITIONS, VALIDITY).await;
    let operator = fleet.group("operator");
    assert!(operator.snapshot().await.unwrap().epoch > Some(Epoch::FIRST));
    a.kill();
    delete_all(&fleet, "app/").await;
    let error = operator.restore(Epoch::FIRST, secs(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    is_restored(&operator.restore(above(), secs(0)).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn restore_needs_a_wait_if_a_session_is_unreadable() {
    let fleet = Fleet::new(PARTITIONS);
    let key = "app/members/00000000000000000000000000000001/lock.json";
    fleet.store.inner().create(key, "garbage".into()).await.unwrap();
    let operator = fleet.group("operator");
    let error = operator.restore(above(), secs(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CorruptRecord, "{error}");
    assert!(error.to_string().contains(key) && !error.may_have_happened(), "{error}");
    is_restored(&restore(&fleet, POLL).await);
    takes_all(&fleet, "a").await;
}

#[tokio::test(start_paused = true)]
async fn lost_and_late_answers_do_not_stop_a_restore() {
    for fault in [Fault::FailBefore, Fault::FailAfter, Fault::HangAfter, Fault::Late(secs(3))] {
        for (call, key, skip) in [
            (Call::Create, "assignment-", 0),
            (Call::Create, "assignment-", 1),
            (Call::Replace, "members/", 0),
        ] {
            let fleet = Fleet::new(PARTITIONS);
            let a = fleet.member("a").await;
            balanced(&[&a], PARTITIONS, VALIDITY).await;
            a.kill();
            let way = FaultStore::new(Arc::clone(fleet.store.inner()));
            way.on(call).key(key).skip(skip).fault(fault);
            let operator = fleet.node_behind(&way, "operator").build().unwrap();
            is_restored(&operator.restore(above(), secs(0)).await.unwrap());
            takes_all(&fleet, "b").await;
        }
    }
}

/// The store fails each seal of a session. Before the fix, the error of `restore` wrongly said that
/// the members had renewed their sessions.
#[tokio::test(start_paused = true)]
async fn regression_a_restore_names_the_failure_of_its_seals() {
    for fault in [Fault::FailBefore, Fault::Unsupported] {
        let fleet = Fleet::new(PARTITIONS);
        let _a = fleet.member("a").await;
        delete_all(&fleet, "app/assignment-").await;
        fleet.store.on(Call::Replace).key("members/").always().fault(fault);
        let error = fleet.group("operator").restore(above(), secs(0)).await.unwrap_err();
        assert!(error.to_string().contains("sealing the session"), "{error}");
        fleet.store.heal();
        is_restored(&restore(&fleet, secs(0)).await);
    }
}
