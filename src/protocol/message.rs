//! The inputs, steps, requests and events of the state machine.

use std::fmt;

pub use crate::env::nonce::Nonce;
use crate::epoch::Epoch;
use crate::store::etag::ETag;

/// The kind of participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Follows only: never writes.
    pub observer: bool,
    /// A renewal counts only after a LIST that shows nothing greater.
    pub verify_renewals: bool,
    /// There is a delay between the seal and the create, unless the epoch before ended by
    /// resignation.
    pub takeover_delay: bool,
}

/// An input of the machine, from its driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// The answer to a [`Step::Request`].
    Answer(Answer),
    /// The answer to a [`Step::Nonce`].
    Nonce(Nonce),
    /// After [`Wait::Retry`](Wait::Retry) and
    /// [`Failure::Denied`](Failure::Denied).
    Resume,
    /// It is time to look at the followed epoch again.
    PollDue,
    /// The lease has ended, by this observer's clock.
    Lapsed,
    /// The takeover delay has passed.
    TakeoverOver,
    /// The epoch was granted, but too little of the lease is left to use it.
    Abandon,
    /// It is time to renew, or there is something to proclaim.
    RenewDue,
    /// It is time to look whether a peer that does not seal has superseded this leader.
    LookDue,
    /// The lease has ended by the leader's clock.
    LeaseEnded,
    Resign,
}

/// An effect of an input, besides the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The epoch was granted to the create attempt with this heartbeat.
    Granted {
        epoch: Epoch,
        heartbeat: u64,
    },
    /// The write with this heartbeat extended the lease.
    Extended {
        heartbeat: u64,
    },
    Lost(Lost),
}

/// How an epoch ended.
///
/// The package `tenure-history` infers [`Superseded`](EpochEnd::Superseded) and
/// [`GivenUp`](EpochEnd::GivenUp) from a history. Each other end comes from the sealed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EpochEnd {
    /// The leader resigned.
    Resigned,
    /// A peer saw no sign of life for a whole validity, and sealed the epoch.
    Lapsed,
    /// An operator deposed the leader. The leader detects this at its next renewal, or at the end
    /// of its lease.
    Deposed,
    /// An operator deposed the leader and asserted its death
    /// ([`depose_dead`](crate::Election::depose_dead)), so no successor waits. The record has
    /// `ended` `lapsed` and a `forced_by`.
    DeposedDead,
    /// An operator created the epoch by a restore, so that later epochs are greater. No process led
    /// in it.
    Restored,
    /// The epoch was never sealed, and a peer that does not seal created a greater one.
    Superseded,
    /// The epoch's own candidate sealed it as lapsed before any renewal. Most likely the epoch was
    /// never granted, or its grant came too late (E14). A restarted process with a unique name
    /// (E16) can leave the same record.
    GivenUp,
    /// The epoch is sealed, and its record has no `ended` or a value that this version does not
    /// know.
    Unknown,
}

impl fmt::Display for EpochEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EpochEnd::Resigned => "resigned",
            EpochEnd::Lapsed => "lapsed",
            EpochEnd::Deposed => "deposed",
            EpochEnd::DeposedDead => "deposed_dead",
            EpochEnd::Restored => "restored",
            EpochEnd::Superseded => "superseded",
            EpochEnd::GivenUp => "given_up",
            EpochEnd::Unknown => "unknown",
        })
    }
}

/// What the protocol needs to know of a record that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seen {
    /// `None` in a record of a foreign peer.
    pub nonce: Option<Nonce>,
    pub heartbeat: u64,
    /// `Some` once sealed.
    pub ended: Option<EpochEnd>,
    /// Written by a process of this candidate's unique name that no longer lives.
    pub reclaimable: bool,
}

impl Seen {
    /// Whether somebody else sealed it, so that its holder may not know yet: then a successor waits
    /// until the holder's lease must have ended (E9).
    pub fn is_waited_for(&self) -> bool {
        let resigned_or_lapsed = matches!(self.ended, Some(EpochEnd::Resigned | EpochEnd::Lapsed));
        self.nonce.is_some() && self.ended.is_some() && !resigned_or_lapsed
    }
}

/// An epoch object, or the single object, as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sighting {
    pub epoch: Epoch,
    pub etag: ETag,
    pub seen: Seen,
}

impl Sighting {
    /// Made by a peer that does not follow the protocol (Morling's), whose touch leaves the ETag.
    pub fn is_foreign(&self) -> bool {
        self.seen.nonce.is_none()
    }
}

/// What the state machine wants done next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// Send this and hand back the [`Answer`].
    Request(Request),
    /// A fresh nonce is needed: [`Input::Nonce`](Input::Nonce).
    Nonce,
    /// Nothing to send now.
    Wait(Wait),
    /// The campaign cannot go on.
    Failed(Failure),
}

/// One request of section 10's table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Request {
    /// LIST the epoch objects after a place.
    List(super::find::After),
    /// GET an epoch object, or the single object (`None`), unless it still has this ETag.
    Get { epoch: Option<Epoch>, unless: Option<ETag> },
    /// PUT a new epoch object, or the single object, `If-None-Match: *`.
    Create { epoch: Epoch, write: Write },
    /// Overwrite an epoch object of this campaign, `If-Match`.
    Renew { epoch: Epoch, etag: ETag, write: Write },
    /// Overwrite an epoch object with its sealed record, `If-Match`.
    Seal { epoch: Epoch, etag: ETag, nonce: Option<Nonce>, heartbeat: u64, ended: EpochEnd },
    /// Overwrite the single object with the next epoch, `If-Match`.
    Take { epoch: Epoch, etag: ETag, write: Write },
}

/// What makes one write of a campaign different from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Write {
    pub nonce: Nonce,
    pub heartbeat: u64,
}

/// What the machine is waiting for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Following an unsealed epoch: poll when due, or `Lapsed`.
    Follow,
    /// Another process sealed the epoch, and its holder may still believe in its lease. The input
    /// is `Lapsed` once that lease has ended (E9).
    Deposed,
    /// Sealed, but not by resignation: the takeover delay.
    Takeover,
    /// An observer without a leader: poll when due.
    NoLeader,
    /// Leading: renew when due, look at the next epoch when due.
    Lead,
    /// The last request failed or its fate is unknown: try again after a short pause.
    Retry,
    /// The leadership has ended. Another campaign may start.
    Over,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To a LIST.
    Listed(super::find::Listing),
    /// The store broke a promise that the protocol needs.
    Unsafe,
    /// To a GET. `touched`: a foreign record that was written again with the same body.
    Found {
        sighting: Sighting,
        touched: bool,
    },
    /// The object is there but cannot be read as a record; the driver keeps the details.
    Unreadable,
    NotModified,
    /// No such object, to a GET or a conditional overwrite.
    Missing,
    /// Written.
    Done {
        etag: ETag,
    },
    /// The condition did not hold.
    Refused,
    /// The credentials lack a permission.
    Denied,
    /// It failed, or nobody knows: a timeout, a 409, a 5xx, a broken connection.
    Unknown,
}

/// Why a campaign cannot go on. The driver turns it into an error with the details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// [`Input::Resume`](Input::Resume) continues: permissions are corrected, a
    /// bucket is created.
    Denied,
    Unsafe,
    Unreadable(Epoch),
    NewestDeleted(Epoch),
    Exhausted,
}

/// Why a leadership ended, as far as the protocol can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lost {
    /// Another process sealed the epoch object.
    Sealed(EpochEnd),
    /// A greater epoch exists.
    Superseded(Epoch),
    /// The epoch object was deleted.
    Vanished,
    /// The epoch object has a body that this leader never wrote.
    Tampered,
    /// The lease ended before it could be renewed.
    LeaseEnded,
    /// This leader sealed it.
    Resigned,
}
