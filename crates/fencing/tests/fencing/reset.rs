//! Repairs of a gate that has seen a wrong token or lost its object.

use super::*;
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::time::{millis, wait};
use tenure_testkit::write_faults::{WRITE_FAULTS, WriteCourse};

const WRONG: u64 = 999;

/// Returns a gate that has admitted 7 and then a wrong token, and the store through which operators
/// repair the gate.
async fn poisoned() -> (DurableGate, FaultStore) {
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let service = gate_of(&memory);
    service.admit(e(7)).await.unwrap();
    service.admit(e(WRONG)).await.unwrap();
    (service, FaultStore::new(memory))
}

fn operator(faults: &FaultStore) -> DurableGate {
    gate_of(&(Arc::new(faults.clone()) as Arc<dyn Store>))
}

/// Before the fix, the retry of a reset to 7 overwrote the token 8 of a new leader, so the gate
/// admitted a former leader again.
#[tokio::test(start_paused = true)]
async fn regression_a_reset_with_a_lost_response_is_not_repeated() {
    let applied = |fault: &Fault| WriteCourse::of(*fault).applied.is_some();
    for fault in WRITE_FAULTS.into_iter().filter(applied).chain([Fault::Late(secs(60))]) {
        let (service, faults) = poisoned().await;
        let shown = operator(&faults).inspect().await.unwrap();
        faults.on(Call::Replace).fault(fault);
        faults.on(Call::Get).fault(Fault::Slow(secs(20)));
        let reset = tokio::spawn(async move { (shown.reset(e(7)).await, shown) });
        wait(secs(65)).await;
        service.admit(e(8)).await.unwrap();
        let (outcome, shown) = reset.await.unwrap();
        let newest = outcome.unwrap();
        assert!(newest == e(7) || newest == e(8), "{fault:?}: {newest}");
        assert_eq!(shown.reset(e(7)).await.unwrap(), e(8), "{fault:?}: the reset is repeated");
        refused(service.admit(e(7)).await, 7, 8);
    }
}

/// Before the fix, a second reset after the same inspection overwrote the token 8 of a new leader
/// with 7.
#[tokio::test(start_paused = true)]
async fn regression_two_operators_reset_a_gate_once() {
    let (service, faults) = poisoned().await;
    let slow = operator(&faults).inspect().await.unwrap();
    let fast = operator(&faults).inspect().await.unwrap();
    assert_eq!(slow.newest(), Some(e(WRONG)));
    assert_eq!(fast.reset(e(7)).await.unwrap(), e(7));
    service.admit(e(8)).await.unwrap();
    assert_eq!(slow.reset(e(7)).await.unwrap(), e(8));
    refused(service.admit(e(7)).await, 7, 8);
    // The gate was reset after `slow` inspected it. So the reset by `slow` changes nothing, even if
    // the gate has admitted the wrong token again.
    service.admit(e(WRONG)).await.unwrap();
    assert_eq!(slow.reset(e(7)).await.unwrap(), e(WRONG));
}

/// The object already shows 7, because it was deleted and created again. Before the fix, a reset to
/// 7 returned `Ok` without a write, so the running instance still refused every token.
#[tokio::test(start_paused = true)]
async fn regression_running_instances_accept_a_reset_to_the_same_token() {
    let (service, faults) = poisoned().await;
    faults.inner().delete(vec!["g".to_owned()]).await.unwrap();
    operator(&faults).admit(e(7)).await.unwrap();
    service.admit(e(7)).await.unwrap_err();
    let shown = operator(&faults).inspect().await.unwrap();
    assert_eq!(shown.reset(e(7)).await.unwrap(), e(7));
    service.admit(e(7)).await.unwrap();
    service.admit(e(8)).await.unwrap();
}

/// Before the fix, a reset returned `Ok` even if the clock of the process had been set back. But
/// the gate then treated its new object as an old version.
#[tokio::test(start_paused = true)]
async fn regression_a_gate_accepts_its_own_reset_after_the_clock_was_set_back() {
    let clock = TestClock::new();
    let memory = Arc::new(MemoryStore::new());
    let gate = gate_of(&(Arc::clone(&memory) as Arc<dyn Store>));
    let gate = gate.process(tenure_testkit::time::process(&clock, 1));
    gate.admit(e(WRONG)).await.unwrap();
    gate.inspect().await.unwrap().reset(e(7)).await.unwrap();
    gate.admit(e(WRONG)).await.unwrap();
    memory.delete(vec!["g".to_owned()]).await.unwrap();
    clock.set_wall_by(-60_000);
    let shown = gate.inspect().await.unwrap();
    assert_eq!(shown.newest(), None);
    shown.reset(e(8)).await.unwrap();
    gate.admit(e(8)).await.unwrap();
    refused(gate.admit(e(7)).await, 7, 8);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_changed_since_the_inspection_is_left_unchanged() {
    let (service, faults) = poisoned().await;
    let shown = operator(&faults).inspect().await.unwrap();
    service.admit(e(WRONG + 1)).await.unwrap();
    let error = shown.reset(e(7)).await.unwrap_err();
    assert_eq!(error.kind(), tenure::ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("shows epoch 1000: inspect it again"), "{error}");
    assert!(!error.may_have_happened(), "{error}");
    assert_eq!(service.newest().await.unwrap(), Some(e(WRONG + 1)));
    faults.inner().delete(vec!["g".to_owned()]).await.unwrap();
    let error = shown.reset(e(7)).await.unwrap_err();
    assert!(error.to_string().contains("was deleted: inspect it again"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_reset_succeeds_after_failures_of_the_store() {
    for fault in [Fault::FailBefore, Fault::Refuse, Fault::Conflict, Fault::Slow(millis(500))] {
        for call in [Call::Get, Call::Replace] {
            let (service, faults) = poisoned().await;
            faults.on(call).times(2).fault(fault);
            let shown = operator(&faults).inspect().await.unwrap();
            assert_eq!(shown.reset(e(7)).await.unwrap(), e(7), "{fault:?} of {call:?}");
            service.admit(e(7)).await.unwrap();
            refused(service.admit(e(6)).await, 6, 7);
        }
    }
}
