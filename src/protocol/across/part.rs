//! The part of the machine for one store.

use super::message::{AcrossRequest, Marker, StoreFault, StoreSet};
use crate::epoch::Epoch;
use crate::protocol::find::{Search, SuccessorSearch};
use crate::protocol::layout::Layout;
use crate::protocol::leader::{HeldEpoch, LeadingState};
use crate::protocol::message::{EpochEnd, Nonce, Request, Seen, Sighting, Step, Wait, Write};
use crate::store::etag::ETag;

/// The state of one store, as far as this process knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub(super) doing: Doing,
    /// The contents of the store, from the last LIST with a marker that counts.
    pub(super) contents: Option<Contents>,
    /// True if a LIST of this search has been answered (Q1).
    pub(super) listed: bool,
    pub(super) fault: Option<StoreFault>,
    /// The newest epoch at this store.
    pub(super) known: Known,
    /// True if this process saw the seal of the newest epoch here, and a LIST that it sent
    /// afterwards showed the marker (Q2).
    pub(super) marked: bool,
    /// The epoch that this process creates or leads.
    pub(super) own: Own,
    /// The greatest heartbeat that this process sent to this store in its epoch. A replacement of
    /// the store does not lower this number, so no two bodies are equal.
    pub(super) sent: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Contents {
    pub(super) generation: u32,
    /// The greatest epoch that this store has shown.
    pub(super) greatest: Option<Epoch>,
}

/// The last reading of the newest epoch at one store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Known {
    Unread,
    /// The store has no object of this epoch.
    Absent {
        lapsed: bool,
    },
    Unsealed {
        sighting: Sighting,
        lapsed: bool,
    },
    /// `waits` is true until the lease of a deposed holder has ended (E9).
    Sealed {
        nonce: Option<Nonce>,
        ended: EpochEnd,
        waits: bool,
    },
}

/// The request under way at one store. While this process leads, an `Idle` store sends the requests
/// of the leader's machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    Idle,
    /// A request failed. The next action comes after a pause.
    Pause(Box<Doing>),
    /// LIST to find the newest epoch.
    Find {
        search: Search,
        marker: Option<Marker>,
    },
    /// LIST after this process's epoch. The creates at the stores in `after` were done before this
    /// LIST was sent.
    Confirm {
        beyond: SuccessorSearch,
        after: StoreSet,
    },
    Read {
        epoch: Epoch,
        unless: Option<ETag>,
    },
    Seal {
        sighting: Sighting,
    },
    Place {
        epoch: Epoch,
    },
    Create {
        epoch: Epoch,
        write: Write,
    },
    /// The store refused the create. Reads the object.
    ReadOwn {
        epoch: Epoch,
        nonce: Nonce,
    },
    /// Seals the object of an ended attempt of this process.
    GiveUp {
        held: HeldEpoch,
    },
}

/// The epoch of this process at one store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Own {
    /// No create is known to have succeeded.
    Free,
    /// The create succeeded. `after` is `Some` once a LIST has shown no greater epoch. `after`
    /// contains the stores with creates that were done before this LIST was sent.
    Created { held: HeldEpoch, after: Option<StoreSet> },
    /// The create counts, and the leader renews here.
    Leading(LeadingState),
    /// This process cannot hold its epoch here. `ended` is true if the object is sealed.
    Lost { ended: bool },
}

impl Doing {
    /// Returns a search for the newest epoch of a store that has shown this epoch.
    pub(super) fn find(known: Option<Epoch>) -> Doing {
        Doing::Find { search: Search::new(known), marker: None }
    }

    /// Returns a pause before the next action of the store.
    pub(super) fn pause() -> Doing {
        Doing::Pause(Box::new(Doing::Idle))
    }
}

impl Part {
    pub(super) fn new() -> Part {
        Part {
            doing: Doing::Idle,
            contents: None,
            listed: false,
            fault: None,
            known: Known::Unread,
            marked: false,
            own: Own::Free,
            sent: 0,
        }
    }

    /// Forgets the newest epoch, because a greater one exists or the store has new contents.
    pub(super) fn forget(&mut self) {
        self.known = Known::Unread;
        self.marked = false;
    }

    /// Forgets the newest epoch, and lists again.
    pub(super) fn list_again(&mut self) {
        self.forget();
        self.listed = false;
    }

    /// Forgets all that was known of the contents (Q6), and also a create of this process that does
    /// not count yet.
    pub(super) fn void(&mut self) {
        self.forget();
        self.contents = None;
        self.listed = false;
        if matches!(self.own, Own::Created { .. }) {
            self.own = Own::Free;
        }
    }

    /// Returns the request under way, or the wait.
    pub(super) fn step(&self) -> Result<AcrossRequest, Wait> {
        if let (Doing::Idle, Own::Leading(leading)) = (&self.doing, &self.own) {
            return match leading.step(Layout::EpochFiles) {
                Step::Request(request) => Ok(AcrossRequest::Plain(request)),
                Step::Wait(wait) => Err(wait),
                Step::Nonce | Step::Failed(_) => {
                    unreachable!("a leader has only requests and waits")
                }
            };
        }
        Ok(AcrossRequest::Plain(match &self.doing {
            Doing::Idle => return Err(self.wait()),
            Doing::Pause(_) => return Err(Wait::Retry),
            Doing::Find { search, .. } => Request::List(search.next_page().clone()),
            Doing::Confirm { beyond, .. } => Request::List(beyond.next_page().clone()),
            Doing::Read { epoch, unless } => {
                Request::Get { epoch: Some(*epoch), unless: unless.clone() }
            }
            Doing::ReadOwn { epoch, .. } => Request::Get { epoch: Some(*epoch), unless: None },
            Doing::Seal { sighting } => Request::Seal {
                epoch: sighting.epoch,
                etag: sighting.etag.clone(),
                nonce: sighting.seen.nonce,
                heartbeat: sighting.seen.heartbeat.saturating_add(1),
                ended: EpochEnd::Lapsed,
            },
            Doing::Place { epoch } => return Ok(AcrossRequest::Placeholder { epoch: *epoch }),
            Doing::Create { epoch, write } => Request::Create { epoch: *epoch, write: *write },
            Doing::GiveUp { held } => held.seal(held.sent + 1, EpochEnd::GivenUp),
        }))
    }

    fn wait(&self) -> Wait {
        match &self.known {
            Known::Absent { .. } | Known::Unsealed { .. } => Wait::Follow,
            Known::Sealed { waits: true, .. } => Wait::Deposed,
            Known::Sealed { .. } | Known::Unread => Wait::NoLeader,
        }
    }

    /// Returns whether the newest epoch is closed at this store (Q2).
    pub(super) fn is_closed(&self) -> bool {
        self.marked && matches!(self.known, Known::Sealed { waits: false, .. })
    }

    /// Returns whether the newest epoch is sealed or lapsed at this store (Q4).
    pub(super) fn allows_closing(&self) -> bool {
        match &self.known {
            Known::Unread => false,
            Known::Absent { lapsed } | Known::Unsealed { lapsed, .. } => *lapsed,
            Known::Sealed { .. } => true,
        }
    }

    /// Notes a reading of the newest epoch.
    pub(super) fn read(&mut self, sighting: Sighting) {
        let Seen { nonce, ended, .. } = sighting.seen;
        let same_nonce = match &self.known {
            Known::Unsealed { sighting: before, .. } => before.seen.nonce == nonce,
            Known::Sealed { nonce: before, .. } => *before == nonce,
            Known::Unread | Known::Absent { .. } => false,
        };
        let was = std::mem::replace(&mut self.known, Known::Unread);
        self.known = match (ended, was) {
            (Some(ended), Known::Sealed { ended: before, waits, .. })
                if same_nonce && ended == before =>
            {
                Known::Sealed { nonce, ended, waits }
            }
            (Some(ended), _) => {
                self.marked = false;
                let waits = sighting.seen.is_waited_for() && ended != EpochEnd::GivenUp;
                Known::Sealed { nonce, ended, waits }
            }
            (None, Known::Unsealed { sighting: before, lapsed }) if before == sighting => {
                Known::Unsealed { sighting, lapsed }
            }
            (None, _) => Known::Unsealed { sighting, lapsed: false },
        };
    }

    /// Notes that the store has no object of the newest epoch.
    pub(super) fn read_absent(&mut self) {
        match self.known {
            Known::Absent { .. } => {}
            Known::Unread => self.known = Known::Absent { lapsed: false },
            // The object existed. Either it was compacted, and a greater epoch exists, or the store
            // was wiped. The next LIST shows which is true.
            Known::Unsealed { .. } | Known::Sealed { .. } => {
                self.forget();
                self.listed = false;
            }
        }
    }

    /// Removes a store from `after`, because its create was repeated.
    pub(super) fn forget_create(&mut self, store: usize) {
        if let Doing::Confirm { after, .. } = &mut self.doing {
            after.remove(store);
        }
        if let Own::Created { after: Some(after), .. } = &mut self.own {
            after.remove(store);
        }
    }

    pub(super) fn lapse(&mut self) {
        match &mut self.known {
            Known::Absent { lapsed } | Known::Unsealed { lapsed, .. } => *lapsed = true,
            Known::Sealed { .. } | Known::Unread => {}
        }
    }
}
