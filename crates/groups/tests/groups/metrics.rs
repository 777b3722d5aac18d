//! The metrics of a group.

#[path = "../../../../tests/election/metrics/documents.rs"]
mod documents;
#[path = "../../../../tests/election/metrics/recorder.rs"]
mod recorder;

use std::sync::Arc;

use futures::StreamExt as _;
use tenure_groups::{Group, Membership, MembershipEvent, Partition};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::layer::Layered;
use tenure_testkit::prometheus::Scrape;
use tenure_testkit::time::{process, secs, wait, within};

use super::limits::Limited;
use super::{Fleet, Node, POLL, VALIDITY, balanced};
use recorder::{Recorder, counts_all, tell};

const APP: (&str, &str) = ("group", "a store with faults/app");

fn value(scrape: &Scrape, metric: &str) -> f64 {
    scrape.value(&format!("tenure_group_{metric}"), &[APP])
}

fn total(scrape: &Scrape, metric: &str, label: &str, word: &str) -> f64 {
    scrape.value(&format!("tenure_group_{metric}_total"), &[APP, (label, word)])
}

async fn granted(membership: &mut Membership) -> Partition {
    match within(secs(30), membership.next()).await {
        Some(Some(MembershipEvent::Granted(partition))) => partition,
        other => panic!("{other:?}"),
    }
}

/// Scenario: a member owns all partitions. Another member joins, gets half of the partitions, and
/// leaves.
async fn members_and_partitions_are_counted(recorder: &Recorder) {
    let fleet = Fleet::new(4);
    let a = fleet.member("a").await;
    let now = recorder.scrape();
    assert_eq!((value(&now, "member"), value(&now, "owned")), (1.0, 0.0));
    assert_eq!(now.value("tenure_group_member_info", &[APP, ("member", "a")]), 1.0);
    assert_eq!(value(&now, "validity_seconds"), 30.0);
    balanced(&[&a], 4, secs(20)).await;
    wait(POLL).await;
    let now = recorder.scrape();
    assert_eq!((value(&now, "owned"), value(&now, "grants_total")), (4.0, 4.0));
    assert_eq!(value(&now, "coordinator"), 1.0);
    let seen = ["partitions", "ownerless", "members", "epoch"].map(|it| value(&now, it));
    assert_eq!(seen, [4.0, 0.0, 1.0, 2.0]);
    assert_eq!(total(&now, "assignments", "outcome", "created"), 2.0);

    let b = fleet.member("b").await;
    balanced(&[&a, &b], 4, POLL * 6).await;
    wait(POLL).await;
    let now = recorder.scrape();
    assert_eq!((value(&now, "member"), value(&now, "coordinator")), (2.0, 1.0));
    assert_eq!((value(&now, "owned"), value(&now, "grants_total")), (4.0, 6.0));
    assert_eq!(value(&now, "revocations_total"), 2.0);
    assert_eq!(total(&now, "losses", "reason", "released"), 2.0);
    assert_eq!(value(&now, "members"), 2.0);

    b.leave();
    within(VALIDITY, b.task).await.expect("it leaves").unwrap();
    balanced(&[&a], 4, VALIDITY).await;
    wait(POLL).await;
    let now = recorder.scrape();
    assert_eq!((value(&now, "member"), value(&now, "owned")), (1.0, 4.0));
    assert_eq!(total(&now, "session_losses", "reason", "resigned"), 1.0);
    assert_eq!(now.sum("tenure_group_session_losses_total", &[]), 1.0);
    assert_eq!(total(&now, "losses", "reason", "released"), 4.0);
    assert_eq!(total(&now, "polls", "outcome", "failed"), 0.0);
    assert!(total(&now, "polls", "outcome", "done") > 10.0);
    assert!(value(&now, "lease_least_ratio_count") >= 3.0);
    assert_eq!(value(&now, "renewal_seconds_count"), value(&now, "lease_least_ratio_count"));
    assert_eq!(
        total(&now, "renewals", "outcome", "done"),
        now.sum("tenure_requests_total", &[("kind", "replace"), ("outcome", "done")]) - 1.0,
        "all replacements of a session, except its seal, are renewals"
    );
    assert!(value(&now, "lease_remaining_seconds") > 15.0);
    let of_leaders = ["leader", "epoch", "elections_total", "losses_total", "candidate_info"];
    for metric in of_leaders.map(|it| format!("tenure_{it}")) {
        assert!(
            now.samples.iter().all(|(name, ..)| *name != metric),
            "{metric}: a group has no leadership"
        );
    }
    counts_all(&now, &fleet.store);
    gone(a).await;
}

/// Ends a member, so that the metrics of the next scenario do not count it.
async fn gone(node: Node) {
    node.kill();
    wait(secs(1)).await;
}

/// Scenario: a member loses its connection to the store.
async fn a_lost_session_is_counted(recorder: &Recorder) {
    let fleet = Fleet::new(3);
    let a = fleet.member("a").await;
    balanced(&[&a], 3, secs(20)).await;
    wait(POLL).await;
    fleet.store.always(Fault::Hang);
    within(VALIDITY * 2, a.task).await.expect("the session ends").unwrap();
    let now = recorder.scrape();
    let none = ["member", "owned", "coordinator", "partitions", "members", "ownerless"];
    assert_eq!(none.map(|it| value(&now, it)), [0.0; 6]);
    assert_eq!(value(&now, "lease_remaining_seconds"), 0.0);
    assert_eq!(value(&now, "lease_at_risk_total"), 1.0);
    assert_eq!(total(&now, "session_losses", "reason", "lease_ended"), 1.0);
    assert_eq!(total(&now, "losses", "reason", "lease_ended"), 3.0);
    assert_eq!(now.sum("tenure_group_losses_total", &[]), 3.0);
    assert_eq!(value(&now, "grants_total"), 3.0);
    regression_a_release_after_the_loss_counts_once(recorder).await;
}

async fn regression_a_release_after_the_loss_counts_once(recorder: &Recorder) {
    let fleet = Fleet::new(1);
    let mut membership = fleet.group("b").join().await.unwrap();
    let partition = granted(&mut membership).await;
    fleet.store.always(Fault::Hang);
    while within(VALIDITY * 2, membership.next()).await.expect("the session ends").is_some() {}
    assert_eq!(recorder.scrape().sum("tenure_group_losses_total", &[]), 4.0);
    partition.release();
    assert_eq!(recorder.scrape().sum("tenure_group_losses_total", &[]), 4.0);
}

/// Scenario: the work on a partition returns 40 s after the signal to stop, later than the deadline
/// of 20 s.
async fn overdue_work_is_counted(recorder: &Recorder) {
    let fleet = Fleet::new(1);
    let group = fleet.node("a").revocation_deadline(secs(20)).build().unwrap();
    let running = group.clone();
    let task = tokio::spawn(async move {
        running
            .run(async |partition| {
                partition.revoked().cancelled().await;
                wait(secs(40)).await;
                Ok(())
            })
            .await
    });
    wait(VALIDITY).await;
    group.leave();
    wait(secs(10)).await;
    assert_eq!(value(&recorder.scrape(), "overdue"), 0.0);
    wait(secs(15)).await;
    assert_eq!(value(&recorder.scrape(), "overdue"), 1.0);
    within(VALIDITY, task).await.expect("it leaves").unwrap().unwrap();
    assert_eq!(value(&recorder.scrape(), "overdue"), 0.0);
}

/// Scenario: the store denies the coordinator's writes of assignments.
async fn a_denied_assignment_is_counted(recorder: &Recorder) {
    let fleet = Fleet::new(2);
    let mut membership = fleet.group("a").join().await.unwrap();
    drop([granted(&mut membership).await, granted(&mut membership).await]);
    wait(POLL).await;
    let before = recorder.scrape();
    assert_eq!(total(&before, "polls", "outcome", "failed"), 0.0);
    fleet.store.on(Call::Create).key("assignment").always().fault(Fault::Denied);
    let b = fleet.member("b").await;
    wait(POLL * 4).await;
    let now = recorder.scrape();
    assert!(total(&now, "assignments", "outcome", "failed") >= 2.0);
    assert!(total(&now, "polls", "outcome", "failed") >= 2.0);
    assert_eq!(value(&now, "owned"), 2.0, "the member keeps its partitions");
    fleet.store.heal();
    drop(membership);
    gone(b).await;
}

/// Scenario: the data of the members does not fit into an assignment.
async fn a_too_large_assignment_is_counted(recorder: &Recorder) {
    let fleet = Fleet::new(0);
    let store = Arc::new(Layered(Limited(fleet.store.clone())));
    let node = |name: &str, seed| {
        let group = Group::builder(store.clone(), "app").name(name).check_store(false);
        group.process(process(&fleet.clock, seed))
    };
    let names: Vec<_> = (0..1_100).map(|number| format!("{number:0>256}")).collect();
    let a = Node::of(node("a", 1).partitions(names).build().unwrap().join().await.unwrap());
    balanced(&[&a], 1_100, VALIDITY).await;
    assert_eq!(total(&recorder.scrape(), "assignments", "outcome", "unwritable"), 0.0);
    let large = node("b", 2).data("x".repeat(40_000)).build().unwrap();
    let mut joined = Vec::new();
    for _ in 0..3 {
        joined.push(Node::of(large.join().await.unwrap()));
    }
    wait(VALIDITY).await;
    let now = recorder.scrape();
    assert!(total(&now, "assignments", "outcome", "unwritable") >= 2.0);
    assert!(total(&now, "polls", "outcome", "failed") >= 2.0, "some assignments were not written");
    joined.into_iter().for_each(Node::kill);
    gone(a).await;
}

/// Scenario: a member leaves with its partitions reserved for a minute.
async fn reserved_partitions_are_not_ownerless(recorder: &Recorder) {
    let fleet = Fleet::new(4);
    let [a, b] = [fleet.member("a").await, fleet.member("b").await];
    balanced(&[&a, &b], 4, POLL * 6).await;
    b.leave_for(secs(60));
    wait(secs(40)).await;
    let now = recorder.scrape();
    assert_eq!((value(&now, "owned"), value(&now, "members")), (2.0, 1.0));
    assert_eq!(value(&now, "ownerless"), 0.0, "the partitions are reserved for the member");
    assert_eq!(
        total(&now, "losses", "reason", "resigned"),
        0.0,
        "the member has released the partitions"
    );
    wait(secs(60)).await;
    let now = recorder.scrape();
    assert_eq!((value(&now, "owned"), value(&now, "ownerless")), (4.0, 0.0));
    gone(a).await;
}

/// Scenario: an observer counts a partition as ownerless only if the partition should have an
/// owner.
async fn ownerless_partitions_are_counted(recorder: &Recorder) {
    let fleet = Fleet::new(4);
    let operator = fleet.group("operator");
    let a = fleet.member("a").await;
    balanced(&[&a], 4, secs(20)).await;
    operator.pin(&["0"], Some("nobody")).await.unwrap();
    operator.pause(&["1"], true).await.unwrap();
    operator.retire(&["2"]).await.unwrap();
    wait(POLL * 4).await;
    let now = recorder.scrape();
    assert_eq!((value(&now, "partitions"), value(&now, "ownerless")), (3.0, 1.0));
    gone(a).await;
    let mut seen = fleet.group("watch").observe();
    seen.next().await.unwrap().unwrap();
    let now = recorder.scrape();
    assert_eq!((value(&now, "partitions"), value(&now, "ownerless")), (3.0, 1.0));
    let polls = total(&now, "polls", "outcome", "done");
    operator.pause(&["1"], false).await.unwrap();
    seen.next().await.unwrap().unwrap();
    let now = recorder.scrape();
    assert_eq!(value(&now, "ownerless"), 2.0);
    assert!(total(&now, "polls", "outcome", "done") > polls);
    drop(seen);
    let now = recorder.scrape();
    assert_eq!((value(&now, "partitions"), value(&now, "ownerless")), (0.0, 0.0));
    assert!(value(&now, "epoch") > 4.0);
}

/// Scenario: the last member dies, so no assignment follows. An observer that has read the sessions
/// counts its partitions as ownerless, until another member gets them.
async fn partitions_of_the_last_dead_member_are_ownerless(recorder: &Recorder) {
    let fleet = Fleet::new(4);
    let a = fleet.member("a").await;
    balanced(&[&a], 4, secs(20)).await;
    let watch = fleet.group("watch");
    let (watched, mut seen) = (watch.clone(), watch.observe());
    let newest = seen.next().await.unwrap().unwrap();
    let following = tokio::spawn(async move { while seen.next().await.is_some() {} });
    a.kill();
    wait(VALIDITY * 2).await;
    assert_eq!(value(&recorder.scrape(), "ownerless"), 0.0, "no process has read the sessions");
    watched.session_states(&newest).await.unwrap();
    wait(POLL * 2).await;
    let now = recorder.scrape();
    assert_eq!((value(&now, "partitions"), value(&now, "ownerless")), (4.0, 4.0));
    let b = fleet.member("b").await;
    balanced(&[&b], 4, VALIDITY * 3).await;
    wait(POLL * 2).await;
    assert_eq!(value(&recorder.scrape(), "ownerless"), 0.0);
    gone(b).await;
    following.abort();
}

mod told {
    use super::*;

    tell! {
        super:
        members_and_partitions_are_counted,
        a_lost_session_is_counted,
        a_denied_assignment_is_counted,
        a_too_large_assignment_is_counted,
        reserved_partitions_are_not_ownerless,
        ownerless_partitions_are_counted,
        partitions_of_the_last_dead_member_are_ownerless,
        overdue_work_is_counted,
    }

    #[tokio::test(start_paused = true)]
    async fn the_documented_metrics_and_labels_match_the_recorded_ones() {
        documents::compare(&all().await, |name| name.starts_with("tenure_group_"));
    }
}
