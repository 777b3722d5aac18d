//! The store of the scenarios: objects with content ETags, and the effect of each request.

use std::collections::{BTreeMap, BTreeSet};

use tenure::protocol::find::{After, Listing};
use tenure::protocol::message::{Answer, Nonce, Request, Seen, Sighting};
use tenure::store::ETag;
use tenure::{Epoch, EpochEnd};

/// The content of an epoch object.
#[derive(Debug, Clone)]
pub struct Body {
    pub name: String,
    /// `None` in Morling's records.
    pub nonce: Option<Nonce>,
    pub heartbeat: u64,
    pub ended: Option<EpochEnd>,
    /// Number of manual edits of fields that have no counterpart in this struct.
    pub edits: u32,
    pub readable: bool,
}

impl Body {
    pub fn new(name: &str, nonce: Option<Nonce>, heartbeat: u64) -> Body {
        Body { name: name.to_owned(), nonce, heartbeat, ended: None, edits: 0, readable: true }
    }

    fn etag(&self) -> ETag {
        let Body { name, nonce, heartbeat, ended, edits, .. } = self;
        ETag::new(format!("{name} {nonce:?} {heartbeat} {ended:?} {edits}"))
    }
}

#[derive(Debug, Clone)]
pub struct Object {
    pub body: Body,
    /// Number of writes of the same body. In this store, the number replaces `Last-Modified`.
    pub touches: u32,
}

/// An answer, with further information for the driver.
#[derive(Debug, Clone)]
pub struct Reply {
    pub answer: Answer,
    pub object: Option<Object>,
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply { answer, object: None }
    }
}

#[derive(Debug)]
pub struct Store {
    pub objects: BTreeMap<Epoch, Object>,
    /// Numbers of foreign keys. Each key sorts right after the epoch object with its number.
    pub foreign_keys: BTreeSet<u64>,
    pub page: usize,
}

impl Default for Store {
    fn default() -> Store {
        Store { objects: BTreeMap::new(), foreign_keys: BTreeSet::new(), page: 1_000 }
    }
}

impl Store {
    pub fn newest(&self) -> Option<Epoch> {
        self.objects.keys().next_back().copied()
    }

    /// Applies a request of the participant with this name.
    pub fn carry_out(&mut self, name: &str, request: &Request) -> Reply {
        match request {
            Request::List(after) => Answer::Listed(self.list(after)).into(),
            Request::Get { epoch: Some(epoch), unless } => self.get(*epoch, unless.as_ref()),
            Request::Create { epoch, write } => {
                self.create(*epoch, Body::new(name, Some(write.nonce), write.heartbeat)).into()
            }
            Request::Renew { epoch, etag, write } => {
                let body = Body::new(name, Some(write.nonce), write.heartbeat);
                self.replace(*epoch, etag, |_| body).into()
            }
            Request::Seal { epoch, etag, heartbeat, ended, .. } => {
                let (heartbeat, ended) = (*heartbeat, Some(*ended));
                self.replace(*epoch, etag, |old| Body { heartbeat, ended, ..old.clone() }).into()
            }
            Request::Get { epoch: None, .. } | Request::Take { .. } => {
                unreachable!("a request of the other layout")
            }
        }
    }

    pub fn create(&mut self, epoch: Epoch, body: Body) -> Answer {
        if self.objects.contains_key(&epoch) {
            return Answer::Refused;
        }
        let etag = body.etag();
        self.objects.insert(epoch, Object { body, touches: 0 });
        Answer::Done { etag }
    }

    fn replace(&mut self, epoch: Epoch, etag: &ETag, new: impl FnOnce(&Body) -> Body) -> Answer {
        let Some(object) = self.objects.get_mut(&epoch) else { return Answer::Missing };
        if object.body.etag() != *etag {
            return Answer::Refused;
        }
        *object = Object { body: new(&object.body), touches: 0 };
        Answer::Done { etag: object.body.etag() }
    }

    fn get(&self, epoch: Epoch, unless: Option<&ETag>) -> Reply {
        let Some(object) = self.objects.get(&epoch) else { return Answer::Missing.into() };
        let Body { nonce, heartbeat, ended, readable, .. } = object.body;
        let etag = object.body.etag();
        if unless == Some(&etag) {
            return Answer::NotModified.into();
        }
        if !readable {
            return Answer::Unreadable.into();
        }
        let seen = Seen { nonce, heartbeat, ended, reclaimable: false };
        let answer = Answer::Found { sighting: Sighting { epoch, etag, seen }, touched: false };
        Reply { answer, object: Some(object.clone()) }
    }

    fn list(&self, after: &After) -> Listing {
        let after = match after {
            After::Number(number) => (*number, false),
            After::Key(key) => (key.parse().expect("this store created the key"), true),
        };
        let epochs = self.objects.keys().map(|epoch| (epoch.get(), false));
        let foreign = self.foreign_keys.iter().map(|number| (*number, true));
        let mut keys: Vec<(u64, bool)> = epochs.chain(foreign).filter(|key| *key > after).collect();
        keys.sort_unstable();
        let truncated = keys.len() > self.page;
        keys.truncate(self.page);
        let shown = keys.iter().filter(|(_, foreign)| !foreign);
        let shown: Vec<Epoch> = shown.filter_map(|(number, _)| Epoch::new(*number)).collect();
        let epochs = shown.first().copied().zip(shown.last().copied());
        let rest = keys.last().filter(|_| truncated).map(|(number, foreign)| {
            if *foreign { After::Key(number.to_string()) } else { After::Number(*number) }
        });
        Listing { epochs, rest }
    }
}
