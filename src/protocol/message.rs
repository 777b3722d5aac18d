//! The inputs, steps, requests and events of the state machine.

use std::fmt;

pub use crate::env::nonce::Nonce;
use crate::epoch::Epoch;
use crate::store::etag::ETag;

/// The rules for one candidate or observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// True for an observer, which follows the leader and never writes.
    pub observer: bool,
    /// If true, a renewal counts only after a LIST that shows no greater epoch.
    pub verify_renewals: bool,
    /// If true, a candidate waits between the seal of an epoch and the create of the next epoch
    /// (E10), unless the previous leader resigned.
    pub takeover_delay: bool,
}

/// An input of the machine, from its driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// The answer to a [`Step::Request`].
    Answer(Answer),
    /// The answer to a [`Step::Nonce`].
    Nonce(Nonce),
    /// The pause after [`Wait::Retry`](Wait::Retry) or
    /// [`Failure::Denied`](Failure::Denied) has ended.
    Resume,
    /// The time to poll the followed epoch has come.
    PollDue,
    /// The followed lease has ended by this process's clock.
    Lapsed,
    /// The takeover delay has passed.
    TakeoverOver,
    /// The grant is unusable: its lease has ended, or another call of this process has seen a
    /// greater epoch (E14).
    Abandon,
    /// The time to renew has come, or the leader has new data to publish.
    RenewDue,
    /// The time to read the next epoch has come (L5).
    LookDue,
    /// The lease has ended by the leader's clock.
    LeaseEnded,
    Resign,
}

/// A change of the leadership that an input has caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// This candidate has won the epoch with the create attempt that has this heartbeat.
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
/// The sealed record of an epoch contains its end. Only [`Superseded`](EpochEnd::Superseded) and
/// [`GivenUp`](EpochEnd::GivenUp) are not in a record: the package `tenure-history` infers these
/// ends from the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EpochEnd {
    /// The leader resigned.
    Resigned,
    /// A peer saw no renewal for a whole validity, and sealed the epoch.
    Lapsed,
    /// An operator deposed the leader. The leader detects the deposition at its next renewal, or at
    /// the end of its lease.
    Deposed,
    /// An operator deposed the leader and asserted its death
    /// ([`depose_dead`](crate::Election::depose_dead)), so no successor waits. In the record,
    /// `ended` is `lapsed`, and `forced_by` names the operator.
    DeposedDead,
    /// An operator created the epoch by a restore, to make later epochs greater. No process led in
    /// this epoch.
    Restored,
    /// No process sealed the epoch, and a peer that does not seal epochs created a greater epoch.
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

/// The fields of a record that the protocol needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The nonce, or `None` in the record of a peer that does not use tenure.
    pub nonce: Option<Nonce>,
    pub heartbeat: u64,
    /// The end of the epoch, if the record is sealed.
    pub ended: Option<EpochEnd>,
    /// True if the writer is a dead process with this candidate's unique name (E16).
    pub reclaimable: bool,
}

impl Seen {
    /// Returns true if a successor of this sealed epoch must wait until the holder's lease has
    /// ended. The reason is that the holder may still believe that it leads (E9). This is the case
    /// if the sealed record has a nonce, and its `ended` is not `resigned` or `lapsed`.
    pub fn is_waited_for(&self) -> bool {
        let resigned_or_lapsed = matches!(self.ended, Some(EpochEnd::Resigned | EpochEnd::Lapsed));
        self.nonce.is_some() && self.ended.is_some() && !resigned_or_lapsed
    }
}

/// The result of one read of an epoch object, or of `lock.json`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sighting {
    pub epoch: Epoch,
    pub etag: ETag,
    pub seen: Seen,
}

impl Sighting {
    /// Returns whether the record has no nonce (E5). Peers that follow Morling's post write records
    /// without a nonce. To renew, these peers write the same body again, which does not change the
    /// ETag.
    pub fn is_foreign(&self) -> bool {
        self.seen.nonce.is_none()
    }
}

/// The next action of the driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// Send this request and pass its [`Answer`] to the machine.
    Request(Request),
    /// Pass a fresh nonce to the machine with [`Input::Nonce`](Input::Nonce).
    Nonce,
    /// Wait for an input. The machine has no request to send.
    Wait(Wait),
    /// The campaign cannot continue.
    Failed(Failure),
}

/// A request to the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Request {
    /// LIST the epoch objects after a key.
    List(super::find::After),
    /// GET an epoch object, or `lock.json` if `epoch` is `None`. If `unless` is set, the store
    /// sends the body only if its ETag differs from `unless`.
    Get { epoch: Option<Epoch>, unless: Option<ETag> },
    /// PUT a new epoch object, or a new `lock.json`, with `If-None-Match: *`.
    Create { epoch: Epoch, write: Write },
    /// Overwrite an epoch object of this campaign (`If-Match`).
    Renew { epoch: Epoch, etag: ETag, write: Write },
    /// Overwrite an epoch object with its sealed record (`If-Match`).
    Seal { epoch: Epoch, etag: ETag, nonce: Option<Nonce>, heartbeat: u64, ended: EpochEnd },
    /// Overwrite `lock.json` with the next epoch (`If-Match`).
    Take { epoch: Epoch, etag: ETag, write: Write },
}

/// The nonce and heartbeat of a write. Together they distinguish this write from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Write {
    pub nonce: Nonce,
    pub heartbeat: u64,
}

/// The reason for a wait.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The followed epoch is unsealed. The inputs are `PollDue` and `Lapsed`.
    Follow,
    /// Another process sealed the epoch, and its holder may still believe that it leads. The inputs
    /// are `PollDue`, and `Lapsed` once the holder's lease has ended (E9).
    Deposed,
    /// The epoch is sealed, and its leader did not resign. The input is `TakeoverOver`, after the
    /// takeover delay (E10).
    Takeover,
    /// The election is vacant, as this observer sees it. The input is `PollDue`.
    NoLeader,
    /// This process leads. The inputs are `RenewDue`, `LookDue` and `Resign`.
    Lead,
    /// The last request failed, or its effect is unknown. The driver retries after a short pause.
    Retry,
    /// The leadership has ended. Another campaign may start.
    Over,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The answer to a LIST.
    Listed(super::find::Listing),
    /// The store broke a guarantee that the protocol needs.
    Unsafe,
    /// The answer to a GET. `touched` is true if the record has no nonce, and the peer that wrote
    /// it has written the same body again.
    Found {
        sighting: Sighting,
        touched: bool,
    },
    /// The object exists, and its body is not a record. The driver keeps the details for the error.
    Unreadable,
    NotModified,
    /// The object to read or to overwrite does not exist.
    Missing,
    /// The store applied the write.
    Done {
        etag: ETag,
    },
    /// The store refused the write, because its condition did not hold.
    Refused,
    /// The store rejected the request, which had no effect. The credentials lack a permission, the
    /// bucket is missing, or the request is invalid.
    Denied,
    /// The request failed or its effect is unknown: a timeout, a 409, a 5xx, a broken connection.
    Unknown,
}

/// The reason why a campaign cannot continue. The driver converts this reason to an error with
/// details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The store rejected a request ([`Answer::Denied`], E17). [`Input::Resume`](Input::Resume)
    /// continues the campaign.
    Denied,
    Unsafe,
    Unreadable(Epoch),
    NewestDeleted(Epoch),
    Exhausted,
}

/// The reason for the end of a leadership, as far as the protocol knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lost {
    /// Another process sealed the epoch object.
    Sealed(EpochEnd),
    /// A greater epoch exists.
    Superseded(Epoch),
    /// The epoch object was deleted.
    Vanished,
    /// The epoch object has a body that this leader did not write.
    Tampered,
    /// The lease ended before a renewal succeeded.
    LeaseEnded,
    /// This leader sealed the epoch object.
    Resigned,
}
