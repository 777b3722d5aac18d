//! Tests the members of a group while the store, the assignor or a process has a fault.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tenure::store::GetOutcome;
use tenure_groups::{Assignor, MembershipEvent, Seat, Share};
use tenure_testkit::fault_store::{Call, Fault, FaultStore, overwrite};
use tenure_testkit::time::{secs, timed, wait, within};

use super::{Fleet, Node, POLL, VALIDITY, balanced};

#[derive(Debug)]
struct Panics;

impl Assignor for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn assign(&self, _: &[Seat<'_>], _: &[Share<'_>]) -> Vec<Option<usize>> {
        panic!("a bug of the assignor")
    }
}

/// Before the fix, if the assignor of a member panicked, the member lost its lease, but the
/// application waited forever for an event.
#[tokio::test(start_paused = true)]
async fn regression_a_member_with_a_panicking_assignor_is_lost() {
    let fleet = Fleet::new(2);
    let group = fleet.node("a").assignor(Panics).build().unwrap();
    let mut membership = group.join().await.unwrap();
    let lost = async {
        while let Some(event) = membership.next().await {
            if let MembershipEvent::Lost(_) = event {
                return;
            }
        }
    };
    within(VALIDITY * 3, lost).await.expect("the last event is delivered");
    assert!(membership.next().await.is_none());
}

/// The store fails all LISTs for a while. Before the fix, every member took over from the
/// coordinator, and all members continued to coordinate after the outage. So each member listed the
/// sessions at each poll, and read all sessions once per validity.
#[tokio::test(start_paused = true)]
async fn regression_after_an_outage_of_listings_one_member_coordinates() {
    let fleet = Fleet::new(20);
    let mut nodes = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        nodes.push(fleet.member(name).await);
    }
    let all: Vec<_> = nodes.iter().collect();
    balanced(&all, 20, VALIDITY * 4).await;
    fleet.store.on(Call::List).always().fault(Fault::FailBefore);
    wait(secs(180)).await;
    fleet.store.heal();
    wait(VALIDITY * 2).await;
    fleet.store.take_calls();
    wait(secs(600)).await;
    let calls = fleet.store.take_calls();
    let count = |call| calls.iter().filter(|it| **it == call).count();
    // A steady group of ten members sends 150 LISTs and 2,090 GETs in ten minutes.
    assert!(count(Call::List) <= 155, "{} LISTs", count(Call::List));
    assert!(count(Call::Get) <= 2_100, "{} GETs", count(Call::Get));
}

/// The store answers no write of an assignment. Before the fix, a leaving coordinator retried this
/// write for minutes before it resigned.
#[tokio::test(start_paused = true)]
async fn regression_a_member_leaves_although_assignments_cannot_be_written() {
    let fleet = Fleet::new(4);
    let group = fleet.group("a");
    let running = group.clone();
    let task = tokio::spawn(async move {
        let work = async |partition: tenure_groups::Partition| {
            partition.revoked().cancelled().await;
            Ok(())
        };
        running.run(work).await
    });
    wait(secs(20)).await;
    fleet.store.on(Call::Create).key("assignment-").always().fault(Fault::Hang);
    let _b = fleet.member("b").await;
    wait(secs(13)).await;
    group.leave();
    let (took, left) = timed(within(secs(600), task)).await;
    left.expect("it leaves").unwrap().unwrap();
    assert!(took < secs(5), "{took:?}");
}

/// Before the fix, a leaving member with 200 partitions sent a poll each time the work on one
/// partition returned.
#[tokio::test(start_paused = true)]
async fn regression_a_leave_costs_few_requests() {
    let fleet = Fleet::new(200);
    let store = FaultStore::new(Arc::clone(fleet.store.inner()));
    let group = fleet.node_behind(&store, "a").build().unwrap();
    let running = group.clone();
    let task = tokio::spawn(async move {
        let work = async |partition: tenure_groups::Partition| {
            partition.revoked().cancelled().await;
            wait(Duration::from_millis(50) * partition.number().0).await;
            Ok(())
        };
        running.run(work).await
    });
    wait(secs(60)).await;
    let b = fleet.member("b").await;
    wait(secs(60)).await;
    store.take_calls();
    group.leave();
    within(secs(60), task).await.expect("it leaves").unwrap().unwrap();
    let calls = store.take_calls();
    // The leave takes 10 s. The requests are two polls, two listings, one PUT per second, and the
    // requests that move the partitions.
    assert!(calls.len() <= 40, "{} requests", calls.len());
    balanced(&[&b], 200, POLL * 8).await;
}

/// Before the fix, if the store denied the reads of sessions, the coordinator granted no partition
/// and reported no error.
#[tokio::test(start_paused = true)]
async fn regression_a_coordinator_reports_denied_reads_of_sessions() {
    for call in [Call::List, Call::Get] {
        let fleet = Fleet::new(2);
        let store = FaultStore::new(Arc::clone(fleet.store.inner()));
        let group = fleet.node_behind(&store, "a").build().unwrap();
        let mut membership = group.join().await.unwrap();
        store.on(call).key("members/").always().fault(Fault::Denied);
        let told = async {
            loop {
                match membership.next().await {
                    Some(MembershipEvent::StoreFailed(error)) => return error.to_string(),
                    Some(_) => {}
                    None => panic!("the member is lost"),
                }
            }
        };
        let told = within(VALIDITY, told).await.expect("the error is reported");
        assert!(told.contains("session"), "{told}");
    }
}

/// The only member of a group is restarted. Before the fix, its next session waited for deputies
/// that did not exist, and for one more validity.
#[tokio::test(start_paused = true)]
async fn regression_a_sole_member_returns_without_a_delay() {
    let again = async |unique: bool, end: fn(Node), limit: Duration| {
        let fleet = Fleet::new(4);
        let group = fleet.node("a").name_is_unique(unique).build().unwrap();
        let a = Node::of(group.join().await.unwrap());
        balanced(&[&a], 4, secs(60)).await;
        end(a);
        wait(secs(1)).await;
        let a = Node::of(group.join().await.unwrap());
        balanced(&[&a], 4, limit).await;
    };
    again(true, Node::kill, POLL * 4).await;
    again(false, |a| a.leave(), POLL * 4).await;
    again(false, |a| a.leave_for(secs(300)), POLL * 4).await;
    // The limit consists of the rest of the former lease, and four poll intervals for the drift and
    // the polls.
    again(false, Node::kill, VALIDITY + POLL * 4).await;
}

/// All members die at the same time and are restarted. Before the fix, the new members owned the
/// partitions only after more than two minutes, instead of after one validity.
#[tokio::test(start_paused = true)]
async fn regression_when_all_members_died_their_successors_wait_for_one_lease() {
    let fleet = Fleet::new(6);
    let names = ["a", "b", "c", "d", "e"];
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(fleet.member(name).await);
    }
    balanced(&nodes.iter().collect::<Vec<_>>(), 6, VALIDITY * 2).await;
    nodes.drain(..).for_each(Node::kill);
    for name in names {
        nodes.push(fleet.member(name).await);
    }
    balanced(&nodes.iter().collect::<Vec<_>>(), 6, VALIDITY + POLL * 6).await;
}

/// A call of `leave` arrives while `run` is joining the group. Before the fix, the new session
/// stayed alive for one more validity, and the group granted partitions to this session.
#[tokio::test(start_paused = true)]
async fn regression_a_leave_during_a_join_gets_no_partition() {
    let fleet = Fleet::new(6);
    let a = fleet.member("a").await;
    balanced(&[&a], 6, secs(60)).await;
    let slow = FaultStore::new(Arc::clone(fleet.store.inner()));
    slow.on(Call::Create).always().fault(Fault::AnswerLate(secs(1)));
    slow.on(Call::Replace).always().fault(Fault::AnswerLate(secs(1)));
    for delay in (100..3_000).step_by(500) {
        let group = fleet.node_behind(&slow, "b").build().unwrap();
        let running = group.clone();
        let task = tokio::spawn(async move { running.run(async |_| Ok(())).await });
        wait(Duration::from_millis(delay)).await;
        group.leave();
        within(secs(60), task).await.expect("it leaves").unwrap().unwrap();
        for second in 0..60 {
            wait(secs(1)).await;
            assert_eq!(a.owned().len(), 6, "left after {delay} ms, {second} s ago");
        }
    }
}

/// Before the fix, a coordinator that could not seal a session made no plan, reported no error, and
/// requested the object of the session 13 times per second.
#[tokio::test(start_paused = true)]
async fn regression_a_session_that_cannot_be_sealed_stops_no_plan() {
    for fault in [Fault::FailBefore, Fault::Denied, Fault::Refuse] {
        let fleet = Fleet::new(6);
        let a = Node::of(fleet.group("a").join().await.unwrap());
        let b = fleet.group("b").join().await.unwrap();
        let key: &'static str = Box::leak(b.session().into_boxed_str());
        wait(POLL * 6).await;
        assert_eq!(a.owned().len(), 3);
        drop(b);
        fleet.store.on(Call::Replace).key(key).always().fault(fault);
        wait(VALIDITY * 2).await;
        let c = fleet.member("c").await;
        fleet.store.take_log();
        wait(secs(60)).await;
        assert!(!c.owned().is_empty(), "{fault:?}: the partitions that `a` releases move");
        let asked = fleet.store.take_log().into_iter().filter(|(_, of)| of.contains(key)).count();
        assert!(asked < 120, "{fault:?}: {asked} requests a minute");
        fleet.store.heal();
        balanced(&[&a, &c], 6, VALIDITY).await;
        a.leave();
        let events = within(VALIDITY, a.task).await.unwrap().unwrap();
        let told = events.iter().filter(|event| event.contains("StoreFailed")).count();
        assert_eq!(told > 0, fault != Fault::Refuse, "{events:?}");
        assert!(told < 4, "the error is reported once, and not in each round: {events:?}");
    }
}

/// Before the fix, a background task resigned the session of a cancelled join. If the process ended
/// before this task had finished, the group granted partitions to the dead member.
#[test]
fn regression_a_leave_during_a_join_keeps_no_member_alive() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap()
    };
    for delay in (0..4_000).step_by(100) {
        let fleet = runtime().block_on(async {
            let fleet = Fleet::new(6);
            let slow = Fault::AnswerLate(secs(1));
            fleet.store.on(Call::Create).always().fault(slow);
            fleet.store.on(Call::Replace).always().fault(slow);
            let group = fleet.group("a");
            let running = group.clone();
            let task = tokio::spawn(async move { running.run(async |_| Ok(())).await });
            wait(Duration::from_millis(delay)).await;
            group.leave();
            within(secs(60), task).await.expect("it leaves").unwrap().unwrap();
            fleet
        });
        // The first runtime has ended, and all tasks of the process have ended with it.
        runtime().block_on(async {
            let store = fleet.store.inner();
            for session in store.list("app/members/", "", 1_000).await.unwrap().entries {
                let Ok(GetOutcome::Found(it)) = store.get(&session.key, None, 1 << 20).await else {
                    panic!("a listed object exists")
                };
                let body: serde_json::Value = serde_json::from_slice(&it.body).unwrap();
                let ended = body.get("ended").is_some_and(|ended| ended.is_string());
                assert!(ended || body.get("data").is_none(), "left after {delay} ms: {body}");
            }
        });
    }
}

/// A process with a unique name seals the session of its predecessor. Before the fix, if one
/// request for this seal failed, the process waited until that session lapsed.
#[tokio::test(start_paused = true)]
async fn regression_a_failed_seal_of_the_predecessor_is_repeated() {
    for call in [Call::Get, Call::Replace] {
        let fleet = Fleet::new(6);
        let [a, b] = [fleet.member("a").await, fleet.member("b").await];
        balanced(&[&a, &b], 6, POLL * 8).await;
        b.kill();
        let store = FaultStore::new(Arc::clone(fleet.store.inner()));
        store.on(call).key("members/").skip(1).fault(Fault::FailBefore);
        let again = fleet.node_behind(&store, "b").name_is_unique(true).build().unwrap();
        let b = Node::of(again.join().await.unwrap());
        let took = balanced(&[&a, &b], 6, VALIDITY).await;
        assert!(took < POLL * 4, "{call:?}: {took:?}");
    }
}

/// Before the fix, after a member's session was sealed and compacted, the member could create a
/// session with the same id again. A repeated DELETE of the compactor then removed the new session
/// (GO2).
#[tokio::test(start_paused = true)]
async fn regression_a_possibly_compacted_id_is_not_used_again() {
    let fleet = Fleet::new(2);
    fleet.store.on(Call::Create).key("members/").fault(Fault::FailAfter);
    fleet.store.on(Call::Get).key("members/").skip(1).always().fault(Fault::FailBefore);
    let group = fleet.group("a");
    let joining = tokio::spawn(async move { group.join().await });
    wait(VALIDITY * 2).await;
    let created = fleet.store.inner().list("app/members/", "", 10).await.unwrap();
    let created: Vec<_> = created.entries.into_iter().map(|it| it.key).collect();
    assert_eq!(created.len(), 1, "{created:?}");
    fleet.store.inner().delete(created.clone()).await.unwrap();
    fleet.store.heal();
    let member = Node::of(joining.await.unwrap().unwrap());
    balanced(&[&member], 2, VALIDITY).await;
    let now = fleet.store.inner().list("app/members/", "", 10).await.unwrap();
    assert_ne!(now.entries[0].key, created[0]);
}

/// Rule GW5: a member that has sent the seal of its session reads no assignment, because the next
/// assignment may grant its partitions to another member.
#[tokio::test(start_paused = true)]
async fn a_member_that_seals_its_session_reads_no_assignment() {
    let fleet = Fleet::new(1);
    let a = fleet.member("a").await;
    balanced(&[&a], 1, VALIDITY).await;
    let store = FaultStore::new(Arc::clone(fleet.store.inner()));
    let b = fleet.node_behind(&store, "b").build().unwrap();
    let b = Node::of(b.join().await.unwrap());
    wait(POLL * 3).await;
    assert!(store.take_log().iter().any(|(_, key)| key.contains("assignment-")));
    store.on(Call::Replace).always().fault(Fault::HangAfter);
    b.leave();
    wait(POLL * 4).await;
    let asked = store.take_log();
    let since: Vec<_> = asked.iter().skip_while(|(call, _)| *call != Call::Replace).collect();
    assert!(!since.is_empty(), "{asked:?}");
    assert!(since.iter().all(|(_, key)| key.contains("members/")), "{asked:?}");
}

/// Tests the remedy of docs/how-to/recover.md: if the newest assignment is unreadable, the operator
/// writes the last readable assignment again with a greater number.
#[tokio::test(start_paused = true)]
async fn an_operator_repairs_an_unreadable_assignment() {
    let fleet = Fleet::new(4);
    let [a, b] = [fleet.member("a").await, fleet.member("b").await];
    balanced(&[&a, &b], 4, POLL * 8).await;
    let store = fleet.store.inner();
    let page = store.list("app/assignment-", "", 1_000).await.unwrap();
    let last = page.entries.last().unwrap().key.clone();
    let GetOutcome::Found(object) = store.get(&last, None, usize::MAX).await.unwrap() else {
        panic!("a listed object exists")
    };
    let mut body: serde_json::Value = serde_json::from_slice(&object.body).unwrap();
    let epoch = body["epoch"].as_u64().unwrap();
    let key = |epoch: u64| format!("app/assignment-{epoch:010}.json");
    overwrite(&**store, &key(epoch + 1), "garbage".into()).await;
    for member in [a, b] {
        member.leave();
        within(VALIDITY * 2, member.task).await.unwrap().unwrap();
    }
    let (above, nonce) = (epoch + 2, "00000000000000000000000000000077");
    (body["epoch"], body["nonce"]) = (above.into(), nonce.into());
    store.create(&key(above), body.to_string().into()).await.unwrap();
    let c = fleet.member("c").await;
    balanced(&[&c], 4, POLL * 8).await;
    assert!(c.owned().values().all(|token| *token > above), "all tokens are new");
}

/// The GET of an assignment fails. Before the fix, an observer repeated this GET until the fault
/// ended, and a member repeated it for 10 min. During this time, neither found a newer assignment.
#[tokio::test(start_paused = true)]
async fn regression_an_unreadable_superseded_assignment_hides_no_newer_one() {
    for fault in [Fault::FailBefore, Fault::Denied, Fault::Hang] {
        let fleet = Fleet::new(2);
        let a = fleet.member("a").await;
        balanced(&[&a], 2, secs(60)).await;
        let mut observed = fleet.group("router").observe();
        let first = observed.next().await.unwrap().unwrap().epoch.unwrap().get();
        wait(POLL * 2).await;
        let next: &'static str = format!("assignment-{:010}", first + 1).leak();
        fleet.store.on(Call::Get).key(next).always().fault(fault);
        // The operator accesses the wrapped store directly, so it meets none of these faults.
        let inner = FaultStore::new(fleet.store.inner().clone());
        let operator = fleet.node_behind(&inner, "operator").build().unwrap();
        operator.pause(&["0"], true).await.unwrap();
        let newer = operator.pause(&["1"], true).await.unwrap().epoch;
        let seen = async {
            while observed.next().await.unwrap().unwrap().epoch < newer {}
            while !a.owned().is_empty() {
                wait(secs(1)).await;
            }
        };
        within(VALIDITY * 2, seen).await.unwrap_or_else(|| panic!("{fault:?}: {:?}", a.owned()));
    }
}
