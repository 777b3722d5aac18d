//! Explores all states of the real state machines of partition groups, within bounds
//! (docs/design/checks.md). `TENURE_MODEL=large` sets greater bounds.

mod broken;
mod checks;
mod deletions;
mod process;
mod restore;
mod serve;
mod setting;
mod step;
mod store;
mod world;

use setting::{Broken, Budget, Group};
use stateright::{Checker, Model};

const ALWAYS: &[&str] = &["G1", "G2", "G3", "G4", "G5", "no failure"];

fn group(members: u8, partitions: u8, last: u64, budget: Budget) -> Group {
    Group {
        members,
        partitions,
        last,
        budget,
        reuses_ids: false,
        remembers: false,
        assigned: false,
        broken: Broken::Nothing,
        always: ALWAYS.into(),
        sometimes: Vec::new(),
    }
}

/// Explores all states of the group. Asserts that no invariant breaks, and that each required event
/// occurs.
fn explore(name: &'static str, group: Group) {
    let clock = tenure::Process::system();
    let start = clock.now().boot;
    let checker = group.checker().threads(2).spawn_dfs().join();
    let took = (clock.now().boot - start).as_secs_f32();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{name}: unique states: {states}, depth: {depth}, time: {took:.1} s");
    checker.assert_properties();
}

/// Asserts that the invariant breaks if the model omits the rule `group.broken`. Prints the
/// shortest path to the broken invariant.
fn caught(group: Group, invariant: &'static str) {
    let broken = group.broken;
    let checker = Group { always: vec![invariant], ..group }.checker().spawn_bfs().join();
    let path = checker.discovery(invariant);
    let path = path.unwrap_or_else(|| {
        panic!("{broken:?} does not break {invariant} in {} states", checker.unique_state_count())
    });
    let actions = path.into_actions();
    println!("{broken:?}: {invariant} is broken in {} steps:", actions.len());
    for action in actions {
        println!("    {action:?}");
    }
}

/// Asserts that the required event of the group occurs, and that it never occurs if the model omits
/// the rule `broken`.
fn missed(broken: Broken, group: Group) {
    let property = group.sometimes[0];
    let search = |broken| {
        let group =
            Group { broken, always: Vec::new(), sometimes: vec![property], ..group.clone() };
        group.checker().spawn_bfs().join()
    };
    let shipped =
        search(Broken::Nothing).discovery(property).expect("the event occurs with the rule");
    let steps = shipped.into_actions().len();
    let checker = search(broken);
    let states = checker.unique_state_count();
    assert!(
        checker.discovery(property).is_none(),
        "{broken:?}: {property} occurs without the rule"
    );
    println!(
        "{broken:?}: {property} takes {steps} steps with the rule, and never occurs in {states} states without it"
    );
}

/// Returns `large` if `TENURE_MODEL=large` is set, otherwise `usual`.
fn more(usual: u8, large: u8) -> u8 {
    if std::env::var("TENURE_MODEL").is_ok_and(|bound| bound == "large") { large } else { usual }
}

const CALM: Budget = Budget {
    lost: 0,
    twice: 0,
    ends: 0,
    crashes: 0,
    leaves: 0,
    gives: 0,
    depositions: 0,
    vanish: 0,
    compactions: 0,
    swept: 0,
    ahead: 0,
    operations: 0,
    deletions: 0,
    wipes: 0,
    losses: 0,
    unread: 0,
    restores: 0,
};

#[test]
fn requests_are_lost_late_or_applied_twice() {
    let budget = Budget { lost: 1, twice: 1, ahead: more(0, 1), ..CALM };
    let group = group(2, 2, 3, budget);
    explore("requests lost, late or applied twice", Group { sometimes: vec!["GS1"], ..group });
}

#[test]
fn leases_end_while_two_members_coordinate() {
    let budget = Budget { ends: 1, ahead: 1, lost: 1, ..CALM };
    let sometimes = vec!["GS1", "GS1 after a loss"];
    explore("leases that end", Group { sometimes, ..group(2, 2, 4, budget) });
}

#[test]
fn a_member_leaves() {
    let budget = Budget { leaves: 1, ahead: 1, lost: more(0, 1), ..CALM };
    let sometimes = vec!["GS1", "GS2", "moved"];
    explore("a member that leaves", Group { sometimes, ..group(2, 1, 4, budget) });
}

#[test]
fn a_partition_is_released() {
    let budget = Budget { gives: 2, lost: more(0, 1), ahead: more(0, 1), ..CALM };
    let sometimes = vec!["GS1"];
    explore("a partition that is given up", Group { sometimes, ..group(2, 1, 6, budget) });
}

#[test]
fn a_compactor_runs_among_zombies() {
    let budget = Budget { compactions: 1, lost: 1, ends: 1, ahead: more(0, 1), ..CALM };
    let last = u64::from(more(4, 5));
    explore("a compactor and zombies", group(2, 1, last, budget));
}

#[test]
fn members_are_deposed() {
    let budget = Budget { depositions: 1, ahead: 1, lost: 1, ..CALM };
    let sometimes = vec!["GS1 after a loss"];
    explore("depositions", Group { sometimes, ..group(2, 1, 4, budget) });
}

#[test]
fn sessions_vanish() {
    let budget = Budget { vanish: 1, ahead: 1, lost: 1, ..CALM };
    let sometimes = vec!["GS1 after a loss"];
    explore("sessions that vanish", Group { sometimes, ..group(2, 1, 4, budget) });
}

#[test]
fn members_restart_with_their_ids() {
    let budget = Budget { crashes: 1, ahead: 1, swept: 1, vanish: 1, lost: more(0, 1), ..CALM };
    let group = group(2, 1, 5, budget);
    explore("members that start again", Group { reuses_ids: true, ..group });
}

#[test]
fn operators_change_the_group() {
    let budget = Budget { operations: 2, lost: more(0, 1), ahead: more(0, 1), ..CALM };
    explore("operators", group(2, 1, 5, budget));
}

/// If the create of a session takes effect late, after the session was compacted, the session does
/// not become a member again.
#[test]
fn sessions_are_compacted() {
    let budget = Budget { leaves: 1, swept: 1, twice: 1, ahead: more(0, 1), ..CALM };
    let always = [ALWAYS, &["R3"]].concat();
    explore("sessions that are compacted", Group { always, ..group(2, 1, 5, budget) });
}

#[test]
fn three_members_share_partitions() {
    let budget = Budget { ends: more(0, 1), ahead: more(0, 1), ..CALM };
    let sometimes = vec!["GS1"];
    explore("three members", Group { sometimes, ..group(3, 1, 3, budget) });
}

fn broken(broken: Broken, group: Group, invariant: &'static str) {
    caught(Group { broken, ..group }, invariant);
}

/// If members ignore the token of a release, a late release by a former owner takes the partition
/// from its current owner.
#[test]
fn broken_release_that_counts_with_any_token_is_caught() {
    let budget = Budget { gives: 1, ..CALM };
    broken(Broken::AnyToken, group(1, 1, 6, budget), "G4");
}

/// If members do not seal a lapsed session, its member may renew the session after another member
/// has noticed the lapse.
#[test]
fn broken_planner_that_does_not_seal_a_lapsed_session_is_caught() {
    let budget = Budget { ahead: 1, ..CALM };
    broken(Broken::NoSeal, group(2, 1, 4, Budget { ends: 1, ..budget }), "G4");
}

/// A deposed member may continue its work until it learns of its deposition. So the next owner must
/// wait for the end of that member's lease.
#[test]
fn broken_planner_that_does_not_wait_for_a_deposed_session_is_caught() {
    let budget = Budget { depositions: 1, ..CALM };
    broken(Broken::NoWaitForDeposed, group(2, 1, 4, budget), "G5");
}

/// A member may continue its work until it learns that its session was deleted. So the next owner
/// must wait for the end of that member's lease.
#[test]
fn broken_planner_that_does_not_wait_for_a_deleted_session_is_caught() {
    let budget = Budget { vanish: 1, ahead: 1, ..CALM };
    broken(Broken::NoWaitForGone, group(2, 1, 4, budget), "G5");
}

/// The broken grant does not set a new token, so the next owner gets the token of the previous
/// owner.
#[test]
fn broken_grant_that_keeps_the_token_is_caught() {
    let budget = Budget { ends: 1, ..CALM };
    broken(Broken::KeepsToken, group(2, 1, 4, budget), "G1");
}

/// A writer that makes an assignment from v and creates it as v+2 loses the changes of assignment
/// v+1.
#[test]
fn broken_assignment_based_on_an_older_assignment_is_caught() {
    let budget = Budget { ends: 1, ahead: 1, ..CALM };
    broken(Broken::SkipsNumber, group(2, 1, 5, budget), "G4");
}

/// If the compactor deletes the newest assignment, the numbers of assignments start again at 1.
#[test]
fn broken_compactor_that_deletes_the_newest_assignment_is_caught() {
    let budget = Budget { compactions: 1, ..CALM };
    broken(Broken::CompactsNewest, group(2, 1, 4, budget), "G3");
}

/// While a writer is paused, another member creates the assignment with the number that the writer
/// intends to use, and a compactor deletes this assignment. The create of the paused writer then
/// succeeds. Only the LIST that confirms this assignment shows that a greater assignment exists.
#[test]
fn broken_assignment_that_is_not_confirmed_by_a_list_is_caught() {
    let budget = Budget { compactions: 1, ends: 1, ahead: 1, ..CALM };
    broken(Broken::NoConfirm, group(2, 1, 5, budget), "G1");
}

/// If an owner releases a partition before the work on the partition has stopped, the next owner
/// begins too early.
#[test]
fn broken_release_before_the_work_has_stopped_is_caught() {
    let budget = Budget { ahead: 1, ..CALM };
    broken(Broken::ReleasesFirst, group(2, 2, 5, budget), "G5");
}

/// The PUT of a release got no answer, and may have taken effect. If the member withdraws the
/// release, it may work on the partition although the partition has another owner.
#[test]
fn broken_release_that_is_withdrawn_is_caught() {
    let budget = Budget { lost: 1, leaves: 1, ..CALM };
    broken(Broken::TakesBack, group(2, 1, 4, budget), "G5");
}

/// If only the id identifies a session, a restarted member with the same id believes that it owns
/// the partitions of its predecessor.
#[test]
fn broken_sessions_identified_only_by_id_are_caught() {
    let budget = Budget { crashes: 1, vanish: 1, ..CALM };
    broken(Broken::IdsAlone, Group { reuses_ids: true, ..group(2, 1, 5, budget) }, "G1");
}

/// If a session may join after its create alone, a late create makes a compacted session a member
/// again.
#[test]
fn broken_session_that_joins_by_its_create_is_caught() {
    let budget = Budget { leaves: 1, swept: 1, twice: 1, ..CALM };
    broken(Broken::JoinsByCreate, group(2, 1, 5, budget), "R3");
}

/// A member that reads assignments while it seals its session may believe that it owns partitions
/// that the next assignment grants to another member.
#[test]
fn broken_member_that_follows_during_its_seal_is_caught() {
    let budget = Budget { lost: 1, leaves: 1, ..CALM };
    broken(Broken::FollowsItsSeal, group(2, 1, 3, budget), "G5");
}
