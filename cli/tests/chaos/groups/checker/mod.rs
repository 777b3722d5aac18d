//! The rules that a finished run must satisfy. For each rule, a test gives the checker an invented
//! run that breaks the rule.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use super::members::Members;
use super::worker::{self, Entry, Grant, Line};
use super::{PARTITIONS, RECOVERY};
use crate::backend::Backend;
use crate::child::now_ns;
use crate::history;
use crate::stalls::{self, Stall, Stalls};
use crate::watch::Seen;

mod order;
mod tests;

/// Minimum number of assignments that a run must show for a meaningful check.
pub const ENOUGH_ASSIGNMENTS: usize = 8;
/// Minimum numbers of tokens and of appends that a run must show in each partition.
pub const ENOUGH_TOKENS: usize = 2;
pub const ENOUGH_APPENDS: usize = 5;

/// The observations and logs of one run with a group. The checker compares these records with its
/// rules.
pub struct Story {
    /// Log lines of each worker process.
    workers: Vec<Vec<Line>>,
    /// The objects in the log of each partition.
    logs: BTreeMap<u64, Vec<Object>>,
    made: BTreeMap<u64, Seen>,
    grants: BTreeMap<Grant, String>,
    wrong: Vec<String>,
    stalls: Vec<Stall>,
    /// The interval from the end of the last fault to the time when the members had equal shares
    /// and had written to each partition.
    recovery: Seen,
    /// Numbers of assignments and sessions that the compactor has deleted.
    compacted: (u64, u64),
    end_ns: u64,
}

/// An object in the log of a partition.
#[derive(Clone, Debug)]
struct Object {
    number: u64,
    token: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Entry(Entry),
    Claim,
    /// A fence, which a writer creates before its claim. A fence stops older writers, but is not an
    /// entry of the log.
    Fence,
}

impl Story {
    pub fn of(backend: &Backend, members: &Members, stalls: Stalls, recovery: Seen) -> Story {
        let log = |partition| {
            let objects = backend.folder(&worker::folder("", partition)).into_iter();
            (partition, objects.map(|(name, body)| object(&name, &body)).collect())
        };
        let assignments = &members.assignments;
        Story {
            workers: members.lines(),
            logs: (0..PARTITIONS).map(log).collect(),
            made: assignments.made.clone(),
            grants: assignments.grants.clone(),
            wrong: [&assignments.wrong[..], &members.unexpected[..]].concat(),
            stalls: stalls.seen(),
            recovery,
            compacted: members.compacted(),
            end_ns: now_ns(),
        }
    }

    fn lines(&self) -> impl Iterator<Item = &Line> {
        self.workers.iter().flatten()
    }

    /// Checks all rules. Returns a summary of the run, or the broken rule.
    pub fn check(&self) -> Result<String, String> {
        if !self.wrong.is_empty() {
            return Err(self.wrong.join("\n"));
        }
        for (partition, log) in &self.logs {
            check_log(*partition, log)?;
        }
        self.check_acknowledged()?;
        self.check_grants()?;
        let nearest = self.check_order()?;
        let mut calls = 0;
        for partition in self.logs.keys() {
            let history = self.history(*partition);
            calls += history.len();
            history::check(history).map_err(|why| format!("partition {partition}: {why}"))?;
        }
        let recovered = self.check_recovery()?;
        self.check_enough()?;
        Ok(self.said(nearest, calls, recovered))
    }

    /// Checks that the log has each acknowledged entry under its number.
    fn check_acknowledged(&self) -> Result<(), String> {
        for line in self.lines() {
            let Line::Appended(_, entry, number) = line else { continue };
            let log = &self.logs[&entry.grant.partition];
            let found = log.binary_search_by_key(number, |object| object.number);
            let there = found.ok().map(|index| log[index].kind);
            if there != Some(Kind::Entry(*entry)) {
                return Err(format!(
                    "{entry:?} was acknowledged as {number}, but the entry with this number is {there:?}"
                ));
            }
        }
        Ok(())
    }

    /// Checks four rules. Each worker used only tokens that the assignments gave to its own
    /// session. Work ran at most once under each token. Each object of a log has a token that was
    /// granted. No assignment gave a partition of a live owner to another member (the loss
    /// `taken`).
    fn check_grants(&self) -> Result<(), String> {
        let mut granted = BTreeSet::new();
        for line in self.lines() {
            match line {
                Line::Granted(_, grant, session) => {
                    if self.grants.get(grant).is_some_and(|owner| owner != session) {
                        return Err(format!("{session} works under {grant:?} of another session"));
                    }
                    if !self.made.contains_key(&grant.token) {
                        return Err(format!("{grant:?} is not in an assignment"));
                    }
                    if !granted.insert(*grant) {
                        return Err(format!("{grant:?} was granted twice"));
                    }
                }
                Line::Ends(_, grant, Some(outcome)) if outcome == "taken" => {
                    return Err(format!("{grant:?} was taken from its owner"));
                }
                Line::Failed(_, grant, why) => return Err(format!("{grant:?}: {why}")),
                _ => {}
            }
        }
        for (partition, log) in &self.logs {
            for Object { number, token, .. } in log {
                if !granted.contains(&Grant { partition: *partition, token: *token }) {
                    return Err(format!(
                        "object {number} of partition {partition} has token {token}, which was never granted"
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_recovery(&self) -> Result<Duration, String> {
        let Seen { from_ns, until_ns } = self.recovery;
        let took = Duration::from_nanos(until_ns - from_ns);
        let stalled = Duration::from_nanos(stalls::within(&self.stalls, from_ns, until_ns));
        if took > RECOVERY + stalled {
            return Err(format!("all partitions were owned again only after {took:?}"));
        }
        Ok(took)
    }

    fn appended(&self) -> BTreeMap<u64, usize> {
        let mut appended: BTreeMap<_, _> = self.logs.keys().map(|it| (*it, 0)).collect();
        for line in self.lines() {
            if let Line::Appended(_, entry, _) = line {
                *appended.entry(entry.grant.partition).or_default() += 1;
            }
        }
        appended
    }

    fn check_enough(&self) -> Result<(), String> {
        let (fewest_tokens, fewest_appends) = fewest(self.lines());
        for (event, count, least) in [
            ("assignments", self.made.len(), ENOUGH_ASSIGNMENTS),
            ("tokens with entries in one partition", fewest_tokens, ENOUGH_TOKENS),
            ("appends in one partition", fewest_appends, ENOUGH_APPENDS),
        ] {
            if count < least {
                return Err(format!("the run is too short for a check: {count} {event}"));
            }
        }
        Ok(())
    }

    fn said(&self, nearest: u64, calls: usize, recovered: Duration) -> String {
        let appended = self.appended();
        let count = |of: fn(&Line) -> bool| self.lines().filter(|line| of(line)).count();
        let entries = self.logs.values().flatten();
        let entries = entries.filter(|it| matches!(it.kind, Kind::Entry(_))).count();
        let stalled = self.stalls.iter().map(|(from, until)| until - from).max().unwrap_or(0);
        format!(
            "{} assignments, {} compacted and {} sessions; {} grants, {} of them used; {entries} \
             entries, {} acknowledged, {} to {} in a partition; {} zombies fenced off; each \
             partition was last owned at least {} ms before its next owner began; recovered in {} \
             ms; the machine stalled {} times, for {} ms at most; {calls} calls are linearizable",
            self.made.len(),
            self.compacted.0,
            self.compacted.1,
            self.grants.len(),
            count(|line| matches!(line, Line::Granted(..))),
            appended.values().sum::<usize>(),
            appended.values().min().unwrap_or(&0),
            appended.values().max().unwrap_or(&0),
            count(|line| matches!(line, Line::Fenced(..))),
            nearest / 1_000_000,
            recovered.as_millis(),
            self.stalls.len(),
            stalled / 1_000_000,
        )
    }
}

/// Counts the tokens and the appends of each partition, and returns the least of each count.
pub fn fewest<'a>(lines: impl Iterator<Item = &'a Line>) -> (usize, usize) {
    let mut tokens = BTreeSet::new();
    let mut of_partition = vec![(0, 0); PARTITIONS as usize];
    for line in lines {
        if let Line::Appended(_, Entry { grant, .. }, _) = line {
            let (writers, appends) = &mut of_partition[grant.partition as usize];
            *writers += usize::from(tokens.insert(*grant));
            *appends += 1;
        }
    }
    let (writers, appends): (Vec<_>, Vec<_>) = of_partition.into_iter().unzip();
    (writers.into_iter().min().unwrap_or(0), appends.into_iter().min().unwrap_or(0))
}

/// Parses an object of a log. It does not use the parser of the library, so the checker also finds
/// faults of that parser.
fn object(name: &str, body: &Bytes) -> Object {
    #[derive(Deserialize)]
    struct Header {
        epoch: u64,
        claims_after: Option<u64>,
        fence_after: Option<u64>,
    }
    let end = body.iter().position(|byte| *byte == b'\n').expect("an object begins with a line");
    let header: Header =
        serde_json::from_slice(&body[..end]).expect("the first line of an object is its header");
    let kind = match (header.claims_after, header.fence_after) {
        (None, None) => {
            Kind::Entry(serde_json::from_slice(&body[end + 1..]).expect("a worker wrote the entry"))
        }
        (Some(_), _) => Kind::Claim,
        (None, Some(_)) => Kind::Fence,
    };
    Object { number: name.parse().expect("a number"), token: header.epoch, kind }
}

/// Checks that the numbers have no gap, tokens never decrease, and no entry occurs twice. Each
/// entry must have the partition and the token of its writer.
fn check_log(partition: u64, log: &[Object]) -> Result<(), String> {
    // Fences may have numbers above the end of the log, so the last entry or claim is the end.
    let end = log.iter().rposition(|it| it.kind != Kind::Fence).map_or(0, |index| index + 1);
    for (object, number) in log[..end].iter().zip(1..) {
        if object.number != number {
            return Err(format!("partition {partition}: number {number} is missing"));
        }
    }
    let mut before = Object { number: 0, token: 0, kind: Kind::Claim };
    let mut sequences: BTreeMap<u64, u64> = BTreeMap::new();
    for object in log[..end].iter().filter(|it| it.kind != Kind::Fence) {
        if object.token < before.token {
            return Err(format!("{before:?} is followed by {object:?} in partition {partition}"));
        }
        if let Kind::Entry(Entry { grant, sequence }) = object.kind {
            let last = sequences.entry(object.token).or_default();
            if grant != (Grant { partition, token: object.token }) || sequence <= *last {
                return Err(format!(
                    "{before:?} is followed by {object:?} in partition {partition}"
                ));
            }
            *last = sequence;
        }
        before = object.clone();
    }
    Ok(())
}
