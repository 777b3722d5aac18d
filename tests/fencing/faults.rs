//! Lost answers, refusals for no reason, stores that fail: read back, or told as what is known.

use std::time::Duration;

use super::*;
use crate::support::fault_store::{Call, Fault, FaultStore};
use crate::support::time::{millis, timed, wait, within};

const PASSING: [Fault; 8] = [
    Fault::FailBefore,
    Fault::FailAfter,
    Fault::Conflict,
    Fault::Hang,
    Fault::HangAfter,
    Fault::NoEtag,
    Fault::Refuse,
    Fault::Slow(Duration::from_secs(10)),
];

fn faulty() -> (FaultStore, Arc<dyn Store>) {
    let store = FaultStore::new(Arc::new(MemoryStore::new()));
    (store.clone(), Arc::new(store))
}

#[tokio::test(start_paused = true)]
async fn one_fault_of_any_kind_is_survived() {
    for fault in PASSING {
        for call in [Call::Create, Call::Replace, Call::Get, Call::List] {
            let (faults, store) = faulty();
            let object = object_of(&store).request_timeout(secs(5));
            faults.on(call).fault(fault);
            let mut writer = object.open(e(1)).await.unwrap();
            faults.on(call).fault(fault);
            writer.write("one").await.unwrap();
            faults.on(call).fault(fault);
            writer.write("two").await.unwrap();
            faults.on(call).fault(fault);
            let again = object.open(e(2)).await.unwrap();
            assert_eq!(again.body().unwrap(), "two", "{fault:?} of {call:?}");

            let log = log_of(&store).request_timeout(secs(5));
            faults.on(call).fault(fault);
            let mut writer = log.open(e(1)).await.unwrap();
            faults.on(call).fault(fault);
            let first = writer.append("one").await.unwrap();
            faults.on(call).fault(fault);
            assert_eq!(writer.append("two").await.unwrap(), first + 1, "{fault:?} of {call:?}");
            faults.on(call).fault(fault);
            log.trim(first + 1).await.unwrap();
            faults.heal();
            assert_eq!(all(&log, first + 1).await, [(first + 1, 1, "two".to_owned())]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_fault_of_any_kind_does_not_spoil_a_gate() {
    for fault in PASSING {
        for call in [Call::Create, Call::Replace, Call::Get] {
            let (faults, store) = faulty();
            let gate = gate_of(&store).request_timeout(secs(5));
            for token in [1, 2, 2, 7] {
                faults.on(call).fault(fault);
                gate.admit(e(token)).await.unwrap();
                faults.heal();
                assert_eq!(gate.newest().await.unwrap(), Some(e(token)), "{fault:?} of {call:?}");
            }
            refused(gate.admit(e(6)).await, 6, 7);
        }
    }
}

/// Six attempts, and between them 50, 100, 200, 400 and 800 ms, of which half is drawn.
#[tokio::test(start_paused = true)]
async fn the_pauses_between_attempts_double() {
    let (faults, store) = faulty();
    faults.on(Call::Get).always().fault(Fault::FailBefore);
    for _ in 0..10 {
        let (took, outcome) = timed(gate_of(&store).admit(e(1))).await;
        assert!(!outcome.unwrap_err().may_have_happened());
        assert!(took >= millis(775) && took < millis(1_550 + 5), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_of_unknown_fate_may_come_before_the_next_but_not_after_it() {
    let (faults, store) = faulty();
    let object = object_of(&store);
    let mut writer = object.open(e(1)).await.unwrap();
    faults.on(Call::Replace).always().fault(Fault::Late(secs(100)));
    let error = writer.write("one").await.unwrap_err();
    assert!(error.may_have_happened(), "{error}");
    faults.heal();
    // The first has taken effect by now, unanswered: it is this writer's own.
    wait(secs(200)).await;
    assert_eq!(object.read().await.unwrap().unwrap().body.unwrap(), "one");
    writer.write("two").await.unwrap();

    faults.on(Call::Replace).always().fault(Fault::Late(secs(100)));
    assert!(writer.write("three").await.unwrap_err().may_have_happened());
    faults.heal();
    writer.write("four").await.unwrap();
    wait(secs(200)).await;
    assert_eq!(object.read().await.unwrap().unwrap().body.unwrap(), "four");
}

#[tokio::test(start_paused = true)]
async fn an_append_of_unknown_fate_is_finished_before_the_next() {
    let (faults, store) = faulty();
    let log = log_of(&store);
    let mut writer = log.open(e(1)).await.unwrap();
    assert_eq!(writer.settle().await.unwrap(), None);
    faults.on(Call::Create).always().fault(Fault::Conflict);
    let error = writer.append("one").await.unwrap_err();
    assert!(error.may_have_happened(), "{error}");
    assert!(writer.settle().await.unwrap_err().may_have_happened());
    faults.heal();
    assert_eq!(writer.settle().await.unwrap(), Some(2));
    assert_eq!(writer.append("two").await.unwrap(), 3);

    faults.on(Call::Create).always().fault(Fault::Conflict);
    assert!(writer.append("three").await.is_err());
    faults.heal();
    assert_eq!(writer.append("four").await.unwrap(), 5);
    let bodies: Vec<_> = all(&log, 1).await.into_iter().map(|(_, _, body)| body).collect();
    assert_eq!(bodies, ["one", "two", "three", "four"]);
}

#[tokio::test(start_paused = true)]
async fn an_append_that_clearly_failed_is_forgotten() {
    let (faults, store) = faulty();
    let log = log_of(&store);
    let mut writer = log.open(e(1)).await.unwrap();
    for fault in [Fault::Denied, Fault::FailBefore] {
        faults.on(Call::Create).always().fault(fault);
        let error = writer.append("no").await.unwrap_err();
        assert!(!error.may_have_happened(), "{error}");
        faults.heal();
        assert_eq!(writer.settle().await.unwrap(), None);
    }
    assert_eq!(writer.append("yes").await.unwrap(), 2);
    let mut writer = object_of(&store).open(e(1)).await.unwrap();
    faults.on(Call::Replace).fault(Fault::Denied);
    let error = writer.write("no").await.unwrap_err();
    assert!(!error.may_have_happened(), "{error}");
    writer.write("yes").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_the_writer_usable() {
    let (faults, store) = faulty();
    let log = log_of(&store);
    let mut writer = log.open(e(1)).await.unwrap();
    let mut object = object_of(&store).open(e(1)).await.unwrap();
    for fault in [Fault::Hang, Fault::HangAfter] {
        faults.on(Call::Create).fault(fault);
        assert!(within(secs(1), writer.append("dropped")).await.is_none());
        assert!(writer.settle().await.unwrap().is_some());
        faults.on(Call::Replace).fault(fault);
        assert!(within(secs(1), object.write("dropped")).await.is_none());
        object.write("next").await.unwrap();
    }
    assert_eq!(writer.append("next").await.unwrap(), 4);
}

/// Killed between raising the floor and deleting: the next trim deletes what was left.
#[tokio::test(start_paused = true)]
async fn a_trim_that_was_killed_is_finished_by_the_next() {
    let (faults, store) = faulty();
    let log = log_of(&store);
    let mut writer = log.open(e(1)).await.unwrap();
    for _ in 0..5 {
        writer.append("x").await.unwrap();
    }
    faults.on(Call::Delete).fault(Fault::Denied);
    assert!(log.trim(4).await.is_err());
    assert_eq!(log.oldest().await.unwrap(), 4, "nobody reads below any more");
    log.trim(1).await.unwrap();
    let page = faults.inner().list("log/", "", 99).await.unwrap();
    let keys: Vec<_> = page.entries.iter().map(|entry| &entry.key[entry.key.len() - 3..]).collect();
    assert_eq!(keys, ["001", "004", "005", "006", "rim"], "the claim, the rest, the marker");
}

/// An opened log whose end is deleted by hand, and an object: told, and never begun again.
#[tokio::test]
async fn what_was_deleted_by_hand_is_told() {
    let (faults, store) = faulty();
    let log = log_of(&store);
    log.open(e(1)).await.unwrap().append("x").await.unwrap();
    let keys = ["log/00000000000000000001", "log/00000000000000000002"].map(str::to_owned);
    faults.inner().delete(keys.to_vec()).await.unwrap();
    let gone = |error: FencingError| match error {
        FencingError::Failed(error) => assert_eq!(error.kind(), tenure::ErrorKind::NewestDeleted),
        other => panic!("{other}"),
    };
    gone(log.open(e(2)).await.unwrap_err());
    let mut writer = object_of(&store).open(e(1)).await.unwrap();
    let gate = gate_of(&store);
    gate.admit(e(1)).await.unwrap();
    faults.inner().delete(vec!["o".to_owned(), "g".to_owned()]).await.unwrap();
    gone(writer.write("x").await.unwrap_err());
    gone(gate.admit(e(1)).await.unwrap_err());
    gone(gate.admit(e(2)).await.unwrap_err());
}
