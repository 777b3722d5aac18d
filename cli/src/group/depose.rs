//! `tenure group depose`: ends a member's session, so that its partitions move.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use humantime::format_duration;
use serde::Serialize;
use tenure::{Deposed, Election, Epoch, EpochEnd};
use tenure_groups::{Group, GroupSnapshot, SessionState};

use super::GroupDeposeArgs;
use super::status::short;
use super::view::{MemberStatus, members};
use crate::args::common::default_name;
use crate::election::operator::{unknown, up_to_seconds};
use crate::exit::{self, Failure};
use crate::output::print::{millis, plain, print, print_json};
use crate::store::open::{IfMissing, Opened, open, refuse_election};

/// Number of digits of a session id that `group status` shows. If the argument is the start of a
/// session id, it must have at least this number of digits.
const LEAST_DIGITS: usize = super::status::SHOWN_DIGITS;
/// Maximum number of members in a message. Further members are only counted.
const SHOWN_MEMBERS: usize = 10;

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct GroupDeposeReport<'a> {
    /// `deposed`, or `already` if the session had ended before.
    outcome: &'static str,
    member: &'a str,
    session: &'a str,
    ended: EpochEnd,
    /// Number of partitions that the member owns in the newest assignment.
    partitions: usize,
    /// After the coordinator has seen the seal, it waits at most this time before it moves the
    /// partitions. Null if no session was sealed.
    wait_ms: Option<u64>,
}

pub async fn depose(args: GroupDeposeArgs) -> Result<u8, Failure> {
    let Opened { store, prefix } = open(&args.at.store, IfMissing::RefuseGroup).await?;
    let reader = Group::builder(Arc::clone(&store), prefix.as_str()).build()?;
    let group = reader.snapshot().await?;
    if group.epoch.is_none() {
        refuse_election(&args.at.store, "tenure depose").await?;
    }
    let members = members(&group);
    let member = named(&args, &reader, &group, &members).await?;
    let session = Election::builder(store, session_prefix(&prefix, member.session));
    let election = tenure_groups::session_election(session)
        .name(args.name.clone().unwrap_or_else(default_name));
    let election = match &args.reason {
        Some(reason) => election.reason(reason),
        None => election,
    };
    let election = election.build()?;
    // A session is an election with only one epoch, so `only` is this epoch.
    let only = Some(Epoch::FIRST);
    let deposed = match args.force {
        true => election.depose_dead(only).await,
        false => election.depose(only).await,
    };
    let (ended, wait) = match deposed.map_err(unknown)? {
        Deposed::Sealed { wait, .. } if args.force => (EpochEnd::DeposedDead, Some(wait)),
        Deposed::Sealed { wait, .. } => (EpochEnd::Deposed, Some(wait)),
        Deposed::Already { ended, .. } => (ended, None),
        refused => return Err(Failure::new(exit::REFUSED, why_not(&refused, member))),
    };
    let report = GroupDeposeReport {
        outcome: if wait.is_some() { "deposed" } else { "already" },
        member: member.name,
        session: member.session,
        ended,
        partitions: member.partitions,
        wait_ms: wait.map(millis),
    };
    let _ = if args.at.json { print_json(&report)? } else { print(&report.for_people())? };
    Ok(0)
}

/// Returns the prefix of a session. A session is an election with its own prefix.
pub fn session_prefix(prefix: &str, session: &str) -> String {
    match prefix.strip_suffix('/').unwrap_or(prefix) {
        "" => format!("members/{session}"),
        prefix => format!("{prefix}/members/{session}"),
    }
}

/// Returns the member with this name, or with a session id that begins with these digits. If
/// several members match, and exactly one of their sessions has not ended, returns the member with
/// that session.
async fn named<'a, 'g>(
    args: &GroupDeposeArgs,
    reader: &Group,
    group: &GroupSnapshot,
    members: &'a [MemberStatus<'g>],
) -> Result<&'a MemberStatus<'g>, Failure> {
    let refuse = |why| Err(Failure::new(exit::REFUSED, why));
    let text = &*args.member;
    if group.epoch.is_none() {
        return refuse(format!("there is no group at {}: nothing was changed", args.at.store));
    }
    let meant = |it: &&MemberStatus<'_>| {
        it.name == text || text.len() >= LEAST_DIGITS && it.session.starts_with(text)
    };
    let mut found: Vec<_> = members.iter().filter(meant).collect();
    if found.len() > 1 {
        let states = reader.session_states(group).await?;
        let states = group.members.iter().map(|it| &*it.session).zip(states);
        // A lapsed session does not count as ended: it is not sealed, so the operator may want to
        // depose it.
        let is_over =
            |it: &SessionState| matches!(it, SessionState::Ended(_) | SessionState::Missing);
        let over: BTreeSet<_> = states.filter(|it| is_over(&it.1)).map(|it| it.0).collect();
        if found.iter().any(|it| !over.contains(it.session)) {
            found.retain(|it| !over.contains(it.session));
        }
    }
    match found[..] {
        [member] => Ok(member),
        [] => refuse(format!(
            "the group has no member {}: nothing was changed; {}",
            plain(text),
            listed("its members are", members.iter())
        )),
        _ => refuse(format!(
            "{} is ambiguous, and nothing was changed: write the session id of one of {}",
            plain(text),
            listed("", found.iter().copied())
        )),
    }
}

/// Returns text such as `its members are w1 (session 0a1b2c3d), w2 (session 4e5f6071)`.
fn listed<'a, 'g: 'a>(
    intro: &str,
    members: impl ExactSizeIterator<Item = &'a MemberStatus<'g>>,
) -> String {
    let more = match members.len() {
        0 => return "it has no members".to_owned(),
        all => all.saturating_sub(SHOWN_MEMBERS),
    };
    let shown: Vec<_> = members.take(SHOWN_MEMBERS).map(described).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{intro} {}{more}", shown.join(", ")).trim_start().to_owned()
}

fn described(member: &MemberStatus<'_>) -> String {
    format!("{} (session {})", plain(member.name), short(member.session))
}

impl GroupDeposeReport<'_> {
    fn for_people(&self) -> String {
        let member = format!("{} (session {})", plain(self.member), short(self.session));
        let Some(wait_ms) = self.wait_ms else {
            return format!("the session of {member} has ended already: {}", self.ended);
        };
        let partitions = match self.partitions {
            0 => return format!("deposed {member}, which owns no partition"),
            1 => "its partition moves".to_owned(),
            many => format!("its {many} partitions move"),
        };
        match up_to_seconds(Duration::from_millis(wait_ms)) {
            None => format!("deposed {member}; {partitions} once the coordinator sees the seal"),
            Some(wait) => format!(
                "deposed {member}; {partitions} when the old lease has ended, up to {} after the \
                 coordinator sees the seal",
                format_duration(wait)
            ),
        }
    }
}

fn why_not(refused: &Deposed, member: &MemberStatus<'_>) -> String {
    let name = described(member);
    match refused {
        Deposed::Renewed(_) => {
            format!("{name} renewed its session each time before it could be sealed; try again")
        }
        Deposed::NeedsForce(_) => format!(
            "the session of {name} does not contain its validity; if the member is certainly \
             dead, use `tenure group depose {} --force`",
            member.session
        ),
        Deposed::NoLeader => {
            format!("the session of {name} is gone: the coordinator waits for the end of its lease")
        }
        _ => format!("another session has replaced the session of {name}"),
    }
}
