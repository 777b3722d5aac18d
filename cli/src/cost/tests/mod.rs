//! The arithmetic beside the requests of the real driver, in hours of paused time, and beside what
//! the documentation says.

mod defaults;
mod group;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::StreamExt as _;
use tenure::store::{MemoryStore, Store, StoreError};
use tenure::{Clock as _, Compactor, Election};
use tenure_testkit::fault_store::Call;
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{TestClock, process, secs, wait};

use super::*;

const HOUR: Duration = Duration::from_secs(60 * 60);
const LAYOUTS: [Layout; 2] = [Layout::EpochFiles, Layout::SingleObject];

/// Counts what one process sends; clones are the same process.
#[derive(Debug, Clone, Default)]
struct Counting {
    memory: MemoryStore,
    counts: Arc<[AtomicU64; 5]>,
}

impl Counting {
    /// Another process on the same store.
    fn other(&self) -> Counting {
        Counting { memory: self.memory.clone(), counts: Arc::default() }
    }

    fn count(&self, kind: usize, by: u64) {
        self.counts[kind].fetch_add(by, Ordering::Relaxed);
    }

    /// What was sent since the last call.
    fn take(&self) -> Requests {
        let take = |kind: usize| self.counts[kind].swap(0, Ordering::Relaxed) as f64;
        Requests {
            writes: take(0),
            lists: take(1),
            reads: take(2),
            deletes: take(3),
            deleted_keys: take(4),
        }
    }
}

#[async_trait]
impl Layer for Counting {
    fn inner(&self) -> &dyn Store {
        &self.memory
    }

    async fn before(&self, call: Call) {
        let kind = match call {
            Call::Create | Call::Replace => 0,
            Call::List => 1,
            Call::Get => 2,
            Call::Delete => 3,
        };
        self.count(kind, 1);
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.count(4, keys.len() as u64);
        self.memory.delete(keys).await
    }
}

fn shape(layout: Layout) -> Shape {
    Shape {
        elections: 1,
        layout,
        candidates: 3,
        observers: 1,
        validity: secs(30),
        poll: secs(5),
        elections_per_day: 1.0,
        compactions_per_day: 24.0,
    }
}

fn election(store: &Counting, shape: &Shape, clock: &TestClock, seed: u64) -> Election {
    one_of(store, shape, clock, seed, "app")
}

fn one_of(store: &Counting, shape: &Shape, clock: &TestClock, seed: u64, prefix: &str) -> Election {
    Election::builder(Arc::new(Layered(store.clone())), prefix)
        .layout(shape.layout)
        .validity(shape.validity)
        .poll_interval(shape.poll)
        .check_store(false)
        .process(process(clock, seed))
        .build()
        .expect("settings that fit")
}

/// The same but for what is under way at either end.
fn same(role: &str, shape: &Shape, counted: Requests, expected: Requests) {
    let kinds = |requests: Requests| {
        let Requests { writes, lists, reads, deletes, deleted_keys } = requests;
        [writes, lists, reads, deletes, deleted_keys]
    };
    for (counted, expected) in kinds(counted).into_iter().zip(kinds(expected)) {
        let close = (counted - expected).abs() <= 1.0;
        assert!(close, "{role}, {shape:?}: {counted} counted, {expected} expected");
    }
}

#[tokio::test(start_paused = true)]
async fn the_roles_send_what_the_arithmetic_says() {
    let time = HOUR * 5 / 2;
    for layout in LAYOUTS {
        for (validity, poll) in [(30, 5), (12, 2), (60, 60)] {
            let shape = Shape { validity: secs(validity), poll: secs(poll), ..shape(layout) };
            let clock = TestClock::new();
            let [leader, follower, observer] = {
                let leader = Counting::default();
                [leader.clone(), leader.other(), leader.other()]
            };
            let _leading = election(&leader, &shape, &clock, 1).campaign().await.expect("elected");
            let following = election(&follower, &shape, &clock, 2);
            let following = tokio::spawn(async move { following.campaign().await.map(drop) });
            let mut changes = election(&observer, &shape, &clock, 3).observe();
            let observing = tokio::spawn(async move { while changes.next().await.is_some() {} });
            wait(secs(1)).await;
            for process in [&leader, &follower, &observer] {
                let _ = process.take();
            }
            wait(time).await;
            let expected = shape.requests(time);
            same("leader", &shape, leader.take(), expected.leader);
            same("follower", &shape, follower.take(), expected.follower);
            same("observer", &shape, observer.take(), expected.observer);
            following.abort();
            observing.abort();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn elections_in_one_store_send_what_the_arithmetic_says() {
    let candidates = 2;
    let none = Shape { elections_per_day: 0.0, compactions_per_day: 0.0, ..shape(LAYOUTS[0]) };
    for layout in LAYOUTS {
        let shape = Shape { elections: 4, layout, candidates, ..none };
        let (clock, store) = (TestClock::new(), Counting::default());
        let mut running = Vec::new();
        for number in 0..u64::from(shape.elections) {
            let one =
                |seed| one_of(&store, &shape, &clock, number * 10 + seed, &format!("app-{number}"));
            let (leader, follower, mut changes) = (one(1), one(2), one(3).observe());
            let leading = leader.campaign().await.expect("elected");
            running.push(tokio::spawn(async move {
                let _ = follower.campaign().await;
                drop(leading);
            }));
            running.push(tokio::spawn(async move { while changes.next().await.is_some() {} }));
        }
        wait(secs(1)).await;
        let _ = store.take();
        wait(HOUR).await;
        let (counted, expected) = (store.take(), shape.requests(HOUR).all);
        running.iter().for_each(|process| process.abort());
        eprintln!("{layout:?}: {counted:?} of {expected:?}");
        for (counted, expected) in
            [(counted.writes, expected.writes), (counted.reads, expected.reads)]
        {
            // But for what is under way at either end, of less than half of the elections.
            let within = 0.4 * f64::from(shape.elections);
            assert!((counted - expected).abs() <= within, "{counted}, {expected} expected");
        }
        assert_eq!((counted.lists, counted.deletes), (0.0, 0.0));
    }
}

/// Leaders that die the moment they are elected: all else that is sent is following.
#[tokio::test(start_paused = true)]
async fn elections_send_no_more_than_the_arithmetic_says_and_not_much_less() {
    const TAKEOVERS: u32 = 20;
    for layout in LAYOUTS {
        let shape = shape(layout);
        let clock = TestClock::new();
        let store = Counting::default();
        drop(election(&store, &shape, &clock, 99).campaign().await.expect("elected"));
        let (won, mut wins) = tokio::sync::mpsc::unbounded_channel();
        let candidates: Vec<_> = (0..u64::from(shape.candidates))
            .map(|seed| {
                let election = election(&store, &shape, &clock, seed);
                let won = won.clone();
                tokio::spawn(async move {
                    loop {
                        drop(election.campaign().await.expect("elected"));
                        let _ = won.send(());
                    }
                })
            })
            .collect();
        wins.recv().await.expect("somebody wins");
        let _ = store.take();
        let before = clock.now().boot;
        for _ in 0..TAKEOVERS {
            wins.recv().await.expect("somebody wins");
        }
        let took = clock.now().boot - before;
        let counted = store.take();
        candidates.iter().for_each(|candidate| candidate.abort());
        let most = Requests::default().plus(f64::from(TAKEOVERS), shape.election());
        // All three follow until the lapse.
        let polls = shape.requests(took).follower.reads * 3.0;
        let least = f64::from(TAKEOVERS) * if layout == Layout::EpochFiles { 2.0 } else { 1.0 };
        eprintln!("{TAKEOVERS} takeovers, {layout:?}: {counted:?} of {most:?} and {polls} polls");
        assert!((least..=most.writes).contains(&counted.writes), "{counted:?} of {most:?}");
        assert!(counted.lists <= most.lists, "{counted:?} of {most:?}");
        assert!(counted.reads <= polls + most.reads, "{counted:?} of {most:?} and {polls}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_compactor_sends_what_the_arithmetic_says() {
    let shape = shape(Layout::EpochFiles);
    let clock = TestClock::new();
    let store = Counting::default();
    let by = Counting { counts: Arc::default(), ..store.clone() };
    let compactor = Compactor::builder(Arc::new(Layered(by.clone())), "app");
    let compactor = compactor.keep_epochs(1).min_age(Duration::ZERO).build().expect("settings");
    let leader = election(&store, &shape, &clock, 1);
    leader.campaign().await.expect("elected").resign().await.expect("resigned");
    for run in 0..24 {
        if run == 0 {
            leader.campaign().await.expect("elected").resign().await.expect("resigned");
        }
        compactor.run_once().await.expect("it compacts");
    }
    same("compactor", &shape, by.take(), shape.requests(DAY).compactor);
}

/// As it is deployed: it keeps ten epochs and an hour, and runs each hour.
#[tokio::test(start_paused = true)]
async fn a_compactor_with_its_defaults_sends_what_the_arithmetic_says() {
    for elections_per_day in [0_u32, 8, 24, 96] {
        let shape = Shape {
            elections_per_day: f64::from(elections_per_day),
            compactions_per_day: 24.0,
            ..shape(Layout::EpochFiles)
        };
        let clock = TestClock::new();
        // The ages of objects pass in the test's time.
        let memory = MemoryStore::with_clock(Arc::new(clock.clone()));
        let store = Counting { memory, ..Counting::default() };
        let by = store.other();
        let compactor = Compactor::builder(Arc::new(Layered(by.clone())), "app");
        let compactor = compactor.build().expect("settings");
        let leader = election(&store, &shape, &clock, 1);
        // The first day fills up what is kept.
        for day in 0..3 {
            for quarter in 0..96 {
                if elections_per_day > 0 && quarter % (96 / elections_per_day) == 0 {
                    leader.campaign().await.expect("elected").resign().await.expect("resigned");
                }
                wait(secs(15 * 60)).await;
                if quarter % 4 == 3 {
                    compactor.run_once().await.expect("it compacts");
                }
            }
            let (counted, expected) = (by.take(), shape.requests(DAY).compactor);
            eprintln!("{elections_per_day} a day, day {day}: {counted:?} of {expected:?}");
            if day > 1 {
                assert_eq!(counted, expected);
            }
        }
    }
}

/// Sealed epochs, so many, from the first on.
async fn epochs(store: &Counting, from: u64, to: u64) {
    let body = br#"{"expired":true}"#;
    for epoch in from..=to {
        let key = format!("app/lock-{epoch:010}.json");
        let created = store.memory.create(&key, body.to_vec().into()).await;
        created.expect("there is room in memory");
    }
}

/// More epochs between two runs than a page of a listing has, or a deletion takes.
#[tokio::test(start_paused = true)]
async fn regression_a_compactor_among_thousands_of_epochs_sends_what_the_arithmetic_says() {
    for (a_run, hourly) in [(999_u32, 24.0), (1_001, 24.0), (2_500, 24.0), (7_400, 2.0)] {
        let shape = Shape {
            elections_per_day: f64::from(a_run) * hourly,
            compactions_per_day: hourly,
            ..shape(Layout::EpochFiles)
        };
        let clock = TestClock::new();
        let memory = MemoryStore::with_clock(Arc::new(clock.clone()));
        let store = Counting { memory, ..Counting::default() };
        let by = store.other();
        let compactor = Compactor::builder(Arc::new(Layered(by.clone())), "app");
        let compactor = compactor.build().expect("settings");
        let between = DAY.div_f64(hourly);
        let in_the_last_hour = f64::from(a_run) / between.as_secs_f64() * 3_600.0;
        let mut newest = 0;
        // What the first run finds does not stay the same.
        for run in 0..4 {
            let _ = by.take();
            let all = u64::from(a_run);
            let young = in_the_last_hour.min(all as f64) as u64;
            epochs(&store, newest + 1, newest + all - young).await;
            wait(between.saturating_sub(secs(3_599))).await;
            epochs(&store, newest + all - young + 1, newest + all).await;
            newest += all;
            wait(secs(3_599)).await;
            compactor.run_once().await.expect("it compacts");
            let (counted, expected) = (by.take(), shape.requests(between).compactor);
            eprintln!("{a_run} in a run, run {run}: {counted:?} of {expected:?}");
            if run > 0 {
                same("compactor", &shape, counted, expected);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_search_among_thousands_of_epochs_sends_no_more_than_the_arithmetic_says() {
    for many in [900_u32, 1_100, 2_001, 2_999, 4_003, 9_500] {
        // Half of them since the last compaction, and half too young for that one.
        let shape = Shape { elections_per_day: f64::from(many) * 12.0, ..shape(LAYOUTS[0]) };
        let store = Counting::default();
        epochs(&store, 1, many.into()).await;
        let found = election(&store, &shape, &TestClock::new(), 1).snapshot().await;
        let newest = found.expect("it is found").leader.map(|leader| leader.epoch.get());
        assert_eq!(newest, Some(many.into()));
        let (counted, most) = (store.take().lists, 1.0 + shape.search());
        eprintln!("{many} epochs: {counted} listings of {most}");
        assert!(counted <= most, "{many}: {counted} of {most}");
        // The others may be found sooner.
        if many <= 2_001 {
            assert!(counted >= most * 0.75, "{many}: {counted} of {most}");
        }
    }
}

#[test]
fn counts_are_grouped() {
    assert_eq!([0.0, 999.4, 1_000.0, 1_234_567.0].map(grouped), ["0", "999", "1,000", "1,234,567"]);
}
