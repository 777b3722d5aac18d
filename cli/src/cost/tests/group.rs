//! The arithmetic of groups beside the requests of the real driver, and beside what the
//! documentation says.

use tenure_groups::{Group, GroupCompactor, MembershipEvent};

use super::super::group::GroupShape;
use super::*;

fn shape(members: u32, (validity, poll): (u64, u64)) -> GroupShape {
    GroupShape {
        partitions: 20,
        members,
        observers: 0,
        validity: secs(validity),
        poll: secs(poll),
        changes_per_day: 0.0,
        compactions_per_day: 0.0,
    }
}

fn group(store: &Counting, shape: &GroupShape, clock: &TestClock, seed: u64) -> Group {
    Group::builder(Arc::new(Layered(store.clone())), "app")
        .name(format!("member-{seed}"))
        .partitions(0..shape.partitions)
        .validity(shape.validity)
        .poll_interval(shape.poll)
        .check_store(false)
        .process(process(clock, seed))
        .build()
        .expect("settings that fit")
}

/// A member that releases at once what is revoked; aborted, it is dead.
pub(super) async fn member(group: Group) -> tokio::task::JoinHandle<()> {
    let mut membership = group.join().await.expect("it joins");
    tokio::spawn(async move {
        let mut owned = Vec::new();
        while let Some(event) = membership.next().await {
            match event {
                MembershipEvent::Granted(partition) => owned.push(partition),
                MembershipEvent::Revoked { number, .. } => {
                    let place = owned.iter().position(|it| it.number() == number);
                    owned.remove(place.expect("it was granted")).release();
                }
                _ => {}
            }
        }
    })
}

/// An hour shows what many do: a steady group does the same every ten minutes.
#[tokio::test(start_paused = true)]
async fn a_steady_group_sends_what_the_arithmetic_says() {
    const UNDER_WAY: f64 = 0.4;
    for (members, times) in
        [(10, (30, 5)), (1, (30, 5)), (3, (12, 2)), (6, (60, 10)), (8, (20, 20))]
    {
        let shape = shape(members, times);
        let (clock, store) = (TestClock::new(), Counting::default());
        let mut nodes = Vec::new();
        for seed in 1..=u64::from(members) {
            nodes.push(member(group(&store, &shape, &clock, seed)).await);
        }
        let observer = store.other();
        let mut changes = group(&observer, &shape, &clock, 99).observe();
        let observing = tokio::spawn(async move { while changes.next().await.is_some() {} });
        wait(shape.validity * 10).await;
        let _ = (store.take(), observer.take());
        wait(HOUR).await;
        let expected = shape.requests(HOUR);
        near(&shape, store.take(), expected.all, UNDER_WAY);
        near(&shape, observer.take(), expected.observer, UNDER_WAY);
        nodes.iter().for_each(|node| node.abort());
        observing.abort();
    }
}

/// Within 2 %, and so many requests that are under way at either end.
#[track_caller]
pub(super) fn near(shape: &GroupShape, counted: Requests, expected: Requests, under_way: f64) {
    let kinds = |it: Requests| [it.writes, it.lists, it.reads, it.deletes];
    for (counted, expected) in kinds(counted).into_iter().zip(kinds(expected)) {
        let close = (counted - expected).abs() <= expected * 0.02 + under_way;
        assert!(close, "{shape:?}: {counted} counted, {expected} expected");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_sends_no_more_than_the_arithmetic_says() {
    let shape = shape(6, (30, 5));
    let (clock, store) = (TestClock::new(), Counting::default());
    let mut nodes = Vec::new();
    for seed in 1..=6 {
        nodes.push(member(group(&store, &shape, &clock, seed)).await);
    }
    wait(shape.validity * 10).await;
    for (number, dies) in [5, 3, 0, 4].into_iter().enumerate() {
        let _ = store.take();
        let before = clock.now().boot;
        nodes.remove(dies).abort();
        wait(shape.validity * 4).await;
        nodes.push(member(group(&store, &shape, &clock, 10 + number as u64)).await);
        wait(shape.validity * 4).await;
        let counted = store.take();
        let steady = shape.requests(clock.now().boot - before).all;
        let most = steady.plus(1.0, shape.change());
        eprintln!("{counted:?} of {most:?}");
        assert!(counted.writes <= most.writes, "{counted:?} of {most:?}");
        assert!(counted.lists <= most.lists, "{counted:?} of {most:?}");
        assert!(counted.reads <= most.reads, "{counted:?} of {most:?}");
    }
    nodes.iter().for_each(|node| node.abort());
}

#[tokio::test(start_paused = true)]
async fn the_compactor_of_a_group_sends_no_more_than_the_arithmetic_says() {
    // One change in these hours. What it leaves is compacted in the second.
    const RUNS: u32 = 6;
    let changes_per_day = 24.0 / f64::from(RUNS);
    let shape = GroupShape { changes_per_day, compactions_per_day: 24.0, ..shape(2, (30, 5)) };
    let clock = TestClock::new();
    // The ages of objects pass in the test's time.
    let memory = MemoryStore::with_clock(Arc::new(clock.clone()));
    let store = Counting { memory, ..Counting::default() };
    let by = store.other();
    let settings = Compactor::builder(Arc::new(Layered(by.clone())), "app").keep_epochs(1);
    let compactor = GroupCompactor::new(settings).expect("settings");
    let _first = member(group(&store, &shape, &clock, 1)).await;
    let dies = member(group(&store, &shape, &clock, 2)).await;
    wait(shape.validity * 4).await;
    let _ = compactor.run_once().await.expect("it compacts");
    dies.abort();
    wait(shape.validity * 4).await;
    let _second = member(group(&store, &shape, &clock, 3)).await;
    let _ = by.take();
    for _ in 0..RUNS {
        wait(HOUR).await;
        compactor.run_once().await.expect("it compacts");
    }
    let (counted, most) = (by.take(), shape.requests(HOUR * RUNS).compactor);
    eprintln!("{counted:?} of {most:?}");
    let kinds = |it: Requests| [it.lists, it.reads, it.deletes, it.deleted_keys];
    for (counted, most) in kinds(counted).into_iter().zip(kinds(most)) {
        assert!(counted <= most, "{counted} counted, {most} expected");
    }
    assert!(counted.lists >= most.lists * 0.9 && counted.deletes > 0.0, "{counted:?}");
}

/// Ended sessions are listed until they are compacted: here on a second page.
#[tokio::test(start_paused = true)]
async fn regression_a_coordinator_among_many_sessions_sends_what_the_arithmetic_says() {
    const ENDED: u32 = 1_200;
    let time = secs(20 * 60);
    let (clock, store) = (TestClock::new(), Counting::default());
    let shape = shape(2, (30, 5));
    let mut nodes = Vec::new();
    for seed in 1..=2 {
        nodes.push(member(group(&store, &shape, &clock, seed)).await);
    }
    for session in 0..ENDED {
        let key = format!("app/members/{session:032x}/lock.json");
        let body = br#"{"expired":true}"#;
        store.memory.create(&key, body.to_vec().into()).await.expect("there is room");
    }
    wait(shape.validity * 10).await;
    let _ = store.take();
    wait(time).await;
    // With a compaction a day, those of a day and of an hour.
    let a_day = f64::from(ENDED) / (1.0 + 1.0 / 24.0);
    let shape = GroupShape { changes_per_day: a_day, compactions_per_day: 1.0, ..shape };
    let roles = shape.requests(time);
    near(&shape, store.take(), roles.coordinator.plus(1.0, roles.deputy), 2.0);
    nodes.iter().for_each(|node| node.abort());
}

/// The numbers of docs/design/groups.md and docs/how-to/share-partitions.md.
#[test]
fn ten_members_with_a_thousand_partitions_cost_what_the_docs_say() {
    let shape = GroupShape { partitions: 1_000, ..shape(10, (30, 5)) };
    let minute = shape.requests(secs(60)).all;
    let near = |counted: f64, said: f64| (counted / said - 1.0).abs() < 0.01;
    assert!(near(minute.writes, 60.0), "{minute:?}");
    assert!(near(minute.reads, 209.0), "{minute:?}");
    assert!(near(minute.lists, 15.0), "{minute:?}");
    let month = shape.requests(DAY.mul_f64(DAYS));
    let s3 = &prices::built_in()[0];
    assert_eq!(month.all.cost(s3).round(), 20.0);
    assert_eq!(month.leaders.cost(s3).round(), 1_331.0);
}
