//! The defaults of the options are the defaults of the driver.

use tenure_groups::Group;

use super::super::group::GroupShape;
use super::group::{member, near};
use super::*;

fn parsed(options: &[&str]) -> CostArgs {
    use clap::Parser as _;
    let line = ["tenure", "cost"].iter().chain(options);
    match crate::args::Args::try_parse_from(line).map(|args| args.verb) {
        Ok(crate::args::Verb::Cost(args)) => args,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn regression_the_default_poll_follows_the_validity_as_in_the_driver() {
    for validity in [6, 10, 30, 120] {
        let args = parsed(&["--validity", &format!("{validity}s"), "--observers", "1"]);
        let shape = super::super::shape(&args);
        let clock = TestClock::new();
        let leader = Counting::default();
        let (follower, observer) = (leader.other(), leader.other());
        let by_default = |store: &Counting, seed| {
            Election::builder(Arc::new(Layered(store.clone())), "app")
                .validity(args.validity)
                .check_store(false)
                .process(process(&clock, seed))
                .build()
                .expect("settings that fit")
        };
        let _leading = by_default(&leader, 1).campaign().await.expect("elected");
        let following = by_default(&follower, 2);
        let following = tokio::spawn(async move { following.campaign().await.map(drop) });
        let mut changes = by_default(&observer, 3).observe();
        let observing = tokio::spawn(async move { while changes.next().await.is_some() {} });
        wait(secs(1)).await;
        for process in [&leader, &follower, &observer] {
            let _ = process.take();
        }
        wait(HOUR).await;
        let expected = shape.requests(HOUR);
        same("leader", &shape, leader.take(), expected.leader);
        same("follower", &shape, follower.take(), expected.follower);
        same("observer", &shape, observer.take(), expected.observer);
        following.abort();
        observing.abort();
    }
}

/// The same of the members of a group.
#[tokio::test(start_paused = true)]
async fn regression_the_default_poll_of_a_group_follows_the_validity_as_in_the_driver() {
    for validity in [6, 60] {
        let args = parsed(&["--validity", &format!("{validity}s"), "--partitions", "20"]);
        let shape = GroupShape { changes_per_day: 0.0, ..GroupShape::of(&args, 20) };
        let (clock, store) = (TestClock::new(), Counting::default());
        let mut nodes = Vec::new();
        for seed in 1..=u64::from(args.members) {
            let group = Group::builder(Arc::new(Layered(store.clone())), "app")
                .name(format!("member-{seed}"))
                .partitions(0..20)
                .validity(args.validity)
                .check_store(false)
                .process(process(&clock, seed))
                .build()
                .expect("settings that fit");
            nodes.push(member(group).await);
        }
        wait(args.validity * 10).await;
        let _ = store.take();
        wait(HOUR).await;
        near(&shape, store.take(), shape.requests(HOUR).all, 0.4);
        nodes.iter().for_each(|node| node.abort());
    }
}

#[test]
fn the_defaults_are_the_defaults_of_the_library() {
    let args = parsed(&[]);
    assert_eq!((args.validity, args.poll(), args.candidates), (secs(30), secs(5), 3));
    assert_eq!(args.elections, 1);
}
