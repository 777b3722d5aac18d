//! The groups of a sidecar. The sidecar is a member of each group on behalf of its application.

pub mod api;
mod events;
pub mod member;
mod refusals;
mod task;
mod view;

use std::sync::Arc;

use tenure::Process;
use tenure::store::{MemoryStore, Store};
use tenure_groups::Group;
use tracing::{Instrument as _, error_span};

use super::machine::{ServedTask, Shared};
use super::named::{Named, named_group};
use crate::args::lease::LeaseArgs;
use crate::args::member::MemberArgs;
use crate::args::partitions::{Names, partitions as partition_names};
use crate::exit::{self, Failure};
use crate::output::logs::SERVED_SPAN;
use crate::store::urls::OpenedStores;
use member::Member;

#[derive(Debug, clap::Args)]
pub struct GroupsArgs {
    /// A group to join; repeat the flag for several groups.
    ///
    /// NAME is the name of the group in the API. The URL has the form of `group run --store`.
    #[arg(long = "group", value_name = "NAME=URL", value_parser = named_group, env = "TENURE_GROUP")]
    pub groups: Vec<Named>,
    /// Partitions of a new group, as for `group run`: 0..64, or GROUP=0..64 for each of several
    /// groups.
    ///
    /// The text before the first `=` is the name of the group.
    #[arg(long, value_name = "[GROUP=]NAMES", value_parser = partitions, env = "TENURE_PARTITIONS")]
    partitions: Vec<Partitions>,
    #[command(flatten)]
    member: MemberArgs,
}

/// One value of `--partitions`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Partitions {
    /// The name of the group. `None` means the only `--group` of the sidecar.
    group: Option<String>,
    names: Names,
}

fn partitions(text: &str) -> Result<Partitions, String> {
    let (group, names) = match text.split_once('=') {
        // The text before the `=` ends with `..`. So the `=` belongs to a range such as 0..=3, and
        // does not end the name of a group.
        Some((start, _)) if start.ends_with("..") => (None, text),
        Some(("", _)) => return Err("the name of the group before the `=` is empty".to_owned()),
        Some((group, names)) => (Some(group.to_owned()), names),
        None => (None, text),
    };
    Ok(Partitions { group, names: partition_names(names)? })
}

impl GroupsArgs {
    /// Refuses invalid settings of groups before any store is opened.
    pub fn check(&self, lease: &LeaseArgs, name: &str) -> Result<(), Failure> {
        let usage = |why: String| Failure::new(exit::USAGE, why);
        self.refuse_without_groups().map_err(usage)?;
        for named in &self.groups {
            // Check the settings with a store in memory, because opening the real store may create
            // a directory. Wrong settings must not create it.
            let store = Arc::new(MemoryStore::new());
            self.build(lease, name, named, store, named.urls.prefix())?;
        }
        self.refuse_partitions_without_a_group().map_err(usage)
    }

    /// If this process has several groups, refuses a `--partitions` without the name of a group
    /// (GROUP=). The caller has checked that each group has partitions.
    fn refuse_partitions_without_a_group(&self) -> Result<(), String> {
        match self.groups.len() {
            several if several > 1 && self.partitions.iter().any(|it| it.group.is_none()) => {
                Err(format!(
                    "--partitions without GROUP= needs a single --group, got {several}: each \
                     group has its own partitions"
                ))
            }
            _ => Ok(()),
        }
    }

    fn refuse_without_groups(&self) -> Result<(), String> {
        let partitions = (!self.partitions.is_empty()).then_some("--partitions");
        match partitions.or(self.member.first_given()).filter(|_| self.groups.is_empty()) {
            Some(flag) => Err(format!("{flag} needs a --group")),
            None => {
                let names = self.partitions.iter().filter_map(|it| it.group.as_ref());
                let known = |name: &&String| self.groups.iter().any(|it| it.name == **name);
                match names.into_iter().find(|name| !known(name)) {
                    Some(name) => Err(format!(
                        "--partitions {name}=…: no --group has the name {name}; if the name of a \
                         partition contains `=`, write GROUP={name}=…"
                    )),
                    None => Ok(()),
                }
            }
        }
    }

    /// Returns the partitions that `--partitions` sets for this group.
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
                 --partitions GROUP=NAMES, such as {group}=0..64"
            )),
            (None, _) => {
                Err(format!("the group {group} has no partitions: write --partitions 0..64"))
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
        Ok(self.member.builder(lease, partitions, name, store, prefix)?.build()?)
    }

    /// Returns the member of this group, and the task that joins the group.
    pub fn start(
        &self,
        named: &Named,
        opened: OpenedStores,
        shared: &Shared<'_>,
    ) -> Result<(Arc<Member>, impl Future<Output = ()> + Send + use<>), Failure> {
        let Shared { lease, times, name, .. } = *shared;
        let group =
            self.build(&lease.election.lease, name, named, opened.first().clone(), &opened.prefix)?;
        let (mut member, orders) = Member::new(&named.name, group, times, Process::system());
        member.leave_for = self.member.leave_for();
        let member = Arc::new(member);
        let task = ServedTask::new(&member, orders, shared);
        let span = error_span!(SERVED_SPAN, group = %named.name);
        Ok((member, task.run().instrument(span)))
    }
}

#[cfg(test)]
mod tests;
