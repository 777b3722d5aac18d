//! `--once-per`: runs CMD on one host in each period, and records the run.

use std::ops::ControlFlow;
use std::time::Duration;

use nix::sys::signal::Signal;
use tenure::store::GetOutcome;
use tenure::{Epoch, Error, ErrorKind, Leadership, Process};
use tenure_fencing::{FencingError, ObjectWriter};
use tracing::{info, warn};

use super::metric;
use super::period::record::{MOST_LEN, PeriodRecord};
use super::period::{Decision, Period, PeriodRules, SkipReason, date, shown};
use super::record_place::RecordPlace;
use crate::exit::{self, Failure};
use crate::output::print::{in_ms, in_seconds, plain};
use crate::process::signals::Signals;
use crate::process::timer::pause;

/// Maximum length in bytes of the object of the period record. The record follows the first line of
/// a fenced object.
const MAX_LEN: usize = 1_024 + MOST_LEN;
/// Maximum time for the check of the store's clock. The start of CMD waits for this check.
const CLOCK_WITHIN: Duration = Duration::from_secs(10);
/// Pause after a failed attempt to record the end of CMD. The attempts are repeated only while the
/// lease is valid.
const WRITE_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// After a signal, this process tries to record the end of CMD for at most this time.
const HURRIED: Duration = Duration::from_secs(1);

/// One run of `tenure run --once-per`, for the period in which it was started.
pub struct OncePer {
    rules: PeriodRules,
    period: Period,
    place: RecordPlace,
    candidate: String,
    /// Exit code of CMD, if CMD has failed on this host in this period.
    failed: Option<u8>,
}

/// An attempt of this host. The period record already contains it, so the leader may run CMD.
pub struct Turn {
    writer: ObjectWriter,
    record: PeriodRecord,
    place: RecordPlace,
    retries: u32,
}

impl OncePer {
    pub fn new(
        (rules, period): (PeriodRules, Period),
        place: RecordPlace,
        candidate: &str,
    ) -> OncePer {
        OncePer { rules, period, place, candidate: candidate.to_owned(), failed: None }
    }

    /// Returns whether this host can skip the period without a campaign. This read of the record
    /// needs no token, because a completed period stays completed. Returns `false` if the record
    /// contains an attempt without a recorded end: CMD may still run, and only a leader can decide
    /// whether to run it again. Also returns `false` if the store cannot be reached, because the
    /// campaign waits for the store. Sends 1 GET. If the period needs a campaign, a second GET
    /// checks the clock.
    pub async fn is_over(&self) -> Result<bool, Failure> {
        let record = match self.place.read().await {
            Ok(record) => record,
            Err(failure) if failure.code == exit::UNAVAILABLE => return Ok(false),
            Err(failure) => return Err(failure),
        };
        metric::set(&self.place, record.as_ref().and_then(|record| record.last_completed));
        match self.rules.decide(record.as_ref(), self.period, wall()) {
            Decision::Run { .. } => self.check_clock().await.map(|()| false),
            Decision::Skip(SkipReason::Failed)
                if record.as_ref().is_some_and(|record| record.exit_code.is_none()) =>
            {
                self.check_clock().await.map(|()| false)
            }
            Decision::Skip(why) => self.explain(why, record.as_ref()).map(|()| true),
        }
    }

    /// Returns the exit code of CMD if CMD has failed on this host. Otherwise returns `other`.
    pub fn code_or(&self, other: u8) -> u8 {
        self.failed.unwrap_or(other)
    }

    /// Records that CMD has failed on this host and may run again.
    pub fn failed_with(&mut self, code: u8) {
        self.failed = Some(code);
    }

    /// Claims the record with the token `epoch`, and records an attempt. If the result is a
    /// [`Turn`], CMD may be started once. Otherwise `tenure` must end with the returned exit code.
    pub async fn take(&self, epoch: Epoch) -> Result<ControlFlow<u8, Turn>, Failure> {
        let object = self.place.object();
        let mut writer = object.open(epoch).await.map_err(|error| self.failure(error))?;
        let before = self.place.parse(writer.body().map(AsRef::as_ref))?;
        let attempt = match self.rules.decide(before.as_ref(), self.period, wall()) {
            Decision::Run { attempt } => attempt,
            Decision::Skip(why) => {
                self.explain(why, before.as_ref())?;
                let completed = why == SkipReason::Completed;
                return Ok(ControlFlow::Break(if completed { 0 } else { self.code_or(0) }));
            }
        };
        self.check_clock().await?;
        before.as_ref().into_iter().for_each(|before| self.warn_of_missed(before));
        let who = (self.candidate.as_str(), epoch.get());
        let record = PeriodRecord::begin(before.as_ref(), self.period, attempt, who, wall());
        writer.write(record.to_json()).await.map_err(|error| self.failure(error))?;
        let (start, most) = (shown(record.period_start), self.rules.retries.saturating_add(1));
        info!(
            outcome = "period_started",
            "the period of {start}: attempt {attempt} of {most} is recorded"
        );
        let (place, retries) = (self.place.clone(), self.rules.retries);
        Ok(ControlFlow::Continue(Turn { writer, record, place, retries }))
    }

    /// Refuses to run CMD if this host's clock, or the start of its period, is too far ahead of the
    /// store's clock. Accepts the clock if the store reports no date, or if the read fails.
    async fn check_clock(&self) -> Result<(), Failure> {
        let before = wall();
        let served_at = tokio::select! {
            biased;
            got = self.place.store.get(&self.place.key, None, MAX_LEN) => match got {
                Ok(GetOutcome::Found(object)) => object.served_at,
                _ => None,
            },
            () = pause(CLOCK_WITHIN) => None,
        };
        let Some(served_at) = served_at else { return Ok(()) };
        let most = in_ms(self.rules.clock_ahead_max);
        let own = shown(date(self.period.start));
        let why = if self.rules.is_ahead(before, served_at) {
            let ahead = date(before).signed_duration_since(served_at).to_std().unwrap_or_default();
            let ahead = in_seconds(ahead);
            format!(
                "this host's clock is {ahead} ahead of the store's, more than the {most} of \
                 --clock-ahead-max, so it may be too early for the period of {own}: set the clock; \
                 CMD was not run, and other hosts may run it"
            )
        } else if self.rules.is_ahead(self.period.start, served_at) {
            self.not_begun(&format!("the store's clock shows {}", shown(served_at)))
        } else {
            return Ok(());
        };
        Err(Failure::new(exit::REFUSED, why))
    }

    /// Returns the message for a period that has not begun. This host's clock was ahead when
    /// `tenure` chose the period.
    fn not_begun(&self, clock: &str) -> String {
        let own = shown(date(self.period.start));
        format!(
            "the period of {own} has not begun, because {clock}: this host's clock was ahead when \
             `tenure` was started. CMD was not run. Start `tenure` again, or leave the period to \
             other hosts"
        )
    }

    /// Logs a warning if no host has begun the periods between the recorded period and this host's
    /// period. The host then records its own period, so later hosts find no gap and do not repeat
    /// the warning.
    fn warn_of_missed(&self, before: &PeriodRecord) {
        let missed = self.rules.missed(before, self.period);
        if missed == 0 {
            return;
        }
        let last = shown(before.period_start);
        let completed = before.last_completed.map_or("none".to_owned(), shown);
        warn!(
            outcome = "periods_missed",
            "{missed} periods were missed: the last period that a host began is {last}, and the \
             last completed period is {completed}"
        );
    }

    /// Logs why this host skips the period. Returns an error if the reason is a wrong clock.
    fn explain(&self, why: SkipReason, record: Option<&PeriodRecord>) -> Result<(), Failure> {
        let own = shown(date(self.period.start));
        let by = record.map_or_else(String::new, |record| {
            let (name, epoch) = (plain(&record.candidate), record.epoch);
            format!("{name} in epoch {epoch}")
        });
        match why {
            SkipReason::Completed => {
                info!(outcome = "period_completed", "the period of {own} was completed by {by}");
            }
            SkipReason::Past => {
                let later = record.map_or_else(String::new, |record| shown(record.period_start));
                let text =
                    format!("the period of {own} has passed: {by} has begun the period of {later}");
                info!(outcome = "period_past", "{text}");
            }
            SkipReason::Failed => {
                let attempts = record.map_or(0, |record| record.attempts);
                let end = match record.and_then(|record| record.exit_code) {
                    Some(code) => format!("with exit code {code}"),
                    None => "without a recorded end: its host died or lost its lease".to_owned(),
                };
                warn!(
                    outcome = "period_failed",
                    "the period of {own} has failed: {attempts} of {} attempts, the last by {by}, \
                     {end}; CMD runs again in the next period",
                    self.rules.retries.saturating_add(1)
                );
            }
            SkipReason::TooLate => {
                let late = in_seconds(wall().saturating_sub(self.period.start));
                let most = in_ms(self.rules.tolerance.unwrap_or_default());
                let text = format!(
                    "the period of {own} is skipped: it began {late} ago, and the tolerance is \
                     {most}"
                );
                warn!(outcome = "period_skipped", "{text}");
            }
            SkipReason::NotBegun => {
                let clock = format!("this host's clock shows {}", shown(date(wall())));
                return Err(Failure::new(exit::REFUSED, self.not_begun(&clock)));
            }
            SkipReason::InTheFuture => {
                let later = record.map_or_else(String::new, |record| shown(record.period_start));
                let why = format!(
                    "according to {}, {by} has begun the period of {later}, but this host's clock \
                     shows {}: one of the two clocks is wrong. CMD does not run before that \
                     period is over. If the other clock was wrong, set it, stop all hosts, and \
                     delete the object",
                    self.place,
                    shown(date(wall()))
                );
                return Err(Failure::new(exit::REFUSED, why));
            }
        }
        Ok(())
    }

    /// Returns the failure of a host that could not record its attempt, and so has not started CMD.
    /// If the write took effect despite the error, it counts as an attempt.
    fn failure(&self, error: FencingError) -> Failure {
        let why = match error {
            FencingError::Failed(error) => {
                let counts =
                    if error.may_have_happened() { ", but the attempt may count" } else { "" };
                let Failure { code, why, .. } = Failure::from(error);
                return Failure::new(code, format!("{why}; CMD was not run{counts}"));
            }
            FencingError::Stale { stale, .. } => format!(
                "epoch {} has claimed {}, and this candidate has epoch {}: CMD was not run. If \
                 that epoch was never granted, the records of the election were deleted: see \
                 `tenure restore`",
                stale.newest, self.place, stale.offered
            ),
            other => format!("{} cannot be written, so CMD was not run: {other}", self.place),
        };
        Failure::new(exit::LEASE_LOST, plain(&why))
    }
}

impl Turn {
    /// Returns the environment variables that describe the period to CMD.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("TENURE_PERIOD_START", shown(self.record.period_start)),
            ("TENURE_ATTEMPT", self.record.attempts.to_string()),
            ("TENURE_LAST_COMPLETED", self.record.last_completed.map(shown).unwrap_or_default()),
        ]
    }

    /// Returns whether the retries of this period allow another start of CMD.
    pub fn may_retry(&self) -> bool {
        self.record.attempts <= self.retries
    }

    /// Records the end of CMD. Repeats a failed write while the lease is valid, because a
    /// completion counts only if it is recorded. A failure counts even if it is not recorded.
    pub async fn end(
        &mut self,
        code: u8,
        leadership: &Leadership,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        self.record = self.record.clone().ended(code, wall());
        let mut signal = None;
        let why = loop {
            if let Err(loss) = leadership.check() {
                break loss.to_string();
            }
            let body = self.record.to_json();
            let error = tokio::select! {
                biased;
                loss = leadership.lost() => break loss.to_string(),
                signal = hurried(signals, signal) => {
                    break format!("{signal} ended the retries");
                }
                written = self.writer.write(body) => match written {
                    Ok(()) => {
                        metric::set(&self.place, self.record.last_completed);
                        self.log_end(code);
                        return Ok(());
                    }
                    Err(error) => error,
                },
            };
            let text = error.to_string();
            match error {
                FencingError::Failed(error) if passes(&error) => {
                    let text = plain(&text);
                    warn!(
                        outcome = "store_failed",
                        "the end of CMD is not recorded, and the write is retried: {text}"
                    );
                }
                _ => break text,
            }
            tokio::select! {
                biased;
                next = signals.next() => signal = Some(next),
                () = pause(WRITE_AGAIN_AFTER) => {}
            }
        };
        let again = if self.may_retry() { "CMD may run again" } else { "CMD does not run again" };
        let why = format!(
            "CMD has ended with exit code {code}, but its end is not recorded in {}: {why}; \
             {again} in this period",
            self.place.key
        );
        Err(Failure::new(exit::LEASE_LOST, plain(&why)))
    }

    fn log_end(&self, code: u8) {
        let start = shown(self.record.period_start);
        if code == 0 {
            info!(outcome = "period_completed", "the period of {start} is completed");
            return;
        }
        let next = match self.may_retry() {
            true => " and may run again in this period",
            false => "; no attempt is left, and CMD runs again in the next period",
        };
        let text = format!("CMD has failed with exit code {code}{next}");
        warn!(outcome = "period_failed", "the period of {start}: {text}");
    }
}

/// Waits for a signal, and returns it after one more second ([`HURRIED`]), in which a write may
/// still end. If a signal `earlier` has already arrived, waits only for this second.
async fn hurried(signals: &mut Signals, earlier: Option<Signal>) -> Signal {
    let signal = match earlier {
        Some(signal) => signal,
        None => signals.next().await,
    };
    pause(HURRIED).await;
    signal
}

fn passes(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
}

/// Returns the wall-clock time of this host.
pub fn wall() -> Duration {
    Process::system().now().wall
}

#[cfg(test)]
mod tests;
