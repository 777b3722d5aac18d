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

/// Maximum time for which the library reserves the partitions of a member that has left.
pub const LONGEST_KEPT: Duration = Duration::from_secs(3600);

/// The flags of a member of a partition group.
#[derive(Debug, Clone, clap::Args)]
pub struct MemberArgs {
    /// Declare that no other living process has this name.
    ///
    /// At the start, this member ends the session of its predecessor, does not wait for its lapse,
    /// and gets its partitions. Before that, `group run` waits until the guards of a killed
    /// predecessor must have ended its CMDs: use the same --grace. With `serve` the application
    /// must end its work before this process starts.
    #[arg(long, requires = "name", env = "TENURE_UNIQUE_NAME", hide_short_help = true)]
    unique_name: bool,
    /// Time for which the partitions stay reserved for this name after this member has left.
    ///
    /// At most 1h. A restart under that name moves no partition.
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(LONGEST_KEPT))]
    #[arg(requires = "name", env = "TENURE_LEAVE_FOR", hide_short_help = true)]
    leave_for: Option<Duration>,
    /// JSON that this member publishes, such as its address; `group status` and routers read it
    #[arg(long, value_name = "JSON", value_parser = json)]
    #[arg(env = "TENURE_DATA", hide_short_help = true)]
    data: Option<Value>,
    /// Share of the partitions, relative to the weights of other members [default: 1]
    #[arg(long, value_name = "NUMBER", env = "TENURE_WEIGHT", hide_short_help = true)]
    weight: Option<u32>,
    /// Time that the coordinator waits for further members before it assigns partitions [default:
    /// 1s]
    ///
    /// At most 1h. With this wait, a rollout causes one rebalance.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    #[arg(env = "TENURE_REBALANCE_DELAY", hide_short_help = true)]
    rebalance_delay: Option<Duration>,
}

impl MemberArgs {
    pub fn name_is_unique(&self) -> bool {
        self.unique_name
    }

    /// Returns the time for which the partitions stay reserved after this member has left.
    pub fn leave_for(&self) -> Option<Duration> {
        self.leave_for
    }

    /// Returns the name of the first flag of this structure that has a value, either from the
    /// command line or from an environment variable.
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

    /// Returns the builder of a group with these settings. The method `build` refuses settings that
    /// contradict each other.
    ///
    /// # Errors
    ///
    /// Fails if the poll interval is `lapse`, which only elections support.
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
                let why = "--poll lapse is for elections: a member of a group needs an interval, \
                           such as --poll 5s";
                Err(Failure::new(exit::USAGE, why))
            }
        }
    }
}
