//! Settings that check rules D1 to D12 of docs/design/groups.md. Other programs delete objects, and
//! an operator restores the group.

use super::setting::{Broken, Budget, Group};
use super::{CALM, broken, explore, group, missed, more};

/// The invariants that hold even if other programs delete assignments. A deletion of the newest
/// assignment breaks G3, so G3 is not in this list.
const DELETED: &[&str] = &["G1", "G2", "G5"];

/// Returns a group in which member 1 owns all partitions by assignment 2. From then on, other
/// programs may delete objects.
fn deleted(members: u8, last: u64, budget: Budget) -> Group {
    let group = group(members, 1, last, budget);
    Group { assigned: true, always: DELETED.into(), ..group }
}

/// Returns a group that must recover from a deletion. On at least one path, each partition must
/// have an owner after the deletion.
fn repaired(members: u8, last: u64, budget: Budget) -> Group {
    Group { sometimes: vec!["GS1 after a deletion"], ..deleted(members, last, budget) }
}

#[test]
fn other_programs_delete_the_newest_assignment() {
    let budget = Budget { deletions: 1, ahead: 1, ..CALM };
    explore("newest deleted, a leave", repaired(2, 3, Budget { leaves: 1, ..budget }));
    explore("newest deleted, a crash", repaired(2, 3, Budget { crashes: 1, ..budget }));
}

#[test]
fn other_programs_delete_all_assignments() {
    let budget = Budget { wipes: 1, unread: more(1, 2), ..CALM };
    explore("all deleted, a leave", repaired(2, 3, Budget { leaves: 1, unread: 2, ..budget }));
    explore("all deleted, a crash", repaired(2, 3, Budget { crashes: 1, ..budget }));
}

/// Other programs delete assignments while an operator changes the group, or while a compactor
/// deletes sessions.
#[test]
fn operators_and_compactors_act_during_deletions() {
    let leaves = more(0, 1);
    let operates = Budget { deletions: 1, operations: 1, ahead: 1, leaves, ..CALM };
    explore("newest deleted, an operator", deleted(2, 3, operates));
    let compacts = Budget { wipes: 1, swept: 1, leaves: 1, ..CALM };
    explore("all deleted, a compactor", deleted(2, 3, compacts));
}

#[test]
fn the_whole_prefix_is_deleted() {
    let budget = Budget { losses: 1, crashes: 1, ..CALM };
    let budgets = [(1, Budget { ends: 1, ..budget }), (2, budget)];
    for (members, budget) in budgets {
        let group = Group { remembers: true, ..deleted(members, 3, budget) };
        explore("the whole prefix deleted", group);
    }
}

#[test]
fn a_group_is_restored() {
    let budget = Budget { restores: 1, ahead: 1, lost: more(0, 1), ..CALM };
    explore("restored after all", repaired(2, 5, Budget { wipes: 1, ..budget }));
    explore("restored after the newest", repaired(2, 5, Budget { deletions: 1, ..budget }));
}

/// Only the leaving member has read assignment 2. If its seal does not show this assignment,
/// another member can create assignment 2 again.
#[test]
fn broken_seal_that_drops_the_greatest_assignment_is_caught() {
    let budget = Budget { wipes: 1, leaves: 1, ..CALM };
    broken(Broken::SealsForget, deleted(2, 2, budget), "G1");
}

/// All sessions are deleted, but the process that joins again has read assignment 2. If the process
/// forgets this assignment, it can create assignment 2 again.
#[test]
fn broken_process_that_forgets_the_greatest_assignment_is_caught() {
    let budget = Budget { losses: 1, ends: 1, crashes: 1, ..CALM };
    broken(Broken::Forgets, Group { remembers: true, ..deleted(1, 2, budget) }, "G1");
}

/// Assignment 2 was deleted, and a session shows it. A plan that ignores the session creates
/// assignment 2 again from assignment 1.
#[test]
fn broken_plan_that_ignores_greater_assignments_is_caught() {
    let budget = Budget { deletions: 1, leaves: 1, ahead: 1, ..CALM };
    broken(Broken::IgnoresGreater, deleted(2, 2, budget), "G1");
}

/// All assignments are deleted, and the session that shows assignment 2 is unreadable. If a member
/// treats this session as missing, it can create assignment 2 again.
#[test]
fn broken_first_assignment_despite_an_unreadable_session_is_caught() {
    let budget = Budget { wipes: 1, unread: 2, ..CALM };
    broken(Broken::UnreadIsMissing, deleted(2, 2, budget), "G1");
}

/// A member has read the deleted assignment 2, and could create the next assignment from it. If all
/// members stop instead, the group never recovers.
#[test]
fn broken_group_that_stops_at_a_deletion_is_caught() {
    let budget = Budget { deletions: 1, leaves: 1, ..CALM };
    missed(Broken::StopsAtDeleted, repaired(2, 3, budget));
}

/// Assignment 2 was deleted. An operator that reads no session does not learn of assignment 2. It
/// creates the next assignment from assignment 1, in which no partition has an owner.
#[test]
fn broken_operator_that_reads_no_session_is_caught() {
    let budget = Budget { deletions: 1, operations: 1, ahead: 1, leaves: 1, ..CALM };
    broken(Broken::OperatesBlindly, deleted(2, 3, budget), "G5");
}

/// Only the session of a member that has left shows the deleted assignment 2. If the compactor
/// deletes this session, another member can create assignment 2 again.
#[test]
fn broken_compactor_that_deletes_evidence_is_caught() {
    let budget = Budget { wipes: 1, swept: 1, leaves: 1, ..CALM };
    broken(Broken::CompactsEvidence, deleted(2, 2, budget), "G1");
}

/// An operator restores the group, and the first assignment of the restore gets the number of the
/// deleted assignment. A member still owns its partitions by the deleted assignment.
#[test]
fn broken_restore_below_the_greatest_assignment_is_caught() {
    let budget = Budget { wipes: 1, restores: 1, ahead: 1, leaves: 1, ..CALM };
    broken(Broken::RestoresBelow, deleted(2, 4, budget), "G5");
}

/// If the restore deposes no session, the former owner renews its lease while the restore waits.
/// After this wait, the former owner still believes that it owns its partitions.
#[test]
fn broken_restore_that_deposes_no_session_is_caught() {
    let budget = Budget { wipes: 1, restores: 1, ahead: 1, leaves: 1, ..CALM };
    broken(Broken::NoSweep, deleted(2, 5, budget), "G5");
}

/// If the restore never creates its second assignment, members can never assign a partition again
/// (D12).
#[test]
fn broken_restore_that_keeps_its_held_epoch_is_caught() {
    let budget = Budget { wipes: 1, restores: 1, crashes: 1, ahead: 1, ..CALM };
    missed(Broken::NeverReleases, repaired(1, 5, budget));
}

/// The first assignment of a restore is the held assignment (D9). If members plan an assignment
/// from it, they grant partitions to new owners. But the former owner has not read the held
/// assignment, and still works.
#[test]
fn broken_restore_that_does_not_stop_plans_is_caught() {
    let budget = Budget { wipes: 1, restores: 1, ahead: 1, ..CALM };
    broken(Broken::HoldsNothing, deleted(2, 4, budget), "G5");
}

/// Deposed members believe that they own their partitions until their leases end. So the restore
/// must wait for the end of these leases.
#[test]
fn broken_restore_that_does_not_wait_for_leases_is_caught() {
    let budget = Budget { wipes: 1, restores: 1, ahead: 1, ..CALM };
    broken(Broken::NoWaitForOwners, deleted(2, 5, budget), "G5");
}
