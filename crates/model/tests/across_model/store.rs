//! The stores of an election across stores, and the writes in transit.

use tenure::protocol::across::message::{AcrossRequest, MAX_STORES, Marker};
use tenure::protocol::find::{After, Listing};
use tenure::protocol::message::{Answer, Nonce, Request, Seen, Sighting};
use tenure::store::ETag;
use tenure::{Epoch, EpochEnd};

/// One more than the greatest epoch of the model.
pub const SLOTS: usize = 14;

/// The number of an epoch. 0 means no epoch.
pub type Number = u8;

/// The number of a nonce. 0 means no nonce.
pub type NonceNumber = u16;

/// Number of nonces for each epoch.
pub const NONCES: NonceNumber = 20;

/// The nonce of the objects that an operator writes.
pub const OPERATOR: NonceNumber = NONCES * SLOTS as NonceNumber;

/// The first of the characters that encode an ETag. All these characters are printable.
const FIRST_LETTER: u32 = '!' as u32;

const ENDS: [EpochEnd; 5] = [
    EpochEnd::Resigned,
    EpochEnd::Lapsed,
    EpochEnd::Deposed,
    EpochEnd::Restored,
    EpochEnd::GivenUp,
];

/// The part of a record that the model needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Body {
    pub nonce: NonceNumber,
    pub heartbeat: u8,
    /// The index of the end in [`ENDS`], plus 1. 0 while the record is unsealed.
    word: u8,
}

impl Body {
    pub fn unsealed(nonce: NonceNumber, heartbeat: u64) -> Body {
        Body { nonce, heartbeat: small(heartbeat), word: 0 }
    }

    pub fn sealed(self, ended: EpochEnd) -> Body {
        let word = ENDS.iter().position(|end| *end == ended).expect("`ENDS` contains the end");
        Body { heartbeat: self.heartbeat + 1, word: small(word as u64 + 1), ..self }
    }

    pub fn ended(self) -> Option<EpochEnd> {
        ENDS.get(usize::from(self.word).checked_sub(1)?).copied()
    }

    pub fn etag(self) -> ETag {
        let parts = [self.nonce, self.heartbeat.into(), self.word.into()];
        let letter = |part: u16| char::from_u32(u32::from(part) + FIRST_LETTER);
        let letters = parts.map(|part| letter(part).expect("small numbers are valid characters"));
        ETag::new(String::from_iter(letters))
    }

    pub fn from_etag(etag: &ETag) -> Body {
        let mut parts = etag.as_str().chars().map(|letter| u32::from(letter) - FIRST_LETTER);
        let mut next = || parts.next().expect("a tag of this model has three letters");
        let nonce = NonceNumber::try_from(next()).expect("the number of nonces is small");
        Body { nonce, heartbeat: small(next().into()), word: small(next().into()) }
    }

    /// Returns the answer to a GET of this record.
    pub fn found(self, epoch: Epoch) -> Answer {
        let nonce = (self.nonce > 0).then(|| nonce_of(self.nonce));
        let heartbeat = self.heartbeat.into();
        let seen = Seen { nonce, heartbeat, ended: self.ended(), reclaimable: false };
        Answer::Found { sighting: Sighting { epoch, etag: self.etag(), seen }, touched: false }
    }
}

pub fn small(number: u64) -> u8 {
    u8::try_from(number).expect("all numbers of this model are small")
}

pub fn nonce_of(number: NonceNumber) -> Nonce {
    Nonce::from_bits(number.into())
}

pub fn number_of(nonce: Nonce) -> NonceNumber {
    (0..=OPERATOR).find(|number| nonce_of(*number) == nonce).expect("this model drew the nonce")
}

/// The objects of one store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Site {
    objects: [Option<Body>; SLOTS],
    /// The generation in the marker, or 0 without a marker.
    pub generation: u8,
    /// For each store, the greatest generation in a note about this store.
    pub notes: [u8; MAX_STORES],
}

/// A write to one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Write {
    Create {
        epoch: Number,
        body: Body,
    },
    /// Overwrites the body with the ETag `tag`. Without `tag`, overwrites any body (a broken
    /// renewal).
    Replace {
        epoch: Number,
        tag: Option<Body>,
        body: Body,
    },
}

impl Write {
    /// Returns the write of this request, or `None` for a read.
    pub fn of(request: &AcrossRequest) -> Option<Write> {
        let request = match request {
            AcrossRequest::Placeholder { epoch } => {
                let body = Body::unsealed(0, 0).sealed(EpochEnd::Lapsed);
                return Some(Write::Create { epoch: small(epoch.get()), body });
            }
            AcrossRequest::Plain(request) => request,
        };
        match request {
            Request::List(_) | Request::Get { .. } => None,
            Request::Take { .. } => unreachable!("only the other layout has this request"),
            Request::Create { epoch, write } => {
                let body = Body::unsealed(number_of(write.nonce), write.heartbeat);
                Some(Write::Create { epoch: small(epoch.get()), body })
            }
            Request::Renew { epoch, etag, write } => {
                let body = Body::unsealed(number_of(write.nonce), write.heartbeat);
                let tag = Some(Body::from_etag(etag));
                Some(Write::Replace { epoch: small(epoch.get()), tag, body })
            }
            Request::Seal { epoch, etag, ended, .. } => {
                let tag = Body::from_etag(etag);
                let body = tag.sealed(*ended);
                Some(Write::Replace { epoch: small(epoch.get()), tag: Some(tag), body })
            }
        }
    }
}

impl Site {
    pub fn new() -> Site {
        Site { objects: [None; SLOTS], generation: 1, notes: [0; MAX_STORES] }
    }

    /// Deletes all objects.
    pub fn wipe(&mut self) {
        *self = Site { generation: 0, ..Site::new() };
    }

    pub fn get(&self, epoch: Number) -> Option<Body> {
        self.objects.get(usize::from(epoch)).copied().flatten()
    }

    pub fn put(&mut self, epoch: Number, body: Option<Body>) {
        self.objects[usize::from(epoch)] = body;
    }

    /// Returns the least and the greatest epoch, or 0 and 0 if the store has no epoch.
    pub fn bounds(&self) -> (Number, Number) {
        let first = self.objects.iter().position(Option::is_some).unwrap_or(0);
        let last = self.objects.iter().rposition(Option::is_some).unwrap_or(0);
        (small(first as u64), small(last as u64))
    }

    /// Returns whether the write would change the store now.
    pub fn accepts(&self, write: Write) -> bool {
        match write {
            Write::Create { epoch, .. } => self.get(epoch).is_none(),
            Write::Replace { epoch, tag: None, .. } => self.get(epoch).is_some(),
            Write::Replace { epoch, tag, .. } => self.get(epoch) == tag,
        }
    }

    pub fn apply(&mut self, write: Write) -> Answer {
        let (Write::Create { epoch, body } | Write::Replace { epoch, body, .. }) = write;
        if self.accepts(write) {
            self.put(epoch, Some(body));
            return Answer::Done { etag: body.etag() };
        }
        match write {
            Write::Replace { .. } if self.get(epoch).is_none() => Answer::Missing,
            _ => Answer::Refused,
        }
    }

    pub fn read(&self, epoch: Epoch, unless: Option<&ETag>) -> Answer {
        match self.get(small(epoch.get())) {
            None => Answer::Missing,
            Some(body) if unless == Some(&body.etag()) => Answer::NotModified,
            Some(body) => body.found(epoch),
        }
    }

    /// Returns the page after `after`. If `whole` is false, returns only its first key, and no
    /// marker.
    pub fn list(&self, after: &After, whole: bool) -> (Listing, Option<Marker>) {
        let After::Number(after) = after else { unreachable!("the model has no foreign keys") };
        let mut epochs =
            (1..SLOTS).filter(|epoch| *epoch as u64 > *after && self.objects[*epoch].is_some());
        let epoch = |number: usize| Epoch::new(number as u64).expect("not 0");
        let least = epochs.next();
        if !whole {
            let rest = Some(After::Number(least.map_or(*after, |least| least as u64)));
            let epochs = least.map(|least| (epoch(least), epoch(least)));
            return (Listing { epochs, rest }, None);
        }
        let greatest = epochs.next_back().or(least);
        let marker = (self.generation > 0).then(|| Marker {
            generation: self.generation.into(),
            notes: self.notes.map(u32::from),
        });
        (Listing { epochs: least.map(epoch).zip(greatest.map(epoch)), rest: None }, marker)
    }
}
