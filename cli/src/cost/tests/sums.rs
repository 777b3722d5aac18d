//! Compares the sums of all roles with the requests of hours with deaths and compactions.

use std::collections::VecDeque;

use tokio::sync::mpsc::unbounded_channel;

use super::*;

const ROUNDS: u32 = 3;

/// Fails unless the counted requests and their prices are within 2 % of the expected ones.
fn assert_close(options: &str, counted: Requests, expected: Requests) {
    let sum = |requests: Requests| requests[..4].iter().sum::<f64>();
    let mut pairs = vec![[sum(counted), sum(expected)]];
    pairs.extend(prices::built_in().iter().map(|list| [counted, expected].map(|it| list.cost(it))));
    for [counted, expected] in pairs {
        let ratio = expected / counted;
        assert!((0.98..=1.02).contains(&ratio), "{options}: {expected} for {counted}: {ratio}");
    }
}

/// In each round the compactor runs, and the leader dies and starts again. The rows of takeovers
/// are upper bounds, but a small part of the sum.
#[tokio::test(start_paused = true)]
async fn the_sum_of_an_election_is_within_two_percent() {
    for options in [
        "--elections-per-day 24",
        "--elections-per-day 24 --layout single-object --observers 2",
        "--elections-per-day 24 --candidates 5 --validity 12s --poll 1s --observers 1",
        "--elections-per-day 12 --compactions-per-day 12 --candidates 2 --validity 60s --poll 60s",
    ] {
        let mut world = World::new(options);
        let store = world.kit.another_way();
        let compactor = Compactor::builder(Arc::new(store.clone()), "app").build().expect("fits");
        let (won, mut wins) = unbounded_channel();
        let start = |world: &mut World, id: usize| {
            let (election, won) = (world.election(&store), won.clone());
            world.running.spawn(async move {
                let _leadership = election.campaign().await.expect("elected");
                won.send(id).expect("the test runs");
                std::future::pending::<()>().await;
            })
        };
        let candidates = world.args.candidates as usize;
        let mut tasks: Vec<_> = (0..candidates).map(|id| start(&mut world, id)).collect();
        for _ in 0..world.args.observers {
            let observer = world.observer(&store);
            world.running.spawn(observer.observe().for_each(|_| ready(())));
        }
        wait(HOUR).await;
        let _ = store.take_log();
        let round = DAY.div_f64(world.args.elections_per_day);
        for _ in 0..ROUNDS {
            if world.args.layout == LayoutArg::EpochFiles {
                compactor.run_once().await.expect("compacted");
            }
            let leader = wins.recv().await.expect("a leader");
            tasks[leader].abort();
            tasks[leader] = start(&mut world, leader);
            wait(round).await;
        }
        assert_close(options, taken(&store), world.expected(&["all"], round * ROUNDS));
    }
}

/// Each hour the compactor runs, and a member dies and another one joins.
#[tokio::test(start_paused = true)]
async fn the_sum_of_a_group_is_within_two_percent() {
    for options in [
        "--partitions 20 --elections-per-day 24",
        "--partitions 20 --elections-per-day 24 --members 8 --validity 60s --observers 1",
        "--partitions 20 --elections-per-day 24 --members 2 --validity 12s --poll 1s",
    ] {
        let mut world = World::new(options);
        let store = world.kit.another_way();
        let settings = Compactor::builder(Arc::new(store.clone()), "app");
        let compactor = GroupCompactor::new(settings).expect("fits");
        let mut members = VecDeque::new();
        for seed in 1..=world.args.members.into() {
            members.push_back(world.member(&store, seed).await);
        }
        for observer in 0..world.args.observers.into() {
            let observer = world.group(&store, 1_000 + observer, observer_validity(&world.args));
            world.running.spawn(watch(observer, world.args.validity));
        }
        wait(HOUR).await;
        let _ = store.take_log();
        for round in 0..ROUNDS {
            compactor.run_once().await.expect("compacted");
            members.pop_front().expect("a member").abort();
            members.push_back(world.member(&store, (100 + round).into()).await);
            wait(HOUR - secs(1)).await;
        }
        assert_close(options, taken(&store), world.expected(&["all"], HOUR * ROUNDS));
    }
}
