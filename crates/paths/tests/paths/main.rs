//! Tests of path locks through the public API: conflicts, cancellation, leadership and stress.

mod memory;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::join_all;
use tenure::Loss;
use tenure_paths::{Access, Path, PathLocks};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs, within};
use tenure_testkit::world::World;

fn path(text: &str) -> Path {
    Path::new(text).unwrap()
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Read,
    Write,
}

impl Act {
    fn of(self, folder: &str) -> Access {
        match self {
            Act::Read => Access::to_read(&path(folder)),
            Act::Write => Access::to_write(&path(folder)),
        }
    }
}

/// Checks the compatibility table of Charemza's post for two equal paths, and for all other
/// relations of two paths.
#[test]
fn operations_exclude_each_other_as_in_the_table() {
    use Act::{Read, Write};
    let relations = [
        ("same", "/a/b", [("/a/b", true)].as_slice()),
        ("ancestor", "/a/b", &[("/a", true), ("/", true)]),
        ("descendant", "/a/b", &[("/a/b/c", true), ("/a/b/c/d/e", true)]),
        ("sibling", "/a/b", &[("/a/c", false), ("/a/bb", false), ("/a/b!", false)]),
        ("stranger", "/a/b", &[("/d", false), ("/d/b", false), ("/b/a", false)]),
        ("with the root", "/", &[("/", true), ("/a", true), ("/a/b", true)]),
    ];
    for (relation, held, others) in relations {
        for (other, in_lineage) in others {
            for (one, two) in [(Write, Read), (Write, Write), (Read, Write), (Read, Read)] {
                let together = !in_lineage || (one, two) == (Read, Read);
                let locks = PathLocks::new();
                let guard = locks.try_lock(one.of(held)).unwrap().expect("no call holds a lock");
                let tried = locks.try_lock(two.of(other)).unwrap();
                assert_eq!(
                    tried.is_some(),
                    together,
                    "{relation}: {one:?} {held}, {two:?} {other}"
                );
                drop(tried);
                let mut lock = pin!(locks.lock(two.of(other)));
                assert_eq!(lock.as_mut().now_or_never().is_some(), together, "{relation}");
                if !together {
                    drop(guard);
                    assert!(lock.now_or_never().is_some(), "the lock is free after the drop");
                }
            }
        }
    }
}

/// Checks the example of Charemza's post: a copy of /a/b to /a/b', and the operations that the copy
/// excludes or admits.
#[test]
fn a_copy_excludes_conflicting_operations() {
    let locks = PathLocks::new();
    let copy = locks.try_lock(Access::to_copy(&path("/a/b"), &path("/a/b'"))).unwrap().unwrap();
    let free = |access| locks.try_lock(access).unwrap().is_some();
    for folder in ["/a/b'", "/a/b'/c", "/a/b'/c/d", "/a", "/"] {
        assert!(!free(Act::Read.of(folder)), "read {folder}");
        assert!(!free(Act::Write.of(folder)), "write {folder}");
    }
    for folder in ["/a/b", "/a/b/c", "/a/b/c/d"] {
        assert!(free(Act::Read.of(folder)), "read {folder}");
        assert!(!free(Act::Write.of(folder)), "write {folder}");
    }
    for folder in ["/e/f/g", "/e", "/a/c", "/a/bb"] {
        assert!(free(Act::Read.of(folder)) && free(Act::Write.of(folder)), "{folder}");
    }
    drop(copy);
    assert_eq!(locks.locked_paths(), 0);
}

/// The modes of Charemza's post would let another call write to /a/c during this read of /a. The
/// modes of this crate exclude this write.
#[test]
fn a_call_that_reads_above_its_write_excludes_other_writers() {
    let locks = PathLocks::new();
    let free = |access| locks.try_lock(access).unwrap().is_some();
    let access = Access::new().read([path("/a")]).write([path("/a/b")]);
    let guard = locks.try_lock(access.clone()).unwrap().unwrap();
    assert!(!free(Act::Write.of("/a/c")) && !free(Act::Read.of("/a/b")) && !free(access));
    assert!(free(Act::Read.of("/a/c")) && free(Act::Write.of("/d")), "no other call is excluded");
    drop(guard);
    // If an access names a path for both reading and writing, the path is locked for writing.
    let access = Access::new().write([path("/a")]).read([path("/a"), path("/a/b")]);
    let guard = locks.try_lock(access).unwrap().unwrap();
    assert!(!free(Act::Read.of("/a/b")) && free(Act::Read.of("/d")));
    drop(guard);
    assert!(locks.try_lock(Access::new()).unwrap().is_some(), "an empty access is always free");
    assert_eq!(locks.locked_paths(), 0);
}

/// A call waits only for earlier calls, and no later call overtakes it.
#[test]
fn readers_and_writers_do_not_starve() {
    for (stream, starved) in [(Act::Read, Act::Write), (Act::Write, Act::Read)] {
        let locks = PathLocks::new();
        let mut held = Box::pin(locks.lock(stream.of("/a"))).now_or_never().unwrap().unwrap();
        let mut waiter = pin!(locks.lock(starved.of("/a/b")));
        assert!(waiter.as_mut().now_or_never().is_none());
        // The stream never pauses: each of its calls arrives before the previous one has left.
        let mut next = Box::pin(locks.lock(stream.of("/a")));
        assert!(next.as_mut().now_or_never().is_none(), "the call queues behind the waiting call");
        assert!(locks.try_lock(stream.of("/a")).unwrap().is_none(), "`try_lock` does not overtake");
        assert!(locks.try_lock(stream.of("/c")).unwrap().is_some(), "unrelated paths are free");
        drop(held);
        held = waiter.now_or_never().expect("the waiting call is next").unwrap();
        assert!(next.as_mut().now_or_never().is_none());
        drop(held);
        assert!(next.now_or_never().is_some());
        assert_eq!(locks.locked_paths(), 0);
    }
}

#[test]
fn a_cancelled_call_leaves_no_locks() {
    let locks = PathLocks::new();
    let held = locks.try_lock(Act::Read.of("/a")).unwrap();
    // Drop three kinds of futures: never polled, polled once, and granted but not polled since the
    // grant.
    drop(locks.lock(Act::Write.of("/a")));
    assert_eq!(locks.locked_paths(), 2);
    let mut writer = Box::pin(locks.lock(Act::Write.of("/a")));
    let mut reader = Box::pin(locks.lock(Act::Read.of("/a/b")));
    assert!(writer.as_mut().now_or_never().is_none());
    assert!(reader.as_mut().now_or_never().is_none(), "the reader waits behind the writer");
    drop(writer);
    let reader = reader.now_or_never().expect("no earlier call remains");
    drop((reader, held));

    let held = locks.try_lock(Act::Write.of("/")).unwrap();
    let mut granted = Box::pin(locks.lock(Act::Write.of("/a")));
    let mut behind = Box::pin(locks.lock(Act::Write.of("/a/b")));
    assert!(granted.as_mut().now_or_never().is_none());
    assert!(behind.as_mut().now_or_never().is_none());
    drop(held);
    assert!(behind.as_mut().now_or_never().is_none(), "the other call is granted, but not polled");
    drop(granted);
    assert!(behind.now_or_never().is_some());
    assert_eq!(locks.locked_paths(), 0);
}

/// Dropping a waker can end a task, and the end of the task drops its guards.
#[test]
fn a_waker_may_own_a_guard() {
    struct Owner(#[expect(dead_code, reason = "dropped")] Option<tenure_paths::PathGuard>);
    impl std::task::Wake for Owner {
        fn wake(self: Arc<Self>) {}
    }
    let locks = PathLocks::new();
    let held = locks.try_lock(Act::Write.of("/a")).unwrap();
    let owned = locks.try_lock(Act::Write.of("/b")).unwrap();
    let mut lock = Box::pin(locks.lock(Act::Write.of("/a")));
    for guard in [owned, None] {
        let waker = Arc::new(Owner(guard)).into();
        let polled = lock.as_mut().poll(&mut std::task::Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    drop((lock, held));
    assert_eq!(locks.locked_paths(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_leadership_has_one_set_of_locks() {
    let world = World::new();
    let lead = world.leader("a").await;
    let (one, other) = (PathLocks::under(&lead), PathLocks::under(&lead));
    let guard = one.lock(Act::Write.of("/a")).await.unwrap();
    assert!(other.try_lock(Act::Read.of("/")).unwrap().is_none());
    assert!(
        PathLocks::new().try_lock(Act::Read.of("/")).unwrap().is_some(),
        "these locks are independent"
    );
    assert_eq!(guard.token(), Some(lead.epoch()));
    assert!(guard.check().is_ok());
    assert_eq!(format!("{one:?}"), "PathLocks { epoch: Some(Epoch(1)), locked_paths: 2 }");
    drop(guard);
    assert!(other.try_lock(Act::Read.of("/")).unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn calls_under_a_lost_leadership_fail_with_its_reason() {
    let world = World::new();
    let lead = world.leader("a").await;
    let locks = PathLocks::under(&lead);
    let guard = locks.lock(Act::Write.of("/a")).await.unwrap();
    let waiters = join_all((0..3).map(|_| locks.lock(Act::Read.of("/a"))));
    world.store.on(Call::Replace).always().fault(Fault::Hang);
    // Waiting calls fail when the lease ends, although another call still holds its guard.
    let waited = within(secs(11), waiters).await.expect("the calls fail at the end of the lease");
    assert!(waited.iter().all(|lock| matches!(lock, Err(Loss::LeaseEnded { .. }))), "{waited:?}");
    assert!(matches!(guard.check(), Err(Loss::LeaseEnded { .. })));
    assert_eq!(guard.token(), None, "the guard has no token once the lease has ended");
    assert!(matches!(locks.try_lock(Act::Read.of("/b")), Err(Loss::LeaseEnded { .. })));
    assert!(matches!(locks.lock(Act::Read.of("/b")).await, Err(Loss::LeaseEnded { .. })));
    drop(guard);
    assert_eq!(locks.locked_paths(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_granted_call_fails_if_the_lease_ends_before_it_runs() {
    let world = World::new();
    let lead = world.leader("a").await;
    let locks = PathLocks::under(&lead);
    let guard = locks.lock(Act::Write.of("/a")).await.unwrap();
    let mut waiter = Box::pin(locks.lock(Act::Write.of("/a")));
    assert!(waiter.as_mut().now_or_never().is_none());
    drop(guard);
    world.clock.suspend(secs(60));
    assert!(waiter.await.is_err());
    assert_eq!(locks.locked_paths(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_next_leadership_has_other_locks() {
    let world = World::new();
    let lead = world.leader("a").await;
    let locks = PathLocks::under(&lead);
    let guard = locks.lock(Act::Write.of("/a")).await.unwrap();
    lead.resign().await.unwrap();
    assert!(matches!(guard.check(), Err(Loss::Resigned)));
    assert!(matches!(locks.lock(Act::Read.of("/b")).await, Err(Loss::Resigned)));
    let next = world.leader("a").await;
    let guard = PathLocks::under(&next).lock(Act::Write.of("/a")).await.unwrap();
    assert_eq!(guard.token().unwrap().get(), 2);
}

/// The operations in progress. The ledger counts the conflicts between these operations, without
/// using the locks.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    working: Vec<Working>,
    most: usize,
    overlaps: usize,
}

type Working = (usize, BTreeSet<String>, BTreeSet<String>);

impl Ledger {
    fn begin(&self, who: usize, reads: &BTreeSet<String>, writes: &BTreeSet<String>) {
        let clash = |writes: &BTreeSet<String>, touched: &BTreeSet<String>| {
            writes.iter().any(|one| touched.iter().any(|other| lineage(one, other)))
        };
        let mut entries = self.0.lock().unwrap();
        let overlaps = entries.working.iter().filter(|(_, others_reads, others_writes)| {
            clash(writes, others_reads)
                || clash(writes, others_writes)
                || clash(others_writes, reads)
        });
        entries.overlaps += overlaps.count();
        entries.working.push((who, reads.clone(), writes.clone()));
        entries.most = entries.most.max(entries.working.len());
    }

    fn end(&self, who: usize) {
        self.0.lock().unwrap().working.retain(|(other, ..)| *other != who);
    }
}

fn lineage(one: &str, other: &str) -> bool {
    let below = |path: &str, folder: &str| format!("{path}/").starts_with(&format!("{folder}/"));
    one == "/" || other == "/" || below(one, other) || below(other, one)
}

/// Runs random operations in several tasks. Returns the maximum number of concurrent operations,
/// and the number of forbidden overlaps.
async fn stress(locks: Option<PathLocks>, tasks: usize, rounds: usize) -> (usize, usize) {
    let ledger = Ledger::default();
    let tasks = (0..tasks).map(|who| {
        let (locks, ledger) = (locks.clone(), ledger.clone());
        tokio::spawn(async move {
            let mut rng = fastrand::Rng::with_seed(who as u64);
            for _ in 0..rounds {
                let (reads, writes) = (some_paths(&mut rng), some_paths(&mut rng));
                let paths =
                    |set: &BTreeSet<String>| set.iter().map(|p| path(p)).collect::<Vec<_>>();
                let access = Access::new().read(paths(&reads)).write(paths(&writes));
                // One in five calls gives up immediately or after some polls.
                let patience = if rng.u8(..5) == 0 { rng.usize(..4) } else { usize::MAX };
                let guard = match &locks {
                    Some(locks) => match patiently(patience, locks.lock(access)).await {
                        Some(guard) => Some(guard.unwrap()),
                        None => continue,
                    },
                    None => None,
                };
                ledger.begin(who, &reads, &writes);
                for _ in 0..rng.usize(..4) {
                    tokio::task::yield_now().await;
                }
                ledger.end(who);
                drop(guard);
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    join_all(tasks).await.into_iter().for_each(|ended| ended.unwrap());
    let entries = ledger.0.lock().unwrap();
    (entries.most, entries.overlaps)
}

/// Polls the future once, and then up to `times` more times. Returns its output, or `None` if it is
/// still pending.
async fn patiently<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let (mut left, mut future) = (times, pin!(future));
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending if left == 0 => std::task::Poll::Ready(None),
        std::task::Poll::Pending => {
            if left != usize::MAX {
                left -= 1;
                context.waker().wake_by_ref();
            }
            std::task::Poll::Pending
        }
    })
    .await
}

/// Returns up to two paths, most of them deep.
fn some_paths(rng: &mut fastrand::Rng) -> BTreeSet<String> {
    let one = |rng: &mut fastrand::Rng| {
        let depth = [0, 1, 2, 2, 3, 3, 3, 3, 3, 3][rng.usize(..10)];
        let path: String = (0..depth).map(|_| format!("/{}", rng.char('a'..='d'))).collect();
        if path.is_empty() { "/".to_owned() } else { path }
    };
    (0..[0, 0, 1, 1, 2][rng.usize(..5)]).map(|_| one(rng)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conflicting_operations_do_not_overlap_under_stress() {
    let locks = PathLocks::new();
    let run = stress(Some(locks.clone()), 32, 1_000);
    let (most, overlaps) = within(secs(300), run).await.expect("no deadlock, no lost wakeup");
    assert_eq!(overlaps, 0);
    assert!(most > 2, "operations run at the same time: {most}");
    assert_eq!(locks.locked_paths(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn broken_operations_without_locks_are_caught() {
    let (_, overlaps) = stress(None, 32, 1_000).await;
    assert!(overlaps > 100, "{overlaps}");
}

#[tokio::test(start_paused = true)]
async fn a_guard_can_move_to_another_task() {
    let locks = PathLocks::new();
    let guard = locks.lock(Act::Write.of("/a")).await.unwrap();
    let task = tokio::spawn(async move {
        tenure_testkit::time::wait(millis(10)).await;
        guard.check()
    });
    assert!(locks.try_lock(Act::Read.of("/a")).unwrap().is_none());
    task.await.unwrap().unwrap();
    assert!(locks.try_lock(Act::Read.of("/a")).unwrap().is_some());
}
