//! The last period of `run --once-per`, as `status` shows it.

use std::time::Duration;

use serde::Serialize;
use tenure::Snapshot;

use super::line;
use crate::args::common::{CENTURY, positive_up_to};
use crate::cron::{PeriodRecord, date, shown, state_of, wall};
use crate::output::print::{ATTENTION, GOOD, plain, styled};

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct PeriodArg {
    /// For `run --once-per`: exit with 1 unless a recent period is completed.
    ///
    /// The period must have begun within this duration before now, at most 36525d, whether an epoch
    /// is held or not. --exit-code then has no effect.
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(CENTURY))]
    pub last_period_within: Option<Duration>,
}

impl PeriodArg {
    /// Returns whether a completed period began within the time that `--last-period-within` gives.
    /// Returns `None` if the exit code does not depend on the periods.
    pub fn is_met(self, record: Option<&PeriodRecord>) -> Option<bool> {
        let earliest = date(wall().saturating_sub(self.last_period_within?));
        let last = record.and_then(|record| record.last_completed);
        Some(last.is_some_and(|start| start >= earliest))
    }
}

/// The field `period` of `status --json`.
#[derive(Debug, Default, Serialize)]
pub struct PeriodStatus {
    start: String,
    length_ms: u64,
    /// `completed`, `failed`, `running` or `unfinished`. The last word means that the host died or
    /// lost its lease.
    state: &'static str,
    attempts: u32,
    candidate: String,
    epoch: u64,
    started_at: String,
    ended_at: Option<String>,
    exit_code: Option<u8>,
    last_completed: Option<String>,
}

impl PeriodStatus {
    pub fn of(record: &PeriodRecord, snapshot: &Snapshot) -> PeriodStatus {
        let leads = |epoch| {
            let ended = snapshot.end.is_some() || snapshot.lapsed;
            let leader = snapshot.leader.as_ref().filter(|_| !ended);
            leader.is_some_and(|leader| leader.epoch.get() == epoch)
        };
        PeriodStatus {
            start: shown(record.period_start),
            length_ms: record.period_ms,
            state: state_of(record.exit_code, leads(record.epoch)),
            attempts: record.attempts,
            candidate: record.candidate.clone(),
            epoch: record.epoch,
            started_at: shown(record.started_at),
            ended_at: record.ended_at.map(shown),
            exit_code: record.exit_code,
            last_completed: record.last_completed.map(shown),
        }
    }

    /// Returns the lines about the last period. `status` prints them before the lines about the
    /// election.
    pub fn for_people(&self) -> String {
        let colour = if matches!(self.state, "completed" | "running") { GOOD } else { ATTENTION };
        let code = self.exit_code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
        let (start, state, attempt) = (&self.start, self.state, self.attempts);
        let by = plain(&self.candidate);
        let state = styled(colour, format!("{state}{code}"));
        let period = format!("{start}: {state}, attempt {attempt} by {by} in epoch {}", self.epoch);
        let completed = self.last_completed.as_deref().unwrap_or("none");
        format!("{}\n{}", line("period", &period), line("completed", completed))
    }
}
