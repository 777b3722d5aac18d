//! `tenure group status`: the newest assignment, as it stands.

use serde::Serialize;
use tenure::group::GroupSnapshot;

use super::view::{MemberView, PartitionView, members, name_or_dash, owner, table};
use super::{StatusArgs, builder};
use crate::common_args::after_help;
use crate::exit::{self, Failure};
use crate::print::{ATTENTION, GOOD, NAME, plain, print, print_json, print_styled, styled};
use crate::status::{data, field, line};

/// Of the id of a session, for people.
pub const SHOWN_DIGITS: usize = 8;

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
pub struct GroupStatus<'a> {
    /// Null if there is no group yet.
    epoch: Option<u64>,
    members: Vec<MemberView<'a>>,
    partitions: Vec<PartitionView<'a>>,
}

/// The first digits of a session's id.
pub fn short(session: &str) -> String {
    plain(session).chars().take(SHOWN_DIGITS).collect()
}

pub const AFTER_GROUP_STATUS: &str = after_help!(
    "\
With --exit-code, `group status` ends with 0 while each partition has an owner, and with 1 if there
is no group yet, or a partition that nobody owns, those included that are paused. It looks once, so
both are true for that moment only: a member that died counts as an owner until another one plans,
and one that was deposed counts as gone although it may not know yet. To act as an owner use
`group run`, and send its token.",
    "
   0  done
   1  with --exit-code: a partition has no owner
  64  wrong usage or settings
  69  store unreachable or missing
  70  an object in the store is corrupt, or too new
  71  the operating system refused something
  77  access denied by the store
 130  interrupted by SIGINT, 143 by SIGTERM"
);

pub async fn status(args: StatusArgs) -> Result<u8, Failure> {
    let group = builder(&args.at).await?.build()?.snapshot().await?;
    let status = GroupStatus::of(&group);
    let _ = match &args.field {
        Some(name) => print(&field(&status, name))?,
        None if args.at.json => print_json(&status)?,
        None => print_styled(&status.for_people(args.partitions))?,
    };
    Ok(if args.exit_code && !status.all_are_owned() { exit::NOBODY } else { 0 })
}

/// Of [`GroupStatus`], in its order.
pub const FIELDS: [&str; 3] = ["epoch", "members", "partitions"];

impl GroupStatus<'_> {
    pub fn of(group: &GroupSnapshot) -> GroupStatus<'_> {
        let partitions = group.partitions.iter().map(|it| PartitionView::of(it, group));
        GroupStatus {
            epoch: group.epoch.map(|epoch| epoch.get()),
            members: members(group),
            partitions: partitions.collect(),
        }
    }

    /// How many partitions nobody owns.
    fn vacant(&self) -> usize {
        self.partitions.iter().filter(|it| it.owner.is_none()).count()
    }

    fn all_are_owned(&self) -> bool {
        self.epoch.is_some() && self.vacant() == 0
    }

    fn for_people(&self, partitions: bool) -> String {
        let Some(epoch) = self.epoch else {
            return line("state", &styled(ATTENTION, "no group yet: its first member creates it"));
        };
        let owned = match self.vacant() {
            0 => styled(GOOD, "all are owned"),
            vacant => styled(ATTENTION, format_args!("{vacant} without an owner")),
        };
        let mut parts = vec![
            line("epoch", &epoch.to_string()),
            line("partitions", &format!("{}; {owned}", self.partitions.len())),
            String::new(),
            self.members_for_people(),
        ];
        if partitions {
            parts.extend([String::new(), self.partitions_for_people()]);
        }
        parts.join("\n")
    }

    fn members_for_people(&self) -> String {
        let rows = self.members.iter().map(|it| {
            [
                styled(NAME, plain(it.name)),
                short(it.session),
                it.weight.to_string(),
                it.partitions.to_string(),
                if it.coordinates { "yes" } else { "-" }.to_owned(),
                if it.data.is_null() { "-".to_owned() } else { data(it.data) },
            ]
        });
        let heading = ["member", "session", "weight", "partitions", "coordinator", "data"];
        table(heading, &rows.collect::<Vec<_>>())
    }

    fn partitions_for_people(&self) -> String {
        let rows = self.partitions.iter().map(|it| {
            [
                plain(it.name),
                owner(it.owner),
                it.token.map_or("-".to_owned(), |token| token.to_string()),
                name_or_dash(it.target),
                it.marks(),
            ]
        });
        table(["partition", "owner", "token", "target", "marks"], &rows.collect::<Vec<_>>())
    }
}
