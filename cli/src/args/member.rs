//! The member flags of `group run` and `serve`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenure::store::Store;
use tenure_groups::{Group, GroupBuilder};

use super::common::{duration, json, positive_up_to};
use super::lease::{LeaseArgs, Poll};
use super::partitions::Names;
use crate::exit::{self, Failure};

/// The library keeps partitions for at most this duration.
pub const LONGEST_KEPT: Duration = Duration::from_secs(3600);

/// The flags of a member of a partition group.
#[derive(Debug, Clone, clap::Args)]
pub struct MemberArgs {
    /// No two living processes have this name. A member that starts ends the session of its
    /// predecessor immediately, and gets back the predecessor's partitions. If the predecessor of
    /// `group run` was killed, it first waits for the end of its CMDs, which still have their grace:
    /// give the same --grace. With `serve` the application must have ended its work before this
    /// process starts
    #[arg(long, requires = "name")]
    unique_name: bool,
    /// At the end, keep the partitions of this member for its name for this duration, at most 1h: a
    /// restart under that name moves no partition
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(LONGEST_KEPT))]
    #[arg(requires = "name")]
    leave_for: Option<Duration>,
    /// JSON that this member publishes, such as its address; `group status` and routers see it
    #[arg(long, value_name = "JSON", value_parser = json)]
    data: Option<Value>,
    /// The number of shares of the partitions that this member takes [default: 1]
    #[arg(long, value_name = "NUMBER")]
    weight: Option<u32>,
    /// How long the member that plans gathers members that join, so that a rollout is one rebalance:
    /// at most 1h [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    rebalance_delay: Option<Duration>,
}

impl MemberArgs {
    pub fn name_is_unique(&self) -> bool {
        self.unique_name
    }

    /// Returns how long the partitions of this member are kept for its name at the end.
    pub fn leave_for(&self) -> Option<Duration> {
        self.leave_for
    }

    /// Returns the first of these flags that was given.
    pub fn first_given(&self) -> Option<&'static str> {
        let flags = [
            ("--unique-name", self.unique_name),
            ("--leave-for", self.leave_for.is_some()),
            ("--data", self.data.is_some()),
            ("--weight", self.weight.is_some()),
            ("--rebalance-delay", self.rebalance_delay.is_some()),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Returns a group with these settings. `build` refuses settings that do not fit together.
    ///
    /// # Errors
    ///
    /// The poll is `lapse`, which is for elections.
    pub fn builder(
        &self,
        lease: &LeaseArgs,
        partitions: &Names,
        name: &str,
        store: Arc<dyn Store>,
        prefix: &str,
    ) -> Result<GroupBuilder, Failure> {
        let mut builder = Group::builder(store, prefix)
            .name(name)
            .name_is_unique(self.unique_name)
            .partitions(&partitions.0)
            .data(self.data.clone().unwrap_or_default())
            .weight(self.weight.unwrap_or(1))
            .validity(lease.validity)
            .renew_interval(lease.renew_interval())
            .request_timeout(lease.request_timeout())
            .clock_drift_max(lease.clock_drift_max)
            .check_store(!lease.no_check)
            .machine_is_never_paused(lease.machine_never_paused);
        if let Some(delay) = self.rebalance_delay {
            builder = builder.rebalance_delay(delay);
        }
        match lease.poll {
            Some(Poll::Every(interval)) => Ok(builder.poll_interval(interval)),
            None => Ok(builder),
            Some(Poll::AtLapse) => {
                let why = "--poll lapse is for elections: the members of a group look for a change \
                           of the assignment at regular times";
                Err(Failure::new(exit::USAGE, why))
            }
        }
    }
}
