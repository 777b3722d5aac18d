//! Tests calls outside of a Tokio runtime, and in a runtime without timers. Such a call sends no
//! request, and its error names the required runtime.

use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::executor::block_on;
use tenure::store::{MemoryStore, Store};
use tenure::{Compactor, Election, Epoch, Error, ErrorKind, Leadership};
use tenure_fencing::{
    DurableGate, FencedLog, FencedObject, FencingError, GateState, Generations, LogWriter,
    ObjectWriter,
};
use tenure_history::Reader;

use tenure_testkit::fault_store::FaultStore;

/// The results of calls that ran in a runtime with timers.
struct Opened {
    log: LogWriter,
    object: ObjectWriter,
    gate: GateState,
    led: Vec<Leadership>,
}

async fn open(store: &Arc<dyn Store>) -> Opened {
    let log = FencedLog::new(store.clone(), "opened/log").unwrap();
    let mut led = Vec::new();
    for prefix in ["a", "b", "c"] {
        let election = Election::builder(store.clone(), prefix).build().unwrap();
        led.push(election.campaign().await.unwrap());
    }
    Opened {
        log: log.open(Epoch::FIRST).await.unwrap(),
        object: FencedObject::new(store.clone(), "opened/object").open(Epoch::FIRST).await.unwrap(),
        gate: DurableGate::new(store.clone(), "opened/gate").inspect().await.unwrap(),
        led,
    }
}

/// Makes every public async call that sends requests. Returns their errors.
async fn every_call(store: &Arc<dyn Store>, opened: &mut Opened) -> Vec<Error> {
    let election = Election::builder(store.clone(), "app/leader").build().unwrap();
    let compactor = Compactor::builder(store.clone(), "app/leader").build().unwrap();
    let log = FencedLog::new(store.clone(), "log").unwrap();
    let object = FencedObject::new(store.clone(), "object");
    let gate = DurableGate::new(store.clone(), "gate");
    let generations = Generations::new(store.clone(), "folders/").unwrap();
    let reader = Reader::new(store.clone(), "app/leader").unwrap();
    let [first, second, third] = [(); 3].map(|()| opened.led.pop().unwrap());
    vec![
        compactor.run_once().await.expect_err("no runtime"),
        compactor.run_until(ready(()), |_| {}).await.expect_err("no runtime"),
        compactor.run_every(Duration::from_secs(1), pending()).await.expect_err("no runtime"),
        failed(log.open(Epoch::FIRST).await),
        failed(opened.log.append("x").await),
        failed(opened.log.settle().await),
        failed(opened.log.latest().await),
        failed(object.open(Epoch::FIRST).await),
        failed(opened.object.write("x").await),
        failed(log.latest().await),
        failed(log.trim(1).await),
        failed(log.read_from(1).next().await.expect("an error")),
        log.oldest().await.expect_err("no runtime"),
        object.read().await.expect_err("no runtime"),
        failed(gate.admit(Epoch::FIRST).await),
        gate.newest().await.expect_err("no runtime"),
        gate.inspect().await.expect_err("no runtime"),
        opened.gate.reset(Epoch::FIRST).await.expect_err("no runtime"),
        generations.newest().await.expect_err("no runtime"),
        reader.read().await.expect_err("no runtime"),
        reader.read_with(|_, _| {}).await.expect_err("no runtime"),
        election.newest_epoch().await.expect_err("no runtime"),
        election.campaign().await.expect_err("no runtime"),
        election.try_campaign().await.expect_err("no runtime"),
        election.leader().await.expect_err("no runtime"),
        election.snapshot().await.expect_err("no runtime"),
        election.depose(None).await.expect_err("no runtime"),
        election.restore(Epoch::FIRST, Duration::ZERO).await.expect_err("no runtime"),
        election.observe().next().await.expect("an error").expect_err("no runtime"),
        first.proclaim("x").await.expect_err("no runtime"),
        second.resign().await.expect_err("no runtime"),
        third.resign_to("b").await.expect_err("no runtime"),
    ]
}

fn failed<T>(result: Result<T, FencingError>) -> Error {
    match result {
        Err(FencingError::Failed(error)) => error,
        _ => panic!("no runtime"),
    }
}

fn election() -> (Arc<MemoryStore>, Election) {
    let store = Arc::new(MemoryStore::new());
    let election = Election::builder(store.clone(), "app/leader").build().unwrap();
    (store, election)
}

/// Asserts that all calls fail and send no request. `opened` has values from another runtime, which
/// has timers but does not run during the calls.
fn refused_everywhere(why: &str, run: impl FnOnce(&Arc<dyn Store>, &mut Opened) -> Vec<Error>) {
    let whole = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let faults = FaultStore::new(Arc::new(MemoryStore::new()));
    let store: Arc<dyn Store> = Arc::new(faults.clone());
    let mut opened = whole.block_on(open(&store));
    faults.take_calls();
    for error in run(&store, &mut opened) {
        assert_eq!(error.kind(), ErrorKind::NoRuntime, "{error}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(!error.may_have_happened(), "{error}");
    }
    assert_eq!(faults.take_calls(), [], "a request was sent");
}

#[test]
fn regression_calls_without_a_runtime_send_no_request() {
    refused_everywhere("runs outside a runtime", |store, opened| {
        block_on(every_call(store, opened))
    });
}

#[test]
fn regression_calls_without_timers_send_no_request() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    refused_everywhere("enable_time", |store, opened| runtime.block_on(every_call(store, opened)));
}

#[cfg(unix)]
#[test]
fn regression_a_directory_without_a_runtime_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let store = tenure::store::DirStore::open(dir.path()).unwrap();
    let error = block_on(store.create("a", "x".into())).unwrap_err();
    assert_eq!(error.kind(), tenure::store::StoreErrorKind::Invalid);
    assert_eq!(error.determinacy(), tenure::store::Determinacy::Determinate);
    assert!(block_on(store.get("a", None, 9)).unwrap_err().to_string().contains("Tokio runtime"));
}

/// An observer's stream ends with the error.
#[test]
fn the_stream_of_an_observer_without_a_runtime_ends() {
    let (_, election) = election();
    let seen: Vec<_> = block_on(election.observe().collect());
    assert_eq!(seen.len(), 1);
}
