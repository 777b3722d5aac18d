//! The requests that each role sends, as a table. The tests compare each role with the requests of
//! the driver.

use std::time::Duration;

use tenure::internals::{DEFAULT_KEEP_EPOCHS, DEFAULT_MIN_AGE, renew_interval};
use tenure_groups::LIST_EVERY;
use tenure_groups::protocol::assignment::DEPUTIES;
use tenure_groups::protocol::session_timers::silence;

use super::{CostArgs, DAYS};
use crate::args::common::{DAY, LayoutArg};
use crate::group::OFTEN;

/// Kinds of requests. The last kind counts the keys of all deletions.
pub const KINDS: [&str; 5] = ["writes", "lists", "reads", "deletes", "deleted_keys"];

/// Maximum number of keys on a page of a listing, and in a deletion.
const PAGE_KEYS: f64 = 1_000.0;
/// Maximum number of assignments that one change causes. A death causes one assignment, and a join
/// that moves partitions causes three.
const ASSIGNMENTS: f64 = 4.0;

/// A number of requests for each of [`KINDS`].
pub type Requests = [f64; 5];

const WRITE: Requests = [1.0, 0.0, 0.0, 0.0, 0.0];
const READ: Requests = [0.0, 0.0, 1.0, 0.0, 0.0];

/// A role, its number of processes, and the requests of one process. If the number is `None`, the
/// requests are the total of all processes of the role.
pub type Role = (&'static str, Option<f64>, Requests);

/// A row of the table: a role, the number of its processes, a number of events, and the requests of
/// one event.
type RequestRow = (&'static str, Option<f64>, f64, Requests);

/// Returns `sum` plus `times` the requests in `one`.
pub fn plus(sum: Requests, times: f64, one: Requests) -> Requests {
    std::array::from_fn(|kind| sum[kind] + times * one[kind])
}

/// Returns the requests of each role in this time.
pub fn roles(args: &CostArgs, time: Duration) -> Vec<Role> {
    let rows = match args.partitions {
        Some(partitions) => group(args, f64::from(partitions), time),
        None => election(args, time),
    };
    let (mut roles, mut all) = (Vec::<Role>::new(), [0.0; 5]);
    for (name, processes, events, one) in rows {
        let one = if name == "all" { all } else { one };
        all = plus(all, processes.unwrap_or(1.0) * events, one);
        match roles.last_mut().filter(|role| role.0 == name) {
            Some(role) => role.2 = plus(role.2, events, one),
            None => roles.push((name, processes, plus([0.0; 5], events, one))),
        }
    }
    roles
}

fn election(args: &CostArgs, time: Duration) -> Vec<RequestRow> {
    let [validities, renewals] = per(time, [args.validity, renew_interval(args.validity)]);
    let [polls, observer_polls, days] = per(time, [args.poll(), args.observer_poll(), DAY]);
    let [elections, candidates, observers] =
        [args.elections, args.candidates, args.observers].map(f64::from);
    let followers = candidates - 1.0;
    let takeovers = args.elections_per_day * days * elections;
    let epochs = most_objects(args, args.elections_per_day);
    // A starting candidate finds the newest of several pages of epochs by an exponential search.
    let search = if epochs > PAGE_KEYS { 2.0 * epochs.log2() } else { 0.0 };
    // The numbers are upper bounds. With epoch files, the winner seals the old epoch, creates the
    // new epoch, and confirms it. Each other candidate attempts the same writes, and searches for
    // the new epoch.
    let (winner, other, confirms, compactors) = match args.layout {
        LayoutArg::EpochFiles => {
            ([2.0, 1.0 + search, 1.0, 0.0, 0.0], [2.0, 2.0, 3.0, 0.0, 0.0], 1.0, None)
        }
        LayoutArg::SingleObject => {
            ([1.0, 0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 3.0, 0.0, 0.0], 0.0, Some(0.0))
        }
    };
    let compacted = compactors.unwrap_or(elections);
    let [runs, deleted, in_one, busy] = runs(args, days);
    let batches = busy * pages(in_one);
    vec![
        // In each validity, the leader reads the next epoch once.
        ("leader", Some(elections), renewals, WRITE),
        ("leader", Some(elections), validities * confirms, READ),
        ("follower", Some(followers * elections), polls, READ),
        ("observer", Some(observers * elections), observer_polls, READ),
        ("elections", None, takeovers, winner),
        ("elections", None, takeovers * followers, other),
        // A run of the compactor lists the last possible epoch, and then all epochs. Before each
        // deletion, the run reads the newest listed epoch.
        ("compactor", compactors, runs * compacted, [0.0, 1.0 + pages(epochs), 0.0, 0.0, 0.0]),
        ("compactor", compactors, batches * compacted, [0.0, 0.0, 1.0, 1.0, 0.0]),
        ("compactor", compactors, deleted * compacted, [0.0, 0.0, 0.0, 0.0, 1.0]),
        ("all", None, 1.0, [0.0; 5]),
    ]
}

/// Returns the rows of the group, and of one election for each partition.
fn group(args: &CostArgs, partitions: f64, time: Duration) -> Vec<RequestRow> {
    let [validity, poll, observer_poll] = [args.validity, args.poll(), args.observer_poll()];
    let [validities, renewals] = per(time, [validity, renew_interval(validity)]);
    let [polls, observer_polls, days] = per(time, [poll, observer_poll, DAY]);
    let [lists, observer_lists] = per(time, [poll, observer_poll].map(|it| it.max(LIST_EVERY)));
    let [confirms, looks] = per(time, [validity.min(LIST_EVERY).max(poll), validity.max(OFTEN)]);
    // A member reads the coordinator's session at the last poll before an unchanged session counts
    // as silent. A deputy reads the session at each poll.
    let watches = polls / (silence(validity, poll).as_secs_f64() / poll.as_secs_f64()).floor();
    let [members, observers] = [args.members, args.observers].map(f64::from);
    let others = members - 1.0;
    let deputies = others.min(DEPUTIES as f64);
    let (deputy, member) = (Some(deputies), Some(others - deputies));
    let changes = args.elections_per_day * days;
    let [runs, deleted, in_one, busy] = runs(args, days);
    let ended = most_objects(args, args.elections_per_day);
    let sessions = pages(members + if changes > 0.0 { ended } else { 0.0 });
    let assignments = pages(most_objects(args, args.elections_per_day * ASSIGNMENTS));
    // A run of the compactor reads the newest assignment for each page of sessions that contains an
    // ended session.
    let with_ended = sessions.min(in_one.max(1.0));
    let batches = busy * (1.0 + pages(in_one * ASSIGNMENTS) + with_ended);
    // A poll that lists the assignments does not read the next assignment.
    let list = [0.0, 1.0, -1.0, 0.0, 0.0];
    vec![
        // The coordinator lists the sessions at each poll, and reads each session once in each
        // validity.
        ("coordinator", Some(1.0), renewals, WRITE),
        ("coordinator", Some(1.0), validities * members, READ),
        ("coordinator", Some(1.0), polls, [0.0, sessions, 1.0, 0.0, 0.0]),
        ("coordinator", Some(1.0), confirms, list),
        ("deputy", deputy, renewals, WRITE),
        ("deputy", deputy, 2.0 * polls, READ),
        ("deputy", deputy, lists, list),
        ("member", member, renewals, WRITE),
        ("member", member, polls + watches, READ),
        ("member", member, lists, list),
        ("observer", Some(observers), observer_polls, READ),
        ("observer", Some(observers), observer_lists, list),
        // Like `group watch`, an observer reads each session once in each validity.
        ("observer", Some(observers), looks * members, READ),
        // These numbers are upper bounds. The coordinator reads a dead session and seals it. A new
        // member creates its session, writes it again, and finds the assignment. Each other member
        // releases a partition, and the coordinator reads the release.
        ("changes", None, changes, [3.0 + others, 1.0, 4.0 + members, 0.0, 0.0]),
        // The coordinator creates and confirms an assignment. All other members read the
        // assignment, and search for the next assignment. The members with new partitions confirm
        // the assignment.
        ("changes", None, changes * ASSIGNMENTS, [1.0, members, 2.0 * others, 0.0, 0.0]),
        // A run of the compactor lists the last possible assignment, all assignments, and the
        // sessions.
        ("compactor", None, runs, [0.0, 1.0 + assignments + sessions, 0.0, 0.0, 0.0]),
        // A run of the compactor reads each old session. Before a run deletes sessions, it lists
        // the assignments again.
        ("compactor", None, busy * with_ended, [0.0, 1.0, 0.0, 0.0, 0.0]),
        ("compactor", None, batches, [0.0, 0.0, 1.0, 1.0, 0.0]),
        ("compactor", None, deleted, [0.0, 0.0, 1.0, 0.0, ASSIGNMENTS + 1.0]),
        ("all", None, 1.0, [0.0; 5]),
        ("leaders", None, renewals * partitions, WRITE),
        ("leaders", None, validities * partitions, READ),
        ("followers", None, polls * partitions * others, READ),
    ]
}

fn per<const N: usize>(time: Duration, intervals: [Duration; N]) -> [f64; N] {
    intervals.map(|interval| time.as_secs_f64() / interval.as_secs_f64())
}

/// Returns four numbers. The first is the number of runs of the compactor, and the last is the
/// number of runs that find something to delete. The second is the number of changes (epochs or
/// changes of a group) in the month, and the third is the number of changes between two runs.
fn runs(args: &CostArgs, days: f64) -> [f64; 4] {
    let (runs, changes) = (args.compactions_per_day * days, args.elections_per_day * days);
    if runs > 0.0 { [runs, changes, changes / runs, runs.min(changes)] } else { [0.0; 4] }
}

/// Returns the number of pages in a listing of this number of objects. An empty listing has one
/// page.
fn pages(objects: f64) -> f64 {
    (objects / PAGE_KEYS).ceil().max(1.0)
}

/// Returns the number of objects immediately before a compaction. Without compactions, returns the
/// number after a month.
fn most_objects(args: &CostArgs, a_day: f64) -> f64 {
    let runs = args.compactions_per_day;
    let between = if runs > 0.0 { a_day / runs } else { a_day * f64::from(DAYS) };
    between + (DEFAULT_KEEP_EPOCHS as f64).max(a_day * DEFAULT_MIN_AGE.div_duration_f64(DAY))
}
