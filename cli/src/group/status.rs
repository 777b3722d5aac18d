//! `tenure group status`: shows the newest assignment and the states of its members.

use serde::Serialize;
use tenure_groups::{GroupSnapshot, SessionState};

use super::view::{MemberStatus, PartitionStatus, members, name_or_dash, state_word};
use super::{GroupStatusArgs, builder};
use crate::args::common::after_help;
use crate::election::status::{data, line, show};
use crate::exit::{self, Failure};
use crate::output::columns::{SHORTENED, legend, table};
use crate::output::logs::complain;
use crate::output::print::{ATTENTION, GOOD, NAME, plain, styled};
use crate::store::open::refuse_election;

/// Number of digits of a session id that tables show.
pub const SHOWN_DIGITS: usize = 8;

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
pub struct GroupStatus<'a> {
    /// Null if there is no group.
    epoch: Option<u64>,
    members: Vec<MemberStatus<'a>>,
    pub partitions: Vec<PartitionStatus<'a>>,
    /// Number of partitions without a live owner. An owner counts as live unless its session has
    /// ended, has lapsed or is missing. Absent if the sessions were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unattended: Option<usize>,
    /// While a restore is unfinished: the epoch above which it lets the epochs continue. No
    /// partition is assigned until the restore is finished. Absent if there is no such restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    unfinished_restore: Option<u64>,
}

/// Returns the first digits of a session id, as tables show it.
pub fn short(session: &str) -> String {
    plain(session).chars().take(SHOWN_DIGITS).collect()
}

pub const AFTER_GROUP_STATUS: &str = after_help!(
    "\
`group status` reads the assignment and the session of each member. With --exit-code it exits with \
0 while each partition has a live owner: the session of the owner has not ended. It exits with 1 \
if no group exists, if a partition has no live owner (paused partitions included), or if a restore \
is unfinished. The answer holds for the moment of the read only. A member that has died counts as \
live until its validity has passed by the store's clock. A deposed member does not count as live, \
although it may not know of its end. To act as an owner use `group run`, and send its token.

`group status` shows an unfinished `group restore` with its epoch. No partition is assigned until \
the restore finishes.",
    "
   0  done
   1  with --exit-code: a partition has no live owner, or a restore is
      unfinished
  64  wrong usage or settings
  69  store unreachable or missing
  70  an object in the store is corrupt, or too new
  71  the operating system refused something
  77  access denied by the store
 130  interrupted by SIGINT, 143 by SIGTERM"
);

pub async fn status(args: GroupStatusArgs) -> Result<u8, Failure> {
    let group = builder(&args.at).await?.build()?;
    let snapshot = group.snapshot().await?;
    if snapshot.epoch.is_none() {
        refuse_election(&args.at.store, "tenure status").await?;
    }
    let states = group.session_states(&snapshot).await?;
    let status = GroupStatus::with_sessions(&snapshot, Some(&states));
    let unknown = states.iter().filter(|state| **state == SessionState::Unknown).count();
    if unknown > 0 {
        let all = states.len();
        complain(&format!(
            "the sessions of {unknown} of {all} members cannot be read: their states are unknown"
        ));
    }
    show(&status, args.field.as_deref(), args.at.json, || status.for_people(args.partitions))?;
    Ok(if args.exit_code && !status.is_worked_on() { exit::VACANT } else { 0 })
}

/// Names of the fields of [`GroupStatus`], in the order of the structure.
pub const FIELDS: [&str; 5] =
    ["epoch", "members", "partitions", "unattended", "unfinished_restore"];

/// Returns the epoch above which an unfinished restore lets the epochs continue, or `None` if no
/// restore is unfinished. An unfinished restore has created the newest assignment, with the number
/// directly above this epoch.
pub fn restored_above(group: &GroupSnapshot) -> Option<u64> {
    Some(group.epoch.filter(|_| group.restoring)?.get() - 1)
}

pub fn unfinished(epoch: u64) -> String {
    format!(
        "unfinished, no partition is assigned until it finishes: if no `tenure group restore` \
         runs, run `tenure group restore --epoch {epoch}` again"
    )
}

impl GroupStatus<'_> {
    pub fn of(group: &GroupSnapshot) -> GroupStatus<'_> {
        let partitions = group.partitions.iter().map(|it| PartitionStatus::of(it, group));
        GroupStatus {
            epoch: group.epoch.map(|epoch| epoch.get()),
            members: members(group),
            partitions: partitions.collect(),
            unattended: None,
            unfinished_restore: restored_above(group),
        }
    }

    /// Returns the status with the states of the sessions, in the order of the members. `states` is
    /// `None` if the sessions were not read.
    pub fn with_sessions<'a>(
        group: &'a GroupSnapshot,
        states: Option<&[SessionState]>,
    ) -> GroupStatus<'a> {
        let mut status = GroupStatus::of(group);
        let Some(states) = states else { return status };
        for (member, state) in status.members.iter_mut().zip(states) {
            member.note(*state);
        }
        let mut unattended = 0;
        for (shown, partition) in status.partitions.iter_mut().zip(&group.partitions) {
            let state = partition.owner.and_then(|owner| states.get(owner));
            if state.is_none_or(|state| !state.may_work()) {
                shown.owner_end = state.map(|state| state_word(*state));
                unattended += 1;
            }
        }
        status.unattended = Some(unattended);
        status
    }

    /// Returns the number of partitions without an owner.
    fn ownerless(&self) -> usize {
        self.partitions.iter().filter(|it| it.owner.is_none()).count()
    }

    fn is_worked_on(&self) -> bool {
        let restored = self.unfinished_restore.is_none();
        self.epoch.is_some() && self.unattended == Some(0) && restored
    }

    /// Returns a text for people that says how many partitions have live owners.
    pub fn summary(&self) -> String {
        let (all, ownerless) = (self.partitions.len(), self.ownerless());
        let owned = match (ownerless, self.unattended.unwrap_or(ownerless)) {
            (0, 0) => styled(GOOD, "all are owned"),
            (_, unattended) if unattended == all => styled(ATTENTION, "none has a live owner"),
            (ownerless, unattended) if ownerless == unattended => {
                styled(ATTENTION, format_args!("{ownerless} without an owner"))
            }
            (_, unattended) => styled(ATTENTION, format_args!("{unattended} without a live owner")),
        };
        format!("{all}; {owned}")
    }

    fn for_people(&self, partitions: bool) -> String {
        let Some(epoch) = self.epoch else {
            return line("state", &styled(ATTENTION, "no group yet: its first member creates it"));
        };
        let mut parts =
            vec![line("epoch", &epoch.to_string()), line("partitions", &self.summary())];
        if let Some(epoch) = self.unfinished_restore {
            parts.push(line("restore", &styled(ATTENTION, unfinished(epoch))));
        }
        parts.extend([String::new(), self.members_for_people()]);
        if partitions {
            parts.extend([String::new(), self.partitions_for_people()]);
        }
        let text = parts.join("\n");
        let legend = legend(&text, &[SHORTENED]);
        text + &legend
    }

    fn members_for_people(&self) -> String {
        let rows = self.members.iter().map(|it| {
            [
                styled(NAME, plain(it.name)),
                short(it.session),
                it.state(),
                it.age(),
                it.weight.to_string(),
                it.owns(),
                if it.coordinates { "yes" } else { "-" }.to_owned(),
                if it.data.is_null() { "-".to_owned() } else { data(it.data) },
            ]
        });
        let heading =
            ["member", "session", "state", "age", "weight", "owns", "coordinator", "data"];
        table(heading, &rows.collect::<Vec<_>>(), &[0, 7])
    }

    fn partitions_for_people(&self) -> String {
        let rows = self.partitions.iter().map(|it| {
            [
                plain(it.name),
                it.owner_for_people(),
                it.token.map_or("-".to_owned(), |token| token.to_string()),
                name_or_dash(it.target),
                it.marks(),
            ]
        });
        let heading = ["partition", "owner", "token", "target", "marks"];
        table(heading, &rows.collect::<Vec<_>>(), &[0, 1, 3, 4])
    }
}
