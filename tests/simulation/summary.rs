//! What many runs did together, so that one sees that they did something.

use std::fmt;
use std::time::Duration;

use super::Outcome;
use super::world::Counts;

/// What must have happened at least once, or the checks have checked nothing.
const HAPPENED: [&str; 30] = [
    "409",
    "503",
    "503 after taking effect",
    "answers lost",
    "at-risk recoveries",
    "blackouts",
    "connections cut",
    "crashes",
    "depositions",
    "epochs compacted",
    "fenced zombies",
    "foreign leaderships",
    "lost: lease ended",
    "lost: sealed",
    "lost: suspended",
    "machine pauses",
    "outages",
    "overlaps beyond the drift",
    "pauses",
    "requests applied late",
    "requests applied twice",
    "requests lost",
    "resigned in time",
    "slow answers",
    "slow requests",
    "stops around a request",
    "succeeded without waiting",
    "suspends",
    "takeovers",
    "zombie writes to the unfenced resource",
];

#[derive(Debug)]
pub struct Summary {
    runs: usize,
    total: Counts,
    /// The longest time after the faults until somebody led, and in which run.
    slowest: Option<(Duration, u64)>,
}

impl Summary {
    pub fn of(outcomes: &[Outcome]) -> Summary {
        let mut total = Counts::new();
        for (what, count) in outcomes.iter().flat_map(|outcome| &outcome.counts) {
            *total.entry(what).or_default() += count;
        }
        let slowest = outcomes.iter().filter_map(|o| Some((o.recovered?, o.seed))).max();
        Summary { runs: outcomes.len(), total, slowest }
    }

    pub fn assert_that_all_happened(&self) {
        let count = |what| self.total.get(what).copied().unwrap_or_default();
        let never: Vec<_> = HAPPENED.iter().filter(|what| count(**what) == 0).collect();
        assert!(never.is_empty(), "never happened: {never:?}\n{self}");
        let grants = count("grants");
        assert!(grants > 5 * self.runs as u64, "only {grants} grants in {} runs", self.runs);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>10} runs", self.runs)?;
        for (what, count) in &self.total {
            writeln!(f, "{count:>10} {what}")?;
        }
        match self.slowest {
            None => Ok(()),
            Some((slowest, seed)) => write!(f, "slowest recovery {slowest:?}, seed {seed}"),
        }
    }
}
