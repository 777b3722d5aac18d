//! The async shell as it ships, under a scheduler of shuttle's: every interleaving of a few tasks.
//! Each time nobody overlaps with whom it must not, everybody ends, and nothing is left.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::poll;

use super::super::claim::{Cell, Claim, ClaimState};
use super::*;
use tenure_testkit::interleavings::{every_interleaving, others_may_run, spawn};

/// Before each critical section shuttle may let any other task go on. Within one it need not: the
/// state is touched nowhere else, so who waits for the mutex could as well have come later.
#[derive(Default)]
struct ShuttleCell {
    state: Mutex<ClaimState>,
    /// The next critical section comes first in its task, whose start others may have preceded.
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

/// What a task does with its operation.
#[derive(Debug, Clone, Copy)]
enum Does {
    /// Locks, works, unlocks.
    Works,
    /// Works if it can lock at once.
    Tries,
    /// Enters, and drops its claim before it has been polled.
    Leaves,
    /// Enters, is polled once, and drops its claim whether it was granted or not.
    GivesUp,
    /// Broken: does not ask.
    Intrudes,
    /// Broken: gives up, but stays where it waited.
    Stays,
    /// Broken: leaves without waking anybody.
    LeavesSilently,
    /// As in the seed: one path after the other, in the order of the paths.
    OneByOne,
    /// Broken: one path after the other, the last first.
    OneByOneBackwards,
}

#[derive(Clone)]
struct World {
    cell: Arc<ShuttleCell>,
    /// How many have not ended.
    left: Arc<AtomicUsize>,
    /// Who works now. Not shuttle's, so nothing comes between the lines that use it.
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
                assert!(!other.conflicts_with(operation), "overlap of {other:?}, {operation:?}");
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
    /// The last one puts out the light. No task waits for another's end, as that would only add
    /// interleavings.
    fn end(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let left = self.cell.state.with(|state| (state.table.locked_paths(), state.sleepers()));
            assert_eq!(left, (0, 0), "locks and wakers are left");
        }
    }
}

/// How many interleavings there are, and how many tasks worked at once in some of them.
#[derive(Debug, PartialEq)]
struct Explored {
    interleavings: usize,
    most_at_work: usize,
}

/// Runs the tasks in every order in which their critical sections can come.
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
        println!("{interleavings} interleavings, at most {most_at_work} at work");
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
fn two_that_conflict_and_two_that_do_not() {
    let run = |one, other| explore(&[(Works, one), (Works, other)]).unwrap().most_at_work;
    assert_eq!(run(writes("/a"), reads("/a/b")), 1);
    assert_eq!(run(Operation::of(&["/a"], &["/a/b"]), writes("/a/c")), 1);
    assert_eq!(run(reads("/a"), reads("/a/b")), 2);
    assert_eq!(run(writes("/a/b"), writes("/a/c")), 2);
}

#[test]
fn three_at_work() {
    let rename = Operation::of(&[], &["/a/b", "/d"]);
    let tasks = [(Works, rename), (Works, reads("/a")), (Works, writes("/d"))];
    assert_eq!(explore(&tasks).unwrap().most_at_work, 2);
    let readers = [(Works, writes("/")), (Works, reads("/a")), (Works, reads("/a/b"))];
    assert_eq!(explore(&readers).unwrap().most_at_work, 2);
}

#[test]
fn one_that_gives_up_between_two() {
    for gives_up in [GivesUp, Leaves] {
        let tasks = [(Works, reads("/a")), (gives_up, writes("/a")), (Works, reads("/a/b"))];
        assert_eq!(explore(&tasks).unwrap().most_at_work, 2);
        let tasks = [(Works, writes("/a")), (gives_up, writes("/a/b")), (Works, writes("/a/b/c"))];
        assert_eq!(explore(&tasks).unwrap().most_at_work, 1);
    }
}

#[test]
fn one_that_tries() {
    let tasks = [(Works, writes("/a")), (Tries, reads("/")), (Works, reads("/a"))];
    assert_eq!(explore(&tasks).unwrap().most_at_work, 2);
}

/// The argument of the seed: whoever takes one path after the other, all in one order, ends.
#[test]
fn one_path_at_a_time_in_the_order_of_paths_ends_too() {
    let one = Operation::of(&[], &["/a", "/d"]);
    let explored = explore(&[(Does::OneByOne, one.clone()), (Does::OneByOne, one)]).unwrap();
    assert_eq!(explored.most_at_work, 1);
}

#[test]
fn broken_order_of_the_paths() {
    let one = Operation::of(&[], &["/a", "/d"]);
    let tasks = [(Does::OneByOne, one.clone()), (Does::OneByOneBackwards, one)];
    let why = explore(&tasks).unwrap_err();
    assert!(why.contains("deadlock"), "{why}");
}

#[test]
fn broken_a_task_that_does_not_ask() {
    let why = explore(&[(Works, writes("/a")), (Does::Intrudes, reads("/"))]).unwrap_err();
    assert!(why.contains("overlap"), "{why}");
}

#[test]
fn broken_one_that_gives_up_and_stays() {
    let tasks = [(Works, reads("/a")), (Does::Stays, writes("/a")), (Works, reads("/a/b"))];
    let why = explore(&tasks).unwrap_err();
    assert!(why.contains("deadlock") || why.contains("locks and wakers are left"), "{why}");
}

#[test]
fn broken_one_that_wakes_nobody() {
    let why = explore(&[(Does::LeavesSilently, reads("/a")), (Works, writes("/a"))]).unwrap_err();
    assert!(why.contains("deadlock"), "{why}");
}
