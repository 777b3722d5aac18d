//! Members and partitions in the form that `--json` prints, and in tables for people.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tenure_groups::{GroupSnapshot, MemberSnapshot, PartitionSnapshot, SessionState};

use crate::output::print::{ATTENTION, GOOD, NAME, in_seconds, millis, plain, styled};

/// A member, as `--json` prints it.
#[derive(Debug, Serialize)]
pub struct MemberStatus<'a> {
    pub name: &'a str,
    pub session: &'a str,
    pub weight: u32,
    pub validity_ms: u64,
    /// Number of owned partitions.
    pub partitions: usize,
    pub coordinates: bool,
    pub data: &'a Value,
    /// State of the member's session: `live`, `lapsed`, `missing` or `unknown`. If the session has
    /// ended, the state is a word for how it ended. Absent if the sessions were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_state: Option<String>,
    /// Time since the last write of the member's session, by the store's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
}

/// A partition, as `--json` prints it. Fields that do not apply are null.
#[derive(Debug, Serialize)]
pub struct PartitionStatus<'a> {
    pub number: u32,
    pub name: &'a str,
    pub owner: Option<&'a str>,
    pub owner_session: Option<&'a str>,
    /// State of the owner's session, if the owner cannot work any more. Only tables show it.
    #[serde(skip)]
    pub owner_end: Option<String>,
    pub token: Option<u64>,
    pub target: Option<&'a str>,
    pub target_session: Option<&'a str>,
    pub pinned: Option<&'a str>,
    pub barred: Option<&'a str>,
    pub paused: bool,
    pub retiring: bool,
    pub reserved_for: Option<&'a str>,
}

pub fn members(group: &GroupSnapshot) -> Vec<MemberStatus<'_>> {
    let mut owned = vec![0; group.members.len()];
    for owner in group.partitions.iter().filter_map(|it| it.owner) {
        owned[owner] += 1;
    }
    let view = |(it, partitions)| member(it, partitions);
    group.members.iter().zip(owned).map(view).collect()
}

fn member(it: &MemberSnapshot, partitions: usize) -> MemberStatus<'_> {
    MemberStatus {
        name: &it.name,
        session: &it.session,
        weight: it.weight,
        validity_ms: millis(it.validity),
        partitions,
        coordinates: it.coordinates,
        data: &it.data,
        session_state: None,
        age_ms: None,
    }
}

impl MemberStatus<'_> {
    pub fn note(&mut self, state: SessionState) {
        self.session_state = Some(state_word(state));
        self.age_ms = match state {
            SessionState::Live { age } => age.map(millis),
            SessionState::Lapsed { age } => Some(millis(age)),
            _ => None,
        };
    }

    /// Returns the state of the member's session, formatted for people.
    pub fn state(&self) -> String {
        let Some(state) = &self.session_state else { return "-".to_owned() };
        styled(if state == "live" { GOOD } else { ATTENTION }, state)
    }

    /// Returns the number of owned partitions, or `-` if the session of the member has ended.
    pub fn owns(&self) -> String {
        match self.session_state.as_deref() {
            None | Some("live" | "unknown") => self.partitions.to_string(),
            Some(_) => "-".to_owned(),
        }
    }

    /// Returns the time since the last write of the member's session, formatted for people.
    pub fn age(&self) -> String {
        let age = |age| in_seconds(Duration::from_millis(age)).to_string();
        self.age_ms.map_or("-".to_owned(), age)
    }
}

/// Returns the state of a session in one word.
pub fn state_word(state: SessionState) -> String {
    match state {
        SessionState::Live { .. } => "live".to_owned(),
        SessionState::Lapsed { .. } => "lapsed".to_owned(),
        SessionState::Ended(end) => end.to_string(),
        SessionState::Missing => "missing".to_owned(),
        _ => "unknown".to_owned(),
    }
}

impl<'a> PartitionStatus<'a> {
    pub fn of(it: &'a PartitionSnapshot, group: &'a GroupSnapshot) -> PartitionStatus<'a> {
        let member = |place: Option<usize>| group.members.get(place?);
        let (owner, target) = (member(it.owner), member(it.target));
        PartitionStatus {
            number: it.number.0,
            name: &it.name,
            owner: owner.map(|it| &*it.name),
            owner_session: owner.map(|it| &*it.session),
            owner_end: None,
            token: it.token.map(|token| token.get()),
            target: target.map(|it| &*it.name),
            target_session: target.map(|it| &*it.session),
            pinned: it.marks.pinned.as_deref(),
            barred: it.marks.barred.as_deref(),
            paused: it.marks.paused,
            retiring: it.marks.retiring,
            reserved_for: it.reserved_for.as_deref(),
        }
    }

    /// Returns the owner, and the state of its session if the owner cannot work any more.
    pub fn owner_for_people(&self) -> String {
        let owner = owner(self.owner);
        match &self.owner_end {
            Some(end) => format!("{owner} {}", styled(ATTENTION, format_args!("({end})"))),
            None => owner,
        }
    }

    /// Returns a text for people about the partition's reservation and the marks that operators
    /// have set on it.
    pub fn marks(&self) -> String {
        let marks = [
            self.pinned.map(|name| format!("pinned to {}", plain(name))),
            self.barred.map(|name| format!("barred from {}", plain(name))),
            self.paused.then(|| "paused".to_owned()),
            self.retiring.then(|| "retiring".to_owned()),
            self.reserved_for.map(|name| format!("reserved for {}", plain(name))),
        ];
        marks.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Returns the name of the owner, escaped for a terminal, or a highlighted `-` if there is no
/// owner.
pub fn owner(name: Option<&str>) -> String {
    styled(if name.is_some() { NAME } else { ATTENTION }, name_or_dash(name))
}

/// Returns a name escaped for a terminal, or `-`.
pub fn name_or_dash(name: Option<&str>) -> String {
    name.map_or("-".to_owned(), plain)
}
