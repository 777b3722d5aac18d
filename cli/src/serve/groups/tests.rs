use std::collections::BTreeMap;
use std::time::Duration;

use tenure::Clock as _;
use tenure::store::GetOutcome;
use tenure_testkit::fault_store::{Fault, FaultStore};
use tenure_testkit::time::{millis, process, wait};
use tenure_testkit::world::World;
use tokio::sync::watch;

use super::member::{GroupOrder, Leave};
use super::*;
use crate::serve::event_stream::testing::{SOON, follow_events};
use crate::serve::machine::{ServedRole, Times};

const VALIDITY: Duration = Duration::from_secs(30);
const MARGIN: Duration = Duration::from_millis(1_500);
const TIMES: Times = Times { validity: VALIDITY, margin: MARGIN, recent: VALIDITY };
const GRACE: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(600);

/// A sidecar that is a member of one group, without its HTTP server.
struct Sidecar {
    member: Arc<Member>,
    healthy: watch::Sender<bool>,
    ending: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Sidecar {
    fn start(world: &World, store: &FaultStore, name: &str, seed: u64) -> Sidecar {
        Sidecar::start_as(world, store, name, false, seed)
    }

    fn start_as(
        world: &World,
        store: &FaultStore,
        name: &str,
        is_unique: bool,
        seed: u64,
    ) -> Sidecar {
        let group = Group::builder(Arc::new(store.clone()), "app")
            .name(name)
            .name_is_unique(is_unique)
            .partitions(0..4)
            .check_store(false)
            .rebalance_delay(Duration::ZERO)
            .process(process(&world.clock, seed))
            .build()
            .expect("settings that fit");
        let clocks = Process::system().with_clock(Arc::new(world.clock.clone()));
        let (member, orders) = Member::new("g", group, TIMES, clocks);
        let member = Arc::new(member);
        let (healthy, ending) = (watch::Sender::new(true), watch::Sender::new(false));
        let task = ServedTask {
            machine: Arc::clone(&member),
            orders,
            healthy: healthy.subscribe(),
            ending: ending.subscribe(),
            grace: GRACE,
            defer_for: Duration::from_secs(10),
            throttle: Default::default(),
        };
        let task = tokio::spawn(task.run());
        Sidecar { member, healthy, ending, task }
    }

    /// Returns the number and the token of each partition for which the API would return a token.
    fn tokens(&self) -> BTreeMap<u32, u64> {
        let names = (0..4).map(|number| number.to_string());
        let owned = names.filter_map(|name| self.member.token(&name));
        owned.map(|(owned, _)| (owned.number, owned.token)).collect()
    }

    fn revoked(&self) -> Vec<String> {
        let (_, owned) = self.member.all();
        owned.into_iter().filter(|it| it.revoked).map(|it| it.name.to_string()).collect()
    }

    fn role(&self) -> ServedRole {
        self.member.now().role
    }

    fn lost(&self) -> Option<&'static str> {
        self.member.now().lost.map(|lost| lost.reason)
    }

    async fn leave(&self, order: Leave) -> Result<usize, crate::http::refusal::Refusal> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.member.common.order(GroupOrder::Leave { order, reply }).expect("there is room");
        answer.await.expect("the task runs")
    }
}

/// Waits until `holds` returns true. Meanwhile asserts that no partition has two owners.
async fn until(condition: &str, all: &[&Sidecar], holds: impl Fn() -> bool) {
    let mut waited = Duration::ZERO;
    while !holds() {
        one_owner(all);
        assert!(waited < LONG, "the condition never holds: {condition}");
        wait(millis(100)).await;
        waited += millis(100);
    }
}

#[track_caller]
fn one_owner(all: &[&Sidecar]) {
    let mut owned = BTreeMap::new();
    for (at, sidecar) in all.iter().enumerate() {
        for (number, token) in sidecar.tokens() {
            assert_eq!(owned.insert(number, at), None, "partition {number} with token {token}");
        }
    }
}

/// Returns whether a session of a member is sealed in the store.
async fn is_sealed(world: &World, session: &str) -> bool {
    let key = format!("app/members/{session}/lock.json");
    let found = world.store.inner().get(&key, None, usize::MAX).await.expect("the store works");
    let GetOutcome::Found(object) = found else { panic!("{found:?}") };
    let record: serde_json::Value = serde_json::from_slice(&object.body).expect("a record");
    !record["ended"].is_null()
}

/// Returns two members of a group with four partitions. The first member owns all four partitions,
/// and two of them are revoked.
async fn revoked_of_four(world: &World) -> (Sidecar, Sidecar, FaultStore) {
    let way = world.another_way();
    let a = Sidecar::start(world, &way, "a", 1);
    until("a owns all", &[&a], || a.tokens().len() == 4).await;
    let b = Sidecar::start(world, &world.store, "b", 2);
    until("two are revoked", &[&a, &b], || a.revoked().len() == 2).await;
    (a, b, way)
}

#[tokio::test(start_paused = true)]
async fn an_unreleased_partition_keeps_its_owner() {
    let world = World::new();
    let (a, b, _) = revoked_of_four(&world).await;
    let (before, revoked) = (a.tokens(), a.revoked());
    for _ in 0..100 {
        wait(VALIDITY / 10).await;
        assert_eq!((a.tokens(), b.tokens().len()), (before.clone(), 0));
    }
    // The application releases one of the two revoked partitions.
    let token = before[&revoked[0].parse().expect("a number")];
    let refused = a.member.release(&revoked[0], Some(token + 1), None).expect_err("another token");
    assert_eq!((refused.status, refused.code), (409, "other_token"));
    assert_eq!(a.tokens(), before, "a refused release changes no token");
    assert_eq!(a.member.release(&revoked[0], Some(token), None), Ok(token));
    assert_eq!(a.tokens().len(), 3, "the release takes effect immediately");
    let again = a.member.release(&revoked[0], None, None).expect_err("a released partition");
    assert_eq!((again.status, again.code), (409, "not_owned"));
    until("b owns one", &[&a, &b], || b.tokens().len() == 1).await;
    wait(VALIDITY * 3).await;
    assert_eq!((a.tokens().len(), b.tokens().len()), (3, 1));
    assert!(b.tokens().values().all(|of_b| *of_b > token));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ended_before_its_lease_is_not_revived() {
    let world = World::new();
    let (a, b, way) = revoked_of_four(&world).await;
    let session = a.member.now().session.expect("a session").0;
    way.always(Fault::FailBefore);
    let ends = world.clock.now().boot + a.member.remaining().expect("a session");
    while a.member.remaining().is_some() {
        assert_eq!(a.tokens().len(), 4);
        one_owner(&[&a, &b]);
        wait(millis(10)).await;
    }
    assert!(world.clock.now().boot <= ends + millis(10));
    assert_eq!((a.lost(), a.tokens().len()), (Some("not_renewed"), 0));
    way.heal();
    // The member has lost its session, so this process joins again as a new member with another
    // session.
    until("all are owned", &[&a, &b], || a.tokens().len() + b.tokens().len() == 4).await;
    assert_ne!(a.member.now().session.expect("a session").0, session);
}

/// At first, less than the margin remains of the lease, so a reply reports the end of the session.
/// Then the application becomes unhealthy, and the next renewal succeeds. Even so, the member must
/// give up the session, and the other member must get all partitions.
#[tokio::test(start_paused = true)]
async fn regression_a_session_that_a_reply_reported_as_ended_is_given_up() {
    let world = World::new();
    let (a, b, _) = revoked_of_four(&world).await;
    // This call records that the session has ended. A reply over HTTP does the same if less than
    // the margin remains of the lease.
    assert_eq!(a.member.give_up("not_renewed").map(|owned| owned.len()), Some(4));
    assert!(a.member.token("0").is_none());
    a.healthy.send_replace(false);
    until("b owns all", &[&a, &b], || b.tokens().len() == 4).await;
    assert_eq!((a.role(), a.lost()), (ServedRole::Standby("app_unhealthy"), Some("not_renewed")));
    a.ending.send_replace(true);
    wait(millis(10)).await;
    assert!(a.task.is_finished());
}

/// A member with a unique name seals its former session as soon as it joins again. The member must
/// not seal the session before the margin has passed.
#[tokio::test(start_paused = true)]
async fn regression_a_lost_session_is_not_sealed_within_the_margin() {
    let world = World::new();
    let way = world.another_way();
    let a = Sidecar::start_as(&world, &way, "a", true, 1);
    until("a owns all", &[&a], || a.tokens().len() == 4).await;
    let session = a.member.now().session.expect("a session").0;
    way.always(Fault::FailBefore);
    while a.member.remaining().is_some() {
        wait(millis(10)).await;
    }
    way.heal();
    wait(MARGIN - millis(20)).await;
    assert!(!is_sealed(&world, &session).await, "the session is not sealed within the margin");
    until("it owns all again", &[&a], || a.tokens().len() == 4).await;
    assert!(is_sealed(&world, &session).await);
}

/// After an order to leave, this process does not join again, even if the session ends for another
/// reason.
#[tokio::test(start_paused = true)]
async fn regression_a_leaving_member_stays_out_however_its_session_ends() {
    let world = World::new();
    let (a, b, way) = revoked_of_four(&world).await;
    let pause = Some(Duration::from_secs(3_600));
    for (reason, member) in [("not_renewed", &a), ("app_unhealthy", &b)] {
        until("it is a member", &[&a, &b], || member.role() == ServedRole::Holding).await;
        member.leave(Leave { keep: None, pause }).await.expect("this process is a member");
        match reason {
            "not_renewed" => way.always(Fault::FailBefore),
            _ => _ = member.healthy.send_replace(false),
        }
        until("its session is over", &[&a, &b], || member.lost() == Some(reason)).await;
        way.heal();
        member.healthy.send_replace(true);
        wait(VALIDITY * 3).await;
        assert_eq!(member.role(), ServedRole::Standby("left"), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_reply_reads_the_lease() {
    let world = World::new();
    let (a, _b, _) = revoked_of_four(&world).await;
    let mut changes = a.member.common.changes.subscribe();
    changes.mark_unchanged();
    // The machine sleeps, so no task observes the end of the lease before the next line.
    world.clock.suspend(VALIDITY);
    assert!(a.member.token("0").is_none());
    assert!(changes.has_changed().expect("the channel is open"), "the streams are woken");
    assert!(a.member.release("0", None, None).is_err(), "a lost partition cannot be released");
}

#[tokio::test(start_paused = true)]
async fn a_leaving_member_waits_for_its_application_and_does_not_join() {
    let world = World::new();
    let (a, b, _) = revoked_of_four(&world).await;
    let pause = Some(Duration::from_secs(3_600));
    assert_eq!(a.leave(Leave { keep: None, pause }).await, Ok(4));
    until("all are revoked", &[&a, &b], || a.revoked().len() == 4).await;
    wait(VALIDITY * 3).await;
    assert_eq!((a.role(), a.tokens().len(), b.tokens().len()), (ServedRole::Leaving, 4, 0));
    for number in 0..4 {
        a.member.release(&number.to_string(), None, None).expect("the partition is owned");
    }
    until("b owns all", &[&a, &b], || b.tokens().len() == 4).await;
    wait(VALIDITY * 3).await;
    assert_eq!((a.role(), a.lost()), (ServedRole::Standby("left"), Some("left")));
    assert_eq!(a.leave(Leave::default()).await.map_err(|it| it.code), Err("not_member"));
}

/// Another member may own a partition only after replies have reported the loss for at least the
/// margin, because the application has this time to react.
#[tokio::test(start_paused = true)]
async fn an_unhealthy_application_loses_all_partitions_after_the_margin() {
    let world = World::new();
    let (a, b, _) = revoked_of_four(&world).await;
    let session = a.member.now().session.expect("a session").0;
    assert!(!is_sealed(&world, &session).await);
    a.healthy.send_replace(false);
    wait(millis(1)).await;
    assert_eq!((a.tokens().len(), a.lost()), (0, Some("app_unhealthy")));
    wait(MARGIN - millis(10)).await;
    assert!(
        !is_sealed(&world, &session).await,
        "no other member may own the partition within the margin"
    );
    assert_eq!(b.tokens().len(), 0);
    wait(millis(100)).await;
    assert!(is_sealed(&world, &session).await);
    // The member has resigned its session, so the other member does not wait for the whole
    // validity.
    wait(VALIDITY / 2).await;
    assert_eq!((b.tokens().len(), a.role()), (4, ServedRole::Standby("app_unhealthy")));
    a.healthy.send_replace(true);
    until("the process is a member again", &[&a, &b], || a.role() == ServedRole::Holding).await;
}

#[tokio::test(start_paused = true)]
async fn the_application_has_the_grace_at_the_end_of_the_process() {
    let world = World::new();
    let (a, b, _) = revoked_of_four(&world).await;
    a.ending.send_replace(true);
    until("all are revoked", &[&a, &b], || a.revoked().len() == 4).await;
    assert_eq!(
        (a.role(), a.tokens().len()),
        (ServedRole::Ending, 4),
        "partitions stay owned until they are released"
    );
    a.member.release("0", None, None).expect("the partition is owned");
    wait(GRACE - Duration::from_secs(1)).await;
    assert_eq!((a.tokens().len(), a.task.is_finished()), (3, false));
    until("the task ends", &[&a, &b], || a.task.is_finished()).await;
    assert_eq!((a.lost(), a.tokens().len()), (Some("ending"), 0));
    until("b owns all", &[&a, &b], || b.tokens().len() == 4).await;
    // After the application has released all partitions, the task does not wait for the rest of the
    // grace.
    b.ending.send_replace(true);
    wait(millis(10)).await;
    for number in 0..4 {
        b.member.release(&number.to_string(), None, None).expect("the partition is owned");
    }
    wait(millis(100)).await;
    assert!(b.task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn events_are_sent_in_time() {
    let world = World::new();
    let (a, b, way) = revoked_of_four(&world).await;
    let logs = follow_events(&world.clock, || events::events(&a.member)).await;
    for first in ["granted", "revoked", "role_changed"] {
        logs.said(first, Duration::ZERO, Duration::MAX);
    }
    logs.has_not_said("lost");
    // The release is a change by this process, so it wakes the streams immediately.
    let known = world.clock.now().boot;
    a.member.release(&a.revoked()[0], None, None).expect("the partition is owned");
    wait(millis(1)).await;
    logs.said("lost", known, Duration::ZERO);
    // Only the passage of time causes the next changes. So each stream finds a change at its next
    // poll, and not at the moment of the change.
    let logs = follow_events(&world.clock, || events::events(&a.member)).await;
    way.always(Fault::FailBefore);
    let now = world.clock.now().boot;
    let margin_at = now + a.member.remaining().expect("a session");
    let risk_at = margin_at + MARGIN - VALIDITY / 4;
    wait(risk_at - now - millis(1)).await;
    logs.has_not_said("at_risk");
    wait(margin_at - risk_at).await;
    logs.said("at_risk", risk_at, SOON);
    assert!(logs.delays("lost", risk_at).iter().all(Option::is_none));
    wait(SOON).await;
    logs.said("lost", margin_at, SOON);
    drop(b);
}

/// The member has no running task, so only the polls of a stream find the end of the session.
#[tokio::test(start_paused = true)]
async fn a_stream_polls_even_if_no_task_runs() {
    let world = World::new();
    let (a, _b, _) = revoked_of_four(&world).await;
    let logs = follow_events(&world.clock, || events::events(&a.member)).await;
    a.task.abort();
    world.clock.suspend(VALIDITY);
    let awake = world.clock.now().boot;
    wait(SOON).await;
    logs.said("lost", awake, SOON);
}

#[test]
fn partitions_belong_to_the_only_group_or_a_named_group() {
    let read = |text: &str| partitions(text).map(|it| (it.group, it.names.0.join(" ")));
    assert_eq!(read("0..3"), Ok((None, "0 1 2".to_owned())));
    assert_eq!(read("g=a,b"), Ok((Some("g".to_owned()), "a b".to_owned())));
    // The first `=` ends the name of the group in `--partitions`.
    assert_eq!(read("g=a=b"), Ok((Some("g".to_owned()), "a=b".to_owned())));
    assert!(read("g=").is_err());
    // The `=` of a range such as `0..=2` does not end the name of a group.
    assert_eq!(read("0..=2"), Ok((None, "0 1 2".to_owned())));
    assert_eq!(read("g=0..=2"), Ok((Some("g".to_owned()), "0 1 2".to_owned())));
    assert!(read("=0..4").is_err_and(|why| why.contains("the name of the group")));
}

/// The store hangs, so the task cannot seal its session. The task stops trying at the end of the
/// lease.
#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_does_not_delay_the_exit() {
    let world = World::new();
    let (a, _b, way) = revoked_of_four(&world).await;
    way.always(Fault::Hang);
    a.ending.send_replace(true);
    wait(millis(10)).await;
    for number in 0..4 {
        a.member.release(&number.to_string(), None, None).expect("the partition is owned");
    }
    wait(VALIDITY).await;
    assert!(a.task.is_finished());
}
