//! Tests that run whole probes on correct and faulty stores in memory.

use tenure::Compactor;
use tenure::store::{MemoryStore, Store};
use tenure_fencing::Generations;
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::layer::Layered;
use tenure_testkit::one_write_a_second::OneWriteASecond;

use super::report::Verdict;
use super::*;

const ROUNDS: u32 = 5;

fn rounds() -> Bounds {
    let enough = Arc::default();
    Bounds { rounds: Some(ROUNDS), span: None, enough, longest: 200 << 10 }
}

struct Probed {
    report: ProbeReport,
    left: Vec<String>,
}

/// Probes a store, deletes the keys of the probe, and makes the report.
async fn probed(store: Arc<dyn Store>, layout: LayoutArg) -> Probed {
    let meter = Arc::new(Meter::new(store, "app/", CancellationToken::new()));
    let asked = ask_all(&meter, &rounds(), layout).await.expect("it comes to its end");
    let left = meter.clean_up().await;
    let report = ProbeReport::new(&meter, asked, Default::default(), left.clone(), None);
    Probed { report, left }
}

impl Probed {
    /// Returns the names of the promises that the store has broken.
    fn broken(&self) -> Vec<&str> {
        let promises = self.report.promises.iter();
        promises.filter(|one| one.kept == PromiseStatus::No).map(|one| one.name).collect()
    }
}

async fn faulty(order: impl FnOnce(&FaultStore)) -> Probed {
    let store = FaultStore::new(Arc::new(MemoryStore::new()));
    order(&store);
    probed(Arc::new(store), LayoutArg::EpochFiles).await
}

/// This store accepts one write per second and key. Before the fix, the five attempts to check a
/// promise followed each other without pauses, so no promise had a verdict. The races still have no
/// verdict, because the store admits only one writer of each race.
#[tokio::test(start_paused = true)]
async fn regression_promises_have_a_verdict_at_one_write_per_second() {
    let store = OneWriteASecond::new(Arc::new(MemoryStore::new()));
    let probed = probed(Arc::new(Layered(store)), LayoutArg::EpochFiles).await;
    let promises = probed.report.promises.iter();
    let kept = promises.filter(|one| one.kept == PromiseStatus::Yes);
    let kept: Vec<_> = kept.map(|one| one.name).collect();
    assert!(kept.len() >= 9, "{kept:?}");
    assert_eq!((probed.broken().len(), probed.left.len()), (0, 0));
}

/// Before the fix, if the store answered DELETE with 405, the probe exited with 70 and without a
/// verdict.
#[tokio::test(start_paused = true)]
async fn regression_a_store_that_does_not_delete_is_inconclusive() {
    let memory = MemoryStore::new();
    let store = FaultStore::new(Arc::new(memory.clone()));
    store.on(Call::Delete).always().fault(Fault::Unsupported);
    let probed = probed(Arc::new(store.clone()), LayoutArg::EpochFiles).await;
    assert_eq!(probed.report.verdict, Verdict::Inconclusive);
    assert_eq!(probed.report.exit_code(), 69);
    assert!(probed.report.why.contains("does not delete"), "{}", probed.report.why);
    assert!(probed.report.for_people().contains("501 NotImplemented"));
    let json = serde_json::to_value(&probed.report).expect("JSON");
    assert_eq!(json["verdict"], "inconclusive");
    let calls = store.take_calls();
    assert!(
        !calls.contains(&Call::Create),
        "the probe writes no key that it could not delete: {calls:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_report_names_ignored_conditions() {
    let creates = faulty(|store| store.on(Call::Create).always().fault(Fault::IgnoreCondition));
    let creates = creates.await;
    assert_eq!((creates.report.verdict, creates.report.exit_code()), (Verdict::Unsafe, 70));
    assert_eq!(creates.broken(), ["create", "delete-create", "create-race"]);
    assert!(creates.report.why.contains("ignores If-None-Match"), "{}", creates.report.why);
    let text = creates.report.for_people();
    assert!(text.contains(" rounds of 32 writers, ended by a fault, long writes"), "{text}");
    let replaces = faulty(|store| store.on(Call::Replace).always().fault(Fault::IgnoreCondition));
    let replaces = replaces.await;
    assert_eq!(replaces.broken(), ["replace", "delete-create", "replace-race"]);
    assert!(replaces.report.why.contains("ignores If-Match"), "{}", replaces.report.why);
    assert_eq!((creates.left.len(), replaces.left.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_report_names_a_condition_that_is_never_met() {
    let probed = faulty(|store| store.on(Call::Replace).always().fault(Fault::Refuse)).await;
    assert_eq!(probed.report.verdict, Verdict::Unsafe);
    assert!(probed.broken().contains(&"replace"), "{:?}", probed.broken());
}

#[tokio::test(start_paused = true)]
async fn unordered_listings_are_unsafe_only_for_epoch_files() {
    for fault in [Fault::Reverse, Fault::IgnoreAfter] {
        let store = FaultStore::new(Arc::new(MemoryStore::new()));
        store.on(Call::List).always().fault(fault);
        let probed_files = probed(Arc::new(store.clone()), LayoutArg::EpochFiles).await;
        assert_eq!(probed_files.report.verdict, Verdict::Unsafe, "{fault:?}");
        assert!(probed_files.broken().contains(&"list-after"), "{:?}", probed_files.broken());
        let single = probed(Arc::new(store), LayoutArg::SingleObject).await;
        assert_eq!(single.report.verdict, Verdict::NoFaultSeen, "{}", single.report.for_people());
        assert!(single.report.for_people().contains("not needed in this layout"));
    }
}

#[tokio::test(start_paused = true)]
async fn unclear_answers_are_retried_and_reported() {
    let probed = faulty(|store| {
        store.on(Call::Create).times(2).fault(Fault::FailAfter);
        store.on(Call::Create).key("replace-race").times(2).fault(Fault::Conflict);
        store.on(Call::Replace).skip(4).times(1).fault(Fault::Conflict);
        store.on(Call::Get).skip(9).times(2).fault(Fault::FailBefore);
    })
    .await;
    assert_eq!(probed.report.verdict, Verdict::NoFaultSeen, "{}", probed.report.for_people());
    assert!(probed.report.for_people().contains("unclear answers, retried"));
    assert_eq!(probed.left.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_with_few_clear_answers_is_inconclusive() {
    // The faults are a 409, a 500 after the write took effect, a 500 without an effect, and no
    // response.
    for fault in [Fault::Conflict, Fault::FailAfter, Fault::FailBefore, Fault::Hang] {
        let probed = faulty(|store| store.on(Call::Create).always().fault(fault)).await;
        assert_eq!(probed.report.verdict, Verdict::Inconclusive, "{fault:?}");
        assert_eq!(probed.report.exit_code(), 69);
        assert_eq!((probed.broken().len(), probed.left.len()), (0, 0), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unclear_answers_in_a_race_do_not_count() {
    // The store carries out the first 20 creates in the races, but answers each of them with the
    // status 500.
    let store = FaultStore::new(Arc::new(MemoryStore::new()));
    store.on(Call::Create).key("create-race").times(20).fault(Fault::FailAfter);
    let probed = probed(Arc::new(store), LayoutArg::EpochFiles).await;
    let race = probed.report.promises.iter().find_map(|one| one.race.as_ref()).expect("a race");
    assert_eq!((race.done, race.refused, race.unknown), (6, 134, 20));
    assert_eq!((race.undecided, race.broken), (0, 0), "a read shows the winner of the first round");
    assert_eq!(probed.report.verdict, Verdict::NoFaultSeen);
}

#[tokio::test(start_paused = true)]
async fn denied_access_ends_the_probe_after_a_cleanup() {
    let memory = MemoryStore::new();
    let store = FaultStore::new(Arc::new(memory.clone()));
    store.on(Call::Replace).skip(6).always().fault(Fault::Denied);
    let meter = Arc::new(Meter::new(Arc::new(store), "app/", CancellationToken::new()));
    let ends = ask_all(&meter, &rounds(), LayoutArg::EpochFiles).await;
    let Err(CheckFailure::Request(error)) = ends else { panic!("{ends:?}") };
    assert_eq!(failed(&meter, error, &meter.clean_up().await).code, 77);
    assert_eq!(memory.list("", "", 10).await.expect("a listing").entries, []);
}

#[tokio::test(start_paused = true)]
async fn a_probe_without_the_right_to_delete_writes_nothing() {
    let memory = MemoryStore::new();
    let store = FaultStore::new(Arc::new(memory.clone()));
    store.on(Call::Delete).always().fault(Fault::Denied);
    let meter = Arc::new(Meter::new(Arc::new(store), "app/", CancellationToken::new()));
    let ends = ask_all(&meter, &rounds(), LayoutArg::EpochFiles).await;
    assert!(matches!(ends, Err(CheckFailure::Request(_))), "{ends:?}");
    assert_eq!(memory.list("", "", 10).await.expect("a listing").entries, []);
}

#[tokio::test(start_paused = true)]
async fn undeleted_objects_are_reported() {
    let memory = MemoryStore::new();
    let store = FaultStore::new(Arc::new(memory.clone()));
    store.on(Call::Delete).always().fault(Fault::Claim);
    let probed = probed(Arc::new(store), LayoutArg::EpochFiles).await;
    assert_eq!((probed.report.verdict, probed.report.exit_code()), (Verdict::Unsafe, 70));
    assert!(probed.broken().contains(&"delete"), "{:?}", probed.broken());
    let left = memory.list("", "", 1_000).await.expect("a listing").entries;
    assert_eq!(probed.left.len(), left.len());
    assert!(probed.report.for_people().contains("could not be deleted, such as app/probe-"));
}

/// Keys that a killed probe has left behind have no effect on elections and compactors.
#[tokio::test(start_paused = true)]
async fn elections_and_compactors_ignore_keys_of_a_probe() {
    for (prefix, layout) in [
        ("", tenure::Layout::EpochFiles),
        ("app", tenure::Layout::EpochFiles),
        ("app", tenure::Layout::SingleObject),
    ] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let stop = CancellationToken::new();
        let meter = Arc::new(Meter::new(Arc::clone(&store), &normalised(prefix), stop));
        ask_all(&meter, &rounds(), LayoutArg::EpochFiles).await.expect("it comes to its end");
        let keys = async || {
            let page = store.list(meter.start(), "", 1_000).await.expect("a listing");
            page.entries.into_iter().map(|entry| entry.key).collect::<Vec<_>>()
        };
        let before = keys().await;
        assert!(before.len() > 20, "{before:?}");
        elected_twice(&store, prefix, layout).await;
        let compactor = Compactor::builder(Arc::clone(&store), prefix).keep_epochs(1);
        let report = compactor.min_age(Duration::ZERO).build().expect("settings").run_once().await;
        let epochs = u64::from(layout == tenure::Layout::EpochFiles);
        assert_eq!(report.expect("it compacts").deleted, epochs);
        let generation = Generations::new(Arc::clone(&store), prefix).expect("a prefix");
        assert_eq!(generation.newest().await.expect("a listing"), None);
        assert_eq!(keys().await, before, "an election deleted keys of the probe");
    }
}

async fn elected_twice(store: &Arc<dyn Store>, prefix: &str, layout: tenure::Layout) {
    for epoch in 1..=2 {
        let election = Election::builder(Arc::clone(store), prefix).layout(layout);
        let election = election.build().expect("settings");
        let leadership = election.campaign().await.expect("elected");
        assert_eq!(leadership.epoch().get(), epoch);
        leadership.resign().await.expect("resigned");
    }
}

#[test]
fn prefixes_are_normalised_as_in_elections() {
    assert_eq!(["", "app", "app/", "a/b"].map(normalised), ["", "app/", "app/", "a/b/"]);
}
