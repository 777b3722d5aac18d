//! Work that does not stop before the deadline, and the state that the methods of a `Group` show
//! during a call of `run`.

use std::sync::{Arc, Mutex};

use tenure_groups::{Group, GroupBuilder, Partition};
use tenure_testkit::time::{secs, wait, within};
use tokio::task::JoinHandle;

use super::{Fleet, Node, POLL, VALIDITY, balanced};
use tenure_testkit::logged::logged;

/// Runs a member. Its work returns immediately after the signal to stop, except on partition "0",
/// where it returns `stuck_for` seconds later.
fn run(builder: GroupBuilder, stuck_for: u64) -> (Group, JoinHandle<()>) {
    let group = builder.build().unwrap();
    let running = group.clone();
    let task = tokio::spawn(async move {
        let work = async |partition: Partition| {
            partition.revoked().cancelled().await;
            if partition.name() == "0" {
                wait(secs(stuck_for)).await;
            }
            Ok(())
        };
        running.run(work).await.unwrap();
    });
    (group, task)
}

async fn owns(node: &Node, many: usize) {
    while node.owned().len() < many {
        wait(secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn overdue_work_is_reported() {
    let fleet = Fleet::new(2);
    let (group, _) = run(fleet.node("a").revocation_deadline(secs(20)), 100);
    let operator = fleet.group("operator");
    wait(VALIDITY).await;
    operator.pause(&["0", "1"], true).await.unwrap();
    let (_, early) = logged(wait(secs(20))).await;
    assert!(!early.contains("overdue"), "{early}");
    let (_, late) = logged(wait(secs(20))).await;
    let overdue: Vec<_> = late.lines().filter(|it| it.contains("overdue")).collect();
    let [line] = &overdue[..] else { panic!("{late}") };
    assert!(line.contains("ERROR") && line.contains("partition=\"0\""), "{line}");
    assert!(group.is_member(), "the process stays a member");
}

/// A member with overdue work leaves. Its other partitions move once their work has returned. The
/// partition with overdue work moves when the session lapses.
#[tokio::test(start_paused = true)]
async fn a_member_with_overdue_work_can_leave() {
    let fleet = Fleet::new(4);
    let builder = fleet.node("a").revocation_deadline(secs(20)).leave_when_overdue(true);
    let (group, _) = run(builder, 300);
    wait(VALIDITY).await;
    let b = fleet.member("b").await;
    within(VALIDITY, owns(&b, 2)).await.expect("the new member gets its share");
    fleet.group("operator").pin(&["0"], Some("b")).await.unwrap();
    within(secs(20) + POLL * 4, owns(&b, 3)).await.expect("the other partitions move");
    within(VALIDITY * 2, owns(&b, 4)).await.expect("the partition moves with the lapse");
    assert!(!group.is_member());
    // The member joins again once the overdue work has returned.
    wait(secs(300)).await;
    assert!(group.is_member());
    within(VALIDITY, async {
        while b.owned().len() > 2 {
            wait(secs(1)).await
        }
    })
    .await
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn run_gives_access_to_its_membership() {
    let fleet = Fleet::new(2);
    let group = fleet.group("a");
    assert!(!group.is_member() && group.lease().is_none() && group.last_seen().is_none());
    let running = group.clone();
    let task = tokio::spawn(async move {
        running
            .run(async |partition| {
                partition.revoked().cancelled().await;
                Ok(())
            })
            .await
    });
    wait(VALIDITY).await;
    assert!(group.is_member() && group.lease().unwrap().check().is_ok());
    assert_eq!(group.last_seen().unwrap().owner("1").unwrap().name, "a");
    fleet.store.always(tenure_testkit::fault_store::Fault::Hang);
    wait(VALIDITY * 2).await;
    assert!(!group.is_member());
    fleet.store.heal();
    wait(VALIDITY * 2).await;
    assert!(group.is_member(), "the process has joined again");
    group.leave();
    within(VALIDITY, task).await.expect("it leaves").unwrap().unwrap();
    assert!(!group.is_member() && group.lease().is_none());
}

/// The work on a partition fails after the member has lost its session. Before the fix, the log did
/// not contain the error.
#[tokio::test(start_paused = true)]
async fn regression_an_error_of_work_after_the_session_was_lost_is_logged() {
    let fleet = Fleet::new(2);
    let group = fleet.group("a");
    tokio::spawn(async move {
        group
            .run(async |partition| {
                partition.revoked().cancelled().await;
                wait(VALIDITY).await;
                assert_eq!(partition.name(), "0");
                Err("the disk is full".into())
            })
            .await
    });
    wait(VALIDITY).await;
    fleet.store.always(tenure_testkit::fault_store::Fault::Hang);
    let (_, log) = logged(wait(VALIDITY * 3)).await;
    let line = |words: &str| log.lines().any(|line| line.contains(words));
    assert!(line("the work failed") && line("the disk is full"), "{log}");
    assert!(line("the work panicked"), "{log}");
}

/// Before the fix, an assignor received only the names and weights of members, so it could not
/// place partitions by their names or by the members' data.
#[tokio::test(start_paused = true)]
async fn regression_an_assignor_sees_names_numbers_and_data() {
    #[derive(Debug)]
    struct ByZone(Arc<Mutex<Vec<u32>>>);
    impl tenure_groups::Assignor for ByZone {
        fn name(&self) -> &str {
            "by-zone"
        }

        fn assign(
            &self,
            seats: &[tenure_groups::Seat<'_>],
            shares: &[tenure_groups::Share<'_>],
        ) -> Vec<Option<usize>> {
            *self.0.lock().unwrap() = shares.iter().map(|it| it.number.0).collect();
            let zone = |name: &str| seats.iter().position(|it| it.data()["zone"] == name);
            shares.iter().map(|it| zone(it.name.split('-').next()?)).collect()
        }
    }
    let fleet = Fleet::new(0);
    let numbers = Arc::default();
    let node = |name: &str, zone: &str| {
        let node = fleet.node(name).assignor(ByZone(Arc::clone(&numbers)));
        let node = node.partitions(["eu-1", "us-1", "eu-2"]);
        node.data(serde_json::json!({ "zone": zone })).build().unwrap()
    };
    let a = Node::of(node("a", "eu").join().await.unwrap());
    let b = Node::of(node("b", "us").join().await.unwrap());
    balanced(&[&a, &b], 3, VALIDITY * 2).await;
    let names = |node: &Node| node.owned().into_keys().collect::<Vec<_>>();
    assert_eq!((names(&a), names(&b)), (vec!["eu-1".into(), "eu-2".into()], vec!["us-1".into()]));
    assert_eq!(*numbers.lock().unwrap(), [0, 1, 2]);
}
