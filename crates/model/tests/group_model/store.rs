//! The store of a group: its assignments and the objects of its sessions.

use std::collections::BTreeMap;

use tenure::Epoch;
use tenure::protocol::find::{After, Listing};
use tenure::protocol::message::{EpochEnd, Nonce, Seen, Sighting};
use tenure::store::ETag;
use tenure_groups::protocol::session::{SessionData, SessionRecord};
use tenure_groups::protocol::{Assignment, SessionId};
use tenure_model::hashed_arc::HashedArc;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Store {
    pub assignments: BTreeMap<Epoch, HashedArc<Assignment>>,
    pub sessions: BTreeMap<SessionId, HashedArc<Object>>,
}

/// The object of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    pub nonce: Nonce,
    pub heartbeat: u64,
    pub ended: Option<End>,
    pub data: Option<Data>,
    /// ETag of the object, computed from all fields except the data.
    etag: ETag,
}

/// The ways in which a session can end, as its object shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    Resigned,
    Lapsed,
    Deposed,
}

/// The fields of [`SessionData`] that the model uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Data {
    pub releases: Vec<tenure_groups::protocol::Release>,
    pub leaving: bool,
    pub seen: Option<Epoch>,
}

/// A pending write. Its sender no longer waits for the answer, and the write may take effect later.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Wire {
    Assignment(HashedArc<Assignment>),
    /// A write of a session's object. It takes effect only if the object has this ETag, or if the
    /// ETag is `None` and no object exists.
    Session(SessionId, Option<ETag>, Object),
}

impl Object {
    pub fn new(nonce: Nonce, heartbeat: u64, ended: Option<End>, data: Option<Data>) -> Object {
        let etag = ETag::new(format!("{nonce:?} {heartbeat} {ended:?}"));
        Object { nonce, heartbeat, ended, data, etag }
    }

    pub fn etag(&self) -> ETag {
        self.etag.clone()
    }

    pub fn record(&self) -> SessionRecord {
        SessionRecord {
            nonce: self.nonce,
            heartbeat: self.heartbeat,
            etag: self.etag(),
            ended: self.ended.map(End::word),
            data: self.data.as_ref().map(|data| SessionData {
                releases: data.releases.iter().map(|it| (*it, Default::default())).collect(),
                looks: 0,
                seen: data.seen,
                leaving: data.leaving,
            }),
        }
    }

    /// Returns the greatest assignment that the session's member has seen, according to this
    /// object.
    pub fn seen(&self) -> Option<Epoch> {
        self.data.as_ref().and_then(|data| data.seen)
    }

    pub fn sighting(&self) -> Sighting {
        let (nonce, ended) = (Some(self.nonce), self.ended.map(End::word));
        let seen = Seen { nonce, heartbeat: self.heartbeat, ended, reclaimable: false };
        Sighting { epoch: Epoch::FIRST, etag: self.etag(), seen }
    }

    /// Returns the object after its seal. The seal keeps the greatest assignment that the member
    /// has seen, unless `forgets` is true.
    pub fn sealed(&self, ended: End, forgets: bool) -> Object {
        let seen = self.seen().filter(|_| !forgets);
        let data = seen.map(|seen| Data { seen: Some(seen), ..Data::default() });
        Object::new(self.nonce, self.heartbeat + 1, Some(ended), data)
    }
}

impl End {
    pub fn word(self) -> EpochEnd {
        match self {
            End::Resigned => EpochEnd::Resigned,
            End::Lapsed => EpochEnd::Lapsed,
            End::Deposed => EpochEnd::Deposed,
        }
    }
}

impl Store {
    pub fn newest(&self) -> Option<&HashedArc<Assignment>> {
        self.assignments.last_key_value().map(|(_, newest)| newest)
    }

    pub fn list(&self, after: &After) -> Listing {
        let After::Number(after) = after else { unreachable!("no page ends with a foreign key") };
        let mut above = self.assignments.keys().filter(|epoch| epoch.get() > *after);
        let least = above.next();
        let greatest = above.next_back().or(least);
        Listing { epochs: least.copied().zip(greatest.copied()), rest: None }
    }

    /// Returns whether this write would take effect now.
    pub fn accepts(&self, wire: &Wire) -> bool {
        match wire {
            Wire::Assignment(assignment) => !self.assignments.contains_key(&assignment.epoch),
            Wire::Session(id, tag, _) => {
                self.sessions.get(id).map(|object| &object.etag) == tag.as_ref()
            }
        }
    }

    /// Applies a write if its condition is true. Returns whether the write took effect.
    pub fn write(&mut self, wire: Wire) -> bool {
        let accepts = self.accepts(&wire);
        match wire {
            _ if !accepts => {}
            Wire::Assignment(assignment) => {
                self.assignments.insert(assignment.epoch, assignment);
            }
            Wire::Session(id, _, object) => {
                self.sessions.insert(id, HashedArc::new(object));
            }
        }
        accepts
    }
}
