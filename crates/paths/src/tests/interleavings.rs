//! Runs the async layer under a scheduler of the crate shuttle, in every interleaving of a few
//! tasks. The tests assert that conflicting tasks never overlap, that all tasks end, and that no
//! lock remains.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::poll;

use super::super::claim::{Cell, Claim, ClaimState};
use super::*;
use tenure_testkit::interleavings::{every_interleaving, others_may_run, spawn};

/// A mutex for tests. Before each critical section of a task, except the task's first one, shuttle
/// may run another task. Shuttle does not switch tasks inside a critical section: only critical
/// sections access the state, so another task would only wait.
#[derive(Default)]
struct ShuttleCell {
    state: Mutex<ClaimState>,
    /// True if the next critical section is the first critical section of the current task.
    comes_first: AtomicBool,
}

impl Cell for ShuttleCell {
    fn with<T>(&self, act: impl FnOnce(&mut ClaimState) -> T) -> T {
        if !self.comes_first.swap(false, Ordering::Relaxed) {
            others_may_run();
        }
        self.state.with(act)
    }
}

/// The behaviour of a task.
#[derive(Debug, Clone, Copy)]
enum Does {
    /// Locks, works and unlocks.
    Works,
    /// Calls `try_enter`, and works if the call is granted immediately.
    Tries,
    /// Enters the table, and drops its claim before the first poll.
    Leaves,
    /// Enters the table, polls its claim once, and drops the claim, whether or not it was granted.
    GivesUp,
    /// Broken: works without a lock.
    Intrudes,
    /// Broken: gives up, but stays in the queue.
    Stays,
    /// Broken: leaves without waking other calls.
    LeavesSilently,
    /// Locks one path after the other, in the order of the paths, as in Charemza's post.
    OneByOne,
    /// Broken: locks one path after the other, in reverse order.
    OneByOneBackwards,
}

#[derive(Clone)]
struct World {
    cell: Arc<ShuttleCell>,
    /// Number of tasks that have not ended.
    left: Arc<AtomicUsize>,
    /// Operations of the tasks that are working. This mutex is unknown to shuttle, so shuttle does
    /// not switch tasks while the mutex is locked.
    at_work: Arc<Mutex<Vec<Operation>>>,
    most_at_work: Arc<AtomicUsize>,
}

impl World {
    async fn run(&self, does: Does, operation: &Operation) {
        let modes = operation.modes();
        self.cell.comes_first.store(true, Ordering::Relaxed);
        match does {
            Does::Intrudes => self.work(operation).await,
            Does::Works => {
                let claim = Claim::enter(&self.cell, modes);
                claim.granted().await;
                self.work(operation).await;
            }
            Does::Tries => {
                if let Some(_claim) = Claim::try_enter(&self.cell, modes) {
                    self.work(operation).await;
                }
            }
            Does::Leaves => drop(Claim::enter(&self.cell, modes)),
            Does::GivesUp | Does::Stays => {
                let claim = Claim::enter(&self.cell, modes);
                let granted = poll!(std::pin::pin!(claim.granted()));
                if matches!(does, Does::Stays) && granted.is_pending() {
                    std::mem::forget(claim);
                }
            }
            Does::LeavesSilently => {
                let claim = Claim::enter(&self.cell, modes);
                claim.granted().await;
                self.work(operation).await;
                claim.leave_silently();
            }
            Does::OneByOne | Does::OneByOneBackwards => {
                let mut locks = modes.into_vec();
                if matches!(does, Does::OneByOneBackwards) {
                    locks.reverse();
                }
                let mut claims = Vec::new();
                for lock in locks {
                    let claim = Claim::enter(&self.cell, Box::new([lock]));
                    claim.granted().await;
                    claims.push(claim);
                }
                self.work(operation).await;
            }
        }
    }

    async fn work(&self, operation: &Operation) {
        {
            let mut at_work = self.at_work.lock().unwrap();
            for other in &*at_work {
                assert!(!other.conflicts_with(operation), "{other:?} overlaps with {operation:?}");
            }
            at_work.push(operation.clone());
            self.most_at_work.fetch_max(at_work.len(), Ordering::Relaxed);
        }
        others_may_run();
        let mut at_work = self.at_work.lock().unwrap();
        let at = at_work.iter().position(|other| other == operation).unwrap();
        at_work.remove(at);
    }
}

impl World {
    /// The last task checks that the table is empty. Tasks do not wait for the end of other tasks,
    /// because such a wait would only add interleavings.
    fn end(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let left = self.cell.state.with(|state| (state.table.locked_paths(), state.sleepers()));
            assert_eq!(left, (0, 0), "locks or wakers remain");
        }
    }
}

/// The number of interleavings, and the maximum number of tasks that worked at the same time.
#[derive(Debug, PartialEq)]
struct Explored {
    interleavings: usize,
    most_at_work: usize,
}

/// Runs the tasks in every possible order of their critical sections.
fn explore(tasks: &[(Does, Operation)]) -> Result<Explored, String> {
    let most_at_work = Arc::new(AtomicUsize::new(0));
    let (tasks, most) = (tasks.to_vec(), Arc::clone(&most_at_work));
    let explored = every_interleaving(move || {
        let world = World {
            cell: Arc::new(ShuttleCell::default()),
            left: Arc::new(AtomicUsize::new(tasks.len())),
            at_work: Arc::default(),
            most_at_work: Arc::clone(&most),
        };
        for (does, operation) in tasks.iter().cloned() {
            let world = world.clone();
            spawn(async move {
                world.run(does, &operation).await;
                world.end();
            });
        }
    });
    explored.map(|interleavings| {
        let most_at_work = most_at_work.load(Ordering::Relaxed);
        println!("{interleavings} interleavings, at most {most_at_work} tasks at the same time");
        Explored { interleavings, most_at_work }
    })
}

fn reads(path: &str) -> Operation {
    Operation::of(&[path], &[])
}

fn writes(path: &str) -> Operation {
    Operation::of(&[], &[path])
}

use Does::{GivesUp, Leaves, Tries, Works};

#[test]
fn conflicting_tasks_do_not_overlap() {
    let run = |one, other| explore(&[(Works, one), (Works, other)]).unwrap().most_at_work;
    assert_eq!(run(writes("/a"), reads("/a/b")), 1);
    assert_eq!(run(Operation::of(&["/a"], &["/a/b"]), writes("/a/c")), 1);
    assert_eq!(run(reads("/a"), reads("/a/b")), 2);
    assert_eq!(run(writes("/a/b"), writes("/a/c")), 2);
}

#[test]
fn three_tasks_run_in_every_order() {
    let rename = Operation::of(&[], &["/a/b", "/d"]);
    let tasks = [(Works, rename), (Works, reads("/a")), (Works, writes("/d"))];
    assert_eq!(explore(&tasks).unwrap().most_at_work, 2);
    let readers = [(Works, writes("/")), (Works, reads("/a")), (Works, reads("/a/b"))];
    assert_eq!(explore(&readers).unwrap().most_at_work, 2);
}

#[test]
fn a_task_may_give_up_between_two_others() {
    for gives_up in [GivesUp, Leaves] {
        let tasks = [(Works, reads("/a")), (gives_up, writes("/a")), (Works, reads("/a/b"))];
        assert_eq!(explore(&tasks).unwrap().most_at_work, 2);
        let tasks = [(Works, writes("/a")), (gives_up, writes("/a/b")), (Works, writes("/a/b/c"))];
        assert_eq!(explore(&tasks).unwrap().most_at_work, 1);
    }
}

#[test]
fn a_task_that_tries_to_lock_does_not_overlap() {
    let tasks = [(Works, writes("/a")), (Tries, reads("/")), (Works, reads("/a"))];
    assert_eq!(explore(&tasks).unwrap().most_at_work, 2);
}

/// Checks an argument of Charemza's post: if all tasks lock their paths in the same order, no
/// deadlock occurs and all tasks end.
#[test]
fn locking_in_the_order_of_paths_has_no_deadlock() {
    let one = Operation::of(&[], &["/a", "/d"]);
    let explored = explore(&[(Does::OneByOne, one.clone()), (Does::OneByOne, one)]).unwrap();
    assert_eq!(explored.most_at_work, 1);
}

#[test]
fn broken_tasks_that_lock_in_opposite_orders_are_caught() {
    let one = Operation::of(&[], &["/a", "/d"]);
    let tasks = [(Does::OneByOne, one.clone()), (Does::OneByOneBackwards, one)];
    let why = explore(&tasks).unwrap_err();
    assert!(why.contains("deadlock"), "{why}");
}

#[test]
fn broken_task_that_works_without_a_lock_is_caught() {
    let why = explore(&[(Works, writes("/a")), (Does::Intrudes, reads("/"))]).unwrap_err();
    assert!(why.contains("overlap"), "{why}");
}

#[test]
fn broken_cancelled_call_that_stays_in_the_queue_is_caught() {
    let tasks = [(Works, reads("/a")), (Does::Stays, writes("/a")), (Works, reads("/a/b"))];
    let why = explore(&tasks).unwrap_err();
    assert!(why.contains("deadlock") || why.contains("locks or wakers remain"), "{why}");
}

#[test]
fn broken_task_that_leaves_without_waking_others_is_caught() {
    let why = explore(&[(Does::LeavesSilently, reads("/a")), (Works, writes("/a"))]).unwrap_err();
    assert!(why.contains("deadlock"), "{why}");
}
