//! Models the single object, and the writes that remain pending after their senders have given up.
//!
//! An ETag encodes the content in four characters, so equal bodies have equal tags, as on S3.

use tenure::protocol::message::{Answer, Nonce, Request, Seen, Sighting};
use tenure::store::ETag;
use tenure::{Epoch, EpochEnd};

/// The body of the object, without the name. All candidates have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SingleBody {
    pub token: u8,
    /// The nonce, or 0 in bodies that have only the two fields of the If-Match post.
    pub nonce: u8,
    /// The heartbeat. If the body has only the two fields of the If-Match post, this number
    /// represents the value of `expires_at`.
    pub heartbeat: u8,
    /// Index in [`WORDS`] of the value of `ended`, or 0 if the lock is not released.
    pub word: u8,
}

const WORDS: [Option<EpochEnd>; 4] =
    [None, Some(EpochEnd::Resigned), Some(EpochEnd::Lapsed), Some(EpochEnd::Deposed)];

/// Number of nonces per token. The model numbers the nonces, and does not draw them at random. So
/// equal states have equal hashes.
pub const NONCES: u8 = 12;

pub fn small(number: u64) -> u8 {
    u8::try_from(number).expect("all numbers of this model are small")
}

pub fn nonce_of(number: u8) -> Nonce {
    Nonce::from_bits(u128::from(number))
}

fn nonce_number(nonce: Nonce) -> u8 {
    let number = (1..=u8::MAX).find(|number| nonce_of(*number) == nonce);
    number.expect("this model drew the nonce")
}

impl SingleBody {
    pub fn held(token: u8, nonce: u8, heartbeat: u64) -> SingleBody {
        SingleBody { token, nonce, heartbeat: small(heartbeat), word: 0 }
    }

    pub fn ended(self) -> Option<EpochEnd> {
        WORDS[usize::from(self.word)]
    }

    pub fn released(self, heartbeat: u64, ended: EpochEnd) -> SingleBody {
        let word = WORDS.iter().position(|word| *word == Some(ended));
        let word = small(word.expect("`WORDS` contains the word") as u64);
        SingleBody { heartbeat: small(heartbeat), word, ..self }
    }

    pub fn etag(self) -> ETag {
        let letters = [self.token, self.nonce, self.heartbeat, self.word].map(|part| part + b'!');
        ETag::new(str::from_utf8(&letters).expect("small numbers are ASCII"))
    }

    pub fn from_etag(etag: &ETag) -> SingleBody {
        let letters: [u8; 4] = etag.as_str().as_bytes().try_into().expect("a tag of this store");
        let [token, nonce, heartbeat, word] = letters.map(|letter| letter - b'!');
        SingleBody { token, nonce, heartbeat, word }
    }

    pub fn of(sighting: &Sighting) -> SingleBody {
        SingleBody::from_etag(&sighting.etag)
    }

    pub fn sighting(self) -> Sighting {
        let nonce = (self.nonce > 0).then(|| nonce_of(self.nonce));
        let heartbeat = u64::from(self.heartbeat);
        let seen = Seen { nonce, heartbeat, ended: self.ended(), reclaimable: false };
        let epoch = Epoch::new(u64::from(self.token)).expect("tokens of this model start at 1");
        Sighting { epoch, etag: self.etag(), seen }
    }
}

/// A write in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SingleWire {
    Create {
        body: SingleBody,
    },
    Replace {
        tag: SingleBody,
        body: SingleBody,
    },
    /// A write without its condition, which only a broken process sends.
    Blind {
        body: SingleBody,
    },
    Delete,
}

impl SingleWire {
    /// Returns the write of this request, or `None` for a read.
    pub fn of(request: &Request) -> Option<SingleWire> {
        let held = |epoch: &Epoch, write: &tenure::protocol::message::Write| {
            SingleBody::held(small(epoch.get()), nonce_number(write.nonce), write.heartbeat)
        };
        Some(match request {
            Request::Get { .. } => return None,
            Request::Create { epoch, write } => SingleWire::Create { body: held(epoch, write) },
            Request::Take { epoch, etag, write } | Request::Renew { epoch, etag, write } => {
                SingleWire::Replace { tag: SingleBody::from_etag(etag), body: held(epoch, write) }
            }
            Request::Seal { etag, heartbeat, ended, .. } => {
                let tag = SingleBody::from_etag(etag);
                SingleWire::Replace { tag, body: tag.released(*heartbeat, *ended) }
            }
            Request::List(_) => unreachable!("only the other layout has this request"),
        })
    }

    /// Returns the body that the write gives to the object, or `None` for a delete.
    pub fn body(self) -> Option<SingleBody> {
        match self {
            SingleWire::Create { body }
            | SingleWire::Replace { body, .. }
            | SingleWire::Blind { body } => Some(body),
            SingleWire::Delete => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SingleStore {
    pub object: Option<SingleBody>,
}

impl SingleStore {
    /// Returns whether the store, in its current state, would accept the write.
    pub fn accepts(&self, wire: SingleWire) -> bool {
        match wire {
            SingleWire::Create { .. } => self.object.is_none(),
            SingleWire::Replace { tag, .. } => self.object == Some(tag),
            SingleWire::Blind { .. } => true,
            SingleWire::Delete => self.object.is_some(),
        }
    }

    pub fn apply(&mut self, wire: SingleWire) -> Answer {
        if !self.accepts(wire) {
            let missing = self.object.is_none();
            return if missing { Answer::Missing } else { Answer::Refused };
        }
        let before = self.object;
        self.object = wire.body();
        let etag = self.object.or(before).expect("an accepted delete deletes an object").etag();
        Answer::Done { etag }
    }

    pub fn look(&self, unless: Option<&ETag>) -> Answer {
        match self.object {
            None => Answer::Missing,
            Some(body) if unless == Some(&body.etag()) => Answer::NotModified,
            Some(body) => Answer::Found { sighting: body.sighting(), touched: false },
        }
    }
}
