//! Models the object store, and the writes that remain pending after their senders have given up.
//!
//! The store is pure and small. An ETag encodes the content in three characters, so equal bodies
//! have equal tags, as on S3.

use std::hash::{Hash, Hasher};

use tenure::protocol::find::{After, Listing};
use tenure::protocol::message::{Answer, Nonce, Request, Seen, Sighting};
use tenure::store::ETag;
use tenure::{Epoch, EpochEnd};

/// Number of slots for epoch objects: one more than the greatest epoch of any setting.
pub const SLOTS: usize = 26;

/// The number of an epoch. 0 means no epoch.
pub type Number = u8;

/// The number of a nonce. Each epoch has a separate range of these numbers. 0 means no nonce.
pub type NonceNumber = u16;

/// An epoch record without the candidate's name. All candidates have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Body {
    /// The nonce, or 0 in a record of a peer that follows Morling's post (docs/how-to/upgrade.md).
    pub nonce: NonceNumber,
    pub heartbeat: u8,
    /// Index in [`WORDS`] of the value of `ended`, or 0 if the record is unsealed.
    word: u8,
}

/// The first of the characters that encode an ETag. All these characters are printable.
const FIRST_LETTER: u32 = '!' as u32;

const WORDS: [Option<EpochEnd>; 4] =
    [None, Some(EpochEnd::Resigned), Some(EpochEnd::Lapsed), Some(EpochEnd::Deposed)];

impl Body {
    pub const FOREIGN: Body = Body { nonce: 0, heartbeat: 0, word: 0 };

    pub fn unsealed(nonce: NonceNumber, heartbeat: u64) -> Body {
        Body { nonce, heartbeat: small(heartbeat), word: 0 }
    }

    pub fn sealed(self, heartbeat: u64, ended: EpochEnd) -> Body {
        let word = WORDS.iter().position(|word| *word == Some(ended));
        let word = small(word.expect("`WORDS` contains the word") as u64);
        Body { heartbeat: small(heartbeat), word, ..self }
    }

    pub fn with_nonce(self, nonce: NonceNumber) -> Body {
        Body { nonce, ..self }
    }

    pub fn ended(self) -> Option<EpochEnd> {
        WORDS[usize::from(self.word)]
    }

    pub fn etag(self) -> ETag {
        let parts = [self.nonce, u16::from(self.heartbeat), u16::from(self.word)];
        let letter = |part| char::from_u32(u32::from(part) + FIRST_LETTER);
        let letters = parts.map(|part| letter(part).expect("small numbers are valid characters"));
        ETag::new(String::from_iter(letters))
    }

    pub fn from_etag(etag: &ETag) -> Body {
        let mut parts = etag.as_str().chars().map(|letter| u32::from(letter) - FIRST_LETTER);
        let mut next = || parts.next().expect("a tag of this store has three letters");
        let nonce = NonceNumber::try_from(next()).expect("the number of nonces is small");
        Body { nonce, heartbeat: small(next().into()), word: small(next().into()) }
    }

    pub fn seen(self) -> Seen {
        let nonce = (self.nonce > 0).then(|| nonce_of(self.nonce));
        let heartbeat = u64::from(self.heartbeat);
        Seen { nonce, heartbeat, ended: self.ended(), reclaimable: false }
    }
}

pub fn small(number: u64) -> u8 {
    u8::try_from(number).expect("all numbers of this model are small")
}

/// A write in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wire {
    Create { epoch: Number, body: Body },
    Replace { epoch: Number, tag: Body, body: Body },
    Delete { epoch: Number },
}

impl Wire {
    /// Returns the write of this request, or `None` for a read.
    pub fn of(request: &Request) -> Option<Wire> {
        match request {
            Request::List(_) | Request::Get { .. } => None,
            Request::Take { .. } => unreachable!("only the other layout has this request"),
            Request::Create { epoch, write } => {
                let body = Body::unsealed(nonce_number(*epoch, write.nonce), write.heartbeat);
                Some(Wire::Create { epoch: small(epoch.get()), body })
            }
            Request::Renew { epoch, etag, write } => {
                let tag = Body::from_etag(etag);
                let body = Body::unsealed(nonce_number(*epoch, write.nonce), write.heartbeat);
                Some(Wire::Replace { epoch: small(epoch.get()), tag, body })
            }
            Request::Seal { epoch, etag, heartbeat, ended, .. } => {
                let tag = Body::from_etag(etag);
                let body = tag.sealed(*heartbeat, *ended);
                Some(Wire::Replace { epoch: small(epoch.get()), tag, body })
            }
        }
    }

    pub fn epoch(self) -> Number {
        match self {
            Wire::Create { epoch, .. } | Wire::Replace { epoch, .. } | Wire::Delete { epoch } => {
                epoch
            }
        }
    }

    /// Returns the body that the write gives to the object, or `None` for a delete.
    pub fn body(self) -> Option<Body> {
        match self {
            Wire::Create { body, .. } | Wire::Replace { body, .. } => Some(body),
            Wire::Delete { .. } => None,
        }
    }
}

/// Number of nonces per epoch. The model numbers the nonces, and does not draw them at random. So
/// equal states have equal hashes.
pub const NONCES: NonceNumber = 64;

/// Returns the epoch for which a nonce was drawn.
pub fn epoch_of(nonce: NonceNumber) -> Number {
    small((nonce / NONCES).into())
}

fn nonce_number(epoch: Epoch, nonce: Nonce) -> NonceNumber {
    let first = NonceNumber::from(small(epoch.get())) * NONCES;
    let number = (first..first + NONCES).find(|number| nonce_of(*number) == nonce);
    number.expect("this model drew the nonce for this epoch")
}

pub fn nonce_of(number: NonceNumber) -> Nonce {
    Nonce::from_bits(u128::from(number))
}

/// In a listing without order, the first page has the epochs above this number, and the second page
/// has the others. So a listing may miss both a new epoch and the older epochs that were deleted
/// because of it.
pub const FIRST_PAGE_ABOVE: Number = 2;

/// The objects under the prefix, by their epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Store {
    objects: [Option<Body>; SLOTS],
}

/// Hashes only the used slots, because most slots are free. Then hashes a 0 as the end mark: no
/// epoch has the number 0.
impl Hash for Store {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.epochs().for_each(|object| object.hash(state));
        Number::default().hash(state);
    }
}

impl Store {
    pub fn get(&self, epoch: Number) -> Option<Body> {
        self.objects.get(usize::from(epoch)).copied().flatten()
    }

    /// Returns the greatest existing epoch, or 0.
    pub fn newest(&self) -> Number {
        small(self.objects.iter().rposition(Option::is_some).unwrap_or(0) as u64)
    }

    pub fn epochs(&self) -> impl DoubleEndedIterator<Item = (Number, Body)> + '_ {
        let objects = self.objects.iter().enumerate();
        objects.filter_map(|(epoch, body)| Some((small(epoch as u64), (*body)?)))
    }

    /// Returns whether the store, in its current state, would accept the write.
    pub fn accepts(&self, wire: Wire) -> bool {
        match wire {
            Wire::Create { epoch, .. } => self.get(epoch).is_none(),
            Wire::Replace { epoch, tag, .. } => self.get(epoch) == Some(tag),
            Wire::Delete { epoch } => self.get(epoch).is_some(),
        }
    }

    /// Applies a write.
    pub fn apply(&mut self, wire: Wire) -> Answer {
        let exists = self.get(wire.epoch()).is_some();
        match wire.body() {
            Some(body) if self.accepts(wire) => {
                self.put(wire.epoch(), Some(body));
                Answer::Done { etag: body.etag() }
            }
            Some(_) if matches!(wire, Wire::Replace { .. }) && !exists => Answer::Missing,
            Some(_) => Answer::Refused,
            None => {
                self.put(wire.epoch(), None);
                Answer::Done { etag: Body::FOREIGN.etag() }
            }
        }
    }

    /// Replaces the object of an epoch without a condition. `None` deletes the object.
    pub fn put(&mut self, epoch: Number, body: Option<Body>) {
        self.objects[usize::from(epoch)] = body;
    }

    pub fn read(&self, epoch: Epoch, unless: Option<&ETag>) -> Answer {
        // The leader of the last epoch of the model reads the next epoch. This number is outside
        // the model, so the object is missing.
        let Some(body) = u8::try_from(epoch.get()).ok().and_then(|epoch| self.get(epoch)) else {
            return Answer::Missing;
        };
        let etag = body.etag();
        if unless == Some(&etag) {
            return Answer::NotModified;
        }
        let sighting = Sighting { epoch, etag, seen: body.seen() };
        Answer::Found { sighting, touched: false }
    }

    /// Returns the epochs above `after` on one page of a listing without order.
    pub fn unordered_page(&self, after: Number, first: bool) -> Vec<Number> {
        let epochs = self.epochs().map(|(epoch, _)| epoch).filter(|epoch| *epoch > after);
        epochs.filter(|epoch| (*epoch > FIRST_PAGE_ABOVE) == first).collect()
    }

    /// Returns a page of a listing with at most `most` keys. A foreign key sorts right after the
    /// epoch object of its number.
    pub fn list(&self, after: &After, foreign_keys: &[Number], most: usize) -> Listing {
        let after = match after {
            After::Number(number) => (*number, false),
            After::Key(key) => (key.parse().expect("this model created the key"), true),
        };
        let epochs = self.epochs().map(|(epoch, _)| (u64::from(epoch), false));
        let foreign = foreign_keys.iter().map(|number| (u64::from(*number), true));
        let mut keys: Vec<(u64, bool)> = epochs.chain(foreign).filter(|key| *key > after).collect();
        keys.sort_unstable();
        let truncated = keys.len() > most;
        keys.truncate(most);
        let mut numbers = keys.iter().filter(|(_, foreign)| !foreign).map(|(number, _)| *number);
        let least = numbers.next();
        let greatest = numbers.next_back().or(least);
        let epoch = |number| Epoch::new(number).expect("every listed number is an epoch");
        let rest = keys.last().filter(|_| truncated).map(|(number, foreign)| {
            if *foreign { After::Key(number.to_string()) } else { After::Number(*number) }
        });
        Listing { epochs: least.map(epoch).zip(greatest.map(epoch)), rest }
    }
}
