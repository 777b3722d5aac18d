//! Checks the invariants and rules of docs/design/groups.md. The checks use the true state of the
//! bucket and the processes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tenure::Epoch;
use tenure::protocol::message::Nonce;
use tenure_groups::Partition;
use tenure_groups::assignment_record::AssignmentRecord;
use tenure_groups::protocol::plan::check;
use tenure_groups::protocol::{Assignment, Release, Session, SessionId};
use tenure_groups::session_data;

use tenure_model::time::now;

use super::world::{State, Who, World};

pub const PREFIX: &str = "app/";

/// The facts that the checks have recorded in this run.
#[derive(Debug, Default)]
pub struct Book {
    /// Sealed sessions.
    ended: BTreeSet<Session>,
    /// Live sessions that other programs deleted, with the time of the deletion and the validity of
    /// the session.
    gone: BTreeMap<Session, (Duration, Duration)>,
    released: BTreeSet<(Session, Release)>,
    /// The process that created each session.
    pub holders: BTreeMap<SessionId, Who>,
    /// For each partition, the greatest token under which a process believed that it owned the
    /// partition, and that process.
    believed: BTreeMap<u32, (Epoch, Who)>,
    /// The greatest assignment that was ever created, and its body.
    pub greatest: Option<(Epoch, Bytes)>,
    /// The greatest assignment that other programs deleted.
    pub deleted: Option<Epoch>,
}

impl Book {
    /// If the object at `key` is a live session, records that other programs have deleted it.
    pub fn vanished(&mut self, key: &str, body: &[u8]) {
        let read = session_of(key).and_then(|id| session_in(id, body));
        if let Some((session, None, _)) = read {
            let body: Value = serde_json::from_slice(body).unwrap_or_default();
            let validity = Duration::from_millis(body["validity_ms"].as_u64().unwrap_or(u64::MAX));
            self.gone.insert(session, (now(), validity));
        }
    }

    /// Returns whether `session` may lose the partition of `release` to another session, by rule
    /// R1.
    fn may_leave(&self, session: Session, release: Release) -> bool {
        let waited = |(at, validity): &(Duration, Duration)| now() - *at >= *validity;
        self.ended.contains(&session)
            || self.gone.get(&session).is_some_and(waited)
            || self.released.contains(&(session, release))
    }
}

impl State {
    /// Returns the newest existing assignment.
    pub fn newest(&self) -> Option<Assignment> {
        let key = assignment_key(self.bucket.newest()?.get());
        decode(&key, &self.bucket.objects[&key].0)
    }

    /// Returns whether the newest existing assignment is greater than each assignment that other
    /// programs have deleted.
    pub fn is_repaired(&self) -> bool {
        self.book.deleted.is_none_or(|deleted| self.bucket.newest() > Some(deleted))
    }

    /// Returns whether an existing session shows that its member has seen this assignment or a
    /// greater one.
    pub fn sessions_show(&self, epoch: Epoch) -> bool {
        self.bucket.objects.iter().any(|(key, (body, _))| {
            let data = session_of(key).and_then(|id| session_in(id, body)).map(|it| it.2);
            let seen = data.and_then(|data| session_data::decode(&data)?.0.seen);
            seen >= Some(epoch)
        })
    }

    /// Returns whether a read of this session must succeed. If other programs deleted the newest
    /// assignments, members detect the deletion only by a session that has seen a deleted
    /// assignment. So the reads of sessions must succeed until an assignment above all deleted ones
    /// exists.
    pub fn must_be_read(&self, key: &str) -> bool {
        session_of(key).is_some() && !self.is_repaired() && self.bucket.newest().is_some()
    }
}

pub fn assignment_key(epoch: u64) -> String {
    format!("{PREFIX}assignment-{epoch:010}.json")
}

pub fn epoch_of(key: &str) -> Option<Epoch> {
    let digits = key.strip_prefix(PREFIX)?.strip_prefix("assignment-")?.strip_suffix(".json")?;
    Epoch::new(digits.parse().ok()?)
}

pub fn session_key(id: SessionId) -> String {
    format!("{PREFIX}members/{id}/lock.json")
}

fn session_of(key: &str) -> Option<SessionId> {
    SessionId::parse(
        key.strip_prefix(PREFIX)?.strip_prefix("members/")?.strip_suffix("/lock.json")?,
    )
}

pub fn decode(key: &str, body: &[u8]) -> Option<Assignment> {
    Some(AssignmentRecord::decode(epoch_of(key)?, body).ok()?.assignment)
}

/// Returns the session that an object contains, the reason of its end (`None` if the session has
/// not ended), and its data.
fn session_in(id: SessionId, body: &[u8]) -> Option<(Session, Option<String>, Value)> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let nonce = u128::from_str_radix(body["nonce"].as_str()?, 16).ok()?;
    let ended = (body["expires_at"].as_f64() == Some(0.0))
        .then(|| body["ended"].as_str().unwrap_or("unknown").to_owned());
    Some((Session { id, nonce: Nonce::from_bits(nonce) }, ended, body["data"].clone()))
}

/// Checks a write that a process makes to an object.
pub fn written(world: &Arc<World>, process: Who, key: &str, body: &[u8]) {
    if let Some(id) = session_of(key) {
        session_written(world, process, id, body);
    } else if epoch_of(key).is_some() {
        world.count("assignments");
        assignment_written(world, key, body);
    }
}

fn session_written(world: &Arc<World>, process: Who, id: SessionId, body: &[u8]) {
    let Some((session, ended, data)) = session_in(id, body) else {
        return world.fail("session", format!("{process} wrote an invalid session"));
    };
    let holder = *world.state().book.holders.entry(id).or_insert(process);
    match ended.as_deref() {
        None => {
            if let Some((data, _)) = session_data::decode(&data) {
                let releases = data.releases.into_keys().map(|release| (session, release));
                world.state().book.released.extend(releases);
            }
        }
        Some(word) => {
            world.state().book.ended.insert(session);
            match word {
                "lapsed" => world.count("sessions sealed as lapsed"),
                _ => world.count("sessions resigned"),
            }
            if word == "lapsed" && process != holder {
                let held = world.running(|_| true).into_iter();
                let id = id.to_string();
                let owns = held.filter(|(_, it)| it.session() == id && it.check().is_ok());
                if let Some((handle, _)) = owns.into_iter().next() {
                    let what =
                        format!("{process} ended the session of {} during its lease", handle.who);
                    world.fail("G6", what);
                }
            }
        }
    }
}

fn assignment_written(world: &Arc<World>, key: &str, body: &[u8]) {
    let Some(after) = decode(key, body) else {
        return world.fail("assignment", format!("{key} is unreadable"));
    };
    let mut state = world.state();
    let before = after.epoch.get().checked_sub(1).map(assignment_key);
    let before = before.and_then(|key| Some((state.bucket.objects.get(&key)?.0.clone(), key)));
    // If other programs deleted the previous assignment, use the body that an earlier call of this
    // function recorded.
    let before = before.or_else(|| {
        let (epoch, body) = state.book.greatest.clone()?;
        (epoch.next() == Some(after.epoch)).then(|| (body, assignment_key(epoch.get())))
    });
    if state.book.greatest.as_ref().is_none_or(|(epoch, _)| *epoch <= after.epoch) {
        state.book.greatest = Some((after.epoch, Bytes::copy_from_slice(body)));
    }
    // If a greater assignment exists, a compactor deleted the assignment with this number earlier.
    // No member will confirm the new assignment, so ignore it.
    if state.bucket.newest() != Some(after.epoch) {
        return;
    }
    if state.book.deleted >= Some(after.epoch) {
        drop(state);
        return world.fail("D2", format!("{key} was deleted and created again"));
    }
    // A restore takes each partition from its owner without a release, and then waits until the
    // owner's lease has ended. So rule R1 does not apply to the first assignment of a restore.
    let before = before.filter(|_| after.restoring.is_none());
    let Some(before) = before.and_then(|(body, before)| decode(&before, &body)) else { return };
    let book = &state.book;
    let checked = check(&before, &after, |session, release| book.may_leave(session, release));
    drop(state);
    if let Err(what) = checked {
        let rules = ["R1", "R2", "R4"];
        let rule = rules.into_iter().find(|rule| what.ends_with(rule)).unwrap_or("R2");
        world.fail(rule, format!("assignment {}: {what}", after.epoch));
    }
}

/// Checks that a deletion of these keys does not delete the newest assignment (G3). Must be called
/// before the deletion takes effect.
pub fn deleting(world: &World, keys: &[String]) {
    let newest = {
        let state = world.state();
        state.bucket.objects.keys().filter_map(|key| epoch_of(key)).max()
    };
    if newest.is_some() && keys.iter().any(|key| epoch_of(key) == newest) {
        world.fail("G3", format!("the newest assignment, {newest:?}, is deleted"));
    }
}

/// Checks a write of the application of `process`, with the token of a partition that the process
/// believes it owns.
pub fn believes(world: &World, process: Who, partition: &Partition) {
    let (number, token) = (partition.number().0, partition.token());
    for (other, its) in world.running(|it| it.who != process && it.number == number) {
        if its.check().is_ok() {
            let tokens = (token, its.token());
            let what = format!("{process} and {} own partition {number}: {tokens:?}", other.who);
            // Two processes believe that they own the partition. If their tokens are equal, the
            // partition was granted twice (G1). If the tokens differ, two grants overlap (G5).
            return world.fail(if tokens.0 == tokens.1 { "G1" } else { "G5" }, what);
        }
    }
    let before = {
        let mut state = world.state();
        let before = state.book.believed.get(&number).copied();
        if before.is_none_or(|(greatest, _)| greatest <= token) {
            state.book.believed.insert(number, (token, process));
        }
        before
    };
    match before {
        Some((greatest, other)) if greatest > token => {
            let what = format!(
                "{process} owns partition {number} by token {token} after {other} owned it by token {greatest}"
            );
            world.fail("G5", what);
        }
        Some((same, other)) if same == token && other != process => {
            world.fail(
                "G1",
                format!(
                    "{process} and {other} were both granted partition {number} with token {token}"
                ),
            );
        }
        _ => {}
    }
}
