//! Work for each partition.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::group::MembershipEvent;
use tenure_testkit::time::{secs, wait, within};

use super::{Fleet, POLL};

#[tokio::test(start_paused = true)]
async fn work_is_called_for_each_partition_and_stops_before_it_moves() {
    let fleet = Fleet::new(6);
    let at_work: Arc<Mutex<BTreeMap<String, &str>>> = Arc::default();
    let start = |name: &'static str| {
        let (group, at_work) = (fleet.group(name), Arc::clone(&at_work));
        let running = group.clone();
        let task = tokio::spawn(async move {
            running
                .run(async |partition| {
                    let before = at_work.lock().unwrap().insert(partition.name().to_owned(), name);
                    assert_eq!(before, None, "{} has two workers", partition.name());
                    partition.revoked().cancelled().await;
                    wait(secs(1)).await;
                    at_work.lock().unwrap().remove(partition.name());
                    assert!(partition.check().is_ok(), "it is owned until the work has returned");
                    Ok(())
                })
                .await
        });
        (group, task)
    };
    let (a, first) = start("a");
    wait(secs(20)).await;
    assert_eq!(at_work.lock().unwrap().len(), 6);
    let (b, second) = start("b");
    wait(POLL * 6).await;
    assert_eq!(at_work.lock().unwrap().values().filter(|name| **name == "b").count(), 3);
    a.leave();
    within(secs(10), first).await.expect("it leaves").unwrap().unwrap();
    wait(POLL * 5).await;
    assert_eq!(at_work.lock().unwrap().values().filter(|name| **name == "b").count(), 6);
    b.leave();
    within(secs(10), second).await.expect("it leaves").unwrap().unwrap();
    assert!(at_work.lock().unwrap().is_empty());
}

/// And other partitions are not touched.
#[tokio::test(start_paused = true)]
async fn work_that_fails_or_panics_is_tried_elsewhere() {
    let fleet = Fleet::new(4);
    let log: Arc<Mutex<Vec<(String, &str)>>> = Arc::default();
    let mut groups = Vec::new();
    for name in ["a", "b"] {
        let (group, log) = (fleet.group(name), Arc::clone(&log));
        groups.push(group.clone());
        tokio::spawn(async move {
            group
                .run(async |partition| {
                    log.lock().unwrap().push((partition.name().to_owned(), name));
                    match (partition.name(), name) {
                        ("0", "a") => return Err("it does not work here".into()),
                        ("1", "a") => panic!("nor does this"),
                        _ => partition.revoked().cancelled().await,
                    }
                    Ok(())
                })
                .await
        });
        wait(POLL * 4).await;
    }
    wait(Duration::from_secs(600)).await;
    let log = log.lock().unwrap();
    let last = |name| log.iter().rev().find(|(it, _)| it == name).map(|(_, by)| *by);
    assert_eq!((last("0"), last("1")), (Some("b"), Some("b")), "{log:?}");
    let calls = |name| log.iter().filter(|(it, _)| it == name).count();
    assert!(calls("2") <= 2 && calls("3") <= 2, "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_told_to_leave_while_it_joins_returns() {
    let fleet = Fleet::new(1);
    let group = fleet.group("a");
    let running = group.clone();
    let task = tokio::spawn(async move { running.run(async |_| Ok(())).await });
    tokio::task::yield_now().await;
    group.leave();
    within(secs(60), task).await.expect("it leaves").unwrap().unwrap();
}

/// A signal may come before the task has run for the first time.
#[tokio::test(start_paused = true)]
async fn regression_a_leave_before_the_call_is_not_lost() {
    let fleet = Fleet::new(1);
    let group = fleet.group("a");
    let running = group.clone();
    let task = tokio::spawn(async move { running.run(async |_| Ok(())).await });
    group.leave();
    within(secs(60), task).await.expect("it leaves").unwrap().unwrap();
    assert!(fleet.store.take_calls().is_empty(), "nothing is left to lapse");
}

/// It plans, and waited until its own session was due to be read: up to a validity.
#[tokio::test(start_paused = true)]
async fn regression_a_sole_member_soon_gets_back_what_it_released() {
    let fleet = Fleet::new(1);
    let mut membership = fleet.group("a").join().await.unwrap();
    let mut granted = async || match within(POLL * 3, membership.next()).await {
        Some(Some(MembershipEvent::Granted(partition))) => partition,
        other => panic!("{other:?}"),
    };
    for offset in 0..8 {
        let partition = granted().await;
        wait(secs(offset * 7)).await;
        partition.release();
    }
    granted().await;
}
