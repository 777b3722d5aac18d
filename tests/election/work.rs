//! Tests the calls with which a leading application proclaims data, resigns, and runs work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use serde_json::json;
use tenure::{ErrorKind, LeadershipEvent, Loss, RunOutcome};
use tenure_groups::session_election;
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs, timed, wait, within};
use tenure_testkit::world::{TAKEOVER, VALIDITY, World, elect, held, ready};
use tenure_testkit::write_faults::WRITE_FAULTS;

#[tokio::test(start_paused = true)]
async fn a_proclamation_is_seen_and_renews_the_lease() {
    let world = World::new();
    let lead = world.leader("a").await;
    wait(secs(2)).await;
    assert_eq!(lead.remaining(), secs(8));
    world.store.take_log();
    lead.proclaim(json!({ "at": 2 })).await.unwrap();
    assert_eq!(world.store.take_calls(), [Call::Replace]);
    assert_eq!(lead.remaining(), VALIDITY);
    assert_eq!(world.record(1).await["data"], json!({ "at": 2 }));
    wait(VALIDITY).await;
    assert_eq!(world.record(1).await["data"], json!({ "at": 2 }), "renewals keep the data");
}

#[tokio::test(start_paused = true)]
async fn too_much_data_is_refused_before_any_request() {
    let world = World::new();
    let lead = world.leader("a").await;
    world.store.take_log();
    let error = lead.proclaim("x".repeat(49_000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(world.store.take_calls(), []);
    // Data of the size `most` is nearly as large as a leader may proclaim. Every reader must accept
    // data of this size.
    let most = (1..).map(|i| 49_000 - i * 16).find(|n| *n < 48_300).unwrap();
    lead.proclaim("x".repeat(most)).await.unwrap();
    let b = world.node("b").build().unwrap();
    assert_eq!(b.leader().await.unwrap().unwrap().data.as_str().unwrap().len(), most);
}

#[tokio::test(start_paused = true)]
async fn a_proclamation_without_an_answer_succeeds_if_it_was_written() {
    for fault in WRITE_FAULTS {
        let world = World::new();
        let lead = world.leader("a").await;
        world.store.on(Call::Replace).fault(fault);
        lead.proclaim("one").await.unwrap();
        assert_eq!(world.record(1).await["data"], "one", "{fault:?}");
        wait(VALIDITY * 2).await;
        assert!(lead.check().is_ok(), "{fault:?}");
    }
}

/// The effect of the first proclamation is unknown, and a second proclamation waits. Even if the
/// leader reads its record back and finds the data of the first proclamation, it must still write
/// the data of the second.
#[tokio::test(start_paused = true)]
async fn a_proclamation_returns_after_its_data_is_written() {
    for fault in [Fault::FailAfter, Fault::HangAfter, Fault::Late(millis(5)), Fault::Conflict] {
        let world = World::new();
        let lead = world.leader("a").await;
        world.store.on(Call::Replace).times(2).fault(fault);
        let (one, two) = tokio::join!(lead.proclaim("one"), async {
            wait(millis(10)).await;
            let proclaimed = lead.proclaim("two").await;
            assert_eq!(world.record(1).await["data"], "two", "{fault:?}");
            proclaimed
        });
        one.unwrap();
        two.unwrap();
        wait(secs(5)).await;
        assert_eq!(world.record(1).await["data"], "two", "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_proclamation_fails_if_the_leadership_ends() {
    let world = World::new();
    let lead = world.leader("a").await;
    world.seal(1, "deposed").await;
    let error = lead.proclaim("x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LeadershipLost);
    assert!(error.to_string().contains("deposed"), "{error}");
    assert_eq!(lead.proclaim("x").await.unwrap_err().kind(), ErrorKind::LeadershipLost);
    let lead = world.leader("b").await;
    world.store.always(Fault::Hang);
    let (took, result) = timed(lead.proclaim("x")).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::LeadershipLost);
    assert!(took <= VALIDITY, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_check_fails_after_resign_is_called() {
    let world = World::new();
    let lead = world.leader("a").await;
    let mut events = lead.events();
    world.store.on(Call::Replace).fault(Fault::Slow(secs(1)));
    let mut resign = Box::pin(lead.resign());
    assert!(within(millis(1), &mut resign).await.is_none());
    assert!(matches!(ready(&mut events).await[..], [LeadershipEvent::Lost(Loss::Resigned)]));
    assert_eq!(world.record(1).await["expired"], false);
    resign.await.unwrap();
    assert_eq!(world.record(1).await["ended"], "resigned");
}

#[tokio::test(start_paused = true)]
async fn a_resignation_retries_until_the_lease_ends() {
    for fault in WRITE_FAULTS {
        let world = World::new();
        let lead = world.leader("a").await;
        world.store.on(Call::Replace).times(2).fault(fault);
        lead.resign().await.unwrap();
        assert_eq!(world.record(1).await["ended"], "resigned", "{fault:?}");
    }
    let world = World::new();
    let lead = world.leader("a").await;
    world.store.always(Fault::FailBefore);
    let (took, result) = timed(lead.resign()).await;
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(took > secs(9) && took <= VALIDITY, "{took:?}");
    world.store.take_log();
    wait(VALIDITY).await;
    assert_eq!(world.store.take_calls(), [], "no request after the end");
}

/// A late renewal of this leader may take effect before the seal. Then the resignation reads the
/// renewal and seals again.
#[tokio::test(start_paused = true)]
async fn a_late_renewal_does_not_undo_a_resignation() {
    for delay in [millis(1), millis(100), secs(1), secs(3), secs(20)] {
        let world = World::new();
        let lead = world.leader("a").await;
        world.store.on(Call::Replace).fault(Fault::Late(delay));
        wait(millis(3_334)).await;
        lead.resign().await.unwrap();
        let next = world.leader("b").await;
        wait(secs(30)).await;
        assert_eq!(world.record(1).await["ended"], "resigned", "{delay:?}");
        assert!(next.check().is_ok());
    }
}

/// The leader has read back an older record that it wrote before. The seal must contain the newer
/// data (D1 in docs/design/groups.md).
#[tokio::test(start_paused = true)]
async fn a_resignation_after_a_read_back_keeps_the_newest_data() {
    let world = World::new();
    let lead = elect(&session_election(world.node("a")).build().unwrap()).await;
    world.store.on(Call::Replace).fault(Fault::FailAfter);
    for seen in [4, 5] {
        lead.proclaim(json!({ "seen": seen })).await.unwrap();
    }
    lead.resign().await.unwrap();
    let sealed = session_election(world.node("b")).build().unwrap().snapshot().await.unwrap();
    assert_eq!(sealed.leader.unwrap().data, json!({ "seen": 5 }));
}

/// The caller drops the future of `resign` while the first requests of the resignation fail. The
/// driver must complete the resignation.
#[tokio::test(start_paused = true)]
async fn regression_a_resignation_continues_after_its_caller_was_dropped() {
    let world = World::new();
    let lead = world.leader("a").await;
    world.store.on(Call::Replace).times(3).fault(Fault::FailBefore);
    assert!(within(millis(10), lead.resign()).await.is_none());
    wait(secs(2)).await;
    assert_eq!(world.record(1).await["ended"], "resigned");
}

#[tokio::test(start_paused = true)]
async fn resigning_a_lost_leadership_is_an_error() {
    let world = World::new();
    let lead = world.leader("a").await;
    world.seal(1, "deposed").await;
    let error = lead.resign().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LeadershipLost, "{error}");
    assert_eq!(world.record(1).await["ended"], "deposed");
}

#[tokio::test(start_paused = true)]
async fn run_passes_the_token_to_the_work_and_resigns_afterwards() {
    let world = World::new();
    let lead = world.leader("a").await;
    let at_work = Arc::new(AtomicBool::new(true));
    let other = world.node("b").build().unwrap();
    let watch = tokio::spawn({
        let at_work = at_work.clone();
        async move {
            let next = elect(&other).await;
            assert!(!at_work.load(Ordering::SeqCst), "a successor was elected during the work");
            next.epoch().get()
        }
    });
    let outcome = lead
        .run(|token, cancelled| async move {
            wait(VALIDITY * 4).await;
            assert!(!cancelled.is_cancelled());
            at_work.store(false, Ordering::SeqCst);
            token.get()
        })
        .await;
    assert!(matches!(outcome, RunOutcome::Completed(1)), "{outcome:?}");
    assert_eq!(world.record(1).await["ended"], "resigned");
    assert_eq!(watch.await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn run_cancels_the_work_before_the_lease_ends_and_reports_the_loss() {
    for fault in [Fault::FailBefore, Fault::Hang] {
        let world = World::new();
        let lead = world.leader("a").await;
        wait(secs(20)).await;
        world.store.always(fault);
        let end = lead.ends_at().boot;
        let clock = world.clock.clone();
        let outcome = lead
            .run(|_, cancelled| async move {
                cancelled.cancelled().await;
                let left = end.saturating_sub(tenure::Clock::now(&clock).boot);
                // After its cancellation, the work continues for longer than the rest of the lease.
                wait(secs(4)).await;
                left
            })
            .await;
        let RunOutcome::Lost { value: left, loss: Loss::LeaseEnded { .. } } = outcome else {
            panic!("{outcome:?}")
        };
        assert!(left > millis(2_400) && left <= millis(2_500), "{left:?}");
        world.store.heal();
        assert_eq!(world.record(1).await["expired"], false, "the epoch was resigned");
    }
}

#[tokio::test(start_paused = true)]
async fn run_resigns_if_the_work_ended_in_time_after_its_cancellation() {
    let world = World::new();
    let lead = world.leader("a").await;
    world.store.always(Fault::FailBefore);
    let store = world.store.clone();
    let outcome = lead
        .run(|_, cancelled| async move {
            cancelled.cancelled().await;
            store.heal();
            wait(secs(1)).await;
        })
        .await;
    assert!(matches!(outcome, RunOutcome::Cancelled(())), "{outcome:?}");
    assert_eq!(world.record(1).await["ended"], "resigned");
}

#[tokio::test(start_paused = true)]
async fn run_cancels_the_work_on_every_loss() {
    let world = World::new();
    let lead = world.leader("a").await;
    world.seal(1, "deposed").await;
    // The cancellation token that work can pass to libraries is also cancelled.
    let outcome = lead.run(|_, cancelled| cancelled.token().cancelled_owned()).await;
    assert!(matches!(outcome.loss(), Some(Loss::Sealed { .. })), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_lets_the_lease_lapse() {
    let world = World::new();
    let lead = world.leader("a").await;
    let run = lead.run(|_, _| std::future::pending::<()>());
    assert!(within(VALIDITY * 3, run).await.is_none());
    let b = world.node("b").build().unwrap();
    held(b.try_campaign().await.unwrap());
    let (took, next) = timed(elect(&b)).await;
    assert_eq!(next.epoch().get(), 2);
    assert!(took < TAKEOVER, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_lets_the_lease_lapse() {
    let world = World::new();
    let lead = world.leader("a").await;
    let run = tokio::spawn(lead.run(|_, _| async {
        wait(secs(1)).await;
        if true {
            panic!("a bug of the work");
        }
    }));
    assert!(run.await.unwrap_err().is_panic());
    wait(secs(1)).await;
    assert_eq!(world.record(1).await["expired"], false);
    assert_eq!(world.leader("b").await.epoch().get(), 2);
}

#[tokio::test(start_paused = true)]
async fn renewals_continue_until_cancelled_work_returns() {
    let world = World::new();
    let lead = world.leader("a").await;
    let mut events = lead.events();
    world.store.always(Fault::FailBefore);
    let store = world.store.clone();
    let outcome = lead
        .run(|_, cancelled| async move {
            cancelled.cancelled().await;
            store.heal();
            wait(VALIDITY * 3).await;
        })
        .await;
    assert!(matches!(outcome, RunOutcome::Cancelled(())), "{outcome:?}");
    let renewed = |e: &LeadershipEvent| matches!(e, LeadershipEvent::Renewed { .. });
    let told: Vec<_> = events.by_ref().collect().await;
    assert!(told.iter().filter(|e| renewed(e)).count() >= 8, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn regression_proclaimed_data_is_not_in_debug_output() {
    let world = World::new();
    let builder = world.node("a").data("hunter2");
    let election = world.node("a").data("hunter2").build().unwrap();
    let lead = elect(&election).await;
    lead.proclaim("hunter2").await.unwrap();
    for text in [format!("{builder:?}"), format!("{election:?}"), format!("{lead:?}")] {
        assert!(text.contains('a') && !text.contains("hunter2"), "{text}");
    }
}
