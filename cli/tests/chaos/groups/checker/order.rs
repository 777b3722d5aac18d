//! Checks the order of a partition's owners, and the order of the calls on the partition's log.

use std::collections::BTreeMap;

use super::{Kind, Story};
use crate::groups::worker::{Entry, Grant, Line};
use crate::history::{Call, Op, Ret};
use crate::watch::Seen;

/// A worker's call that has not returned.
#[derive(Clone, Copy)]
struct Open {
    from_ns: u64,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Claim(Grant),
    Append(Entry),
}

/// The objects in the log of a partition. They show whether a call without an answer took effect.
struct Found<'a> {
    /// For each entry, its index among the entries, and its number in the log.
    entries: BTreeMap<Entry, (u64, u64)>,
    /// For each token, the greatest log number of its claims, and the number of its unanswered
    /// claims.
    claims: BTreeMap<u64, (u64, usize)>,
    /// For each log number, the time of the earliest answer to an append with this number or a
    /// greater number.
    answered: BTreeMap<u64, u64>,
    story: &'a Story,
}

impl Story {
    /// Checks the invariant G5 of docs/design/groups.md: after a partition was granted to a member,
    /// no check with a lower token succeeds. Returns the shortest time from the last successful
    /// check of an owner to the next grant of the partition.
    pub(super) fn check_order(&self) -> Result<u64, String> {
        // For each grant, the interval from the start of the work to the start of the last
        // successful check.
        let mut owned: BTreeMap<Grant, Seen> = BTreeMap::new();
        for line in self.lines() {
            let at_ns = line.at_ns();
            match line {
                Line::Granted(..) => {
                    let seen = Seen { from_ns: at_ns, until_ns: 0 };
                    owned.entry(line.grant()).or_insert(seen).from_ns = at_ns;
                }
                Line::Owns(..) | Line::Calls(..) => {
                    let seen = Seen { from_ns: u64::MAX, until_ns: 0 };
                    let seen = owned.entry(line.grant()).or_insert(seen);
                    seen.until_ns = seen.until_ns.max(at_ns);
                }
                _ => {}
            }
        }
        let mut nearest = u64::MAX;
        let mut next: Option<(u64, u64)> = None;
        for (grant, seen) in owned.iter().rev() {
            let began_ns = next.filter(|(partition, _)| *partition == grant.partition);
            let began_ns = began_ns.map_or(u64::MAX, |(_, began_ns)| began_ns);
            match began_ns.checked_sub(seen.until_ns) {
                None => {
                    return Err(format!("{grant:?} was owned while a greater token was granted"));
                }
                Some(left) => nearest = nearest.min(left),
            }
            next = Some((grant.partition, began_ns.min(seen.from_ns)));
        }
        Ok(nearest)
    }

    /// Returns all calls on a partition. A call without an answer is included if its object is in
    /// the log.
    pub(super) fn history(&self, partition: u64) -> Vec<Call> {
        let mut found = Found::of(self, partition);
        let mut history = Vec::new();
        let mut began = BTreeMap::new();
        for worker in &self.workers {
            let mut open: Option<Open> = None;
            let of_call = |line: &&Line| !matches!(line, Line::Owns(..));
            let lines = worker.iter().filter(of_call);
            for line in lines.filter(|line| line.grant().partition == partition) {
                let returns = match *line {
                    Line::Opened(at, grant) => Some((Op::Claim(grant.token), Ret::Claimed, at)),
                    Line::Appended(at, entry, _) => found.entries.get(&entry).map(|(place, _)| {
                        (Op::Append(entry.grant.token), Ret::Appended(*place), at)
                    }),
                    Line::Fenced(at, ..) => open.map(|open| found.refused(open, at)),
                    _ => None,
                };
                if let Some((op, ret, until_ns)) = returns {
                    let Open { from_ns, .. } =
                        open.take().expect("the log has a call before each answer");
                    history.push(Call { op, ret, from_ns, until_ns });
                    continue;
                }
                history.extend(open.take().and_then(|open| found.unanswered(open)));
                match *line {
                    Line::Opens(from_ns, grant) => {
                        open = Some(Open { from_ns, what: What::Claim(grant) });
                    }
                    Line::Calls(from_ns, entry) => {
                        open = Some(Open { from_ns, what: What::Append(entry) });
                    }
                    Line::Granted(at, grant, _) => {
                        began.insert(grant, at);
                    }
                    _ => {}
                }
            }
            history.extend(open.take().and_then(|open| found.unanswered(open)));
        }
        let known = self.grants.keys().chain(began.keys()).filter(|it| it.partition == partition);
        let known: std::collections::BTreeSet<_> = known.copied().collect();
        history.extend(known.into_iter().map(|grant| {
            let Seen { from_ns, until_ns } = self.made[&grant.token];
            let until_ns = began.get(&grant).map_or(until_ns, |at| until_ns.min(*at));
            Call { op: Op::Grant(grant.token), ret: Ret::Granted, from_ns, until_ns }
        }));
        history
    }
}

impl Found<'_> {
    fn of(story: &Story, partition: u64) -> Found<'_> {
        let mut entries = BTreeMap::new();
        let mut claims: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        for object in &story.logs[&partition] {
            match object.kind {
                Kind::Entry(entry) => {
                    entries.insert(entry, (entries.len() as u64 + 1, object.number));
                }
                Kind::Claim => {
                    let claim = claims.entry(object.token).or_default();
                    *claim = (object.number, claim.1 + 1);
                }
                Kind::Fence => {}
            }
        }
        let mut answered = BTreeMap::new();
        for line in story.lines().filter(|line| line.grant().partition == partition) {
            match line {
                Line::Appended(at_ns, _, number) => {
                    answered.insert(*number, *at_ns);
                }
                Line::Opened(_, grant) => {
                    if let Some((_, left)) = claims.get_mut(&grant.token) {
                        *left = left.saturating_sub(1);
                    }
                }
                _ => {}
            }
        }
        let mut earliest = story.end_ns;
        for at_ns in answered.values_mut().rev() {
            earliest = earliest.min(*at_ns);
            *at_ns = earliest;
        }
        Found { entries, claims, answered, story }
    }

    /// Returns the operation of a refused call, its result, and its end. If the log has the entry
    /// of a refused append, an earlier attempt of this append took effect, so the result is a
    /// success.
    fn refused(&self, open: Open, at_ns: u64) -> (Op, Ret, u64) {
        match open.what {
            What::Claim(grant) => (Op::Claim(grant.token), Ret::Refused, at_ns),
            What::Append(entry) => {
                let there = self.entries.get(&entry);
                let ret = there.map_or(Ret::Refused, |(place, _)| Ret::Appended(*place));
                (Op::Append(entry.grant.token), ret, at_ns)
            }
        }
    }

    /// Returns the call if it took effect. The call ends at the earliest answer to an append with a
    /// greater number. Objects are written in the order of their numbers, so the call took effect
    /// before this answer.
    fn unanswered(&mut self, open: Open) -> Option<Call> {
        let (op, ret, number) = match open.what {
            What::Append(entry) => {
                let (place, number) = *self.entries.get(&entry)?;
                (Op::Append(entry.grant.token), Ret::Appended(place), number)
            }
            What::Claim(grant) => {
                let (number, left) = self.claims.get_mut(&grant.token)?;
                *left = left.checked_sub(1)?;
                (Op::Claim(grant.token), Ret::Claimed, *number)
            }
        };
        let until_ns = self.answered.range(number + 1..).next();
        let until_ns = until_ns.map_or(self.story.end_ns, |(_, at_ns)| *at_ns);
        Some(Call { op, ret, from_ns: open.from_ns, until_ns })
    }
}
