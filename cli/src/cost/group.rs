//! How many requests a group makes (docs/design/groups.md, section 7), beside an election for each
//! of its partitions. `tests/group.rs` compares it with the requests of the driver.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use tenure::Layout;

use super::arithmetic::{DAYS, Requests, Shape, most_objects, pages};
use super::prices::Prices;
use super::{CostArgs, grouped, prices_for_people};
use crate::args::common::DAY;
use crate::output::print::{millis, plain};

/// Members that stand by for the coordinator.
const DEPUTIES: u32 = 3;
/// All readers of the assignment list at least so often, in place of a poll.
const LIST_EVERY: Duration = Duration::from_secs(600);
/// Of one change, at most: a death makes one, and a join that moves partitions three.
const ASSIGNMENTS: f64 = 4.0;

/// The longest of a session.
pub const MAX_VALIDITY: Duration = Duration::from_secs(3_600);

/// What a group is like.
#[derive(Debug, Clone, Copy)]
pub struct GroupShape {
    pub partitions: u32,
    /// At least one; the coordinator and its deputies are among them.
    pub members: u32,
    pub observers: u32,
    pub validity: Duration,
    pub poll: Duration,
    /// How often a member dies, and another joins in its place.
    pub changes_per_day: f64,
    pub compactions_per_day: f64,
}

/// What each role sends in a time, or what that costs.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct GroupRoles<T> {
    /// One of the members that neither coordinate nor stand by.
    pub member: T,
    /// One of those that stand by.
    pub deputy: T,
    pub coordinator: T,
    /// One of the observers.
    pub observer: T,
    /// All that is sent for changes, beyond the roles.
    pub changes: T,
    pub compactor: T,
    /// Everybody together.
    pub all: T,
    /// In place of the group, an election for each partition: what their leaders send.
    pub leaders: T,
    /// And what the followers of these elections send, if each member is a candidate in all.
    pub followers: T,
}

impl<T> GroupRoles<T> {
    fn map<U>(self, to: impl Fn(T) -> U) -> GroupRoles<U> {
        GroupRoles {
            member: to(self.member),
            deputy: to(self.deputy),
            coordinator: to(self.coordinator),
            observer: to(self.observer),
            changes: to(self.changes),
            compactor: to(self.compactor),
            all: to(self.all),
            leaders: to(self.leaders),
            followers: to(self.followers),
        }
    }
}

impl GroupShape {
    pub fn of(args: &CostArgs, partitions: u32) -> GroupShape {
        GroupShape {
            partitions,
            members: args.members,
            observers: args.observers,
            validity: args.validity,
            poll: args.poll(),
            changes_per_day: args.elections_per_day,
            compactions_per_day: args.compactions_per_day,
        }
    }

    /// Of the members: those that stand by, and those that do not.
    fn standing_by(&self) -> (u32, u32) {
        let others = self.members.saturating_sub(1);
        let deputies = others.min(DEPUTIES);
        (deputies, others - deputies)
    }

    /// What is sent in so much time. A `poll` or a `validity` of nothing is the caller's error.
    pub fn requests(&self, time: Duration) -> GroupRoles<Requests> {
        let seconds = time.as_secs_f64();
        let per = |interval: Duration| seconds / interval.as_secs_f64();
        let (polls, validities) = (per(self.poll), per(self.validity));
        let lists = per(LIST_EVERY.max(self.poll));
        let none = Requests::default();
        let observer = Requests { reads: polls - lists, lists, ..none };
        // A renewal every third of the validity, and a look at the coordinator at the last poll
        // before two fifths of it have passed without one.
        let silence = self.validity.as_secs_f64() * 0.4 / self.poll.as_secs_f64();
        let watches = polls / silence.floor().max(1.0);
        let reads = observer.reads + watches;
        let member = Requests { writes: validities * 3.0, reads, ..observer };
        // It looks at the coordinator with each poll.
        let deputy = Requests { reads: observer.reads + polls, ..member };
        // It lists the sessions with each poll, ended ones too. Once a validity it reads each, its own too, and
        // lists the assignments in place of a poll.
        let confirms = per(self.validity.min(LIST_EVERY).max(self.poll));
        let coordinator = Requests {
            lists: polls * pages(self.sessions()) + confirms,
            reads: polls - confirms + validities * f64::from(self.members),
            ..member
        };
        let days = seconds / DAY.as_secs_f64();
        let changes = none.plus(self.changes_per_day * days, self.change());
        let compactor = self.compactions(days);
        let (deputies, others) = self.standing_by();
        let all = coordinator
            .plus(f64::from(deputies), deputy)
            .plus(f64::from(others), member)
            .plus(f64::from(self.observers), observer)
            .plus(1.0, changes)
            .plus(1.0, compactor);
        let each = self.election().requests(time);
        let partitions = f64::from(self.partitions);
        let leaders = none.plus(partitions, each.leader);
        let followers =
            none.plus(partitions * f64::from(self.members.saturating_sub(1)), each.follower);
        GroupRoles {
            member,
            deputy,
            coordinator,
            observer,
            changes,
            compactor,
            all,
            leaders,
            followers,
        }
    }

    /// The election of one partition.
    fn election(&self) -> Shape {
        Shape {
            elections: 1,
            layout: Layout::EpochFiles,
            candidates: self.members,
            observers: 0,
            validity: self.validity,
            poll: self.poll,
            elections_per_day: 0.0,
            compactions_per_day: 0.0,
        }
    }

    /// A member that dies, and another that joins: at most, and few enough not to matter.
    pub fn change(&self) -> Requests {
        let others = f64::from(self.members.saturating_sub(1));
        let none = Requests::default();
        // The coordinator reads the session and seals it.
        let death = Requests { reads: 1.0, writes: 1.0, ..none };
        // It creates its session, writes it again, and finds the assignment.
        let join = Requests { reads: 3.0, writes: 2.0, lists: 1.0, ..none };
        // Each other member releases something, and the coordinator reads that.
        let releases = Requests { reads: others + 1.0, writes: others, ..none };
        // It is created and confirmed; all others read it, look for the next, and those that gain
        // confirm it.
        let assignment = Requests { writes: 1.0, lists: 1.0 + others, reads: 2.0 * others, ..none };
        death.plus(1.0, join).plus(1.0, releases).plus(ASSIGNMENTS, assignment)
    }

    /// The sessions that are there, of members and of those whose end is not compacted yet.
    fn sessions(&self) -> f64 {
        let ended = most_objects(self.changes_per_day, self.compactions_per_day);
        f64::from(self.members) + if self.changes_per_day > 0.0 { ended } else { 0.0 }
    }

    fn compactions(&self, days: f64) -> Requests {
        let (runs, changes) = (self.compactions_per_day * days, self.changes_per_day * days);
        let busy = runs.min(changes);
        let assignments =
            most_objects(self.changes_per_day * ASSIGNMENTS, self.compactions_per_day);
        let (assignments, sessions) = (pages(assignments), pages(self.sessions()));
        let a_run = if runs > 0.0 { changes / runs } else { 0.0 };
        // Pages of sessions with an ended one: for each the newest assignment is looked for and read.
        let with_ended = sessions.min(a_run.max(1.0));
        // What one change left grows old between two runs.
        let batches = busy * (1.0 + pages(a_run * ASSIGNMENTS) + with_ended);
        Requests {
            // A look for the last assignment there can be, and listings of the assignments and the
            // sessions. A run that deletes sessions lists the assignments once more.
            lists: runs * (1.0 + assignments + sessions) + busy * with_ended,
            // Of the newest assignment, before anything is deleted, and of each old session.
            reads: batches + if runs > 0.0 { changes } else { 0.0 },
            deletes: batches,
            deleted_keys: if runs > 0.0 { changes * (ASSIGNMENTS + 1.0) } else { 0.0 },
            ..Requests::default()
        }
    }
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
pub struct GroupReport {
    partitions: u32,
    members: u32,
    observers: u32,
    validity_ms: u64,
    poll_ms: u64,
    changes_per_day: f64,
    days: f64,
    requests: GroupRoles<Requests>,
    costs: Vec<GroupCost>,
    #[serde(skip)]
    shape: GroupShape,
}

/// What a month costs by one price list.
#[derive(Debug, Serialize)]
struct GroupCost {
    prices: Prices,
    #[serde(flatten)]
    of: GroupRoles<f64>,
}

impl GroupReport {
    pub fn new(args: &CostArgs, partitions: u32, prices: Vec<Prices>) -> GroupReport {
        let shape = GroupShape::of(args, partitions);
        let requests = shape.requests(DAY.mul_f64(DAYS));
        let cost = |prices: Prices| {
            let of = requests.map(|requests| requests.cost(&prices));
            GroupCost { prices, of }
        };
        GroupReport {
            partitions,
            members: shape.members,
            observers: shape.observers,
            validity_ms: millis(shape.validity),
            poll_ms: millis(shape.poll),
            changes_per_day: shape.changes_per_day,
            days: DAYS,
            requests,
            costs: prices.into_iter().map(cost).collect(),
            shape,
        }
    }

    pub fn for_people(&self) -> String {
        let mut text = format!(
            "{:<24} {:>13} {:>12} {:>14} {:>12}\n",
            "requests a month", "writes", "lists", "reads", "deletes"
        );
        for (role, Requests { writes, lists, reads, deletes, .. }) in self.rows() {
            let [writes, lists, reads, deletes] = [writes, lists, reads, deletes].map(grouped);
            let _ = writeln!(text, "{role:<24} {writes:>13} {lists:>12} {reads:>14} {deletes:>12}");
        }
        let _ = writeln!(
            text,
            "\n{:<24} {:>8} {:>12} {:>8} {:>10} {:>9} {:>10} {:>10}",
            "money a month",
            "member",
            "coordinator",
            "changes",
            "compactor",
            "all",
            "leaders",
            "followers"
        );
        for GroupCost { prices, of } in &self.costs {
            let GroupRoles { member, coordinator, changes, compactor, all, .. } = of;
            let GroupRoles { leaders, followers, .. } = of;
            let name = format!("{}, {}", plain(&prices.name), plain(&prices.currency));
            let _ = writeln!(
                text,
                "{name:<24} {member:>8.2} {coordinator:>12.2} {changes:>8.2} {compactor:>10.2} \
                 {all:>9.2} {leaders:>10.2} {followers:>10.2}"
            );
        }
        text + &prices_for_people(self.costs.iter().map(|cost| &cost.prices))
    }

    fn rows(&self) -> Vec<(String, Requests)> {
        let GroupRoles { member, deputy, coordinator, observer, .. } = self.requests;
        let GroupRoles { changes, compactor, all, leaders, followers, .. } = self.requests;
        let (deputies, others) = self.shape.standing_by();
        let mut rows = vec![("the coordinator".to_owned(), coordinator)];
        if deputies > 0 {
            rows.push((format!("a deputy, of {deputies}"), deputy));
        }
        if others > 0 {
            rows.push((format!("a member, of {others}"), member));
        }
        if self.observers > 0 {
            rows.push((format!("an observer, of {}", self.observers), observer));
        }
        rows.push(("changes, at most".to_owned(), changes));
        rows.push(("the compactor".to_owned(), compactor));
        rows.push(("all together".to_owned(), all));
        let instead = match self.partitions {
            1 => "or 1 election".to_owned(),
            many => format!("or {many} elections"),
        };
        rows.push((instead, leaders));
        rows.push(("and to follow them".to_owned(), followers));
        rows
    }
}
