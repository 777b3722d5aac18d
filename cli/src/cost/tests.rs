//! Compares the sums that `tenure cost` prints with the requests that the driver sends in an hour
//! of paused time. In this hour a process dies and the compactor runs.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::ready;
use std::sync::Arc;

use clap::Parser as _;
use futures::StreamExt as _;
use tenure::store::{MemoryStore, Store};
use tenure::{Compactor, Election};
use tenure_groups::{Group, GroupCompactor, Partition};
use tenure_testkit::fault_store::{Call, FaultStore};
use tenure_testkit::time::{process, wait};
use tenure_testkit::world::World;
use tokio::runtime::Builder;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

use super::requests::plus;
use super::*;
use crate::output::watcher;
use crate::store::urls::builder;

const HOUR: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, clap::Parser)]
struct CostLine {
    #[command(flatten)]
    cost: CostArgs,
}

fn args(options: &str) -> CostArgs {
    let line = CostLine::try_parse_from(["cost"].into_iter().chain(options.split_whitespace()));
    line.expect(options).cost
}

/// Fails unless the counted requests and their prices are within 2 % of the output of `tenure
/// cost`.
fn assert_close(options: &str, stores: &[FaultStore]) {
    let log = stores.iter().flat_map(FaultStore::take_log);
    let counted = log.fold([0.0; 5], |counts, (call, keys)| {
        let one = match call {
            Call::Create | Call::Replace => [1.0, 0.0, 0.0, 0.0, 0.0],
            Call::List => [0.0, 1.0, 0.0, 0.0, 0.0],
            Call::Get => [0.0, 0.0, 1.0, 0.0, 0.0],
            Call::Delete => [0.0, 0.0, 0.0, 1.0, keys.split(',').count() as f64],
        };
        plus(counts, 1.0, one)
    });
    let month = roles(&args(options)).pop().expect("the sum").requests;
    let expected = plus([0.0; 5], HOUR.div_duration_f64(MONTH), month);
    let sum = |requests: Requests| requests[..4].iter().sum::<f64>();
    let mut pairs = vec![[sum(counted), sum(expected)]];
    pairs.extend(prices::built_in().iter().map(|list| [counted, expected].map(|it| list.cost(it))));
    for [counted, expected] in pairs {
        let ratio = expected / counted;
        assert!((0.98..=1.02).contains(&ratio), "{options}: {expected} for {counted}: {ratio}");
    }
}

/// Runs the check for each of these lines of options on a separate thread, in paused time.
fn each(lines: &[&str], check: impl AsyncFn(&str) + Sync) {
    std::thread::scope(|all| {
        for line in lines {
            all.spawn(|| {
                let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
                runtime.expect("a runtime").block_on(check(line));
            });
        }
    });
}

/// In the counted hour the compactor runs, and the leader dies and starts again. Before the fix, the
/// table contained requests that no process sends: renewals of a dead leader, and attempts of all
/// candidates to seal its epoch.
#[test]
fn regression_the_estimate_of_an_election_errs_by_at_most_two_percent() {
    let lines = [
        "--elections-per-day 24",
        "--elections-per-day 24 --layout single-object --observers 2",
        "--elections-per-day 24 --candidates 5 --validity 12s --poll 1s --observers 1",
        "--elections-per-day 24 --validity 60s",
        "--elections-per-day 24 --candidates 2 --validity 60s --poll 60s",
        "--elections-per-day 0 --candidates 2 --validity 3s --observers 1",
        "--elections-per-day 0 --candidates 2 --validity 600s --observers 1",
        "--elections-per-day 24 --stores 3",
        "--elections-per-day 24 --stores 3 --candidates 5 --validity 12s --poll 1s --observers 1",
        "--elections-per-day 0 --stores 5 --candidates 2 --validity 3s --observers 1",
        "--elections-per-day 24 --stores 5 --candidates 2 --validity 60s",
    ];
    each(&lines, async |options| {
        let (args, kit) = (args(options), World::new());
        let one = |_| FaultStore::new(Arc::new(MemoryStore::new()));
        let stores: Vec<FaultStore> = (0..args.stores).map(one).collect();
        let shared = || stores.iter().map(|it| Arc::new(it.clone()) as Arc<dyn Store>).collect();
        let seed = Cell::new(0);
        let election = |name: &str, validity| -> Election {
            seed.set(seed.get() + 1);
            let election = builder(shared(), "app").name(name).check_store(false);
            let election = election.process(process(&kit.clock, seed.get()));
            let election = election.layout(args.layout.into()).validity(validity);
            let poll = args.poll.into_iter();
            poll.fold(election, |it, poll| it.poll_interval(poll)).build().expect("fits")
        };
        if args.stores > 1 {
            election("operator", args.validity).init_stores().await.expect("empty stores");
        }
        let compactors = shared()
            .into_iter()
            .map(|store: Arc<dyn Store>| Compactor::builder(store, "app").build().expect("fits"));
        let compactors: Vec<Compactor> = compactors.collect();
        let (won, mut wins) = unbounded_channel();
        let mut running = JoinSet::new();
        let mut start = |id: usize| {
            let (election, won) = (election("node", args.validity), won.clone());
            running.spawn(async move {
                let _leadership = election.campaign().await.expect("elected");
                won.send(id).expect("the test runs");
                std::future::pending::<()>().await;
            })
        };
        let mut tasks: Vec<_> = (0..args.candidates as usize).map(&mut start).collect();
        let mut observers = JoinSet::new();
        for _ in 0..args.observers {
            let observer = election("observer", watcher::validity(args.poll, DAY));
            observers.spawn(observer.observe().for_each(|_| ready(())));
        }
        wait(HOUR / 6).await;
        stores.iter().for_each(|store| drop(store.take_log()));
        if args.layout == LayoutArg::EpochFiles {
            for compactor in &compactors {
                compactor.run_once().await.expect("compacted");
            }
        }
        if args.elections_per_day > 0.0 {
            let leader = wins.recv().await.expect("a leader");
            tasks[leader].abort();
            tasks[leader] = start(leader);
        }
        wait(HOUR).await;
        assert_close(options, &stores);
    });
}

/// In the counted hour the compactor runs, and a member dies and another one joins.
#[test]
fn the_estimate_of_a_group_errs_by_at_most_two_percent() {
    let lines = [
        "--elections-per-day 24",
        "--elections-per-day 24 --validity 60s",
        "--elections-per-day 24 --members 8 --validity 60s --observers 1",
        "--elections-per-day 24 --members 2 --validity 12s --poll 1s",
        "--elections-per-day 0 --members 6 --validity 6s",
        "--elections-per-day 0 --members 8 --validity 20s --poll 20s --observers 1",
    ];
    each(&lines, async |options| {
        let options = &format!("--partitions 20 {options}");
        let (args, kit) = (args(options), World::new());
        let store = kit.another_way();
        let group = |seed: u64, validity| -> Group {
            let group = Group::builder(Arc::new(store.clone()), "app")
                .name(format!("member-{seed}"))
                .partitions(0..20)
                .validity(validity)
                .check_store(false)
                .process(process(&kit.clock, seed));
            let poll = args.poll.into_iter();
            poll.fold(group, |it, poll| it.poll_interval(poll)).build().expect("fits")
        };
        let mut running = JoinSet::new();
        let mut start = |seed: u64| {
            let group = group(seed, args.validity);
            let work = async |partition: Partition| {
                partition.revoked().cancelled().await;
                Ok(())
            };
            running.spawn(async move { group.run(work).await.expect("joined") })
        };
        let settings = Compactor::builder(Arc::new(store.clone()), "app");
        let compactor = GroupCompactor::new(settings).expect("fits");
        let mut members: VecDeque<_> = (1..=args.members.into()).map(&mut start).collect();
        let mut observers = JoinSet::new();
        for seed in 0..args.observers {
            let observer = group(1_000 + u64::from(seed), watcher::validity(args.poll, DAY));
            observers.spawn(watch(observer, args.validity));
        }
        wait(HOUR / 6).await;
        let _ = store.take_log();
        compactor.run_once().await.expect("compacted");
        if args.elections_per_day > 0.0 {
            members.pop_front().expect("a member").abort();
            members.push_back(start(100));
        }
        wait(HOUR).await;
        assert_close(options, std::slice::from_ref(&store));
    });
}

/// Observes a group, and reads its sessions as often as `tenure group watch`.
async fn watch(group: Group, validity: Duration) {
    let (mut snapshots, mut seen) = (group.observe(), None);
    loop {
        tokio::select! {
            biased;
            snapshot = snapshots.next() => seen = snapshot.and_then(Result::ok),
            () = wait(validity) => if let Some(snapshot) = &seen {
                group.session_states(snapshot).await.expect("the store answers");
            },
        }
    }
}
