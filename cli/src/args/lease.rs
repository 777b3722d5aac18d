//! The lease flags of `run`, `group run` and `serve`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use humantime::format_duration;
use serde_json::Value;
use tenure::ElectionBuilder;
use tenure::store::Store;

use super::common::{DAY, LayoutArg, default_name, duration, json, name};
use super::common::{positive_duration, positive_up_to};
use super::data_file;
use crate::exit::{self, Failure};
use crate::process::margins::Margins;
use crate::store::urls::builder;

/// The flags for the lease of a leader or for the session of a group member.
#[derive(Debug, Clone, clap::Args)]
pub struct LeaseArgs {
    /// Name of this process [default: HOSTNAME-PID]
    ///
    /// Candidates of an election may share a name, unless clients of `serve` compare the leader's
    /// name with their own. A group pins and reserves partitions by name: give each member a name
    /// that does not change at a restart.
    #[arg(long, value_name = "NAME", value_parser = name, env = "TENURE_NAME", display_order = 1)]
    pub name: Option<String>,
    /// Length of the lease.
    ///
    /// After this machine has died, other processes wait at most this time for the end of the
    /// lease. The length is at most 24h, and at most 1h in a group. The minimum is 2s with the
    /// default grace of `run` and `group run`, and 750ms with `serve`.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = positive_duration)]
    #[arg(env = "TENURE_VALIDITY", help_heading = "Timing")]
    #[arg(visible_aliases = ["ttl", "lease-duration"])]
    pub validity: Duration,
    /// Interval between renewals [default: a third of the validity]
    ///
    /// A renewal is one request. The interval is at most the validity minus two request timeouts.
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    #[arg(env = "TENURE_RENEW", help_heading = "Timing", hide_short_help = true)]
    pub renew: Option<Duration>,
    /// Interval between polls of the leader [default: a sixth of the validity]
    ///
    /// A waiting candidate polls the current leader, and a member of a group polls the assignment.
    /// The interval is at most the validity. An election also accepts `lapse`: a candidate polls
    /// only when the leader's lease would lapse, and so detects a resignation late.
    #[arg(long, value_name = "DURATION", env = "TENURE_POLL", help_heading = "Timing")]
    pub poll: Option<Poll>,
    /// Time limit of a request [default, and at most: a fifth of the validity]
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    #[arg(env = "TENURE_REQUEST_TIMEOUT", help_heading = "Advanced", hide_short_help = true)]
    pub request_timeout: Option<Duration>,
    /// Maximum difference in speed between the clocks of two machines, from 0 to 0.5: 0.01 is 1 in
    /// 100
    #[arg(long, value_name = "RATIO", default_value_t = 0.01)]
    #[arg(env = "TENURE_CLOCK_DRIFT_MAX", help_heading = "Advanced", hide_short_help = true)]
    pub clock_drift_max: f64,
    /// Skip the initial check that the store honours conditional requests.
    ///
    /// The check sends 5 requests.
    #[arg(long, env = "TENURE_NO_CHECK", help_heading = "Advanced", hide_short_help = true)]
    pub no_check: bool,
    /// Declare that nothing outside the machine ever pauses it.
    ///
    /// With this flag, a wall clock that is set forward does not end the lease.
    #[arg(long)]
    #[arg(env = "TENURE_MACHINE_NEVER_PAUSED", help_heading = "Advanced", hide_short_help = true)]
    pub machine_never_paused: bool,
}

/// The flags of an election.
#[derive(Debug, Clone, clap::Args)]
pub struct ElectionArgs {
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// Maximum interval between polls, at most the validity.
    ///
    /// The interval grows up to this duration while the same leader leads. Candidates may detect a
    /// lapse or a resignation late, by up to this duration.
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    #[arg(env = "TENURE_POLL_BACKOFF", help_heading = "Timing", hide_short_help = true)]
    pub poll_backoff: Option<Duration>,
    /// Additional wait before a takeover from a leader that did not resign, at most 24h.
    ///
    /// Set this flag for a resource that cannot refuse lower epochs. All candidates must use the
    /// same duration.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    #[arg(env = "TENURE_TAKEOVER_DELAY", help_heading = "Timing", hide_short_help = true)]
    pub takeover_delay: Duration,
    /// Priority of this candidate: its additional wait before it takes over, at most 24h.
    ///
    /// Candidates with 0s take over first. The wait of other candidates should be longer than the
    /// poll interval.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    #[arg(env = "TENURE_PRIORITY_DELAY", help_heading = "Timing", hide_short_help = true)]
    pub priority_delay: Duration,
    /// Take over immediately if, by the store's dates, the lease ended longer ago than this margin.
    ///
    /// The margin must be longer than 1s plus the greatest difference between the clocks of the
    /// store's servers: at least 2s and at most 24h.
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(DAY))]
    #[arg(env = "TENURE_STORE_CLOCK_MARGIN", help_heading = "Advanced", hide_short_help = true)]
    pub store_clock_margin: Option<Duration>,
    /// Accept a renewal only after a LIST has shown no greater epoch.
    ///
    /// A store behind a proxy that resends PUTs needs this flag. Each renewal costs one more LIST.
    #[arg(long, env = "TENURE_VERIFY_RENEWALS", help_heading = "Advanced", hide_short_help = true)]
    pub verify_renewals: bool,
}

/// The flag `--grace` of `run` and `group run`: the time from SIGTERM to SIGKILL for CMD.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct GraceArg {
    /// Time from SIGTERM to SIGKILL [default: a sixth of the validity]
    ///
    /// CMD gets the signals when the lease is at risk or a partition must move. With a validity of
    /// 30s, the grace is at most 6.5s: the validity must also cover a renewal, its retry and the
    /// kill.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    #[arg(env = "TENURE_GRACE", help_heading = "Command")]
    pub grace: Option<Duration>,
}

/// The value of `--poll`. A waiting candidate polls the leader either at a regular interval, or
/// only when the leader's lease could lapse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll {
    Every(Duration),
    AtLapse,
}

impl FromStr for Poll {
    type Err = String;

    fn from_str(text: &str) -> Result<Poll, String> {
        match text {
            "lapse" => Ok(Poll::AtLapse),
            _ => positive_duration(text).map(Poll::Every),
        }
    }
}

impl fmt::Display for Poll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Poll::Every(interval) => write!(f, "{}", format_duration(*interval)),
            Poll::AtLapse => f.write_str("lapse"),
        }
    }
}

/// The flags of `run` about the candidate: its data, and whether its name is unique.
#[derive(Debug, Clone, clap::Args)]
pub struct OwnArgs {
    /// Declare that no other living process has this name.
    ///
    /// At the start, this process waits until the guard of a killed predecessor must have ended its
    /// CMD. Then this process ends the lease of the predecessor, and does not wait for its lapse.
    /// Use the --grace and --validity of the predecessor.
    #[arg(long, requires = "name", env = "TENURE_UNIQUE_NAME", hide_short_help = true)]
    pub unique_name: bool,
    /// JSON that this candidate publishes while it leads, such as its address.
    ///
    /// At most about 47 KiB. `status` and `watch` show it.
    #[arg(long, value_name = "JSON", value_parser = json)]
    #[arg(env = "TENURE_DATA", hide_short_help = true)]
    pub data: Option<Value>,
    /// File that contains the data, in place of --data.
    ///
    /// `tenure` reads it each second, and publishes each change.
    #[arg(long, value_name = "PATH", env = "TENURE_DATA_FILE", hide_short_help = true)]
    pub data_file: Option<PathBuf>,
}

impl OwnArgs {
    /// Returns the data that the candidate's record contains immediately after the election.
    pub fn first_data(&self) -> Result<Value, Failure> {
        match (&self.data, &self.data_file) {
            (Some(_), Some(_)) => {
                Err(Failure::new(exit::USAGE, "give --data or --data-file, not both"))
            }
            (data, None) => Ok(data.clone().unwrap_or_default()),
            (None, Some(file)) => {
                data_file::read(file).map_err(|why| Failure::new(exit::USAGE, why))
            }
        }
    }
}

impl LeaseArgs {
    /// Returns the name of this process in the election or the group.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(default_name)
    }

    pub fn renew_interval(&self) -> Duration {
        self.renew.unwrap_or(self.validity / 3)
    }

    pub fn request_timeout(&self) -> Duration {
        self.request_timeout.unwrap_or(self.validity / 5)
    }

    /// Returns the poll interval of a waiting candidate or of a member of a group.
    pub fn look_every(&self) -> Duration {
        match self.poll {
            Some(Poll::Every(interval)) => interval,
            Some(Poll::AtLapse) | None => self.validity / 6,
        }
    }

    /// Returns the longest pause between two requests of this process while the store answers.
    pub fn longest_pause(&self) -> Duration {
        let waiting = match self.poll {
            Some(Poll::AtLapse) => {
                self.validity.mul_f64(1.0 + self.clock_drift_max.clamp(0.0, 0.5))
            }
            Some(Poll::Every(_)) | None => self.look_every(),
        };
        waiting.max(self.renew_interval())
    }

    /// Returns the time from SIGTERM to SIGKILL for CMD, and the time from SIGKILL to the end of
    /// the lease.
    pub fn margins(&self, grace: GraceArg) -> Result<Margins, Failure> {
        Margins::with(self.validity, self.renew_interval(), self.request_timeout(), grace.grace)
            .map_err(|no_room| Failure::new(exit::USAGE, no_room))
    }
}

impl ElectionArgs {
    /// Returns the longest pause between two requests of a leader or a candidate while the store
    /// answers.
    pub fn longest_pause(&self) -> Duration {
        self.lease.longest_pause().max(self.poll_backoff.unwrap_or_default())
    }

    /// Returns the builder of an election with these settings. The method `build` refuses settings
    /// that contradict each other.
    pub fn builder(
        &self,
        layout: LayoutArg,
        name: &str,
        stores: Vec<Arc<dyn Store>>,
        prefix: &str,
    ) -> ElectionBuilder {
        let lease = &self.lease;
        let mut builder = builder(stores, prefix)
            .layout(layout.into())
            .name(name)
            .validity(lease.validity)
            .renew_interval(lease.renew_interval())
            .request_timeout(lease.request_timeout())
            .takeover_delay(self.takeover_delay)
            .priority_delay(self.priority_delay)
            .clock_drift_max(lease.clock_drift_max)
            .verify_renewals(self.verify_renewals)
            .check_store(!lease.no_check)
            .machine_is_never_paused(lease.machine_never_paused);
        match lease.poll {
            Some(Poll::Every(interval)) => builder = builder.poll_interval(interval),
            Some(Poll::AtLapse) => builder = builder.poll_interval(None),
            None => {}
        }
        if let Some(longest) = self.poll_backoff {
            builder = builder.poll_backoff(longest);
        }
        if let Some(margin) = self.store_clock_margin {
            builder = builder.store_clock_margin(margin);
        }
        builder
    }
}
