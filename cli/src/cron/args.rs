//! The flags `--try`, `--wait` and `--once-per`, and the flags that depend on them.

use std::time::Duration;

use super::period::{LONGEST, PeriodRules, SHORTEST};
use crate::args::common::{DAY, YEAR, duration, duration_up_to, positive_up_to};
use crate::exit::{self, Failure};
use crate::output::print::in_ms;

#[derive(Debug, Clone, clap::Args)]
pub struct CronArgs {
    /// Do not wait: exit with 76 if another candidate leads.
    ///
    /// If that leader's lease has lapsed by the store's dates, watch the leader for its validity,
    /// and take over if it does not renew. Exit with 69 if the store cannot be reached.
    #[arg(long = "try", visible_alias = "no-wait", conflicts_with = "forever", group = "bounded")]
    once: bool,
    /// Wait for the lease at most this time, then exit as --try does.
    ///
    /// --try is --wait 0. Exit with 76 if another candidate leads, with 69 if the store has not
    /// answered in this time, and with 69 or 77 if the last request has failed. At most 365d. If
    /// the time ends while this process is being elected, the election has no leader for up to the
    /// validity.
    #[arg(long, value_name = "DURATION", value_parser = duration_up_to(YEAR))]
    #[arg(conflicts_with = "forever", group = "bounded")]
    wait: Option<Duration>,
    /// Exit code of --try and --wait if another candidate leads [default: 76]
    ///
    /// Choose 0 for a scheduler that reports every other code as a failure.
    #[arg(long, value_name = "CODE", requires = "bounded", hide_short_help = true)]
    pub busy_exit_code: Option<u8>,
    /// Run CMD once per period, on one of the hosts.
    ///
    /// A period has at least 1s and at most 36525d. Periods are counted in UTC from
    /// 1970-01-01T00:00:00Z. The run is recorded under the prefix of the election. Exit with 0 if
    /// the period is completed or this host made no attempt, else with the exit code of CMD.
    /// docs/how-to/cron.md lists the guarantees.
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(LONGEST))]
    #[arg(conflicts_with = "forever", help_heading = "Command")]
    pub once_per: Option<Duration>,
    /// Delay of the start of each period, less than the period [default: 0s]
    ///
    /// With --once-per 1d, a delay of 3h means 3:00 UTC.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "once_per")]
    #[arg(help_heading = "Command", hide_short_help = true)]
    pub period_offset: Option<Duration>,
    /// Treatment of a period that began longer ago than the tolerance: run CMD late, or skip the
    /// period [default: run]
    #[arg(long, value_name = "ACTION", value_enum, requires = "once_per")]
    #[arg(help_heading = "Command", hide_short_help = true)]
    pub missed: Option<Missed>,
    /// With --missed skip, the maximum delay of CMD after the start of the period, at most the
    /// period [default: half of the period]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "missed")]
    #[arg(help_heading = "Command", hide_short_help = true)]
    pub tolerance: Option<Duration>,
    /// Maximum number of times that CMD is started again in a period [default: 0]
    ///
    /// CMD starts again, on any host, after CMD has failed or its host has died.
    #[arg(long, value_name = "N", requires = "once_per")]
    #[arg(help_heading = "Command", hide_short_help = true)]
    pub retries: Option<u32>,
    /// Maximum time that this host's clock may be ahead of the store's, at most 24h [default: 1m]
    ///
    /// CMD does not run if the clock is further ahead.
    #[arg(long, value_name = "DURATION", value_parser = duration_up_to(DAY), requires = "once_per")]
    #[arg(help_heading = "Command", hide_short_help = true)]
    pub clock_ahead_max: Option<Duration>,
}

/// The treatment of a period that began longer ago than the tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Missed {
    /// CMD runs late, once for all periods that were missed
    Run,
    /// CMD does not run before the next period
    Skip,
}

const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(60);

impl CronArgs {
    /// Returns the maximum wait for the lease: zero with `--try`, otherwise the value of `--wait`.
    pub fn wait(&self) -> Option<Duration> {
        if self.once { Some(Duration::ZERO) } else { self.wait }
    }

    /// Returns the limit of `--wait`. Returns `None` if there is no limit, or if the process makes
    /// only a single attempt.
    pub fn bound(&self) -> Option<Duration> {
        self.wait().filter(|limit| !limit.is_zero())
    }

    pub fn busy_exit_code(&self) -> u8 {
        self.busy_exit_code.unwrap_or(exit::BUSY)
    }

    /// Returns the rules of `--once-per`, if the flag is given. Refuses invalid combinations of
    /// flags.
    pub fn rules(&self) -> Result<Option<PeriodRules>, Failure> {
        let Some(period) = self.once_per else { return Ok(None) };
        let refused = |why: String| Err(Failure::new(exit::USAGE, why));
        if period < SHORTEST || !period.subsec_nanos().is_multiple_of(1_000_000) {
            let (period, least) = (humantime::format_duration(period), in_ms(SHORTEST));
            return refused(format!(
                "--once-per must be at least {least} in whole milliseconds, got {period}"
            ));
        }
        let offset = self.period_offset.unwrap_or_default();
        if offset >= period || !offset.subsec_nanos().is_multiple_of(1_000_000) {
            let (offset, period) = (humantime::format_duration(offset), in_ms(period));
            return refused(format!(
                "--period-offset must be shorter than the period of {period} and in whole \
                 milliseconds, got {offset}"
            ));
        }
        let skips = self.missed == Some(Missed::Skip);
        match self.tolerance {
            Some(tolerance) if !skips => {
                let tolerance = in_ms(tolerance);
                return refused(format!("--tolerance {tolerance} requires --missed skip"));
            }
            Some(tolerance) if tolerance > period => {
                let (tolerance, period) = (in_ms(tolerance), in_ms(period));
                return refused(format!(
                    "--tolerance must be at most the period of {period}, got {tolerance}"
                ));
            }
            _ => {}
        }
        Ok(Some(PeriodRules {
            period,
            offset,
            tolerance: skips.then(|| self.tolerance.unwrap_or(period / 2)),
            retries: self.retries.unwrap_or(0),
            clock_ahead_max: self.clock_ahead_max.unwrap_or(CLOCK_AHEAD_MAX),
        }))
    }
}
