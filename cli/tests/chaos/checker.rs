//! The rules that a finished run must satisfy. For each rule, a test gives the checker an invented
//! run that breaks the rule.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::backend::Backend;
use crate::child::{Entry, Line, now_ns};
use crate::fleet::Fleet;
use crate::history::{self, Call, Op, Ret};
use crate::stalls::{self, Stall, Stalls};
use crate::watch::{Seen, Watch};

/// Minimum number of renewals that a run must show for a meaningful check.
pub const ENOUGH_RENEWALS: usize = 5;
/// When the test continues a suspended guard, the guard must kill its child within this time.
const GUARD_WAKES_NS: u64 = 500_000_000;
/// A guard begins to kill its child this long before the end of the lease.
const KILL_MARGIN_NS: u64 = 200_000_000;

/// The observations and logs of one run of the chaos test. The checker compares these records with
/// its rules.
pub struct Story {
    lives: Vec<Life>,
    manifest: Vec<(u64, Entry)>,
    /// The manifest that would remain after a power loss, or `None` if the backend cannot simulate
    /// a power loss.
    kept: Option<Vec<(u64, Entry)>>,
    stalls: Vec<Stall>,
    renewals: Vec<(u64, Seen)>,
    wrong: Vec<String>,
    compacted: u64,
    made_again: usize,
    end_ns: u64,
}

/// The log of one child (the command of a leader), and the observations of its epoch.
#[derive(Clone, Debug, Default)]
struct Life {
    epoch: u64,
    lines: Vec<Line>,
    /// The moments at which the child was alive. Each moment is paired with the end of the lease,
    /// which the test computes from the renewals before this moment.
    signs: Vec<(u64, u64)>,
    /// The interval in which the guard was suspended (SIGSTOP) together with the child.
    guard_stopped: Option<Seen>,
    /// The interval in which the epoch was granted. It begins with the create of the epoch, and
    /// ends with the start of the child or with the first renewal.
    granted: Option<Seen>,
    /// Time of the first poll that showed that the epoch was resigned.
    resigned_ns: Option<u64>,
}

impl Story {
    pub fn of(
        backend: &Backend,
        fleet: &Fleet,
        watch: Watch,
        stalls: Stalls,
        validity: Duration,
    ) -> Story {
        let (manifest, kept) = (backend.manifest(), backend.manifest_on_the_disk());
        let validity_ns = u64::try_from(validity.as_nanos()).expect("a short lease");
        let mut wrong = [&watch.wrong[..], &fleet.unexpected[..]].concat();
        let mut lives = Vec::new();
        for child in fleet.children() {
            let (epoch, lines) = (child.epoch, child.lines());
            let Some(seen) = watch.epochs.get(&epoch) else {
                wrong.push(format!("{child:?} ran in an epoch that the test never saw"));
                continue;
            };
            let alive = watch.alive.get(&epoch).into_iter().flatten().copied();
            let sign = |at_ns| (at_ns, seen.lease_end(at_ns, validity_ns));
            let signs = lines.iter().map(Line::at_ns).chain(alive).map(sign).collect();
            let granted = lines.first().map(|line| {
                let renewed = seen.renewed.first().map_or(u64::MAX, |seen| seen.until_ns);
                Seen { from_ns: seen.made.from_ns, until_ns: line.at_ns().min(renewed) }
            });
            let guard_stopped = fleet.guards_stopped.get(&epoch).copied();
            let resigned_ns = seen.resigned_ns;
            lives.push(Life { epoch, lines, signs, guard_stopped, granted, resigned_ns });
        }
        // If the leader was killed or lost its lease before its child started, the child reports no
        // grant. Then the first renewal proves that the epoch was granted.
        for (epoch, seen) in &watch.epochs {
            if let Some(first) = seen.renewed.first()
                && lives.iter().all(|life| life.epoch != *epoch || life.granted.is_none())
            {
                let granted = Seen { from_ns: seen.made.from_ns, until_ns: first.until_ns };
                lives.push(Life { epoch: *epoch, granted: Some(granted), ..Life::default() });
            }
        }
        let renewals = watch.epochs.iter();
        let renewals =
            renewals.flat_map(|(epoch, seen)| seen.renewed.iter().map(|one| (*epoch, *one)));
        Story {
            renewals: renewals.collect(),
            lives,
            manifest,
            kept,
            stalls: stalls.seen(),
            wrong,
            compacted: fleet.compacted(),
            made_again: watch.made_again,
            end_ns: now_ns(),
        }
    }

    /// Checks all rules. Returns a summary of the run, or the broken rule.
    pub fn check(&self) -> Result<String, String> {
        if !self.wrong.is_empty() {
            return Err(self.wrong.join("\n"));
        }
        check_manifest(&self.manifest)?;
        let acknowledged = check_acknowledged(&self.lives, &self.manifest)?;
        if let Some(kept) = &self.kept {
            check_acknowledged(&self.lives, kept)
                .map_err(|why| format!("after a power loss: {why}"))?;
        }
        let nearest = check_leases(&self.lives, &self.stalls)?;
        check_order(&self.lives)?;
        let resigned = check_resignations(&self.lives)?;
        let mut history = self.history();
        let fenced = history.iter().filter(|call| call.ret == Ret::Refused).count();
        close(&mut history, self.end_ns);
        let grants = history.iter().filter(|call| call.ret == Ret::Granted).count();
        let linearizable = history::check(history)?;
        let writers: BTreeSet<_> = self.manifest.iter().map(|(_, entry)| entry.epoch).collect();
        for (event, count, least) in [
            ("epochs granted", grants, 3),
            ("epochs that wrote", writers.len(), 3),
            ("appends acknowledged", acknowledged, 50),
            ("renewals seen", self.renewals.len(), ENOUGH_RENEWALS),
        ] {
            if count < least {
                return Err(format!("the run is too short for a check: {count} {event}"));
            }
        }
        Ok(format!(
            "{grants} epochs granted, {} of them wrote, {resigned} were resigned; {} renewals seen; \
             {} entries, {acknowledged} acknowledged; {fenced} children fenced off; {} epochs \
             compacted, {} made again without a grant; each child was last alive at least {} ms \
             before the end of its lease; the machine stalled {} times, for {} ms at most; \
             {linearizable}",
            writers.len(),
            self.renewals.len(),
            self.manifest.len(),
            self.compacted,
            self.made_again,
            nearest / 1_000_000,
            self.stalls.len(),
            self.stalls.iter().map(|(from, until)| until - from).max().unwrap_or(0) / 1_000_000,
        ))
    }

    /// Returns the history of all calls for the linearizability checker. An append without an
    /// answer is included if its entry is in the manifest.
    fn history(&self) -> Vec<Call> {
        let call =
            |op, ret, seen: Seen| Call { op, ret, from_ns: seen.from_ns, until_ns: seen.until_ns };
        let renew = |(epoch, seen): &(u64, Seen)| call(Op::Renew(*epoch), Ret::Renewed, *seen);
        let mut history: Vec<_> = self.renewals.iter().map(renew).collect();
        let numbers: BTreeMap<_, _> = self
            .manifest
            .iter()
            .map(|(number, entry)| ((entry.epoch, entry.sequence), *number))
            .collect();
        for life in &self.lives {
            let granted = life.granted.map(|seen| call(Op::Grant(life.epoch), Ret::Granted, seen));
            history.extend(granted);
            let append = Op::Append(life.epoch);
            let mut open = None;
            for line in &life.lines {
                let (ret, until_ns) = match *line {
                    Line::Calls(at, entry) => {
                        open = Some((at, entry));
                        continue;
                    }
                    Line::Appended(at, _, number) => (Ret::Appended(number), at),
                    Line::Fenced(at, ..) => (Ret::Refused, at),
                    Line::Starts(_) | Line::Beats(_) => continue,
                };
                let (from_ns, _) = open.take().expect("the log has a call before each answer");
                history.push(call(append, ret, Seen { from_ns, until_ns }));
            }
            if let Some((from_ns, asked)) = open
                && let Some(number) = numbers.get(&(asked.epoch, asked.sequence))
            {
                let seen = Seen { from_ns, until_ns: self.end_ns };
                history.push(call(append, Ret::Appended(*number), seen));
            }
        }
        history
    }
}

/// Sets the end of each append that took effect but got no answer. The end is the time of the
/// earliest answer to an append with a greater number. Entries are written in the order of their
/// numbers, so the unanswered append took effect before this answer.
fn close(history: &mut [Call], end_ns: u64) {
    let answered = |call: &Call| match call.ret {
        Ret::Appended(number) if call.until_ns < end_ns => Some((number, call.until_ns)),
        _ => None,
    };
    let answered: Vec<_> = history.iter().filter_map(answered).collect();
    for call in history.iter_mut().filter(|call| call.until_ns == end_ns) {
        let Ret::Appended(own) = call.ret else { continue };
        let later = answered.iter().filter(|(number, _)| *number > own);
        call.until_ns = later.map(|(_, until_ns)| *until_ns).min().unwrap_or(end_ns);
    }
}

/// Checks that the entry numbers have no gap, epochs never decrease, and no entry occurs twice.
fn check_manifest(manifest: &[(u64, Entry)]) -> Result<(), String> {
    for (index, (number, _)) in manifest.iter().enumerate() {
        if *number != index as u64 + 1 {
            return Err(format!("number {} is missing, but {number} exists", index + 1));
        }
    }
    for pair in manifest.windows(2) {
        let [(_, before), (number, after)] = pair else {
            unreachable!("each window has two entries")
        };
        if (before.epoch, before.sequence) >= (after.epoch, after.sequence) {
            return Err(format!("{before:?} is followed by {after:?} as {number}"));
        }
    }
    Ok(())
}

/// Checks that the manifest has each acknowledged entry under its number. Returns the number of
/// acknowledged entries.
fn check_acknowledged(lives: &[Life], manifest: &[(u64, Entry)]) -> Result<usize, String> {
    let manifest: BTreeMap<_, _> = manifest.iter().copied().collect();
    let mut count = 0;
    for line in lives.iter().flat_map(|life| &life.lines) {
        if let Line::Appended(_, entry, number) = line {
            let there = manifest.get(number);
            if there != Some(entry) {
                return Err(format!(
                    "{entry:?} was acknowledged as {number}, but the entry with this number is {there:?}"
                ));
            }
            count += 1;
        }
    }
    Ok(count)
}

/// Checks that no child is alive at the end of its lease. Returns the shortest time between the
/// last moment at which a child was alive and the end of its lease, in nanoseconds.
///
/// The test computes the end of the lease as the time when it saw the last renewal, plus
/// `validity`. The test sees a renewal some milliseconds late, so the real lease ends earlier. The
/// guard begins to kill CMD 200 ms before the end of the lease, and needs CPU time to do so. During
/// a stall, an interval in which the machine ran no process, the guard cannot act. So the child may
/// outlive the lease by the duration of the stalls ([`Stalls`]). The child may also outlive the
/// lease if the test has suspended both the guard and the child.
fn check_leases(lives: &[Life], stalls: &[Stall]) -> Result<u64, String> {
    let mut nearest = u64::MAX;
    for life in lives {
        for (at_ns, end_ns) in &life.signs {
            if life.is_excused(*at_ns) {
                continue;
            }
            if let Some(left_ns) = end_ns.checked_sub(*at_ns) {
                nearest = nearest.min(left_ns);
                continue;
            }
            let stalled_ns = stalls::within(stalls, end_ns.saturating_sub(KILL_MARGIN_NS), *at_ns);
            if *at_ns > end_ns + stalled_ns {
                let late = Duration::from_nanos(at_ns - end_ns);
                return Err(format!("the child of epoch {} lived {late:?} too long", life.epoch));
            }
        }
    }
    Ok(nearest)
}

/// Checks that no child is alive in a resigned epoch. Returns the number of resigned epochs.
///
/// The guard seals the epoch only after all processes of CMD have ended. So even after a stall of
/// the machine, no child may be alive after the seal.
fn check_resignations(lives: &[Life]) -> Result<usize, String> {
    let mut count = 0;
    for life in lives {
        let Some(resigned_ns) = life.resigned_ns else { continue };
        count += 1;
        if let Some((at_ns, _)) = life.signs.iter().find(|(at_ns, _)| *at_ns > resigned_ns) {
            let late = Duration::from_nanos(at_ns - resigned_ns);
            let epoch = life.epoch;
            return Err(format!("the child of epoch {epoch} lived {late:?} after it was resigned"));
        }
    }
    Ok(count)
}

/// Checks that no epoch has two children, and that no child is alive after a child of a greater
/// epoch has started.
fn check_order(lives: &[Life]) -> Result<(), String> {
    let mut lives: Vec<_> = lives.iter().filter(|life| !life.signs.is_empty()).collect();
    lives.sort_by_key(|life| life.epoch);
    let mut first_ns = u64::MAX;
    let mut greater = u64::MAX;
    for life in lives.into_iter().rev() {
        if life.epoch == greater {
            return Err(format!("epoch {greater} had two children"));
        }
        greater = life.epoch;
        for (at_ns, _) in &life.signs {
            if *at_ns >= first_ns && !life.is_excused(*at_ns) {
                return Err(format!(
                    "the child of epoch {} overlapped with a later child",
                    life.epoch
                ));
            }
        }
        let first = life.signs.iter().map(|(at_ns, _)| *at_ns).min();
        first_ns = first_ns.min(first.unwrap_or(u64::MAX));
    }
    Ok(())
}

impl Life {
    fn is_excused(&self, at_ns: u64) -> bool {
        self.guard_stopped.is_some_and(|Seen { from_ns, until_ns }| {
            (from_ns..=until_ns.saturating_add(GUARD_WAKES_NS)).contains(&at_ns)
        })
    }
}

#[path = "checker_tests.rs"]
mod tests;
