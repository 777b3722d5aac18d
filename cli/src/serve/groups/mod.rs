//! Partition groups: this process is a member for the application beside it.

pub mod api;
mod events;
pub mod member;
mod refusals;
mod task;
mod view;

use std::sync::Arc;
use std::time::Duration;

use humantime::format_duration;
use serde_json::Value;
use tenure::Process;
use tenure::store::{MemoryStore, Store};
use tenure_groups::{Group, GroupBuilder};
use tokio::sync::{mpsc, watch};
use tracing::{Instrument as _, error_span};

use super::lease_args::LeaseArgs;
use super::named::{Named, named};
use crate::args::common::{duration, json, positive_duration};
use crate::args::lease::Poll;
use crate::exit::{self, Failure};
use crate::group::{LONGEST_KEPT, Names, parse_names};
use crate::output::logs::Throttle;
use crate::store::open::{Opened, prefix};
use member::Member;
use task::Joiner;

#[derive(Debug, clap::Args)]
pub struct GroupsArgs {
    /// A group to join, and its name in the API, as for --election. Once for each group. The URL is
    /// that of `group run --store`
    #[arg(long = "group", value_name = "NAME=URL", value_parser = named)]
    pub groups: Vec<Named>,
    /// The partitions that a group is created with, as for `group run`: 0..64 for the only group, or
    /// GROUP=0..64, once for each. What stands before the first `=` is the name of a group
    #[arg(long, value_name = "[GROUP=]NAMES", value_parser = partitions)]
    partitions: Vec<Partitions>,
    /// Of groups: no two living processes have this name, and the application has ended its work
    /// before this process starts, as where both restart together. A process that starts ends the
    /// session of its predecessor at once, and gets back what that owned
    #[arg(long)]
    unique_name: bool,
    /// Of groups: at the end, keep what this member owns for its name for so long, at most 1h: a
    /// restart under that name moves no partition
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    leave_for: Option<Duration>,
    /// What this member says of itself in its groups, any JSON, such as its address
    #[arg(long, value_name = "JSON", value_parser = json)]
    data: Option<Value>,
    /// How many shares of the partitions this member takes [default: 1]
    #[arg(long, value_name = "NUMBER")]
    weight: Option<u32>,
    /// How long the member that plans gathers members that join, so that a rollout is one rebalance:
    /// at most 1h [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    rebalance_delay: Option<Duration>,
}

/// `--partitions`
#[derive(Debug, Clone, PartialEq, Eq)]
struct Partitions {
    /// `None` for the only one.
    group: Option<String>,
    names: Names,
}

fn partitions(text: &str) -> Result<Partitions, String> {
    let (group, names) = match text.split_once('=') {
        // The range 0..=3.
        Some((start, _)) if start.ends_with("..") => (None, text),
        Some(("", _)) => return Err("there is no name of a group before the `=`".to_owned()),
        Some((group, names)) => (Some(group.to_owned()), names),
        None => (None, text),
    };
    Ok(Partitions { group, names: parse_names(names)? })
}

/// What the tasks of all groups are told.
pub struct Shared<'a> {
    pub lease: &'a LeaseArgs,
    pub margin: Duration,
    pub name: &'a str,
    pub healthy: watch::Receiver<bool>,
    pub ending: watch::Receiver<bool>,
}

impl GroupsArgs {
    /// Refuses what cannot work, before anything is opened or sent.
    pub fn check(&self, lease: &LeaseArgs, name: &str) -> Result<(), Failure> {
        let usage = |why: String| Failure::new(exit::USAGE, why);
        self.refuse_without_groups().map_err(usage)?;
        if lease.settings.name.is_none() {
            let needs = [("--unique-name", self.unique_name), ("--leave-for", self.keeps())];
            if let Some((flag, _)) = needs.iter().find(|(_, given)| *given) {
                return Err(usage(format!("{flag} needs --name")));
            }
        }
        if let Some(delay) = self.leave_for.filter(|delay| *delay > LONGEST_KEPT) {
            let (delay, most) = (format_duration(delay), format_duration(LONGEST_KEPT));
            return Err(usage(format!("--leave-for {delay} is too long: at most {most}")));
        }
        if !self.groups.is_empty() && lease.settings.poll == Some(Poll::AtLapse) {
            let why = "--poll lapse is for elections: the members of a group look for a change of \
                       the assignment at regular times";
            return Err(usage(why.to_owned()));
        }
        for named in &self.groups {
            // A directory is made when it is opened.
            let store = Arc::new(MemoryStore::new());
            self.build(lease, name, named, store, prefix(&named.url))?;
        }
        self.refuse_partitions_of_none().map_err(usage)
    }

    /// Each group has its own by now.
    fn refuse_partitions_of_none(&self) -> Result<(), String> {
        match self.groups.len() {
            several if several > 1 && self.partitions.iter().any(|it| it.group.is_none()) => {
                Err(format!(
                    "--partitions without GROUP= is for the only group, and there are {several}, \
                     each with its own"
                ))
            }
            _ => Ok(()),
        }
    }

    fn keeps(&self) -> bool {
        self.leave_for.is_some()
    }

    fn refuse_without_groups(&self) -> Result<(), String> {
        let of_groups = [
            ("--partitions", !self.partitions.is_empty()),
            ("--unique-name", self.unique_name),
            ("--leave-for", self.keeps()),
            ("--data", self.data.is_some()),
            ("--weight", self.weight.is_some()),
            ("--rebalance-delay", self.rebalance_delay.is_some()),
        ];
        match of_groups.iter().find(|(_, given)| *given && self.groups.is_empty()) {
            Some((flag, _)) => Err(format!("{flag} is for groups, and there is no --group")),
            None => {
                let names = self.partitions.iter().filter_map(|it| it.group.as_ref());
                let known = |name: &&String| self.groups.iter().any(|it| it.name == **name);
                match names.into_iter().find(|name| !known(name)) {
                    Some(name) => Err(format!(
                        "--partitions {name}=…: no --group has the name {name}; for a partition \
                         whose name has a `=`, write GROUP={name}=…"
                    )),
                    None => Ok(()),
                }
            }
        }
    }

    /// The partitions of this group.
    fn partitions_of(&self, group: &str) -> Result<&Names, String> {
        let several = self.groups.len();
        let mut given = self.partitions.iter().filter(|it| match &it.group {
            Some(name) => name == group,
            None => several == 1,
        });
        match (given.next(), given.count()) {
            (Some(only), 0) => Ok(&only.names),
            (Some(_), more) => {
                Err(format!("--partitions is given {} times for the group {group}", more + 1))
            }
            (None, _) if several > 1 => Err(format!(
                "the group {group} has no partitions: there are {several} groups, so write \
                 --partitions {group}=0..64, say"
            )),
            (None, _) => {
                Err(format!("the group {group} has no partitions: --partitions 0..64, say"))
            }
        }
    }

    fn build(
        &self,
        lease: &LeaseArgs,
        name: &str,
        named: &Named,
        store: Arc<dyn Store>,
        prefix: &str,
    ) -> Result<Group, Failure> {
        let partitions =
            self.partitions_of(&named.name).map_err(|why| Failure::new(exit::USAGE, why))?;
        let settings = &lease.settings;
        let mut builder: GroupBuilder = Group::builder(store, prefix)
            .name(name)
            .name_is_unique(self.unique_name)
            .partitions(&partitions.0)
            .data(self.data.clone().unwrap_or_default())
            .weight(self.weight.unwrap_or(1))
            .validity(settings.validity)
            .renew_interval(settings.renew_interval())
            .request_timeout(settings.request_timeout())
            .clock_drift_max(settings.clock_drift_max)
            .check_store(!settings.no_check)
            .machine_is_never_paused(settings.machine_never_paused);
        if let Some(delay) = self.rebalance_delay {
            builder = builder.rebalance_delay(delay);
        }
        if let Some(Poll::Every(interval)) = settings.poll {
            builder = builder.poll_interval(interval);
        }
        Ok(builder.build()?)
    }

    /// The member of this group, and its task.
    pub fn start(
        &self,
        named: &Named,
        opened: Opened,
        shared: &Shared<'_>,
    ) -> Result<(Arc<Member>, impl Future<Output = ()> + Send + use<>), Failure> {
        let Shared { lease, margin, name, .. } = *shared;
        let group = self.build(lease, name, named, opened.store, &opened.prefix)?;
        let (member, orders) =
            Member::new(&named.name, group, lease.settings.validity, margin, Process::system());
        let member = Arc::new(member);
        let joiner = self.joiner(&member, orders, shared);
        let span = error_span!("group", name = named.name, member = name);
        Ok((member, joiner.run().instrument(span)))
    }

    fn joiner(
        &self,
        member: &Arc<Member>,
        orders: mpsc::Receiver<member::GroupOrder>,
        shared: &Shared<'_>,
    ) -> Joiner {
        Joiner {
            member: Arc::clone(member),
            orders,
            healthy: shared.healthy.clone(),
            ending: shared.ending.clone(),
            grace: shared.lease.grace(),
            leave_for: self.leave_for,
            margin: shared.margin,
            defer_for: shared.lease.defer_for(),
            throttle: Throttle::default(),
        }
    }
}

#[cfg(test)]
mod tests;
