//! The JSON bodies about a group in the replies of a sidecar.

use serde::Serialize;
use tenure_groups::GroupSnapshot;

use super::member::{Member, MemberNow, OwnedNow};
use crate::group::GroupStatus;
use crate::output::print::millis;

/// The state of this member of a group. A field that does not apply is null.
#[derive(Debug, Clone, Serialize)]
pub struct MemberView {
    /// The time of this view by the wall clock of this process. An event may be old when the client
    /// reads it.
    pub at: String,
    pub group: String,
    pub role: &'static str,
    /// One word for the reason of the role `standby` or `failed`.
    pub reason: Option<&'static str>,
    /// The name of this member.
    pub member: String,
    pub session: Option<String>,
    /// Time for which this member keeps its session and its partitions if no renewal follows.
    pub lease_remaining_ms: Option<u64>,
    /// Age of the store's last answer. At the time of this answer, the assignment that this member
    /// knows was the newest.
    pub store_answered_ms_ago: Option<u64>,
    pub lost: Option<LostSessionView>,
}

/// The end of the last session of this member.
#[derive(Debug, Clone, Serialize)]
pub struct LostSessionView {
    pub session: String,
    pub reason: &'static str,
    pub ms_ago: u64,
}

/// A partition that this member owns or has lost.
#[derive(Debug, Clone, Serialize)]
pub struct PartitionView {
    pub partition: String,
    pub number: u32,
    pub token: u64,
    /// True if the partition is revoked, so that the application must release it.
    pub revoked: bool,
    /// The reason why this member has lost the partition.
    pub reason: Option<&'static str>,
}

/// The body of `GET /v1/groups/{name}`.
#[derive(Debug, Clone, Serialize)]
pub struct GroupView {
    #[serde(flatten)]
    pub member: MemberView,
    /// The partitions that this member owns, by number.
    pub partitions: Vec<PartitionView>,
}

/// The data of an event of a group: the member, and the partition that the event is about.
#[derive(Debug, Clone, Serialize)]
pub struct EventView<'a> {
    #[serde(flatten)]
    pub member: &'a MemberView,
    pub partition: Option<PartitionView>,
}

/// The body of `GET /v1/groups`.
#[derive(Serialize)]
pub struct GroupViews {
    pub groups: Vec<GroupView>,
}

/// The body of `GET /v1/groups/{name}/partitions/{partition}/token`.
#[derive(Serialize)]
pub struct PartitionTokenView {
    pub token: u64,
    pub lease_remaining_ms: u64,
    /// True if the partition is revoked. The application must stop its work and then release the
    /// partition.
    pub revoked: bool,
}

/// The body of `GET /v1/groups/{name}/assignment`.
#[derive(Serialize)]
pub struct AssignmentView<'a> {
    at: String,
    group: &'a str,
    store_answered_ms_ago: Option<u64>,
    #[serde(flatten)]
    assignment: GroupStatus<'a>,
}

impl MemberView {
    pub fn of(member: &Member, now: &MemberNow) -> MemberView {
        let (role, reason) = now.role.words(now.at_risk, "joining", "member");
        let lost = now.lost.as_ref().map(|lost| LostSessionView {
            session: lost.session.clone(),
            reason: lost.reason,
            ms_ago: millis(now.at.saturating_sub(lost.at)),
        });
        let (session, left) = now.session.clone().unzip();
        MemberView {
            at: member.common.time_of_day(),
            group: member.common.name.clone(),
            role,
            reason,
            member: member.group.name().to_owned(),
            session,
            lease_remaining_ms: left.map(millis),
            store_answered_ms_ago: answered(member),
            lost,
        }
    }
}

impl GroupView {
    /// Returns the view of the member at this moment.
    pub fn of(member: &Member) -> GroupView {
        let (now, owned) = member.all();
        let partitions = owned.iter().map(PartitionView::of).collect();
        GroupView { member: MemberView::of(member, &now), partitions }
    }
}

impl PartitionView {
    pub fn of(owned: &OwnedNow) -> PartitionView {
        PartitionView {
            partition: owned.name.to_string(),
            number: owned.number,
            token: owned.token,
            revoked: owned.revoked,
            reason: None,
        }
    }

    pub fn lost(owned: &OwnedNow, reason: Option<&'static str>) -> PartitionView {
        PartitionView { reason, ..PartitionView::of(owned) }
    }
}

impl AssignmentView<'_> {
    pub fn of<'a>(member: &'a Member, seen: &'a GroupSnapshot) -> AssignmentView<'a> {
        AssignmentView {
            at: member.common.time_of_day(),
            group: &member.common.name,
            store_answered_ms_ago: answered(member),
            assignment: GroupStatus::of(seen),
        }
    }
}

fn answered(member: &Member) -> Option<u64> {
    member.group.since_last_answer().map(millis)
}
