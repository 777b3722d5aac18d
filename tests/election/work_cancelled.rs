//! Tests the causes that cancel work: the driver, the end of the lease, and a drop of the
//! leadership.

use std::sync::Arc;
use std::time::Duration;

use tenure::store::MemoryStore;
use tenure::{Election, ErrorKind, LeadershipEvent, Loss, Process, RunOutcome};
use tenure_paths::{Access, PathLocks};
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::time::{millis, secs, timed, wait, within};
use tenure_testkit::world::{VALIDITY, World, elect};

/// Time limit for work that never yields.
const DEADLINE: Duration = Duration::from_secs(60);

/// Spins until `holds` returns true. Like a blocking call of SQLite or `std::fs`, this function
/// does not yield to the runtime. Returns whether the condition was true before the deadline.
fn spin_until(mut holds: impl FnMut() -> bool) -> bool {
    let end = Process::system().now().boot + DEADLINE;
    while Process::system().now().boot < end {
        if holds() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// The work never yields to the runtime. Before the fix, the work was never cancelled, and made 578
/// writes in 3 s while the next leader led.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_the_driver_cancels_work_that_never_yields() {
    for fault in [Fault::FailBefore, Fault::Hang] {
        let store = FaultStore::new(Arc::new(MemoryStore::new()));
        let election = Election::builder(Arc::new(store.clone()), "app").validity(secs(1));
        let lead = elect(&election.build().unwrap()).await;
        let mut events = lead.events();
        let run = lead.run(async |_, cancelled| {
            store.always(fault);
            // Unlike `cancelled.is_cancelled`, this token does not check the lease by the clock. So
            // only the driver can cancel the token.
            let token = cancelled.token();
            spin_until(|| token.is_cancelled()) && spin_until(|| cancelled.is_cancelled())
        });
        // The work spins on the test's main thread, and the driver runs on a worker thread.
        let stopped = run.await.into_value();
        assert!(stopped, "{fault:?}: not cancelled within {DEADLINE:?}");
        // On a busy machine, the lease may end before the driver reports the risk.
        let told = |event: &LeadershipEvent| {
            matches!(event, LeadershipEvent::AtRisk { .. } | LeadershipEvent::Lost(_))
        };
        assert!(tenure_testkit::world::ready(&mut events).await.iter().any(told), "{fault:?}");
    }
}

/// On a single thread, no other task runs while the work runs. So `is_cancelled` must detect the
/// end of the lease by the clock.
#[tokio::test(start_paused = true)]
async fn regression_work_on_a_single_thread_is_cancelled_by_the_lease() {
    let world = World::new();
    let lead = world.leader("a").await;
    let (clock, lease) = (world.clock.clone(), lead.lease());
    let run = lead.run(async |_, cancelled| {
        // Time passes, but no other task runs.
        clock.suspend(millis(7_400));
        assert!(!cancelled.is_cancelled(), "more than a quarter of the lease is left");
        clock.suspend(millis(200));
        assert!(
            cancelled.is_cancelled() && lease.check().is_ok(),
            "the lease is at risk, but not lost"
        );
        assert!(cancelled.token().is_cancelled() && cancelled.clone().is_cancelled());
        cancelled.cancelled().await;
        // The leader renews its lease later, but the work remains cancelled.
        wait(secs(1)).await;
        assert!(lease.remaining() > VALIDITY / 2);
        assert!(cancelled.is_cancelled());
    });
    let outcome = run.await;
    assert!(matches!(outcome, RunOutcome::Cancelled(())), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn work_detects_the_end_of_the_lease_without_other_tasks() {
    let world = World::new();
    let lead = world.leader("a").await;
    let clock = world.clock.clone();
    let run = lead.run(async |_, cancelled| {
        clock.suspend(VALIDITY);
        cancelled.is_cancelled()
    });
    let outcome = run.await;
    assert!(matches!(outcome, RunOutcome::Lost { value: true, .. }), "{outcome:?}");
}

/// The spawner drops the task of the driver, like a runtime that is shut down.
#[tokio::test(start_paused = true)]
async fn a_wait_for_the_cancellation_does_not_depend_on_the_driver() {
    let world = World::new();
    let process = tenure_testkit::time::process(&world.clock, 9).with_spawner(drop);
    let lead = elect(&world.node("a").process(process).build().unwrap()).await;
    let run = lead.run(async |_, cancelled| timed(cancelled.cancelled()).await.0);
    let outcome = run.await;
    let RunOutcome::Cancelled(took) = outcome else { panic!("{outcome:?}") };
    assert!(took >= millis(7_500) && took < secs(8), "{took:?}");
}

/// The task of the driver exists, but never runs. Before the fix, calls of `resign` and `proclaim`
/// never returned in this case.
#[tokio::test(start_paused = true)]
async fn regression_calls_to_a_driver_that_does_not_run_end_with_the_lease() {
    let world = World::new();
    let process = tenure_testkit::time::process(&world.clock, 9).with_spawner(std::mem::forget);
    let election = world.node("a").process(process).build().unwrap();
    let limit = VALIDITY * 2;
    let lead = elect(&election).await;
    let error = within(limit, lead.proclaim("x")).await.expect("an answer").unwrap_err();
    assert_eq!((error.kind(), error.may_have_happened()), (ErrorKind::LeadershipLost, true));
    let lead = elect(&election).await;
    let error = within(limit, lead.resign()).await.expect("an answer").unwrap_err();
    assert_eq!((error.kind(), error.may_have_happened()), (ErrorKind::LeadershipLost, true));
}

#[tokio::test(start_paused = true)]
async fn work_under_a_lease_at_risk_is_cancelled_immediately() {
    let world = World::new();
    let lead = world.leader("a").await;
    let mut events = lead.events();
    world.store.always(Fault::FailBefore);
    while !matches!(
        futures::StreamExt::next(&mut events).await,
        Some(LeadershipEvent::AtRisk { .. })
    ) {}
    let outcome = lead.run(async |_, cancelled| cancelled.is_cancelled()).await;
    assert!(matches!(outcome, RunOutcome::Cancelled(true)), "{outcome:?}");
}

/// Work passes a cancellation token to a library. If the library cancels this token, the work is
/// not cancelled.
#[tokio::test(start_paused = true)]
async fn a_library_cancels_only_its_own_token() {
    let world = World::new();
    let lead = world.leader("a").await;
    let outcome = lead
        .run(async |_, cancelled| {
            cancelled.token().cancel();
            assert!(!cancelled.is_cancelled() && !cancelled.token().is_cancelled());
            assert!(within(VALIDITY, cancelled.cancelled()).await.is_none());
        })
        .await;
    assert!(matches!(outcome, RunOutcome::Completed(())), "{outcome:?}");
}

/// Before the fix, if a leadership was dropped while a renewal hung, its lease remained valid for
/// up to the request timeout.
#[tokio::test(start_paused = true)]
async fn regression_a_dropped_leadership_ends_its_lease_immediately() {
    for resign_on_drop in [false, true] {
        for fault in [Fault::Hang, Fault::HangAfter, Fault::Slow(secs(1))] {
            let world = World::new();
            let election = world.node("a").resign_on_drop(resign_on_drop).build().unwrap();
            let lead = elect(&election).await;
            let (lease, locks) = (lead.lease(), PathLocks::under(&lead));
            let access = || Access::to_write(&"/a".parse().unwrap());
            let guard = locks.lock(access()).await.unwrap();
            world.store.on(Call::Replace).fault(fault);
            wait(secs(4)).await;
            assert!(lease.check().is_ok() && guard.check().is_ok());
            drop(lead);
            assert!(matches!(lease.check(), Err(Loss::Resigned)), "{fault:?}");
            assert_eq!(lease.remaining(), Duration::ZERO);
            assert!(guard.check().is_err() && guard.token().is_none());
            assert!(locks.try_lock(access()).is_err());
            wait(VALIDITY).await;
            let ended = world.record(1).await["ended"].clone();
            assert_eq!(ended == "resigned", resign_on_drop, "{fault:?}: {ended}");
        }
    }
}

/// If the future of `run` is dropped, the work is dropped first. Then the tasks that the work has
/// spawned are cancelled.
#[tokio::test(start_paused = true)]
async fn tasks_of_a_dropped_run_are_cancelled() {
    let world = World::new();
    let lead = world.leader("a").await;
    let (sender, cancellation) = tokio::sync::oneshot::channel();
    let run = lead.run(async |_, cancelled| {
        sender.send(cancelled.clone()).expect("the test waits");
        std::future::pending::<()>().await;
    });
    assert!(within(millis(1), run).await.is_none());
    let cancellation = cancellation.await.unwrap();
    assert!(cancellation.is_cancelled());
    assert_eq!(format!("{cancellation:?}"), "Cancellation { epoch: Epoch(1), cancelled: true }");
}
