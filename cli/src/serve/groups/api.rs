//! The paths of the API below `/v1/groups`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;

use super::events;
use super::member::{GroupOrder, Leave, Member};
use super::refusals::{NO_GROUP, NO_TOKEN};
use super::view::{AssignmentView, GroupView, GroupViews, PartitionTokenView};
use crate::args::member::LONGEST_KEPT;
use crate::http::refusal::Refusal;
use crate::http::{Answer, HttpRequest, Reply};
use crate::output::print::millis;
use crate::serve::body::{LONGEST_PAUSE, millis_of, only, optional, within};

/// The resource of a path below `/v1/groups`.
pub enum GroupTarget<'a> {
    Groups,
    Group(&'a str),
    Events(&'a str),
    Assignment(&'a str),
    Leave(&'a str),
    /// The path of the token of a partition. The fields are the names of the group and the
    /// partition.
    Token(&'a str, Cow<'a, str>),
    Release(&'a str, Cow<'a, str>),
}

impl GroupTarget<'_> {
    pub fn of(path: &str) -> Option<GroupTarget<'_>> {
        let rest = path.strip_prefix("/v1/groups")?;
        if rest.is_empty() {
            return Some(GroupTarget::Groups);
        }
        let parts: Vec<_> = rest.strip_prefix('/')?.split('/').collect();
        Some(match parts[..] {
            [name] => GroupTarget::Group(name),
            [name, "events"] => GroupTarget::Events(name),
            [name, "assignment"] => GroupTarget::Assignment(name),
            [name, "leave"] => GroupTarget::Leave(name),
            [name, "partitions", partition, "token"] => {
                GroupTarget::Token(name, decode(partition)?)
            }
            [name, "partitions", partition, "release"] => {
                GroupTarget::Release(name, decode(partition)?)
            }
            _ => return None,
        })
    }

    pub fn methods(&self) -> &'static str {
        match self {
            GroupTarget::Leave(_) | GroupTarget::Release(..) => "POST",
            _ => "GET, HEAD",
        }
    }
}

/// Decodes the name of a partition, such as `%2F` for `/`. A name may contain any character except
/// control characters.
fn decode(segment: &str) -> Option<Cow<'_, str>> {
    if !segment.contains('%') {
        return Some(Cow::Borrowed(segment));
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(match byte {
            b'%' => u8::try_from(digit()? * 16 + digit()?).ok()?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// The body of `POST …/leave`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct LeaveBody {
    for_ms: Option<f64>,
    pause_ms: Option<f64>,
}

/// The body of `POST …/release`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct ReleaseBody {
    back_off_ms: Option<f64>,
}

pub async fn answer(
    members: &[Arc<Member>],
    target: GroupTarget<'_>,
    asked: &HttpRequest,
) -> Result<Answer, Refusal> {
    let member = |name: &str| {
        let named = members.iter().find(|one| one.common.name == name);
        named.ok_or(NO_GROUP)
    };
    let reply = match target {
        GroupTarget::Groups => {
            let groups = members.iter().map(|one| GroupView::of(one)).collect();
            Reply::json(200, &GroupViews { groups })
        }
        GroupTarget::Group(name) => Reply::json(200, &GroupView::of(member(name)?)),
        GroupTarget::Events(name) => {
            return Ok(Answer::Events(events::events(member(name)?), None));
        }
        GroupTarget::Assignment(name) => assignment(member(name)?).await?,
        GroupTarget::Leave(name) => leave(member(name)?, asked).await?,
        GroupTarget::Token(name, partition) => {
            let (owned, left) = member(name)?.token(&partition).ok_or(NO_TOKEN)?;
            let (token, revoked) = (owned.token, owned.revoked);
            Reply::json(
                200,
                &PartitionTokenView { token, lease_remaining_ms: millis(left), revoked },
            )
        }
        GroupTarget::Release(name, partition) => release(member(name)?, &partition, asked)?,
    };
    Ok(Answer::Whole(reply))
}

async fn assignment(member: &Member) -> Result<Reply, Refusal> {
    let (reply, outcome) = oneshot::channel();
    member.common.order(GroupOrder::LastSeen { reply })?;
    let seen = within(outcome).await?;
    Ok(Reply::json(200, &AssignmentView::of(member, &seen)))
}

async fn leave(member: &Member, asked: &HttpRequest) -> Result<Reply, Refusal> {
    let body: LeaveBody = optional(asked)?;
    let keep = millis_of("for_ms", body.for_ms, LONGEST_KEPT)?;
    let keep = keep.filter(|keep| *keep > Duration::ZERO);
    let pause = millis_of("pause_ms", body.pause_ms, LONGEST_PAUSE)?;
    let (reply, outcome) = oneshot::channel();
    member.common.order(GroupOrder::Leave { order: Leave { keep, pause }, reply })?;
    let owned = within(outcome).await?;
    Ok(Reply::json(200, &json!({ "owned": owned })))
}

fn release(member: &Member, partition: &str, asked: &HttpRequest) -> Result<Reply, Refusal> {
    let token = only("token", &asked.query)?;
    let body: ReleaseBody = optional(asked)?;
    // `LONGEST_PAUSE` is also the longest time for which the library keeps a released partition
    // away from this member.
    let back_off = millis_of("back_off_ms", body.back_off_ms, LONGEST_PAUSE)?;
    let token = member.release(partition, token, back_off)?;
    Ok(Reply::json(200, &json!({ "partition": partition, "token": token })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_name_may_have_escaped_characters() {
        assert_eq!(decode("orders-17").as_deref(), Some("orders-17"));
        assert_eq!(decode("a%2Fb%20%C3%A4%25").as_deref(), Some("a/b ä%"));
        for wrong in ["%", "%2", "%2g", "%C3", "%+1"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn unknown_paths_have_no_resource() {
        let name = |path| match GroupTarget::of(path) {
            Some(GroupTarget::Token(group, partition)) => format!("{group} {partition}"),
            Some(_) => "another".to_owned(),
            None => "none".to_owned(),
        };
        assert_eq!(name("/v1/groups/g/partitions/a%2Fb/token"), "g a/b");
        assert_eq!(name("/v1/groups/g/events"), "another");
        for path in ["/v1/groupsx", "/v1/groups/g/x", "/v1/groups/g/partitions/a/b/token"] {
            assert_eq!(name(path), "none", "{path}");
        }
    }
}
