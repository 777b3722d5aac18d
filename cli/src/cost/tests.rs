//! The table compared with the requests of the driver, in hours of paused time.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use tenure::store::{MemoryStore, Store};
use tenure::{Clock as _, Compactor, Election};
use tenure_groups::{Group, GroupCompactor, MembershipEvent};
use tenure_testkit::fault_store::{Call, FaultStore};
use tenure_testkit::time::{TestClock, process, secs, wait};
use tokio::task::JoinSet;

use super::requests::{change, takeover};
use super::*;

const HOUR: Duration = Duration::from_secs(60 * 60);

fn args(options: &str) -> CostArgs {
    use clap::Parser as _;
    let line = ["tenure", "cost"].into_iter().chain(options.split_whitespace());
    match crate::args::Args::try_parse_from(line).map(|args| args.verb) {
        Ok(crate::args::Verb::Cost(args)) => args,
        other => panic!("{options}: {other:?}"),
    }
}

/// The requests of one role.
fn of(roles: &[Role], name: &str) -> Requests {
    roles.iter().find(|role| role.0 == name).expect(name).2
}

/// One store and the clock of its ages; each process counts its requests.
struct World<'a> {
    args: &'a CostArgs,
    clock: TestClock,
    memory: MemoryStore,
}

impl World<'_> {
    fn new(args: &CostArgs) -> World<'_> {
        let clock = TestClock::new();
        World { args, memory: MemoryStore::with_clock(Arc::new(clock.clone())), clock }
    }

    fn process(&self) -> FaultStore {
        FaultStore::new(Arc::new(self.memory.clone()))
    }

    fn election(&self, store: &FaultStore, seed: u64) -> Election {
        let election = Election::builder(Arc::new(store.clone()), "app")
            .layout(self.args.layout.into())
            .validity(self.args.validity)
            .check_store(false)
            .process(process(&self.clock, seed));
        let poll = self.args.poll.into_iter();
        poll.fold(election, |election, poll| election.poll_interval(poll)).build().expect("fits")
    }

    fn group(&self, store: &FaultStore, seed: u64) -> Group {
        let group = Group::builder(Arc::new(store.clone()), "app")
            .name(format!("member-{seed}"))
            .partitions(0..20)
            .validity(self.args.validity)
            .check_store(false)
            .process(process(&self.clock, seed));
        let poll = self.args.poll.into_iter();
        poll.fold(group, |group, poll| group.poll_interval(poll)).build().expect("fits")
    }

    /// A member that releases revoked partitions.
    async fn member(&self, store: &FaultStore, seed: u64) -> tokio::task::JoinHandle<()> {
        let mut membership = self.group(store, seed).join().await.expect("joined");
        tokio::spawn(async move {
            let mut owned = HashMap::new();
            while let Some(event) = membership.next().await {
                match event {
                    MembershipEvent::Granted(partition) => {
                        owned.insert(partition.number(), partition);
                    }
                    MembershipEvent::Revoked { number, .. } => {
                        owned.remove(&number).expect("granted").release();
                    }
                    _ => {}
                }
            }
        })
    }

    /// Creates an ended lease.
    async fn ended(&self, key: String) {
        let created = self.memory.create(&key, br#"{"expired":true}"#.to_vec().into()).await;
        created.expect("there is room");
    }

    async fn epochs(&self, epochs: std::ops::Range<u64>) {
        for epoch in epochs {
            self.ended(format!("app/lock-{epoch:010}.json")).await;
        }
    }
}

/// The requests since the last call.
fn taken(store: &FaultStore) -> Requests {
    let mut counts = [0.0; 5];
    for (call, keys) in store.take_log() {
        match call {
            Call::Create | Call::Replace => counts[0] += 1.0,
            Call::List => counts[1] += 1.0,
            Call::Get => counts[2] += 1.0,
            Call::Delete => {
                counts[3] += 1.0;
                counts[4] += keys.split(',').count() as f64;
            }
        }
    }
    Requests(counts)
}

/// `part` of the requests, and `under_way` at either end, may differ.
#[track_caller]
fn near(role: &str, counted: Requests, expected: Requests, part: f64, under_way: f64) {
    for (counts, expects) in counted.0.into_iter().zip(expected.0) {
        let close = (counts - expects).abs() <= expects * part + under_way;
        assert!(close, "{role}: counted {counted:?}, expected {expected:?}");
    }
}

#[track_caller]
fn at_most(counted: Requests, most: Requests) {
    let exceeds = counted.0.into_iter().zip(most.0).any(|(counted, most)| counted > most);
    assert!(!exceeds, "counted {counted:?} of {most:?}");
}

#[tokio::test(start_paused = true)]
async fn regression_the_default_poll_follows_the_validity_as_in_the_driver() {
    for options in ["6s", "10s", "30s", "120s", "12s --poll 2s", "60s --poll 60s"] {
        for layout in ["epoch-files", "single-object"] {
            let args = args(&format!("--layout {layout} --validity {options}"));
            let world = World::new(&args);
            let [leader, follower, observer] = [(); 3].map(|()| world.process());
            let _leading = world.election(&leader, 1).campaign().await.expect("elected");
            let (follows, mut changes) =
                (world.election(&follower, 2), world.election(&observer, 3).observe());
            let mut running = JoinSet::new();
            running.spawn(async move { follows.campaign().await.map(drop).expect("elected") });
            running.spawn(async move { while changes.next().await.is_some() {} });
            wait(secs(1)).await;
            let roles = [("leader", leader), ("follower", follower), ("observer", observer)];
            roles.iter().for_each(|(_, store)| drop(store.take_log()));
            wait(HOUR).await;
            let expected = election(&args, HOUR);
            for (role, store) in &roles {
                near(role, taken(store), of(&expected, role), 0.0, 1.0);
            }
        }
    }
}

/// Each leader dies after its election.
#[tokio::test(start_paused = true)]
async fn takeovers_send_at_most_the_requests_of_the_table() {
    const TAKEOVERS: f64 = 20.0;
    for layout in ["epoch-files", "single-object"] {
        let args = args(&format!("--layout {layout}"));
        let world = World::new(&args);
        let store = world.process();
        let (won, mut wins) = tokio::sync::mpsc::unbounded_channel();
        let mut running = JoinSet::new();
        for seed in 0..3 {
            let (election, won) = (world.election(&store, seed), won.clone());
            running.spawn(
                async move { while won.send(election.campaign().await.map(drop)).is_ok() {} },
            );
        }
        let _ = wins.recv().await;
        let _ = (wins.recv().await, store.take_log());
        let before = world.clock.now().boot;
        for _ in 0..TAKEOVERS as u32 {
            wins.recv().await.expect("running").expect("elected");
        }
        // All three candidates follow until the lapse.
        let polls = of(&election(&args, world.clock.now().boot - before), "follower");
        let most = polls.plus(2.0, polls).plus(TAKEOVERS, takeover(&args));
        let counted = taken(&store);
        at_most(counted, most);
        assert!(counted.0[0] >= TAKEOVERS, "{counted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn regression_a_compactor_among_thousands_of_epochs_sends_the_requests_of_the_table() {
    // Epochs before a run, a day's runs, and the runs for which these epochs suffice.
    for (a_run, a_day, runs) in [
        (0, 24, 1),
        (1, 24, 3),
        (4, 24, 1),
        (999, 24, 1),
        (1_001, 24, 1),
        (2_500, 24, 1),
        (7_400, 2, 1),
    ] {
        let elections = f64::from(a_run * a_day) / f64::from(runs);
        let line = format!("--elections-per-day {elections} --compactions-per-day {a_day}");
        let args = args(&line);
        let world = World::new(&args);
        let by = world.process();
        let compactor = Compactor::builder(Arc::new(by.clone()), "app").build().expect("fits");
        let (between, mut newest) = (DAY / a_day, 10);
        world.epochs(1..11).await;
        // The first runs delete other numbers of epochs.
        for window in 0..4 {
            let _ = by.take_log();
            for run in 0..runs {
                let all = if run == 0 { u64::from(a_run) } else { 0 };
                let young = all / u64::from(24 / a_day);
                world.epochs(newest + 1..newest + 1 + all - young).await;
                wait(between.saturating_sub(secs(3_599))).await;
                world.epochs(newest + 1 + all - young..newest + 1 + all).await;
                newest += all;
                wait(secs(3_599)).await;
                compactor.run_once().await.expect("compacted");
            }
            if window > 1 {
                let expected = of(&election(&args, between * runs), "compactor");
                near(&line, taken(&by), expected, 0.0, 1.0);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_search_among_thousands_of_epochs_sends_at_most_the_listings_of_the_table() {
    for epochs in [900_u32, 1_100, 2_001, 2_999, 4_003, 9_500] {
        // Half of them since the last compaction, and half too young for it.
        let args = args(&format!("--candidates 1 --elections-per-day {}", epochs * 12));
        let world = World::new(&args);
        world.epochs(1..u64::from(epochs) + 1).await;
        let store = world.process();
        let newest = world.election(&store, 1).snapshot().await.expect("found").leader;
        assert_eq!(newest.map(|leader| leader.epoch.get()), Some(epochs.into()));
        at_most(Requests([0.0, taken(&store).0[1], 0.0, 0.0, 0.0]), takeover(&args));
    }
}

/// The group repeats its requests every ten minutes.
#[tokio::test(start_paused = true)]
async fn regression_the_default_poll_of_a_group_follows_the_validity_as_in_the_driver() {
    for (members, options) in [
        (10, "30s"),
        (1, "30s"),
        (3, "6s"),
        (3, "12s --poll 2s"),
        (6, "60s"),
        (8, "20s --poll 20s"),
    ] {
        let line = format!(
            "--partitions 20 --elections-per-day 0 --compactions-per-day 0 --members {members} --validity {options}"
        );
        let args = args(&line);
        let world = World::new(&args);
        let (store, observer) = (world.process(), world.process());
        for seed in 1..=members {
            world.member(&store, seed).await;
        }
        let mut changes = world.group(&observer, 99).observe();
        tokio::spawn(async move { while changes.next().await.is_some() {} });
        wait(args.validity * 10).await;
        let _ = (store.take_log(), observer.take_log());
        wait(HOUR / 3).await;
        let expected = group(&args, 20, HOUR / 3);
        near(&line, taken(&store), of(&expected, "all"), 0.02, 0.4);
        near(&line, taken(&observer), of(&expected, "observer"), 0.02, 0.4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_sends_at_most_the_requests_of_the_table() {
    let args = args("--partitions 20 --members 6 --elections-per-day 0 --compactions-per-day 0");
    let world = World::new(&args);
    let (store, mut nodes) = (world.process(), Vec::new());
    for seed in 1..=6 {
        nodes.push(world.member(&store, seed).await);
    }
    wait(args.validity * 10).await;
    for (dies, seed) in [5, 3, 0, 4].into_iter().zip(10..) {
        let (_, before) = (store.take_log(), world.clock.now().boot);
        nodes.remove(dies).abort();
        wait(args.validity * 4).await;
        nodes.push(world.member(&store, seed).await);
        wait(args.validity * 4).await;
        let steady = of(&group(&args, 20, world.clock.now().boot - before), "all");
        at_most(taken(&store), steady.plus(1.0, change(&args)));
    }
}

#[tokio::test(start_paused = true)]
async fn the_compactor_of_a_group_sends_at_most_the_requests_of_the_table() {
    // One change in six hourly runs. The second run compacts the change.
    let args = args("--partitions 20 --members 2 --elections-per-day 4");
    let world = World::new(&args);
    let (store, by) = (world.process(), world.process());
    let settings = Compactor::builder(Arc::new(by.clone()), "app").keep_epochs(1);
    let compactor = GroupCompactor::new(settings).expect("fits");
    world.member(&store, 1).await;
    let dies = world.member(&store, 2).await;
    wait(args.validity * 4).await;
    let _ = compactor.run_once().await.expect("compacted");
    dies.abort();
    wait(args.validity * 4).await;
    world.member(&store, 3).await;
    let _ = by.take_log();
    for _ in 0..6 {
        wait(HOUR).await;
        compactor.run_once().await.expect("compacted");
    }
    let (counted, most) = (taken(&by), of(&group(&args, 20, HOUR * 6), "compactor"));
    at_most(counted, most);
    assert!(counted.0[1] >= most.0[1] * 0.9 && counted.0[3] > 0.0, "{counted:?}");
}

/// A second page lists ended sessions before their compaction.
#[tokio::test(start_paused = true)]
async fn regression_a_coordinator_among_many_sessions_sends_the_requests_of_the_table() {
    const ENDED: u32 = 1_200;
    // Ended sessions of a day and of an hour.
    let a_day = f64::from(ENDED) / (1.0 + 1.0 / 24.0);
    let args = args(&format!(
        "--partitions 20 --members 2 --compactions-per-day 1 --elections-per-day {a_day}"
    ));
    let world = World::new(&args);
    let store = world.process();
    for seed in 1..=2 {
        world.member(&store, seed).await;
    }
    for session in 0..ENDED {
        world.ended(format!("app/members/{session:032x}/lock.json")).await;
    }
    wait(args.validity * 10).await;
    let _ = store.take_log();
    wait(secs(20 * 60)).await;
    let roles = group(&args, 20, secs(20 * 60));
    let expected = of(&roles, "coordinator").plus(1.0, of(&roles, "deputy"));
    near("coordinator", taken(&store), expected, 0.02, 2.0);
}

/// The numbers of docs/design/measurements.md and docs/explanation/cost.md.
#[test]
fn ten_members_with_a_thousand_partitions_cost_the_sum_of_the_docs() {
    let args = args("--partitions 1000 --members 10 --elections-per-day 0 --compactions-per-day 0");
    let minute = of(&group(&args, 1_000, secs(60)), "all");
    near("a minute", minute, Requests([60.0, 15.0, 209.0, 0.0, 0.0]), 0.01, 0.0);
    let (month, s3) = (group(&args, 1_000, DAY * DAYS), &prices::built_in()[0]);
    let costs = ["all", "leaders"].map(|role| of(&month, role).cost(s3).round());
    assert_eq!(costs, [20.0, 1_331.0]);
}

#[test]
fn price_lists_name_their_errors() {
    let list =
        |write: &str| format!(r#"{{"name":"x","write":{write},"list":2,"read":0,"delete":0}}"#);
    assert_eq!(prices::built_in().len(), 5);
    assert_eq!(prices::parse(&format!("[{0},{0}]", list("1"))).map(|prices| prices.len()), Ok(2));
    for (text, error) in [
        (list("1,\"put\":5"), "unknown field `put`"),
        (list("-2"), "write of \"x\" is -2"),
        (list("\"1\""), "invalid type: string"),
        (r#"{"name":"x"}"#.to_owned(), "missing field `write`"),
        ("[]".to_owned(), "no price list"),
        (String::new(), "EOF"),
    ] {
        let refused = prices::parse(&text).expect_err(&text);
        assert!(refused.contains(error), "{refused}");
    }
}
