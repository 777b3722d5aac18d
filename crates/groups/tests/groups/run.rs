//! Tests of `Group::run` with different kinds of work.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_groups::{Group, MembershipEvent, Partition};
use tenure_testkit::time::{secs, wait, within};
use tokio::task::JoinHandle;

use super::{Fleet, POLL, VALIDITY, balanced};

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
                    assert!(
                        partition.check().is_ok(),
                        "the partition is owned until its work has returned"
                    );
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

type WorkResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// This function compiles only because the bound of `run` is not `AsyncFn`. The futures of an
/// `AsyncFn` need not be `Send`, so `tokio::spawn` would refuse the call.
fn spawn_run<F, W>(group: Group, work: F) -> JoinHandle<Result<(), tenure::Error>>
where
    F: FnOnce(Partition) -> W + Clone + Send + Sync + 'static,
    W: Future<Output = WorkResult> + Send,
{
    tokio::spawn(async move { group.run(work).await })
}

fn sent<'a, T>(
    task: impl Future<Output = T> + Send + 'a,
) -> Pin<Box<dyn Future<Output = T> + Send + 'a>> {
    Box::pin(task)
}

/// Runs each kind of work in a spawned task: closures that own their captures, functions, and
/// closures that borrow.
#[tokio::test(start_paused = true)]
async fn each_kind_of_async_closure_can_be_work() {
    let fleet = Fleet::new(2);
    let called = Arc::new(AtomicUsize::new(0));
    let (counter, group) = (Arc::clone(&called), fleet.group("a"));
    let owning = async move |partition: Partition| {
        counter.fetch_add(1, Ordering::SeqCst);
        partition.revoked().cancelled().await;
        Ok(())
    };
    let task = spawn_run(group.clone(), owning);
    wait(secs(20)).await;
    assert_eq!(called.load(Ordering::SeqCst), 2);
    group.leave();
    within(secs(10), task).await.expect("it leaves").unwrap().unwrap();

    async fn function(partition: Partition) -> WorkResult {
        partition.revoked().cancelled().await;
        Ok(())
    }
    let group = fleet.group("b");
    let task = spawn_run(group.clone(), function);
    wait(secs(20)).await;
    group.leave();
    within(secs(10), task).await.expect("it leaves").unwrap().unwrap();

    let (group, borrowed) = (fleet.group("c"), &called);
    let run = sent(group.run(async |partition| {
        borrowed.fetch_add(1, Ordering::SeqCst);
        partition.revoked().cancelled().await;
        Ok(())
    }));
    let leave = async {
        wait(secs(20)).await;
        group.leave();
    };
    tokio::join!(run, leave).0.unwrap();
    assert_eq!(called.load(Ordering::SeqCst), 4);
}

/// If the work on a partition fails or panics, only this partition moves.
#[tokio::test(start_paused = true)]
async fn failing_work_moves_to_another_member() {
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
                        ("0", "a") => return Err("the work fails here".into()),
                        ("1", "a") => panic!("this work panics here"),
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
async fn a_leave_during_a_join_ends_run() {
    let fleet = Fleet::new(1);
    let group = fleet.group("a");
    let running = group.clone();
    let task = tokio::spawn(async move { running.run(async |_| Ok(())).await });
    tokio::task::yield_now().await;
    group.leave();
    within(secs(60), task).await.expect("it leaves").unwrap().unwrap();
}

/// A call of `leave` comes after `run` is spawned, but before the runtime first polls `run`. Before
/// the fix, such a call had no effect.
#[tokio::test(start_paused = true)]
async fn regression_a_leave_before_the_first_poll_of_run_takes_effect() {
    let fleet = Fleet::new(1);
    let group = fleet.group("a");
    let running = group.clone();
    let task = tokio::spawn(async move { running.run(async |_| Ok(())).await });
    group.leave();
    within(secs(60), task).await.expect("it leaves").unwrap().unwrap();
    assert!(fleet.store.take_calls().is_empty(), "no session was created");
}

/// Before the fix, if the only member of a group released a partition, it got the partition again
/// up to a validity later. The reason was that it read its own session only once per validity.
#[tokio::test(start_paused = true)]
async fn regression_a_sole_member_soon_gets_its_released_partition() {
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

/// The coordinator has not revoked the partition, so it expects no release. It reads the session of
/// `b` nevertheless, and sees the release, because the listed ETag of this session changed twice
/// within a quarter of the validity (GC2).
#[tokio::test(start_paused = true)]
async fn a_partition_that_was_released_without_a_revocation_soon_moves() {
    let fleet = Fleet::new(2);
    let a = fleet.member("a").await;
    balanced(&[&a], 2, secs(20)).await;
    let mut b = fleet.group("b").join().await.unwrap();
    for offset in 0..8 {
        let granted = within(POLL * 5, b.next()).await;
        let Some(Some(MembershipEvent::Granted(partition))) = granted else {
            panic!("release {offset}: {granted:?}")
        };
        wait(secs(offset * 7)).await;
        partition.release();
    }
}

/// Before the fix, the bound of `run` was `Fn(Partition) -> impl Future`. An async closure that
/// owns its captures did not compile, because its future borrows from the closure.
#[tokio::test(start_paused = true)]
async fn regression_the_work_may_be_an_async_closure_that_owns_its_captures() {
    let fleet = Fleet::new(2);
    let (group, names) = (fleet.group("a"), Arc::new(Mutex::new(Vec::new())));
    let (running, log) = (group.clone(), Arc::clone(&names));
    let task = tokio::spawn(async move {
        let work = async move |partition: Partition| {
            log.lock().unwrap().push(partition.name().to_owned());
            partition.revoked().cancelled().await;
            log.lock().unwrap().push("stopped".to_owned());
            Ok(())
        };
        running.run(work).await
    });
    wait(secs(20)).await;
    group.leave();
    within(secs(10), task).await.expect("it leaves").unwrap().unwrap();
    assert_eq!(*names.lock().unwrap(), ["0", "1", "stopped", "stopped"]);
}

/// A panic may occur when an error of the work is formatted, or when returned work is dropped.
/// Before the fix, such a panic ended `run` and the work on all partitions.
#[tokio::test(start_paused = true)]
async fn regression_a_panic_in_the_work_on_a_partition_ends_no_other_work() {
    #[derive(Debug)]
    struct Unspeakable;
    impl std::fmt::Display for Unspeakable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("a bug in the text of an error")
        }
    }
    impl std::error::Error for Unspeakable {}
    struct Undroppable;
    impl Drop for Undroppable {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("a bug in a drop")
            }
        }
    }
    /// A future that keeps `_kept` until the future itself is dropped, even after `work` has
    /// returned.
    struct Keeps<F> {
        work: F,
        _kept: Option<Undroppable>,
    }
    impl<F: Future + Unpin> Future for Keeps<F> {
        type Output = F::Output;

        fn poll(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<F::Output> {
            std::pin::Pin::new(&mut self.work).poll(cx)
        }
    }
    let fleet = Fleet::new(4);
    let starts: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let (group, log) = (fleet.group("a"), Arc::clone(&starts));
    let running = group.clone();
    let task = tokio::spawn(async move {
        let work = |partition: Partition| {
            let name = partition.name().to_owned();
            *log.lock().unwrap().entry(name.clone()).or_default() += 1;
            let _kept = (name == "1").then(|| Undroppable);
            let work = async move {
                match &*name {
                    "0" => return Err(Unspeakable.into()),
                    "1" => {}
                    "2" => std::panic::panic_any(Undroppable),
                    _ => partition.revoked().cancelled().await,
                }
                Ok(())
            };
            Keeps { work: Box::pin(work), _kept }
        };
        running.run(work).await
    });
    wait(secs(120)).await;
    assert!(!task.is_finished(), "the call continues");
    let starts = starts.lock().unwrap().clone();
    for name in ["0", "1", "2"] {
        assert!(starts[name] > 1, "the work on {name} is called again: {starts:?}");
    }
    assert_eq!(starts["3"], 1, "the work on 3 is not called again: {starts:?}");
    group.leave();
    within(secs(30), task).await.expect("it leaves").unwrap().unwrap();
}

/// Before the fix, the partitions of a member stayed reserved after a call of `leave_for` and a
/// later call of `leave`. In the reverse order, the member released no partition.
#[tokio::test(start_paused = true)]
async fn regression_the_last_call_of_leave_or_leave_for_counts() {
    for (name, calls) in [("for good", [true, false]), ("to come back", [false, true])] {
        let fleet = Fleet::new(4);
        let b = fleet.member("b").await;
        let group = fleet.group("a");
        let task = tokio::spawn({
            let group = group.clone();
            async move {
                group
                    .run(async |partition| {
                        partition.revoked().cancelled().await;
                        wait(secs(4)).await;
                        Ok(())
                    })
                    .await
            }
        });
        wait(VALIDITY).await;
        assert_eq!(b.owned().len(), 2, "{name}");
        for comes_back in calls {
            if comes_back {
                group.leave_for(secs(3_600))
            } else {
                group.leave()
            }
            wait(secs(1)).await;
        }
        within(secs(20), task).await.expect("it leaves").unwrap().unwrap();
        balanced(&[&b], 4, VALIDITY).await;
    }
}

/// Tests the defect of `regression_the_last_call_of_leave_or_leave_for_counts` with a member that
/// does not use `run`. This member handles the events of its membership.
#[tokio::test(start_paused = true)]
async fn regression_a_membership_that_left_for_good_reserves_nothing() {
    for calls in [[None, Some(secs(3_600))], [Some(secs(3_600)), None]] {
        let fleet = Fleet::new(4);
        let b = fleet.member("b").await;
        let mut a = fleet.group("a").join().await.unwrap();
        let mut owned = Vec::new();
        while owned.len() < 2 {
            if let Some(MembershipEvent::Granted(partition)) = a.next().await {
                owned.push(partition);
            }
        }
        for delay in calls {
            delay.map_or_else(|| a.leave(), |delay| a.leave_for(delay));
            wait(secs(3)).await;
        }
        owned.into_iter().for_each(Partition::release);
        balanced(&[&b], 4, VALIDITY).await;
        drop(a);
    }
}
