//! A model of the object store: pure, small, and strict about the conditions.
//!
//! ETags are content hashes (here: the content itself), so equal bodies have equal tags, as on S3.
//! It depends on the messages alone and holds no history, so that a model checker can keep it in a
//! set of states.

use std::collections::{BTreeMap, BTreeSet};

use crate::epoch::Epoch;
use crate::etag::ETag;
use crate::protocol::find::{After, Listing};
use crate::protocol::message::{Answer, Ended, Nonce, Request, Seen, Sighting};

/// Who wrote something: the candidate's name, which two processes may share.
pub(super) type Name = u8;

/// A record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Body {
    pub(super) name: Name,
    /// `None` in Morling's records.
    pub(super) nonce: Option<Nonce>,
    pub(super) heartbeat: u64,
    pub(super) sealed: Option<(Ended, Name)>,
}

impl Body {
    pub(super) fn etag(&self) -> ETag {
        let Body { name, nonce, heartbeat, sealed } = self;
        ETag::new(format!("{name} {nonce:?} {heartbeat} {sealed:?}"))
    }

    fn seen(&self) -> Seen {
        let ended = self.sealed.map(|(ended, _)| ended);
        Seen { nonce: self.nonce, heartbeat: self.heartbeat, ended, reclaimable: false }
    }
}

/// A record and how often it was written with the same content, which stands for `Last-Modified`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Object {
    pub(super) body: Body,
    pub(super) touches: u8,
}

/// A request as it travels: also those that no candidate sends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Wire {
    Protocol(Request),
    /// Unconditional, as the compactor's.
    Delete(Epoch),
    /// Morling's conditional create, and his unconditional overwrite with the same body.
    ForeignCreate(Epoch),
    ForeignTouch(Epoch),
}

/// An answer, with what the driver learns beside it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Reply {
    pub(super) answer: Answer,
    pub(super) name: Option<Name>,
    pub(super) touches: u8,
}

/// The objects under the prefix.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct ModelStore {
    pub(super) objects: BTreeMap<Epoch, Object>,
    /// Foreign keys, each right after the epoch object of its number.
    pub(super) foreign_keys: BTreeSet<u64>,
    /// Keys on a page of a listing.
    pub(super) page: usize,
}

impl ModelStore {
    pub(super) fn newest(&self) -> Option<Epoch> {
        self.objects.last_key_value().map(|(epoch, _)| *epoch)
    }

    /// Carries out a request at once.
    pub(super) fn apply(&mut self, from: Name, wire: &Wire) -> Reply {
        let answer = match wire {
            Wire::Protocol(Request::List(after)) => Answer::Listed(self.list(after)),
            Wire::Protocol(Request::Get { epoch: Some(epoch), unless }) => {
                return self.get(*epoch, unless);
            }
            Wire::Protocol(Request::Create { epoch, write }) => {
                let (nonce, heartbeat) = (Some(write.nonce), write.heartbeat);
                self.create(*epoch, Body { name: from, nonce, heartbeat, sealed: None })
            }
            Wire::Protocol(Request::Renew { epoch, etag, write }) => {
                let (nonce, heartbeat) = (Some(write.nonce), write.heartbeat);
                self.replace(*epoch, etag, |_| Body { name: from, nonce, heartbeat, sealed: None })
            }
            Wire::Protocol(Request::Seal { epoch, etag, nonce, heartbeat, ended }) => {
                let (nonce, heartbeat, sealed) = (*nonce, *heartbeat, Some((*ended, from)));
                self.replace(*epoch, etag, |old| Body { name: old.name, nonce, heartbeat, sealed })
            }
            Wire::Protocol(Request::Get { epoch: None, .. } | Request::Take { .. }) => {
                unreachable!("of the other layout")
            }
            Wire::Delete(epoch) => {
                self.objects.remove(epoch);
                Answer::Missing
            }
            Wire::ForeignCreate(epoch) => self.create(*epoch, Self::foreign_body(from)),
            Wire::ForeignTouch(epoch) => {
                let body = Self::foreign_body(from);
                let etag = body.etag();
                let before = self.objects.get(epoch).filter(|object| object.body == body);
                let touches = before.map_or(0, |object| object.touches.wrapping_add(1));
                self.objects.insert(*epoch, Object { body, touches });
                Answer::Done { etag }
            }
        };
        Reply { answer, name: None, touches: 0 }
    }

    fn foreign_body(name: Name) -> Body {
        Body { name, nonce: None, heartbeat: 0, sealed: None }
    }

    fn create(&mut self, epoch: Epoch, body: Body) -> Answer {
        if self.objects.contains_key(&epoch) {
            return Answer::Refused;
        }
        let etag = body.etag();
        self.objects.insert(epoch, Object { body, touches: 0 });
        Answer::Done { etag }
    }

    fn replace(&mut self, epoch: Epoch, etag: &ETag, new: impl Fn(&Body) -> Body) -> Answer {
        let Some(object) = self.objects.get_mut(&epoch) else { return Answer::Missing };
        if object.body.etag() != *etag {
            return Answer::Refused;
        }
        *object = Object { body: new(&object.body), touches: 0 };
        Answer::Done { etag: object.body.etag() }
    }

    fn get(&self, epoch: Epoch, unless: &Option<ETag>) -> Reply {
        let Some(object) = self.objects.get(&epoch) else {
            return Reply { answer: Answer::Missing, name: None, touches: 0 };
        };
        let etag = object.body.etag();
        let answer = if *unless == Some(etag.clone()) {
            Answer::NotModified
        } else {
            let sighting = Sighting { epoch, etag, seen: object.body.seen() };
            Answer::Found { sighting, touched: false }
        };
        Reply { answer, name: Some(object.body.name), touches: object.touches }
    }

    fn list(&self, after: &After) -> Listing {
        // A foreign key sorts right after the epoch object of its number.
        let after = match after {
            After::Number(number) => (*number, false),
            After::Key(key) => (key.parse().expect("this model made the key"), true),
        };
        let epochs = self.objects.keys().map(|epoch| (epoch.get(), false));
        let foreign = self.foreign_keys.iter().map(|number| (*number, true));
        let mut keys: Vec<(u64, bool)> = epochs.chain(foreign).filter(|key| *key > after).collect();
        keys.sort_unstable();
        let truncated = keys.len() > self.page;
        keys.truncate(self.page);
        let mut numbers = keys.iter().filter(|(_, foreign)| !foreign).map(|(number, _)| *number);
        let epoch = |number| Epoch::new(number).expect("epochs only are listed as such");
        let epochs =
            numbers.next().map(|least| (epoch(least), epoch(numbers.next_back().unwrap_or(least))));
        let rest = keys.last().filter(|_| truncated).map(|(number, foreign)| {
            if *foreign { After::Key(number.to_string()) } else { After::Number(*number) }
        });
        Listing { epochs, rest }
    }
}
