//! Lost responses, refusals without a reason, and failures of the store. The guards read the object
//! back to learn the effect of a request, or report the effect as unknown.

use std::time::Duration;

use super::*;
use tenure::store::Capabilities;
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{millis, timed, wait, within};
use tenure_testkit::write_faults::WRITE_FAULTS;

fn faulty() -> (FaultStore, Arc<dyn Store>) {
    let store = FaultStore::new(Arc::new(MemoryStore::new()));
    (store.clone(), Arc::new(store))
}

#[tokio::test(start_paused = true)]
async fn each_call_of_a_writer_succeeds_after_one_fault() {
    for fault in WRITE_FAULTS {
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
async fn each_call_of_a_gate_succeeds_after_one_fault() {
    for fault in WRITE_FAULTS {
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

/// Makes the calls of the guards one after another. During each call, all requests of one kind have
/// this fault. Returns the name of each call, and the time until it failed.
async fn times_of_failures(fault: Fault) -> Vec<(&'static str, Duration)> {
    let (faults, store) = faulty();
    let (gate, object, log) = (gate_of(&store), object_of(&store), log_of(&store));
    let mut writer = object.open(e(1)).await.unwrap();
    let mut log_writer = log.open(e(1)).await.unwrap();
    for _ in 0..3 {
        log_writer.append("x").await.unwrap();
    }
    let mut times = Vec::new();
    macro_rules! fails {
        ($name:literal, $call:expr, $request:expr) => {
            $call.always().fault(fault);
            let (took, outcome) = timed($request).await;
            assert!(outcome.is_err(), "{}", $name);
            faults.heal();
            times.push(($name, took));
        };
    }
    fails!("a gate reads", faults.on(Call::Get), gate.admit(e(1)));
    fails!("a gate writes", faults.on(Call::Create), gate.admit(e(1)));
    fails!("a gate is inspected", faults.on(Call::Get), gate.inspect());
    let shown = gate.inspect().await.unwrap();
    fails!("a gate is reset", faults.on(Call::Create), shown.reset(e(1)));
    fails!("an object is read", faults.on(Call::Get), object.open(e(1)));
    fails!("an object is claimed", faults.on(Call::Replace), object.open(e(1)));
    fails!("an object is written", faults.on(Call::Replace), writer.write("x"));
    fails!("a log is claimed", faults.on(Call::List), log.open(e(1)));
    fails!("a log is appended to", faults.on(Call::Create), log_writer.append("x"));
    fails!("a log is listed", faults.on(Call::List), log.latest());
    fails!("the marker is read", faults.on(Call::Get).key("trim"), log.trim(2));
    fails!("the marker is read again", faults.on(Call::Get).key("trim").skip(1), log.trim(2));
    fails!("the marker is written", faults.on(Call::Create).key("trim"), log.trim(2));
    times
}

/// The pauses between the six attempts are 50, 100, 200, 400 and 800 ms. Half of each pause is
/// random.
#[tokio::test(start_paused = true)]
async fn the_pauses_between_attempts_increase() {
    for _ in 0..5 {
        for (call, took) in times_of_failures(Fault::FailBefore).await {
            assert!(took >= millis(775) && took < millis(1_550 + 5), "{call}: {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_returned_immediately() {
    for (call, took) in times_of_failures(Fault::Denied).await {
        assert_eq!(took, Duration::ZERO, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_may_have_happened_if_the_read_back_fails() {
    for fault in [Fault::FailBefore, Fault::Denied] {
        let (faults, store) = faulty();
        let mut writer = object_of(&store).open(e(1)).await.unwrap();
        faults.on(Call::Replace).always().fault(Fault::Refuse);
        faults.on(Call::Get).always().fault(fault);
        let (took, outcome) = timed(writer.write("x")).await;
        assert!(outcome.unwrap_err().may_have_happened(), "{fault:?}");
        assert_eq!(took.is_zero(), fault == Fault::Denied, "{fault:?}: {took:?}");
    }
}

/// A client that may send each write twice.
#[derive(Debug)]
struct SendsTwice(MemoryStore);

impl Layer for SendsTwice {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_may_send_twice(true)
    }
}

/// The store may refuse the second attempt because a newer leader has claimed the object. But the
/// first attempt may have taken effect before this claim.
#[tokio::test]
async fn a_refused_write_of_a_client_with_retries_may_have_happened() {
    let store: Arc<dyn Store> = Arc::new(Layered(SendsTwice(MemoryStore::new())));
    let object = object_of(&store);
    let mut writer = object.open(e(1)).await.unwrap();
    object.open(e(2)).await.unwrap();
    let error = writer.write("x").await.unwrap_err();
    assert_eq!(error.stale(), Some(Stale::new(e(1), e(2))), "{error}");
    assert!(error.may_have_happened(), "{error}");
}

/// After a write without an effect, the writer still remembers an earlier write with an unknown
/// effect.
#[tokio::test(start_paused = true)]
async fn a_write_of_unknown_effect_is_recognised_after_a_failed_write() {
    let (faults, store) = faulty();
    let mut writer = object_of(&store).open(e(1)).await.unwrap();
    faults.on(Call::Replace).always().fault(Fault::Late(secs(100)));
    assert!(writer.write("one").await.unwrap_err().may_have_happened());
    faults.heal();
    faults.on(Call::Replace).fault(Fault::Denied);
    assert!(!writer.write("two").await.unwrap_err().may_have_happened());
    wait(secs(200)).await;
    writer.write("three").await.unwrap();
}

#[tokio::test]
async fn an_object_that_returns_to_an_older_epoch_is_an_unsafe_store() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let object = object_of(&store);
    let read = async || match store.get("o", None, 9_999).await.unwrap() {
        GetOutcome::Found(object) => object,
        other => panic!("{other:?}"),
    };
    object.open(e(1)).await.unwrap();
    let old = read().await.body;
    let mut writer = object.open(e(2)).await.unwrap();
    store.replace("o", old, read().await.etag).await.unwrap();
    let FencingError::Failed(error) = writer.write("x").await.unwrap_err() else { panic!() };
    assert_eq!(error.kind(), tenure::ErrorKind::UnsafeStore, "{error}");
}

#[tokio::test]
async fn an_inconsistent_trim_marker_is_an_error() {
    let (faults, store) = faulty();
    let log = log_of(&store);
    let mut writer = log.open(e(1)).await.unwrap();
    writer.append("x").await.unwrap();
    for bad in ["\"floor\":2,\"swept\":5}\n", "\"floor\":5,\"swept\":2}\nmore"] {
        let body = format!("{{\"tenure_log_trim\":1,{bad}");
        faults.inner().create("log/trim", body.into()).await.unwrap();
        let FencingError::Failed(error) = log.trim(2).await.unwrap_err() else { panic!() };
        assert_eq!(error.kind(), tenure::ErrorKind::CorruptRecord, "{error}");
        faults.inner().delete(vec!["log/trim".to_owned()]).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_write_takes_no_effect_after_the_next_write() {
    let (faults, store) = faulty();
    let object = object_of(&store);
    let mut writer = object.open(e(1)).await.unwrap();
    faults.on(Call::Replace).always().fault(Fault::Late(secs(100)));
    let error = writer.write("one").await.unwrap_err();
    assert!(error.may_have_happened(), "{error}");
    faults.heal();
    // During this time the write "one" takes effect. The next write is refused because of "one",
    // and the writer recognises "one" as its own write.
    wait(secs(200)).await;
    assert_eq!(object.read().await.unwrap().unwrap().body.unwrap(), "one");
    // The second attempt of the write "two" also has an unknown effect.
    faults.on(Call::Replace).skip(1).fault(Fault::FailAfter);
    writer.write("two").await.unwrap();
    faults.heal();

    faults.on(Call::Replace).always().fault(Fault::Late(secs(100)));
    assert!(writer.write("three").await.unwrap_err().may_have_happened());
    faults.heal();
    writer.write("four").await.unwrap();
    wait(secs(200)).await;
    assert_eq!(object.read().await.unwrap().unwrap().body.unwrap(), "four");
}

#[tokio::test(start_paused = true)]
async fn an_append_of_unknown_effect_is_finished_before_the_next() {
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

/// The first attempt has an unknown effect, and the later attempts have no effect. So the append
/// may have taken effect, although the error of the last attempt reports no effect.
#[tokio::test(start_paused = true)]
async fn an_append_with_one_unknown_attempt_may_have_happened() {
    let (faults, store) = faulty();
    let log = log_of(&store);
    let mut writer = log.open(e(1)).await.unwrap();
    faults.on(Call::Create).fault(Fault::Late(secs(100)));
    faults.on(Call::Create).always().fault(Fault::FailBefore);
    let error = writer.append("one").await.unwrap_err();
    assert!(error.may_have_happened(), "{error}");
    faults.heal();
    wait(secs(200)).await;
    assert_eq!(writer.append("two").await.unwrap(), 3);
    let bodies: Vec<_> = all(&log, 1).await.into_iter().map(|(_, _, body)| body).collect();
    assert_eq!(bodies, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn an_append_without_an_effect_is_forgotten() {
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

/// The first trim raises the floor, and then fails before it deletes an entry. The next trim must
/// delete the entries.
#[tokio::test(start_paused = true)]
async fn a_killed_trim_is_finished_by_the_next_one() {
    let (faults, store) = faulty();
    let log = log_of(&store);
    let mut writer = log.open(e(1)).await.unwrap();
    for _ in 0..5 {
        writer.append("x").await.unwrap();
    }
    faults.on(Call::Delete).fault(Fault::Denied);
    assert!(log.trim(4).await.is_err());
    assert_eq!(log.oldest().await.unwrap(), 4, "the floor is raised before the deletion");
    log.trim(1).await.unwrap();
    let page = faults.inner().list("log/", "", 99).await.unwrap();
    let keys: Vec<_> = page.entries.iter().map(|entry| &entry.key[entry.key.len() - 3..]).collect();
    assert_eq!(
        keys,
        ["001", "004", "005", "006", "rim"],
        "the claim, the entries from 4 on, and the marker"
    );
}

/// An object, a gate and all objects of a log are deleted by other means. The guards report the
/// deletion, and create nothing.
#[tokio::test]
async fn deletions_by_other_means_are_errors() {
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
