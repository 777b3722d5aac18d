//! The card of one partition group on the page of `tenure ui`.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use serde::Serialize;
use tenure::Error;
use tenure_groups::{Group, GroupSnapshot, SessionState};

use super::election::{needs_operator, settled, shortened};
use super::place::Place;
use crate::group::observer;
use crate::group::view::{PartitionStatus, state_word};
use crate::output::print::{json_line, millis, plain};
use crate::output::watcher::PATIENCE;
use crate::process::timer::pause;

const LOOK: Duration = Duration::from_secs(1);
const RETRY_EVERY: Duration = Duration::from_secs(10);
/// Number of deputies, the members that are the first to take over from a dead coordinator. In the
/// assignment's list of members, they are the next members after the coordinator.
const DEPUTIES: usize = 3;

#[derive(Debug, Clone, PartialEq, Serialize)]
struct GroupCard {
    kind: &'static str,
    name: String,
    epoch: Option<u64>,
    restoring: bool,
    members: Vec<MemberRow>,
    /// Names of the partitions, in the order of their numbers.
    partitions: Vec<String>,
    /// For each partition, the index of its owner in `members`, or -1.
    owners: Vec<i64>,
    /// For each partition, the index in `members` of the member that gets it next, or -1.
    targets: Vec<i64>,
    /// For each partition that operators have marked, for example as pinned or paused: its index in
    /// `partitions`, and the marks as text.
    marks: Vec<(usize, String)>,
    /// Token of each partition. Null without `--show-tokens`.
    tokens: Option<Vec<Option<u64>>>,
    answered_at: Option<u64>,
    error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct MemberRow {
    name: String,
    session: String,
    /// The state of the member's session: `live`, `lapsed`, `missing`, `unknown`, or the way in
    /// which it ended.
    state: String,
    /// True if the member may still work, according to the state of its session.
    alive: bool,
    /// The role of the member: `coordinator`, `deputy` or null.
    role: Option<&'static str>,
    weight: u32,
    validity_ms: u64,
    renewed_at: Option<u64>,
    data: Option<String>,
}

/// Follows a group until the future is dropped. Shows each error on the card, and retries.
pub async fn follow(place: Place) {
    let group = Group::builder(place.stores[0].clone(), place.prefix.as_str());
    let built = observer(group, Some(place.poll)).build();
    let mut card = GroupCard::new(&place);
    let group = match built {
        Ok(group) => group,
        Err(error) => {
            card.error = Some(plain(&error.to_string()));
            place.board.show(&place.id, &card);
            return std::future::pending().await;
        }
    };
    loop {
        let Err(error) = observe(&group, &place, &mut card).await;
        card.error = Some(plain(&error.to_string()));
        place.board.show(&place.id, &card);
        pause(RETRY_EVERY).await;
    }
}

/// Observes the group until an error occurs. An assignment contains dead members until a
/// coordinator removes them, so the observer also reads the sessions. The observer reads them after
/// each new assignment, and when the first session would lapse without a renewal. If no assignment
/// changes, the time between two reads is about two thirds of the validity. If a member is dead,
/// the observer reads the sessions at each poll.
async fn observe(
    group: &Group,
    place: &Place,
    card: &mut GroupCard,
) -> Result<std::convert::Infallible, Error> {
    let mut snapshots = pin!(group.observe());
    let mut seen: Option<GroupSnapshot> = None;
    let mut sessions: Vec<(SessionState, Option<u64>)> = Vec::new();
    let mut read_again_at = 0;
    loop {
        let is_new = tokio::select! {
            biased;
            snapshot = snapshots.next() => match snapshot {
                Some(snapshot) => {
                    seen = Some(snapshot?);
                    true
                }
                None => return std::future::pending().await,
            },
            () = pause(LOOK) => false,
        };
        let Some(snapshot) = &seen else { continue };
        if is_new || place.board.now() >= read_again_at {
            let states = group.session_states(snapshot).await?;
            let now = place.board.now();
            let with_time = |state: SessionState| (state, renewed_at(state, now));
            sessions = states.into_iter().map(with_time).collect();
            read_again_at = next_reading(snapshot, &sessions, now, millis(place.poll));
        }
        let answered_at = group.since_last_answer().map(|ago| {
            let now = place.board.now();
            now - millis(ago).min(now)
        });
        card.update(snapshot, &sessions, answered_at, place.board.show_tokens);
        let failure = group.last_failure().filter(needs_operator);
        card.error = failure.map(|error| plain(&error.to_string()));
        place.board.show(&place.id, card);
    }
}

fn renewed_at(state: SessionState, now: u64) -> Option<u64> {
    match state {
        SessionState::Live { age } => age.map(|age| now - millis(age).min(now)),
        SessionState::Lapsed { age } => Some(now - millis(age).min(now)),
        _ => None,
    }
}

/// Returns the time of the next read of the sessions. It is the time at which the first live
/// session would lapse, or the time of the next poll, whichever is later.
fn next_reading(
    group: &GroupSnapshot,
    sessions: &[(SessionState, Option<u64>)],
    now: u64,
    poll: u64,
) -> u64 {
    let lapses = group.members.iter().zip(sessions).map(|(member, (state, renewed_at))| {
        let validity = millis(member.validity);
        match (state, renewed_at) {
            (SessionState::Live { .. }, Some(renewed_at)) => renewed_at + validity,
            // If the store sends no dates, one read does not show when the session lapses. So this
            // code assumes that the session was renewed now.
            (SessionState::Live { .. }, None) => now + validity,
            _ => now,
        }
    });
    lapses.min().unwrap_or(now + millis(PATIENCE)).max(now + poll)
}

impl GroupCard {
    fn new(place: &Place) -> GroupCard {
        GroupCard {
            kind: "group",
            name: place.name.clone(),
            epoch: None,
            restoring: false,
            members: Vec::new(),
            partitions: Vec::new(),
            owners: Vec::new(),
            targets: Vec::new(),
            marks: Vec::new(),
            tokens: None,
            answered_at: None,
            error: None,
        }
    }

    fn update(
        &mut self,
        group: &GroupSnapshot,
        sessions: &[(SessionState, Option<u64>)],
        answered_at: Option<u64>,
        show_tokens: bool,
    ) {
        let count = group.members.len();
        let coordinator = group.members.iter().position(|member| member.coordinates);
        let role = |index: usize| match coordinator {
            Some(place) if place == index => Some("coordinator"),
            Some(place) if (index + count - place) % count <= DEPUTIES => Some("deputy"),
            _ => None,
        };
        let before = std::mem::take(&mut self.members);
        let rows =
            group.members.iter().zip(sessions).enumerate().map(|(index, (member, session))| {
                let (state, renewed_at) = *session;
                let known =
                    before.get(index).filter(|row| member.session.starts_with(&row.session));
                MemberRow {
                    name: plain(&member.name),
                    session: member.session.chars().take(8).collect(),
                    state: state_word(state),
                    alive: state.may_work(),
                    role: role(index),
                    weight: member.weight,
                    validity_ms: millis(member.validity),
                    renewed_at: settled(known.and_then(|row| row.renewed_at), renewed_at),
                    data: (!member.data.is_null()).then(|| shortened(&json_line(&member.data))),
                }
            });
        self.members = rows.collect();
        let index = |place: Option<usize>| place.map_or(-1, |place| place as i64);
        self.epoch = group.epoch.map(|epoch| epoch.get());
        self.restoring = group.restoring;
        self.partitions = group.partitions.iter().map(|it| plain(&it.name)).collect();
        self.owners = group.partitions.iter().map(|it| index(it.owner)).collect();
        self.targets = group.partitions.iter().map(|it| index(it.target)).collect();
        let marks = group.partitions.iter().map(|it| PartitionStatus::of(it, group).marks());
        let marked = marks.enumerate().filter(|(_, marks)| !marks.is_empty());
        self.marks = marked.collect();
        let tokens =
            || group.partitions.iter().map(|it| it.token.map(|token| token.get())).collect();
        self.tokens = show_tokens.then(tokens);
        self.answered_at = settled(self.answered_at, answered_at);
    }
}
