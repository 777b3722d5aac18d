//! The requests of each role. The tests compare them with the requests of the driver.

use std::time::Duration;

use super::prices::Prices;
use super::{CostArgs, DAYS};
use crate::args::common::{DAY, LayoutArg};

/// The last is the number of keys in the deletions.
pub const KINDS: [&str; 5] = ["writes", "lists", "reads", "deletes", "deleted_keys"];

/// Keys on a page of a listing, and in a deletion.
const PAGE_KEYS: f64 = 1_000.0;
/// `tenure compact` keeps this number of the newest objects by default, and all of the last hour.
const KEPT: f64 = 10.0;
/// Members that take over from the coordinator.
const DEPUTIES: u32 = 3;
/// The longest time between two listings of the assignments by one process.
const LIST_EVERY: Duration = Duration::from_secs(600);
/// The most assignments of one change. A death makes one, and a join that moves partitions three.
const ASSIGNMENTS: f64 = 4.0;

/// A number of requests of each kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requests(pub [f64; 5]);

/// A role, its processes, and the requests of one of them. Work that several processes share has no
/// number.
pub type Role = (&'static str, Option<f64>, Requests);

impl Requests {
    /// The price of the requests, in the currency of the prices.
    pub fn cost(&self, prices: &Prices) -> f64 {
        let [writes, lists, reads, deletes, keys] = self.0;
        let Prices { write, list, read, delete, .. } = prices;
        let deletes = if prices.delete_by_key { keys } else { deletes };
        (writes * write + lists * list + reads * read + deletes * delete) / 1e6
    }

    /// The sum of these requests and a multiple of others.
    pub fn plus(self, times: f64, others: Requests) -> Requests {
        Requests(std::array::from_fn(|kind| self.0[kind] + times * others.0[kind]))
    }
}

fn sent(writes: f64, lists: f64, reads: f64) -> Requests {
    Requests([writes, lists, reads, 0.0, 0.0])
}

fn times(times: f64, requests: Requests) -> Requests {
    sent(0.0, 0.0, 0.0).plus(times, requests)
}

fn with_all(mut roles: Vec<Role>) -> Vec<Role> {
    let sum = |all: Requests, role: &Role| all.plus(role.1.unwrap_or(1.0), role.2);
    roles.push(("all", None, roles.iter().fold(sent(0.0, 0.0, 0.0), sum)));
    roles
}

/// The roles of elections in this time.
pub fn election(args: &CostArgs, time: Duration) -> Vec<Role> {
    let per = |interval: Duration| time.as_secs_f64() / interval.as_secs_f64();
    let (validities, polls, days) = (per(args.validity), per(args.poll()), per(DAY));
    let elections = f64::from(args.elections);
    let [followers, observers] = [args.candidates - 1, args.observers].map(f64::from);
    let (compactors, confirms) = match args.layout {
        LayoutArg::EpochFiles => (None, validities),
        LayoutArg::SingleObject => (Some(0.0), 0.0),
    };
    let compactor = match compactors {
        None => times(elections, compactions(args, days)),
        Some(none) => sent(none, none, none),
    };
    with_all(vec![
        // The leader renews its lease three times, and looks for the next epoch once.
        ("leader", Some(elections), sent(3.0 * validities, 0.0, confirms)),
        ("follower", Some(followers * elections), sent(0.0, 0.0, polls)),
        ("observer", Some(observers * elections), sent(0.0, 0.0, polls)),
        ("elections", None, times(args.elections_per_day * days * elections, takeover(args))),
        ("compactor", compactors, compactor),
    ])
}

/// The requests of one takeover from a dead leader, at most.
pub fn takeover(args: &CostArgs) -> Requests {
    let others = f64::from(args.candidates - 1);
    let epochs = most_objects(args, args.elections_per_day);
    // A new candidate finds the newest of several pages of epochs in leaps and by bisection.
    let search = if epochs > PAGE_KEYS { 2.0 * epochs.log2() } else { 0.0 };
    match args.layout {
        // The new leader seals, creates and confirms. Each other candidate may try to seal and to
        // create, and then looks for the new epoch. The old leader starts again and looks, too.
        LayoutArg::EpochFiles => {
            sent(2.0 + others * 2.0, 1.0 + others * 2.0 + search, 1.0 + others * 3.0)
        }
        // The others may try the one write, and read the winner.
        LayoutArg::SingleObject => sent(1.0 + others, 0.0, 1.0 + others * 3.0),
    }
}

/// Runs of the compactor, epochs or changes of a group in all runs and in one, and runs that find
/// some.
fn runs(args: &CostArgs, days: f64) -> [f64; 4] {
    let (runs, changes) = (args.compactions_per_day * days, args.elections_per_day * days);
    if runs > 0.0 { [runs, changes, changes / runs, runs.min(changes)] } else { [0.0; 4] }
}

fn compactions(args: &CostArgs, days: f64) -> Requests {
    let [runs, epochs, in_one, busy] = runs(args, days);
    let listed = pages(most_objects(args, args.elections_per_day));
    // A run looks for the last possible epoch and lists all. It reads the newest listed epoch
    // before each deletion.
    let batches = busy * pages(in_one);
    Requests([0.0, runs * (1.0 + listed), batches, batches, epochs])
}

/// Pages of this number of objects. A listing without objects is also a page.
fn pages(objects: f64) -> f64 {
    (objects / PAGE_KEYS).ceil().max(1.0)
}

/// The most objects between two compactions, or in a month without them.
fn most_objects(args: &CostArgs, a_day: f64) -> f64 {
    let runs = args.compactions_per_day;
    let between = if runs > 0.0 { a_day / runs } else { a_day * f64::from(DAYS) };
    between + KEPT.max(a_day / 24.0)
}

/// The roles of a group in this time (docs/design/groups.md, section 7), and of one election for
/// each of its partitions.
pub fn group(args: &CostArgs, partitions: u32, time: Duration) -> Vec<Role> {
    let per = |interval: Duration| time.as_secs_f64() / interval.as_secs_f64();
    let (validities, polls, days) = (per(args.validity), per(args.poll()), per(DAY));
    let [members, observers] = [args.members, args.observers].map(f64::from);
    let deputies = f64::from((args.members - 1).min(DEPUTIES));
    let (renewals, lists) = (3.0 * validities, per(LIST_EVERY.max(args.poll())));
    let reads = polls - lists;
    // A member reads the coordinator's session at the last poll of two fifths of the validity, and
    // a deputy with each poll.
    let silence = args.validity.as_secs_f64() * 0.4 / args.poll().as_secs_f64();
    let watches = polls / silence.floor().max(1.0);
    // The coordinator lists the sessions with each poll. Once a validity it reads each session, and
    // lists the assignments in place of a poll.
    let confirms = per(args.validity.min(LIST_EVERY).max(args.poll()));
    let listings = polls * pages(sessions(args)) + confirms;
    let coordinates = sent(renewals, listings, polls - confirms + validities * members);
    let changes = times(args.elections_per_day * days, change(args));
    let mut roles = with_all(vec![
        ("coordinator", Some(1.0), coordinates),
        ("deputy", Some(deputies), sent(renewals, lists, reads + polls)),
        ("member", Some(members - 1.0 - deputies), sent(renewals, lists, reads + watches)),
        ("observer", Some(observers), sent(0.0, lists, reads)),
        ("changes", None, changes),
        ("compactor", None, group_compactions(args, days)),
    ]);
    let partitions = f64::from(partitions);
    roles.push(("leaders", None, times(partitions, sent(renewals, 0.0, validities))));
    roles.push(("followers", None, sent(0.0, 0.0, polls * partitions * (members - 1.0))));
    roles
}

/// The requests of a death and a join, at most.
pub fn change(args: &CostArgs) -> Requests {
    let others = f64::from(args.members - 1);
    // The coordinator reads the dead session and seals it.
    let death = sent(1.0, 0.0, 1.0);
    // The new member creates its session, writes it again, and finds the assignment.
    let join = sent(2.0, 1.0, 3.0);
    // Each other member releases a partition, and the coordinator reads that.
    let releases = sent(others, 0.0, others + 1.0);
    // The coordinator creates and confirms it. All others read it and look for the next one, and
    // the members with new partitions confirm it.
    let assignment = sent(1.0, 1.0 + others, 2.0 * others);
    death.plus(1.0, join).plus(1.0, releases).plus(ASSIGNMENTS, assignment)
}

/// The most sessions: of the members, and ended ones before their compaction.
fn sessions(args: &CostArgs) -> f64 {
    let changes = args.elections_per_day;
    f64::from(args.members) + if changes > 0.0 { most_objects(args, changes) } else { 0.0 }
}

fn group_compactions(args: &CostArgs, days: f64) -> Requests {
    let [runs, changes, in_one, busy] = runs(args, days);
    let assignments = pages(most_objects(args, args.elections_per_day * ASSIGNMENTS));
    let sessions = pages(sessions(args));
    // For each page with an ended session the run looks for the newest assignment and reads it.
    let with_ended = sessions.min(in_one.max(1.0));
    let batches = busy * (1.0 + pages(in_one * ASSIGNMENTS) + with_ended);
    // A run looks for the last possible assignment and lists the assignments and the sessions. A
    // run that deletes sessions lists the assignments again. It reads each old session.
    let lists = runs * (1.0 + assignments + sessions) + busy * with_ended;
    Requests([0.0, lists, batches + changes, batches, changes * (ASSIGNMENTS + 1.0)])
}
