//! Tests a leadership: its token, its end, the reason of its loss, and its events.

use std::time::Duration;

use futures::StreamExt as _;
use tenure::{Clock as _, EpochEnd, ErrorKind, Leadership, LeadershipEvent, Loss};
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::time::{TestClock, millis, secs, timed, wait, within};
use tenure_testkit::world::{VALIDITY, World, elect, ready};

mod clocks;

/// Returns a leader, its separate connection to the objects of `world`, and its clock.
async fn leader_behind(world: &World) -> (Leadership, FaultStore, TestClock) {
    let (way, clock) = (world.another_way(), TestClock::new());
    let lead = elect(&world.node_behind(&way, &clock, "a").build().unwrap()).await;
    (lead, way, clock)
}

#[tokio::test(start_paused = true)]
async fn the_lease_ends_a_validity_after_the_last_renewal_is_sent() {
    let world = World::new();
    let (lead, way, clock) = leader_behind(&world).await;
    // The leader sends a renewal at 3.3 s, and the store answers it 0.6 s later. The store never
    // answers the next renewal.
    way.on(Call::Replace).fault(Fault::Slow(millis(600)));
    way.on(Call::Replace).always().fault(Fault::Hang);
    let start = clock.now().boot;
    let mut events = lead.events();
    let Some(LeadershipEvent::Renewed { remaining }) = events.next().await else { panic!() };
    let sent = millis(3_333);
    assert_eq!(remaining.as_millis(), 9_400);
    let end = lead.ends_at().boot - start;
    assert!(end >= sent + VALIDITY && end < sent + VALIDITY + millis(3), "{end:?}");
    let (took, loss) = timed(lead.lost()).await;
    assert!(matches!(loss, Loss::LeaseEnded { last_error: Some(_) }), "{loss}");
    assert!(took > millis(9_390) && took < millis(9_410), "{took:?}");
}

/// A renewal takes effect, but gets no answer. After a third of the request timeout the leader
/// sends the renewal again, and the store refuses the second attempt. Then the leader reads the
/// record back, and finds its first renewal.
#[tokio::test(start_paused = true)]
async fn an_unanswered_renewal_extends_the_lease_from_the_time_it_was_sent() {
    let world = World::new();
    let (lead, way, clock) = leader_behind(&world).await;
    let start = clock.now().boot;
    way.on(Call::Replace).fault(Fault::HangAfter);
    wait(millis(6_000)).await;
    let log = way.take_calls();
    assert!(log.ends_with(&[Call::Replace, Call::Replace, Call::Get]), "{log:?}");
    let end = lead.ends_at().boot - start;
    assert!(end >= millis(13_333) && end < millis(13_340), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn the_token_is_valid_only_during_the_lease() {
    let world = World::new();
    let (lead, way, clock) = leader_behind(&world).await;
    way.always(Fault::Hang);
    let end = lead.ends_at();
    loop {
        let over = clock.now().boot >= end.boot;
        assert_eq!(lead.check().is_err(), over);
        assert_eq!(lead.token().is_none(), over);
        assert_eq!(lead.remaining(), end.boot.saturating_sub(clock.now().boot));
        if over {
            break;
        }
        wait(millis(1)).await;
    }
    way.heal();
    wait(VALIDITY).await;
    assert!(lead.check().is_err() && lead.remaining().is_zero());
}

/// `check` detects the end of the lease by the wall clock, and then the clock is set back. Before
/// the fix, the driver did not detect this loss, and continued to send renewals.
#[tokio::test(start_paused = true)]
async fn regression_a_loss_found_by_a_check_stops_the_renewals() {
    let world = World::new();
    let (lead, way, clock) = leader_behind(&world).await;
    let mut events = lead.events();
    clock.set_wall_by(60_000);
    assert!(lead.check().is_err());
    clock.set_wall_by(-60_000);
    wait(secs(1)).await;
    way.take_log();
    wait(VALIDITY * 3).await;
    assert!(lead.check().is_err(), "final");
    assert_eq!(way.take_calls(), [], "no request is sent after the end");
    let told = ready(&mut events).await;
    assert!(matches!(told[..], [LeadershipEvent::Lost(_)]), "{told:?}");
    assert_eq!(elect(&world.node("b").build().unwrap()).await.epoch().get(), 2);
}

/// The answer to a renewal arrives after the end of the lease, and before the driver has detected
/// this end. The driver must report the loss, although the renewed lease would last for another 2
/// s.
#[tokio::test(start_paused = true)]
async fn an_answer_after_the_end_of_the_lease_does_not_extend_the_lease() {
    let world = World::new();
    let (lead, way, clock) = leader_behind(&world).await;
    way.on(Call::Replace).fault(Fault::Slow(millis(600)));
    let mut events = lead.events();
    wait(millis(3_930)).await;
    clock.suspend(millis(7_400));
    wait(millis(100)).await;
    assert!(lead.check().is_err());
    let told = ready(&mut events).await;
    assert!(matches!(told[..], [LeadershipEvent::Lost(_)]), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_loss_by_an_unreachable_store_contains_the_last_error() {
    for (fault, words) in [
        (Fault::FailBefore, "503"),
        (Fault::Hang, "no answer"),
        (Fault::Denied, "403"),
        (Fault::FailAfter, "500"),
    ] {
        let world = World::new();
        let (lead, way, _) = leader_behind(&world).await;
        way.always(fault);
        let loss = lead.lost().await;
        let Loss::LeaseEnded { last_error: Some(error) } = &loss else { panic!("{loss}") };
        assert!(error.to_string().contains(words), "{fault:?}: {error}");
        assert_eq!(loss.outcome(), "lease_ended");
    }
}

#[tokio::test(start_paused = true)]
async fn regression_an_outage_found_by_a_check_has_the_error_of_the_store() {
    let world = World::new();
    let (lead, way, _) = leader_behind(&world).await;
    way.always(Fault::FailBefore);
    let end = lead.remaining();
    wait(end - millis(1)).await;
    assert!(lead.check().is_ok());
    // The loop calls `check` every 100 µs. So `check` finds the end of the lease before the driver
    // does.
    let loss = loop {
        match lead.check() {
            Ok(_) => tokio::task::yield_now().await,
            Err(loss) => break loss,
        }
        wait(Duration::from_micros(100)).await;
    };
    assert!(matches!(loss, Loss::LeaseEnded { last_error: Some(_) }), "{loss}");
}

#[tokio::test(start_paused = true)]
async fn a_loss_by_a_seal_names_the_author_and_the_end() {
    for (word, ended) in [
        ("lapsed", EpochEnd::Lapsed),
        ("deposed", EpochEnd::Deposed),
        ("later word", EpochEnd::Unknown),
    ] {
        let world = World::new();
        let lead = world.leader("a").await;
        world.seal(1, word).await;
        let (took, loss) = timed(lead.lost()).await;
        let Loss::Sealed { by: Some(by), ended: told } = &loss else { panic!("{loss}") };
        assert_eq!((by.as_str(), *told), ("x", ended));
        assert!(took < secs(4), "the next renewal detects the seal: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreign_record_is_tampering() {
    let bodies = [
        String::new(),
        "not JSON".to_owned(),
        r#"{"expired":false}"#.to_owned(),
        r#"{"expired":true}"#.to_owned(),
        format!(r#"{{"expired":false,"nonce":"{:032x}","heartbeat":2}}"#, 7),
        "x".repeat(1 << 20),
    ];
    for body in bodies {
        let world = World::new();
        let lead = world.leader("a").await;
        world.put("lock-0000000001.json", body.clone()).await;
        let loss = lead.lost().await;
        assert!(matches!(loss, Loss::Tampered), "{loss}: {body:.80}");
        wait(VALIDITY).await;
        let page = world.store.inner().list("app/lock-", "", 10).await.unwrap();
        assert_eq!(page.entries[0].size, body.len() as u64, "the object is unchanged");
    }
    // An edited record has the nonce of the leader, but a heartbeat that is too low or too high.
    for heartbeat in [0, 99] {
        let world = World::new();
        let lead = world.leader("a").await;
        wait(secs(8)).await;
        world.edit(1, serde_json::json!({ "heartbeat": heartbeat })).await;
        assert!(matches!(lead.lost().await, Loss::Tampered));
    }
}

/// When a greater epoch supersedes a leadership, the process remembers this epoch, even if the
/// object of the epoch is later deleted.
#[tokio::test(start_paused = true)]
async fn regression_the_epoch_that_superseded_a_leader_is_remembered() {
    let world = World::new();
    let election = world.node("a").build().unwrap();
    let lead = elect(&election).await;
    world.put("lock-0000000002.json", r#"{"expired":false,"validity_ms":10000}"#).await;
    assert!(matches!(lead.lost().await, Loss::Superseded { .. }));
    world.delete("lock-0000000002.json").await;
    let error = within(secs(60), election.campaign()).await.expect("the call ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NewestDeleted, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_at_risk_and_its_recovery_are_reported_once() {
    let world = World::new();
    let (lead, way, _) = leader_behind(&world).await;
    let mut events = lead.events();
    way.always(Fault::FailBefore);
    wait(millis(7_600)).await;
    let told = ready(&mut events).await;
    let [LeadershipEvent::AtRisk { remaining, last_error: Some(_) }] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(*remaining > millis(2_450) && *remaining <= millis(2_500), "{remaining:?}");
    way.heal();
    wait(secs(2)).await;
    let told = ready(&mut events).await;
    assert!(matches!(told[..], [LeadershipEvent::Renewed { .. }]), "{told:?}");
    assert!(lead.check().is_ok());
    way.always(Fault::FailBefore);
    wait(VALIDITY).await;
    let told = ready(&mut events).await;
    let is_risk_then_loss = matches!(
        told[..],
        [LeadershipEvent::AtRisk { .. }, LeadershipEvent::Lost(Loss::LeaseEnded { .. })]
    );
    assert!(is_risk_then_loss, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn regression_the_events_end_with_the_loss() {
    let world = World::new();
    let lead = world.leader("a").await;
    let early = lead.events();
    world.seal(1, "deposed").await;
    lead.lost().await;
    let late = lead.events();
    for events in [early.boxed(), late.boxed()] {
        let told = within(secs(1), events.collect::<Vec<_>>()).await.expect("the stream ends");
        assert!(matches!(told[..], [LeadershipEvent::Lost(Loss::Sealed { .. })]), "{told:?}");
    }
}

/// A `select!` in a loop may poll a stream again after the stream has ended. The stream must then
/// return `None` again.
#[tokio::test(start_paused = true)]
async fn regression_an_ended_stream_can_be_polled_again() {
    let world = World::new();
    let lead = world.leader("a").await;
    let mut events = lead.events();
    world.seal(1, "deposed").await;
    while events.next().await.is_some() {}
    assert!(events.next().await.is_none());
}

/// A lease is at risk while a renewal hangs. The application must receive the event before the
/// request times out.
#[tokio::test(start_paused = true)]
async fn regression_a_lease_at_risk_is_reported_while_a_request_hangs() {
    for start in (0..20).map(|i| millis(5_000 + i * 125)) {
        let world = World::new();
        let (lead, way, _) = leader_behind(&world).await;
        let mut events = lead.events();
        way.always(Fault::FailBefore);
        wait(start).await;
        way.heal();
        way.always(Fault::Hang);
        let Some(LeadershipEvent::AtRisk { remaining, .. }) = events.next().await else {
            panic!("the lease is not at risk")
        };
        assert!(remaining >= millis(2_400), "reported with {remaining:?} left, {start:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_loss_while_a_request_hangs_is_reported_immediately() {
    let world = World::new();
    let (lead, way, clock) = leader_behind(&world).await;
    way.always(Fault::Hang);
    wait(millis(3_400)).await;
    // The hypervisor pauses the leader's virtual machine during the renewal, and only the wall
    // clock shows the pause.
    clock.set_wall_by(60_000);
    let (took, loss) = timed(lead.lost()).await;
    assert!(took <= secs(1), "{took:?}: {loss}");
}

#[tokio::test(start_paused = true)]
async fn several_tasks_can_wait_for_one_loss() {
    let world = World::new();
    let lead = std::sync::Arc::new(world.leader("a").await);
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn({
                let lead = lead.clone();
                async move { lead.lost().await }
            })
        })
        .collect();
    // This call of `lost` is cancelled after 1 s. The three tasks above continue to wait.
    assert!(within(secs(1), lead.lost()).await.is_none());
    world.seal(1, "deposed").await;
    for task in waiting {
        assert!(matches!(task.await.unwrap(), Loss::Sealed { .. }));
    }
    assert!(matches!(lead.lost().await, Loss::Sealed { .. }), "and again");
}

/// The runtime shuts down, and drops the driver. The lease ends nevertheless, and `lost` reports
/// the end.
#[test]
fn regression_a_check_reports_the_end_without_the_driver() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let election =
        tenure::Election::builder(std::sync::Arc::new(tenure::store::MemoryStore::new()), "app");
    let election = election.validity(millis(300)).build().unwrap();
    let first = runtime();
    let lead = first.block_on(election.campaign()).unwrap();
    drop(first);
    runtime().block_on(async {
        let loss = within(secs(10), lead.lost()).await.expect("the call ends");
        assert!(matches!(loss, Loss::LeaseEnded { .. } | Loss::Suspended { .. }), "{loss}");
    });
}
