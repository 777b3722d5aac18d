//! Uses shuttle to explore each interleaving of a few tasks. These tasks access the [`Ownership`]
//! of one member, which a `MemberTask` and the application's handles share. An application calls
//! `check` and receives events without a lock, also while another task is in a critical section. So
//! the tests also check the invariants inside critical sections, after each event is sent.

mod application;
mod broken;
mod world;

use std::cell::RefCell;

use super::*;
use crate::events::MembershipEvent;
use crate::partition::Partition;
use crate::protocol::assignment::{Assignment, Member};
use crate::test_values::session;
use broken::Broken;
use tenure::Epoch;
use tenure::internals::groups::Nonce;
use tenure_testkit::interleavings::{every_interleaving, others_may_run};
use world::World;

thread_local! {
    /// The state of the current interleaving. Each test has a separate state.
    static WORLD: RefCell<Option<Arc<World>>> = const { RefCell::new(None) };
}

fn world() -> Option<Arc<World>> {
    WORLD.with_borrow(Clone::clone)
}

/// A point at which shuttle may run any other task. No point is needed inside a critical section,
/// because another task would only wait for the mutex.
pub(super) fn before_a_critical_section() {
    if let Some(world) = world().filter(|world| world.begun.load(Ordering::SeqCst)) {
        if !world.comes_first.swap(false, Ordering::SeqCst) {
            others_may_run();
        }
        world.look();
    }
}

/// Called inside a critical section, after an event was sent.
pub(super) fn told() {
    if let Some(world) = world() {
        world.listen();
    }
}

/// One task of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Releases each partition after its revocation, and all partitions after the loss of the
    /// session.
    Obeys,
    /// Releases the partition with this number once the partition is granted, because its work
    /// failed.
    Fails(u32),
    Leaves,
    LeavesFor,
    /// The driver of the session finds that the object of the session is missing.
    LosesTheSession,
}

const OWN: Session = session(1);
const OTHER: Session = session(2);

/// Returns the assignment with this number. Each element of `partitions` is an owner, a token, and
/// whether the partition must move.
fn assignment(number: u64, partitions: [Option<(Session, u64, bool)>; 2]) -> Assignment {
    let names = vec!["p".into(), "q".into()];
    let mut it = Assignment::first(Nonce::from_bits(number.into()), names);
    it.epoch = Epoch::new(number).unwrap();
    it.members = vec![Member::new(OWN, "a"), Member::new(OTHER, "b")];
    for (partition, owned) in it.partitions.iter_mut().zip(partitions) {
        if let Some((owner, token, moves)) = owned {
            partition.owner = Some(owner);
            partition.token = Epoch::new(token);
            partition.target = moves.then_some(OTHER);
        }
    }
    it
}

/// Returns a partition that this member owns under this token.
fn owned(token: u64) -> Option<(Session, u64, bool)> {
    Some((OWN, token, false))
}

/// Returns a partition that this member owns and must release.
fn moving(token: u64) -> Option<(Session, u64, bool)> {
    Some((OWN, token, true))
}

/// Explores the interleavings of an ownership with this deliberate defect. The member knows the
/// first assignment before the tasks begin.
fn explore_broken(
    broken: Broken,
    assignments: &[Assignment],
    releases: usize,
    tasks: &[Does],
) -> Result<usize, String> {
    struct Forget;
    impl Drop for Forget {
        fn drop(&mut self) {
            WORLD.set(None);
        }
    }
    let _forget = Forget;
    let tasks_shown = format!("{tasks:?}");
    let (assignments, tasks) = (assignments.to_vec(), tasks.to_vec());
    let explored = every_interleaving(move || {
        let world = Arc::new(World::new(broken, tasks.len() + 1));
        WORLD.set(Some(Arc::clone(&world)));
        world.start(&assignments, releases, &tasks);
    });
    println!("{tasks_shown}: {explored:?}");
    explored
}

fn explore(assignments: &[Assignment], releases: usize, tasks: &[Does]) -> usize {
    explore_broken(Broken::Nothing, assignments, releases, tasks).unwrap()
}

use Does::{Fails, Leaves, LeavesFor, LosesTheSession, Obeys};

#[test]
fn granted_partitions_are_revoked_and_their_releases_are_written() {
    let (none, granted) = (assignment(1, [None; 2]), assignment(2, [owned(2), None]));
    let assignments = [none, granted, assignment(3, [moving(2), None])];
    assert!(explore(&assignments, 1, &[Obeys]) > 1);
    assert!(explore(&assignments, 1, &[Obeys, Fails(0)]) > 1);
}

#[test]
fn two_releases_are_written() {
    let assignments = [assignment(1, [owned(1); 2]), assignment(2, [owned(1), moving(1)])];
    assert!(explore(&assignments, 2, &[Obeys, Fails(0)]) > 1);
}

#[test]
fn a_member_may_leave_during_a_grant() {
    let assignments = [assignment(1, [None; 2]), assignment(2, [owned(2), None])];
    assert!(explore(&assignments, 0, &[Obeys, Leaves]) > 1);
    let assignments = [assignment(1, [owned(1), None]), assignment(2, [owned(1), owned(2)])];
    assert!(explore(&assignments, 0, &[Obeys, Leaves]) > 1);
}

#[test]
fn work_may_fail_during_a_leave() {
    let assignments = [assignment(1, [owned(1), None]), assignment(2, [moving(1), None])];
    assert!(explore(&assignments, 0, &[Obeys, Fails(0), Leaves]) > 1);
    assert!(explore(&assignments, 0, &[Obeys, Fails(0), LeavesFor]) > 1);
}

#[test]
fn a_member_may_leave_twice() {
    let assignments = [assignment(1, [owned(1), None])];
    assert!(explore(&assignments, 0, &[Obeys, Leaves, LeavesFor]) > 1);
}

#[test]
fn a_partition_may_be_taken_during_its_release() {
    let taken = assignment(2, [Some((OTHER, 2, false)), None]);
    let assignments = [assignment(1, [owned(1), None]), taken];
    assert!(explore(&assignments, 0, &[Obeys, Fails(0), Leaves]) > 1);
}

#[test]
fn a_partition_may_be_granted_again() {
    let assignments = [
        assignment(1, [owned(1), None]),
        assignment(2, [moving(1), None]),
        assignment(3, [owned(3), None]),
    ];
    assert!(explore(&assignments, 0, &[Obeys, Leaves]) > 1);
}

#[test]
fn a_session_may_be_lost_at_any_point() {
    let assignments = [assignment(1, [owned(1), None]), assignment(2, [moving(1), owned(2)])];
    assert!(explore(&assignments, 0, &[Obeys, LosesTheSession]) > 1);
    assert!(explore(&assignments[..1], 0, &[Obeys, Leaves, LosesTheSession]) > 1);
}

fn caught(broken: Broken, assignments: &[Assignment], tasks: &[Does], why: &str) {
    let found = explore_broken(broken, assignments, 1, tasks).unwrap_err();
    assert!(found.contains(why), "{found}");
}

fn granted() -> [Assignment; 2] {
    [assignment(1, [None; 2]), assignment(2, [owned(2), None])]
}

fn revoked() -> [Assignment; 2] {
    [assignment(1, [owned(1), None]), assignment(2, [moving(1), None])]
}

#[test]
fn broken_grant_that_is_reported_before_it_is_recorded_is_caught() {
    caught(Broken::TellsBeforeItKeeps, &granted(), &[Obeys, Fails(0), Leaves], "the grants differ");
}

#[test]
fn broken_check_that_succeeds_after_a_partition_is_taken_is_caught() {
    let taken = assignment(2, [Some((OTHER, 2, false)), None]);
    let assignments = [assignment(1, [owned(1), None]), taken];
    caught(
        Broken::TellsBeforeItTakes,
        &assignments,
        &[Obeys, Leaves],
        "taken partition is still owned",
    );
}

#[test]
fn broken_release_that_ends_the_grant_late_is_caught() {
    caught(Broken::ReleasesBeforeItGivesUp, &revoked(), &[Obeys, Leaves], "the check of");
}

#[test]
fn broken_release_that_wakes_no_task_is_caught() {
    caught(Broken::ReleasesSilently, &revoked(), &[Obeys], "deadlock");
    caught(Broken::ReleasesSilently, &revoked(), &[Obeys, Leaves], "deadlock");
}

#[test]
fn broken_leave_that_revokes_twice_is_caught() {
    caught(Broken::RevokesTwice, &revoked(), &[Obeys, Leaves], "was Revoked and is Revoked");
}

#[test]
fn broken_member_that_leaves_before_its_work_stops_is_caught() {
    caught(Broken::DoesNotWait, &revoked(), &[Obeys, Leaves], "still owned after the leave");
}

#[test]
fn broken_event_after_the_loss_is_caught() {
    caught(Broken::SpeaksAfterTheLoss, &revoked(), &[Obeys, LosesTheSession], "after the last");
}
