//! Counts the events of many runs. The counts show that the checks were effective.

use std::fmt;
use std::time::Duration;

use tenure::Layout;

use super::Outcome;
use super::calm::Recovery;
use super::world::Counts;

/// Events that must occur at least once. Checks that depend on an event are ineffective if the
/// event never occurs.
const HAPPENED: [&str; 47] = [
    "409",
    "503",
    "503 after taking effect",
    "answers lost",
    "at-risk recoveries",
    "blackouts",
    "calls",
    "calls given up",
    "calls of a leadership given up",
    "clocks slewed",
    "connections cut",
    "crashes",
    "created epochs deposed immediately",
    "depositions",
    "epochs compacted",
    "fenced zombies",
    "foreign leaderships",
    "granted though sealed",
    "lost: lease ended",
    "lost: sealed",
    "lost: suspended",
    "lost: wall clock ahead",
    "lost after a sealed grant",
    "leases that had ended at a check",
    "machine pauses",
    "outages",
    "overlaps beyond the drift",
    "pauses",
    "requests applied late",
    "requests applied twice",
    "requests lost",
    "restorings",
    "restorings given up",
    "restorings of two operators",
    "resigned in time",
    "slow answers",
    "runs given up",
    "runs with a min_age of 0",
    "runs with one name for two",
    "slow requests",
    "stops anywhere",
    "stops at a request",
    "succeeded without waiting",
    "suspends",
    "takeovers",
    "zombie writes to the unfenced resource",
    "writes spoiled",
];

/// Events that occur only with [`Layout::EpochFiles`], because they require a confirming LIST or a
/// compactor.
const OF_EPOCH_FILES: [&str; 7] = [
    "epochs compacted",
    "granted though sealed",
    "lost after a sealed grant",
    "restorings",
    "restorings given up",
    "restorings of two operators",
    "runs with a min_age of 0",
];

#[derive(Debug, Default)]
pub struct Summary {
    runs: usize,
    total: Counts,
    /// The longest time from the last fault until a process led, with the seed of its run.
    slowest: Option<(Duration, u64)>,
    /// The greatest ratio of a recovery time to its bound, with the seed of its run.
    closest: Option<(f64, u64)>,
}

impl Summary {
    pub fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        for (event, count) in &outcome.counts {
            *self.total.entry(event).or_default() += count;
        }
        let Some(Recovery { took, bound }) = outcome.recovered else { return };
        let seed = outcome.seed;
        if self.slowest.is_none_or(|(slowest, _)| took > slowest) {
            self.slowest = Some((took, seed));
        }
        let part = took.div_duration_f64(bound);
        if self.closest.is_none_or(|(closest, _)| part > closest) {
            self.closest = Some((part, seed));
        }
    }

    pub fn assert_that_all_happened(&self, layout: Layout) {
        let count = |event| self.total.get(event).copied().unwrap_or_default();
        let cannot =
            |event: &&str| layout == Layout::SingleObject && OF_EPOCH_FILES.contains(event);
        let can = HAPPENED.iter().filter(|event| !cannot(event));
        let never: Vec<_> = can.filter(|event| count(**event) == 0).collect();
        assert!(never.is_empty(), "never happened: {never:?}\n{self}");
        let grants = count("grants");
        assert!(grants > 5 * self.runs as u64, "only {grants} grants in {} runs", self.runs);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>10} runs", self.runs)?;
        for (event, count) in &self.total {
            writeln!(f, "{count:>10} {event}")?;
        }
        if let Some((slowest, seed)) = self.slowest {
            writeln!(f, "slowest recovery {slowest:?}, seed {seed}")?;
        }
        match self.closest {
            None => Ok(()),
            Some((part, seed)) => write!(f, "greatest part of the bound {part:.3}, seed {seed}"),
        }
    }
}
