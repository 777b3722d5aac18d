//! Computes the number of requests that each role sends. The tests compare the sums with the
//! requests that the driver really sends.

use std::time::Duration;

use tenure::internals::renew_interval;
use tenure_groups::LIST_EVERY;
use tenure_groups::protocol::assignment::DEPUTIES;
use tenure_groups::protocol::session_timers::silence;

use super::{CostArgs, MONTH};
use crate::args::common::{DAY, LayoutArg};
use crate::group::OFTEN;

/// Names of the kinds of requests. The last entry is not a kind of request. It is the number of
/// keys in all deletions.
pub const KINDS: [&str; 5] = ["writes", "lists", "reads", "deletes", "deleted_keys"];
/// Maximum number of sessions on a page of a listing.
const PAGE_KEYS: f64 = 1_000.0;
/// Number of assignments that a death causes: one after the death of the member, and three after
/// another member has joined.
const ASSIGNMENTS: f64 = 4.0;
/// Number of times that the compactor runs in a day.
const COMPACTIONS: f64 = 24.0;

/// A number of requests for each kind in [`KINDS`].
pub type Requests = [f64; 5];

const WRITE: Requests = [1.0, 0.0, 0.0, 0.0, 0.0];
const READ: Requests = [0.0, 0.0, 1.0, 0.0, 0.0];

/// A role, such as `leader`, and the requests of one process or of all processes in this role.
#[derive(Debug, Clone, Copy)]
pub struct Role {
    pub name: &'static str,
    /// The number of processes. `None` if `requests` is the total of all processes.
    pub processes: Option<f64>,
    pub requests: Requests,
}

/// A row of the table: a role, the number of its processes, a number of events in a month, and the
/// requests for each event.
type Row = (&'static str, Option<f64>, f64, Requests);

/// Numbers of events in a month. Both the table of an election and the table of a group use them.
struct Events {
    changes: f64,
    validities: f64,
    renewals: f64,
    polls: f64,
    observer_polls: f64,
    runs: f64,
    /// Number of compactor runs that delete objects.
    busy: f64,
}

/// Returns `sum + times * one` for each kind of request.
pub fn plus(sum: Requests, times: f64, one: Requests) -> Requests {
    std::array::from_fn(|kind| sum[kind] + times * one[kind])
}

/// Returns the requests of each role in a month. The last role is `all`, the sum of the other
/// roles.
pub fn roles(args: &CostArgs) -> Vec<Role> {
    let changes = args.elections_per_day * per(MONTH, DAY);
    let runs = COMPACTIONS * per(MONTH, DAY);
    let events = Events {
        changes,
        validities: per(MONTH, args.validity),
        renewals: per(MONTH, renew_interval(args.validity)),
        polls: per(MONTH, args.poll()),
        observer_polls: per(MONTH, args.observer_poll()),
        runs,
        busy: runs.min(changes),
    };
    let rows = match args.partitions {
        Some(_) => group(args, &events),
        None => election(args, &events),
    };
    let mut roles = Vec::<Role>::new();
    let mut all = Role { name: "all", processes: None, requests: [0.0; 5] };
    for (name, processes, events, one) in rows {
        all.requests = plus(all.requests, processes.unwrap_or(1.0) * events, one);
        match roles.last_mut().filter(|role| role.name == name) {
            Some(role) => role.requests = plus(role.requests, events, one),
            None => roles.push(Role { name, processes, requests: plus([0.0; 5], events, one) }),
        }
    }
    roles.push(all);
    roles
}

fn election(args: &CostArgs, events: &Events) -> Vec<Row> {
    let [followers, observers] = [args.candidates - 1, args.observers].map(f64::from);
    // With epoch files, the winner and a restarted candidate list the epochs. The winner seals the
    // old epoch, creates the new epoch, and confirms it. Across stores, candidates also list each
    // store after they have seen the seal (Q2), and then read the new epoch. The leader of such an
    // election never polls the next epoch.
    let (winner, other, confirms) = match (args.layout, args.stores) {
        (LayoutArg::SingleObject, _) => (WRITE, [0.0, 0.0, 2.0, 0.0, 0.0], 0.0),
        (LayoutArg::EpochFiles, 1) => ([2.0, 2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0, 0.0], 1.0),
        (LayoutArg::EpochFiles, _) => ([2.0, 3.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0, 0.0], 0.0),
    };
    // After each death of the leader, the election has no leader for one validity.
    let led = (1.0 - events.changes / events.validities).max(0.0);
    let mut rows = vec![
        ("leader", Some(1.0), led * events.renewals, WRITE),
        // Once in each validity, the leader reads the key of the next epoch to find a newer leader.
        ("leader", Some(1.0), led * events.validities * confirms, READ),
        ("follower", Some(followers), events.polls, READ),
        ("observer", Some(observers), events.observer_polls, READ),
        ("takeovers", None, events.changes, winner),
        // With one store, each other candidate searches for the new epoch with two reads.
        ("takeovers", None, events.changes * followers, other),
    ];
    if args.layout == LayoutArg::EpochFiles {
        rows.extend([
            // Each run of the compactor first sends a LIST that shows whether the greatest possible
            // epoch exists, and then lists all epochs. A run that deletes epochs reads the newest
            // listed epoch before the deletion.
            ("compactor", None, events.runs, [0.0, 2.0, 0.0, 0.0, 0.0]),
            ("compactor", None, events.busy, [0.0, 0.0, 1.0, 1.0, 0.0]),
            ("compactor", None, events.changes, [0.0, 0.0, 0.0, 0.0, 1.0]),
        ]);
    }
    let stores = f64::from(args.stores);
    let at_each = |(name, processes, events, one)| (name, processes, events * stores, one);
    rows.into_iter().map(at_each).collect()
}

fn group(args: &CostArgs, events: &Events) -> Vec<Row> {
    let [validity, poll, observer_poll] = [args.validity, args.poll(), args.observer_poll()];
    let [lists, observer_lists] = [poll, observer_poll].map(|it| per(MONTH, it.max(LIST_EVERY)));
    let confirms = per(MONTH, validity.min(LIST_EVERY).max(poll));
    let Events { changes, validities, renewals, polls, observer_polls, runs, busy } = *events;
    // The coordinator's session counts as silent if it has not changed for the time `silence`. A
    // member reads the session once in this time, and a deputy reads it at each poll.
    let watches = polls / per(silence(validity, poll), poll).floor();
    let [members, observers] = [args.members, args.observers].map(f64::from);
    let others = members - 1.0;
    let deputies = others.min(DEPUTIES as f64);
    let (deputy, member) = (Some(deputies), Some(others - deputies));
    let sessions = (members / PAGE_KEYS).ceil();
    // A normal poll tries to read the next assignment. Some polls instead send one LIST of the
    // assignments.
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
        ("observer", Some(observers), per(MONTH, validity.max(OFTEN)) * members, READ),
        // The coordinator reads a dead session and seals it. A new member creates its session,
        // writes it again, and finds the assignment. Each other member releases a partition, and
        // the coordinator reads the release.
        ("changes", None, changes, [3.0 + others, 1.0, 4.0 + members, 0.0, 0.0]),
        // The coordinator creates and confirms an assignment. All other members read the
        // assignment, and search for the next assignment. The members with new partitions confirm
        // the assignment.
        ("changes", None, changes * ASSIGNMENTS, [1.0, members, 2.0 * others, 0.0, 0.0]),
        // A run of the compactor sends a LIST that shows whether the assignment with the greatest
        // possible number exists, and then lists all assignments and the sessions. Before it
        // deletes sessions, it lists the assignments again. Each deletion follows a read of the
        // newest assignment.
        ("compactor", None, runs, [0.0, 2.0 + sessions, 0.0, 0.0, 0.0]),
        ("compactor", None, busy, [0.0, 1.0, 3.0, 3.0, 0.0]),
        ("compactor", None, changes, [0.0, 0.0, 1.0, 0.0, ASSIGNMENTS + 1.0]),
    ]
}

fn per(time: Duration, interval: Duration) -> f64 {
    time.div_duration_f64(interval)
}
