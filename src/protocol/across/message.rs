//! The inputs, requests and events of an election across stores.

use crate::epoch::Epoch;
use crate::protocol::find::Listing;
use crate::protocol::message::{Answer, Failure, Lost, Nonce, Request, Wait};

/// The greatest number of stores of one election.
pub const MAX_STORES: usize = 5;

/// The marker and the notes that a LIST shows after the epoch objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Marker {
    /// Number of the contents of this store: 1, and one more after each replacement.
    pub generation: u32,
    /// Greatest generation of each store in the notes at this store. 0 means no note.
    pub notes: [u32; MAX_STORES],
}

/// An input of the machine. `store` is the index of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AcrossInput {
    /// The answer to a request other than LIST, or the failure of a LIST.
    Answer {
        store: usize,
        answer: Answer,
    },
    /// The answer to a LIST. The marker is on the last page.
    Listed {
        store: usize,
        page: Listing,
        marker: Option<Marker>,
    },
    /// The answer to [`AcrossWait::Nonce`].
    Nonce(Nonce),
    /// The pause after a failed request to this store has ended.
    StoreResume {
        store: usize,
    },
    /// It is time to poll the followed epoch at this store.
    PollDue {
        store: usize,
    },
    /// The followed lease at this store has ended by this process's clock.
    Lapsed {
        store: usize,
    },
    /// The wait after a deposition has ended at this store (E9).
    WaitOver {
        store: usize,
    },
    /// The first create has had no answer for some time, so the other stores get their creates.
    SpreadDue,
    /// The pause after a failed attempt has ended.
    Resume,
    /// It is time to renew at this store.
    RenewDue {
        store: usize,
    },
    /// The lease of the election has ended by this process's clock.
    LeaseEnded,
    Resign,
}

/// A request to one store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AcrossRequest {
    /// A request that an election in one store also sends.
    Plain(Request),
    /// PUT an epoch object that is sealed as `lapsed` from the start, with `If-None-Match: *`.
    Placeholder { epoch: Epoch },
}

/// The next action at one store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AcrossStep {
    /// Send this request to the store, and pass its answer to the machine.
    Request(AcrossRequest),
    /// The store needs no request now. The wait has the same meaning as in an election in one
    /// store.
    Wait(Wait),
}

/// The input that the whole machine waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AcrossWait {
    /// The whole machine waits for no input. Only the steps of the stores matter now.
    Stores,
    /// A fresh nonce for the next attempt.
    Nonce,
    /// [`AcrossInput::SpreadDue`], unless the first create is answered earlier.
    Spread,
    /// [`AcrossInput::Resume`], after a random pause.
    Pause,
    /// This process leads.
    Lead,
    /// The leadership has ended. Another campaign may start.
    Over,
    Failed(Failure),
}

/// A change of the leadership, caused by an input. An extension of the lease is not an event. After
/// each input the driver computes the lease from [`counted`](super::Across::counted).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AcrossEvent {
    Granted {
        epoch: Epoch,
    },
    /// This process can no longer hold its epoch at this store.
    StoreLost {
        store: usize,
        lost: Lost,
    },
    /// The leadership has ended.
    Lost(Lost),
}

/// The reason why a store does not count towards the majority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreFault {
    /// The listing has no marker of this election.
    NoMarker,
    /// A note at another store names a greater generation.
    Replaced { generation: u32 },
    /// The greatest epoch of the store is less than before.
    GreatestFell { from: Epoch },
}

/// A set of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct StoreSet(u8);

impl StoreSet {
    pub(super) fn of(stores: impl Iterator<Item = usize>) -> StoreSet {
        StoreSet(stores.fold(0, |set, store| set | 1 << store))
    }

    pub(super) fn contains_all(self, other: StoreSet) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn contains(self, store: usize) -> bool {
        self.0 & 1 << store != 0
    }

    pub(super) fn remove(&mut self, store: usize) {
        self.0 &= !(1 << store);
    }

    pub(super) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns all sets of `len` stores, for an election across this number of stores.
    pub(super) fn all(stores: usize, len: usize) -> impl Iterator<Item = StoreSet> {
        (0..1_u8 << stores).map(StoreSet).filter(move |set| set.len() == len)
    }
}
