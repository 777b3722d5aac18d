//! Work on a partition fails. The tests check which members try the work again, and which
//! partitions move.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_groups::{Group, Partition};
use tenure_testkit::time::{process, secs, timed, wait, within};

use super::{Fleet, POLL, VALIDITY};

/// Names of the members in the order in which they began work on one partition.
type Starts = Arc<Mutex<Vec<&'static str>>>;

/// Runs these members for the time `length`. Work on partition `number` fails after a second if
/// `fails` returns true. The arguments of `fails` are the member's name and the time since all
/// members started. Returns the members that began this work.
async fn starts(
    members: &[&'static str],
    number: &'static str,
    partitions: u32,
    length: Duration,
    fails: fn(&str, Duration) -> bool,
) -> Vec<&'static str> {
    let fleet = Fleet::new(partitions);
    let (starts, clock) = (Starts::default(), process(&fleet.clock, 0));
    let began = clock.now().boot;
    for name in members.iter().copied() {
        let (group, starts, clock) = (fleet.group(name), Arc::clone(&starts), clock.clone());
        tokio::spawn(async move {
            let work = async |partition: Partition| {
                if partition.name() == number {
                    starts.lock().unwrap().push(name);
                    if fails(name, clock.now().boot - began) {
                        wait(secs(1)).await;
                        return Err("not here".into());
                    }
                }
                partition.revoked().cancelled().await;
                Ok(())
            };
            group.run(work).await
        });
    }
    wait(length).await;
    let starts = starts.lock().unwrap();
    starts.clone()
}

/// Before the fix, a partition moved back and forth between two members where its work failed, and
/// the third member never got the partition.
#[tokio::test(start_paused = true)]
async fn regression_a_partition_is_tried_at_each_member() {
    for number in ["0", "29"] {
        let seen = starts(&["a", "b", "c"], number, 30, secs(2_400), |name, _| name != "c").await;
        assert_eq!(seen.last(), Some(&"c"), "{number}: {seen:?}");
        // Ten minutes after the failures, the partition may move to other members again.
        assert!(seen.len() <= 12, "{number}: {seen:?}");
    }
}

/// Before the fix, a rebalance every 70 s moved the partition with the greatest number back to a
/// member where its work had failed.
#[tokio::test(start_paused = true)]
async fn regression_a_rebalance_does_not_return_a_failed_partition() {
    for number in ["0", "29"] {
        let seen = starts(&["a", "b"], number, 30, secs(2_400), |name, _| name == "a").await;
        assert_eq!(seen.last(), Some(&"b"), "{number}: {seen:?}");
        assert!(seen.len() <= 3, "{number}: {seen:?}");
        let early = |name: &str, since| name == "b" || since < secs(60);
        let seen = starts(&["a", "b"], number, 30, secs(3_600), early).await;
        assert_eq!(seen.last(), Some(&"a"), "{number}: {seen:?}");
        assert!(seen.len() <= 24, "{number}: {seen:?}");
    }
}

/// Before the fix, work that returned an error after the signal to stop counted as failed. So the
/// member did not get the revoked partition back when the other member left.
#[tokio::test(start_paused = true)]
async fn regression_stopped_work_does_not_count_as_failed() {
    let fleet = Fleet::new(12);
    let owned: Arc<Mutex<BTreeMap<String, &str>>> = Arc::default();
    let run = |name: &'static str| {
        let (group, owned): (Group, _) = (fleet.group(name), Arc::clone(&owned));
        let running = group.clone();
        let task = tokio::spawn(async move {
            let work = async |partition: Partition| {
                owned.lock().unwrap().insert(partition.name().to_owned(), name);
                partition.revoked().cancelled().await;
                Err("cancelled".into())
            };
            running.run(work).await
        });
        (group, task)
    };
    let owns = |name: &str, least: usize| {
        let owned = owned.lock().unwrap();
        owned.values().filter(|it| **it == name).count() >= least
    };
    let (_a, _task) = run("a");
    wait(VALIDITY).await;
    for _ in 0..6 {
        let (b, task) = run("b");
        wait(VALIDITY).await;
        assert!(owns("b", 6));
        b.leave();
        within(secs(30), task).await.expect("it leaves").unwrap().unwrap();
        let all = async {
            while !owns("a", 12) {
                wait(secs(1)).await;
            }
        };
        let (took, ()) = timed(all).await;
        assert!(took <= POLL * 3, "{took:?}");
    }
}

/// Before the fix, a healthy partition moved each time another partition failed. A group of two
/// members and 30 partitions had 20 such moves in ten minutes. Now at most one healthy partition
/// moves for each member where the work on a partition fails.
#[tokio::test(start_paused = true)]
async fn regression_failing_partitions_move_no_healthy_partition() {
    for (members, failing, after) in [(2, 1, 1), (2, 8, 1), (3, 8, 1), (2, 8, 20), (3, 8, 70)] {
        let fleet = Fleet::new(30);
        let healthy = Arc::new(AtomicUsize::new(0));
        for name in ["a", "b", "c"].into_iter().take(members) {
            let (group, healthy) = (fleet.group(name), Arc::clone(&healthy));
            tokio::spawn(async move {
                let work = async |partition: Partition| {
                    let number: u64 = partition.name().parse().unwrap();
                    if number < failing {
                        wait(secs(after + after * number / 3)).await;
                        return Err("poison".into());
                    }
                    healthy.fetch_add(1, Ordering::Relaxed);
                    partition.revoked().cancelled().await;
                    Ok(())
                };
                group.run(work).await
            });
        }
        wait(VALIDITY * 2 + secs(after * 20)).await;
        let before = healthy.load(Ordering::Relaxed);
        assert!(
            before >= 30 - usize::try_from(failing).unwrap(),
            "each healthy partition is granted"
        );
        wait(secs(1_200)).await;
        let moved = healthy.load(Ordering::Relaxed) - before;
        assert_eq!(moved, 0, "{members} members, {failing} of 30 fail after {after} s");
    }
}
