//! Compares the table of requests with the requests that the driver sends in hours of paused time.

mod sums;

use std::future::ready;
use std::sync::Arc;

use clap::Parser as _;
use futures::StreamExt as _;
use tenure::{Clock as _, Compactor, Election};
use tenure_groups::{Group, GroupCompactor, Partition};
use tenure_testkit::fault_store::{Call, FaultStore};
use tenure_testkit::time::{process, secs, wait};
use tenure_testkit::world;
use tokio::task::{AbortHandle, JoinSet};

use super::requests::plus;
use super::*;
use crate::output::watcher;

const HOUR: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, clap::Parser)]
struct CostLine {
    #[command(flatten)]
    cost: CostArgs,
}

/// Returns the validity setting of the observer in `tenure watch`. An observer has no lease.
fn observer_validity(args: &CostArgs) -> Duration {
    watcher::validity(args.poll, DAY)
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

/// A store, and the processes of one row of options.
struct World {
    args: CostArgs,
    kit: world::World,
    running: JoinSet<()>,
}

impl World {
    fn new(options: &str) -> World {
        let args = CostLine::try_parse_from(["cost"].into_iter().chain(options.split_whitespace()));
        World { args: args.expect(options).cost, kit: world::World::new(), running: JoinSet::new() }
    }

    fn election(&self, store: &FaultStore) -> Election {
        let election = self.kit.node_behind(store, &self.kit.clock, "node");
        let election = election.layout(self.args.layout.into()).validity(self.args.validity);
        let poll = self.args.poll.into_iter();
        poll.fold(election, |election, poll| election.poll_interval(poll)).build().expect("fits")
    }

    fn observer(&self, store: &FaultStore) -> Election {
        let election = self.kit.node_behind(store, &self.kit.clock, "observer");
        let election =
            election.layout(self.args.layout.into()).validity(observer_validity(&self.args));
        let poll = self.args.poll.into_iter();
        poll.fold(election, |election, poll| election.poll_interval(poll)).build().expect("fits")
    }

    fn group(&self, store: &FaultStore, seed: u64, validity: Duration) -> Group {
        let group = Group::builder(Arc::new(store.clone()), "app")
            .name(format!("member-{seed}"))
            .partitions(0..20)
            .validity(validity)
            .check_store(false)
            .process(process(&self.kit.clock, seed));
        let poll = self.args.poll.into_iter();
        poll.fold(group, |group, poll| group.poll_interval(poll)).build().expect("fits")
    }

    /// Starts a member, and waits until it has joined.
    async fn member(&mut self, store: &FaultStore, seed: u64) -> AbortHandle {
        let group = self.group(store, seed, self.args.validity);
        let work = async |partition: Partition| {
            partition.revoked().cancelled().await;
            Ok(())
        };
        let member = self.running.spawn(async move { group.run(work).await.expect("joined") });
        wait(secs(1)).await;
        member
    }

    /// Creates sealed epochs.
    async fn epochs(&self, epochs: std::ops::Range<u64>) {
        for epoch in epochs {
            self.kit.create(&world::name(epoch), r#"{"expired":true}"#).await;
        }
    }

    /// Returns the requests that the table has for all processes of these roles.
    fn expected(&self, names: &[&str], time: Duration) -> Requests {
        let of_roles =
            roles(&self.args, time).into_iter().filter(|(name, ..)| names.contains(name));
        of_roles.fold([0.0; 5], |sum, (_, processes, one)| plus(sum, processes.unwrap_or(1.0), one))
    }
}

/// Returns the requests since the previous call of this function.
fn taken(store: &FaultStore) -> Requests {
    store.take_log().into_iter().fold([0.0; 5], |counts, (call, keys)| {
        let one = match call {
            Call::Create | Call::Replace => [1.0, 0.0, 0.0, 0.0, 0.0],
            Call::List => [0.0, 1.0, 0.0, 0.0, 0.0],
            Call::Get => [0.0, 0.0, 1.0, 0.0, 0.0],
            Call::Delete => [0.0, 0.0, 0.0, 1.0, keys.split(',').count() as f64],
        };
        plus(counts, 1.0, one)
    })
}

/// Runs an operation with each row of options. The operation returns pairs of counted and expected
/// requests. Fails unless each count is at least `share` times the expected number and at most the
/// expected number. A count may exceed each bound by `at_an_end`, because a request may fall on the
/// start or the end of the counted time.
async fn compare(
    common: &str,
    rows: &[&str],
    (share, at_an_end): (f64, f64),
    operation: impl AsyncFn(&mut World) -> Vec<(Requests, Requests)>,
) {
    for row in rows {
        for (counted, expected) in operation(&mut World::new(&format!("{common} {row}"))).await {
            let close = counted.iter().zip(expected).all(|(count, expected)| {
                (expected * share - at_an_end..=expected + at_an_end).contains(count)
            });
            assert!(close, "{row}: counted {counted:?}, expected {expected:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn regression_the_default_poll_follows_the_validity_as_in_the_driver() {
    let rows = [
        "--validity 3s",
        "--validity 10s",
        "--validity 30s",
        "--validity 600s",
        "--validity 12s --poll 2s",
        "--validity 60s --poll 60s",
    ];
    for layout in ["epoch-files", "single-object"] {
        let common = format!("--candidates 2 --observers 1 --layout {layout}");
        compare(&common, &rows, (1.0, 1.0), async |world| {
            let roles = ["leader", "follower", "observer"];
            let stores = roles.map(|_| world.kit.another_way());
            let [leads, follows, _] = stores.each_ref().map(|store| world.election(store));
            let observes = world.observer(&stores[2]);
            let _leading = leads.campaign().await.expect("elected");
            let follows = async move { follows.campaign().await.map(drop).expect("elected") };
            world.running.spawn(follows);
            world.running.spawn(observes.observe().for_each(|_| ready(())));
            wait(secs(1)).await;
            stores.iter().for_each(|store| drop(store.take_log()));
            wait(HOUR).await;
            let counted = stores.iter().map(taken);
            counted.zip(roles.map(|role| world.expected(&[role], HOUR))).collect()
        })
        .await;
    }
}

/// The test counts 20 minutes, because the requests of a group repeat every ten minutes.
#[tokio::test(start_paused = true)]
async fn regression_the_default_poll_of_a_group_follows_the_validity_as_in_the_driver() {
    let rows = [
        "--members 10 --validity 30s",
        "--members 1 --validity 30s",
        "--members 3 --validity 6s",
        "--members 3 --validity 12s --poll 2s",
        "--members 6 --validity 60s",
        "--members 8 --validity 20s --poll 20s",
        // With these options, 1,200 sessions end in a day and an hour, so a listing of the sessions
        // has two pages.
        "--members 2 --elections-per-day 1152 --compactions-per-day 1",
    ];
    compare("--partitions 20 --observers 1", &rows, (1.0, 0.4), async |world| {
        let (store, observer) = (world.kit.another_way(), world.kit.another_way());
        for seed in 1..=world.args.members.into() {
            world.member(&store, seed).await;
        }
        let observes = world.group(&observer, 99, observer_validity(&world.args));
        world.running.spawn(watch(observes, world.args.validity));
        for session in 0..(world.args.elections_per_day / 24.0 * 25.0) as u32 {
            let name = format!("members/{session:032x}/lock.json");
            world.kit.create(&name, r#"{"expired":true}"#).await;
        }
        wait(world.args.validity * 10).await;
        let _ = (store.take_log(), observer.take_log());
        wait(HOUR / 3).await;
        let members = world.expected(&["coordinator", "deputy", "member"], HOUR / 3);
        vec![(taken(&store), members), (taken(&observer), world.expected(&["observer"], HOUR / 3))]
    })
    .await;
}

/// In this test, each leader dies immediately after its election.
#[tokio::test(start_paused = true)]
async fn takeovers_send_at_most_the_requests_of_the_table() {
    let rows = ["--layout epoch-files", "--layout single-object"];
    compare("--elections-per-day 20", &rows, (0.4, 0.0), async |world| {
        let (won, mut wins) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..3 {
            let (election, won) = (world.election(&world.kit.store), won.clone());
            world.running.spawn(async move {
                while won.send(election.campaign().await.map(drop)).is_ok() {}
            });
        }
        let _ = wins.recv().await;
        let _ = (wins.recv().await, world.kit.store.take_log());
        let before = world.kit.clock.now().boot;
        for _ in 0..20 {
            wins.recv().await.expect("running").expect("elected");
        }
        // All three candidates poll until the lease lapses, but the table counts the polls of only
        // two followers. So the expected polls are multiplied by 1.5.
        let polls = world.expected(&["follower"], world.kit.clock.now().boot - before);
        vec![(taken(&world.kit.store), plus(world.expected(&["elections"], DAY), 1.5, polls))]
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn regression_a_compactor_among_thousands_of_epochs_sends_the_requests_of_the_table() {
    let rows = ["0", "8", "96", "23976", "24024", "60000", "14800 --compactions-per-day 2"];
    compare("--elections-per-day", &rows, (1.0, 0.4), async |world| {
        let (a_day, runs_a_day) = (world.args.elections_per_day, world.args.compactions_per_day);
        // A window is one or more consecutive runs. All its epochs are created before its first
        // run. Some are created in the last hour before this run, so the run keeps them.
        let runs = (runs_a_day / a_day.max(1.0)).max(1.0);
        let (between, epochs) = (DAY.div_f64(runs_a_day), (a_day / runs_a_day * runs) as u64);
        let young = (a_day / 24.0) as u64;
        let by = world.kit.another_way();
        let compactor = Compactor::builder(Arc::new(by.clone()), "app").build().expect("fits");
        world.epochs(1..11).await;
        let mut next = 11;
        // Windows 0 and 1 are not counted, because the numbers of deleted epochs are constant only
        // from window 2 on.
        for window in 0..4 {
            if window == 2 {
                let _ = by.take_log();
            }
            for run in 0..runs as u32 {
                let end = next + if run == 0 { epochs } else { 0 };
                let old = end - young.min(end - next);
                world.epochs(next..old).await;
                wait(between.saturating_sub(secs(3_599))).await;
                world.epochs(old..end).await;
                next = end;
                wait(secs(3_599)).await;
                compactor.run_once().await.expect("compacted");
            }
        }
        vec![(taken(&by), world.expected(&["compactor"], between * 2 * runs as u32))]
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_search_among_thousands_of_epochs_sends_at_most_the_listings_of_the_table() {
    let rows = ["10800", "13200", "24012", "35988", "48036", "114000"];
    compare("--candidates 1 --elections-per-day", &rows, (0.0, 0.0), async |world| {
        // Half of the epochs were created after the last compaction. The last compaction kept the
        // other half, because these epochs were too young.
        let epochs = (world.args.elections_per_day / 12.0) as u64;
        world.epochs(1..epochs + 1).await;
        let store = world.kit.another_way();
        let newest = world.election(&store).snapshot().await.expect("found").leader;
        assert_eq!(newest.map(|leader| leader.epoch.get()), Some(epochs));
        let one = world.expected(&["elections"], DAY.div_f64(world.args.elections_per_day));
        vec![([0.0, taken(&store)[1], 0.0, 0.0, 0.0], one)]
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_sends_at_most_the_requests_of_the_table() {
    compare("--partitions 20", &["--members 6"], (0.75, 0.0), async |world| {
        let (store, mut nodes, mut compared) = (world.kit.another_way(), Vec::new(), Vec::new());
        for seed in 1..=6 {
            nodes.push(world.member(&store, seed).await);
        }
        wait(world.args.validity * 10).await;
        for (dies, seed) in [5, 3, 0, 4].into_iter().zip(10..) {
            let (_, before) = (store.take_log(), world.kit.clock.now().boot);
            nodes.remove(dies).abort();
            wait(world.args.validity * 4).await;
            nodes.push(world.member(&store, seed).await);
            wait(world.args.validity * 4).await;
            let steady = world.expected(
                &["coordinator", "deputy", "member"],
                world.kit.clock.now().boot - before,
            );
            compared.push((taken(&store), plus(steady, 1.0, world.expected(&["changes"], DAY))));
        }
        compared
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_compactor_of_a_group_sends_the_requests_of_the_table() {
    // The test makes six hourly runs and one change. The second run compacts the change.
    compare("--partitions 20", &["--members 2 --elections-per-day 4"], (1.0, 0.0), async |world| {
        let (store, by) = (world.kit.another_way(), world.kit.another_way());
        let settings = Compactor::builder(Arc::new(by.clone()), "app").keep_epochs(1);
        let compactor = GroupCompactor::new(settings).expect("fits");
        world.member(&store, 1).await;
        let dies = world.member(&store, 2).await;
        wait(world.args.validity * 4).await;
        let _ = compactor.run_once().await.expect("compacted");
        dies.abort();
        wait(world.args.validity * 4).await;
        world.member(&store, 3).await;
        let _ = by.take_log();
        for _ in 0..6 {
            wait(HOUR).await;
            compactor.run_once().await.expect("compacted");
        }
        vec![(taken(&by), world.expected(&["compactor"], HOUR * 6))]
    })
    .await;
}
