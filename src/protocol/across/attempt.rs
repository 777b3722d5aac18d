//! Creating and confirming the next epoch (Q5 and Q6).

use super::message::{AcrossEvent, Marker, StoreFault, StoreSet};
use super::part::{Doing, Own, Part};
use super::{Across, Phase};
use crate::epoch::Epoch;
use crate::protocol::find::{Listing, SuccessorSearch, SuccessorStatus};
use crate::protocol::leader::{HeldEpoch, LeadingState};
use crate::protocol::message::{Answer, Lost, Nonce, Write};

impl Across {
    /// Begins an attempt with a fresh nonce.
    pub(super) fn begin(&mut self, nonce: Nonce) {
        let Phase::NeedNonce { epoch } = self.phase else { return };
        for part in &mut self.parts {
            part.sent = 0;
            part.own = Own::Free;
        }
        // The first create goes to the first store that closed the epoch, because such a store
        // answers. A store that was only listed may be down by now. Then each of several candidates
        // could win a different store, and no candidate would win a majority.
        let closed = self.parts.iter().position(Part::is_closed);
        let listed =
            || self.parts.iter().position(|part| part.contents.is_some() && part.fault.is_none());
        let Some(first) = closed.or_else(listed) else {
            self.enter_find();
            return;
        };
        self.phase = Phase::Attempt { epoch, nonce, first, spread: false };
    }

    pub(super) fn spread(&mut self) {
        if let Phase::Attempt { spread, .. } = &mut self.phase {
            *spread = true;
        }
    }

    /// Starts the next request at each idle store, and grants or ends the attempt.
    pub(super) fn schedule_attempt(
        &mut self,
        epoch: Epoch,
        nonce: Nonce,
        first: usize,
        spread: bool,
    ) -> Option<AcrossEvent> {
        let majority = self.majority();
        let is_lost = |own: &Own| matches!(own, Own::Lost { .. });
        let lost = self.parts.iter().filter(|part| is_lost(&part.own)).count();
        let is_over = self.newest > Some(epoch)
            || lost + majority > self.parts.len()
            || (!spread && is_lost(&self.parts[first].own));
        if is_over {
            self.phase = Phase::Pause;
            self.schedule_seals();
            return None;
        }
        let spread = spread || matches!(self.parts[first].own, Own::Created { .. });
        self.phase = Phase::Attempt { epoch, nonce, first, spread };
        if let Some(stores) = self.granting() {
            for store in self.stores().filter(|store| stores.contains(*store)) {
                self.count_create(store);
            }
            self.phase = Phase::Lead { epoch, nonce, resigning: false };
            self.schedule_lead(epoch, nonce, false);
            return Some(AcrossEvent::Granted { epoch });
        }
        for store in self.stores() {
            if spread || store == first {
                self.schedule_own(store, epoch, nonce, majority);
            }
        }
        None
    }

    /// Returns a majority of confirmed creates: each LIST was sent after all creates of the
    /// majority were done.
    fn granting(&self) -> Option<StoreSet> {
        StoreSet::all(self.parts.len(), self.majority()).find(|set| {
            self.stores().filter(|store| set.contains(*store)).all(|store| {
                let Own::Created { after: Some(after), .. } = &self.parts[store].own else {
                    return false;
                };
                after.contains_all(*set)
            })
        })
    }

    /// Starts the next request for this process's epoch at an idle store. The LIST is sent once
    /// `confirm` stores have an object of this process.
    pub(super) fn schedule_own(
        &mut self,
        store: usize,
        epoch: Epoch,
        nonce: Nonce,
        confirm: usize,
    ) {
        let created = |own: &Own| matches!(own, Own::Created { .. });
        let done = StoreSet::of(self.stores().filter(|store| created(&self.parts[*store].own)));
        // True if the first LIST of a created object is not answered yet. This LIST may complete a
        // majority, so no LIST is repeated now.
        let confirms = self.parts.iter().any(|part| {
            matches!(part.own, Own::Created { after: None, .. })
                && !matches!(part.doing, Doing::Pause(_))
        });
        let part = &mut self.parts[store];
        if part.doing != Doing::Idle {
            return;
        }
        let beyond = SuccessorSearch::new(epoch.get());
        part.doing = match &part.own {
            Own::Lost { .. } | Own::Leading(_) => return,
            Own::Created { after, .. } => {
                let is_due = match after {
                    None => true,
                    Some(after) => !confirms && !after.contains_all(done),
                };
                if !is_due || done.len() < confirm {
                    return;
                }
                Doing::Confirm { beyond, after: done }
            }
            // Only a store with a marker gets a create.
            Own::Free if part.contents.is_none() || part.fault.is_some() => {
                Doing::Confirm { beyond, after: StoreSet::default() }
            }
            Own::Free => {
                part.sent += 1;
                Doing::Create { epoch, write: Write { nonce, heartbeat: part.sent } }
            }
        };
    }

    pub(super) fn created(&mut self, store: usize, epoch: Epoch, write: Write, answer: Answer) {
        let part = &mut self.parts[store];
        match answer {
            Answer::Done { etag } => {
                let Write { nonce, heartbeat } = write;
                self.hold(store, HeldEpoch { epoch, nonce, etag, heartbeat, sent: heartbeat });
            }
            Answer::Refused => part.doing = Doing::ReadOwn { epoch, nonce: write.nonce },
            _ => part.doing = Doing::pause(),
        }
    }

    pub(super) fn read_own(
        &mut self,
        store: usize,
        epoch: Epoch,
        nonce: Nonce,
        answer: Answer,
    ) -> Option<AcrossEvent> {
        let is_current = self.own() == Some((epoch, nonce));
        let part = &mut self.parts[store];
        match answer {
            Answer::Found { sighting, .. } => {
                let heartbeat = sighting.seen.heartbeat;
                let ended = sighting.seen.ended;
                if sighting.seen.nonce == Some(nonce) && ended.is_none() {
                    let (etag, sent) = (sighting.etag, part.sent.max(heartbeat));
                    self.hold(store, HeldEpoch { epoch, nonce, etag, heartbeat, sent });
                    return None;
                }
                self.saw(epoch);
                let lost = ended.map_or(Lost::Tampered, Lost::Sealed);
                if is_current { self.lose(store, lost) } else { None }
            }
            Answer::Unreadable if is_current => self.lose(store, Lost::Tampered),
            _ => {
                part.doing = Doing::pause();
                None
            }
        }
    }

    /// Notes a create that succeeded. If the create belongs to an earlier attempt, its object is
    /// sealed.
    fn hold(&mut self, store: usize, held: HeldEpoch) {
        let epoch = held.epoch;
        if self.own() == Some((epoch, held.nonce)) {
            // An earlier LIST does not confirm this create (Q6).
            for part in &mut self.parts {
                part.forget_create(store);
            }
            self.parts[store].own = Own::Created { held, after: None };
        } else {
            self.parts[store].doing = Doing::GiveUp { held };
        }
        self.saw(epoch);
    }

    /// Handles a page of the LIST after this process's epoch.
    pub(super) fn confirmed(
        &mut self,
        store: usize,
        mut beyond: SuccessorSearch,
        after: StoreSet,
        page: Listing,
        marker: Option<Marker>,
    ) {
        match beyond.handle(page) {
            SuccessorStatus::NotYet => {
                self.parts[store].doing = Doing::Confirm { beyond, after };
                return;
            }
            SuccessorStatus::Yes { complete: true, .. } if marker.is_none() => {
                self.distrust(store, StoreFault::NoMarker);
                self.parts[store].doing = Doing::pause();
                return;
            }
            // Only the last page shows the marker.
            SuccessorStatus::Yes { complete: false, .. } => {
                self.parts[store].doing = Doing::find(None);
                return;
            }
            SuccessorStatus::Yes { greatest, .. } => {
                self.saw(greatest);
                return;
            }
            SuccessorStatus::No => {}
        }
        // The LIST starts after this process's epoch. If the greatest epoch of the store was lower
        // than before, this LIST cannot show that the missing objects exist again.
        let has_fallen = matches!(self.parts[store].fault, Some(StoreFault::GreatestFell { .. }));
        let before = self.parts[store].contents.and_then(|contents| contents.greatest);
        let before = before.filter(|_| !has_fallen);
        let was_created = matches!(self.parts[store].own, Own::Created { .. });
        // The LIST does not show the earlier epochs, so `before` replaces them.
        if !self.count(store, marker, before) {
            self.parts[store].doing = Doing::pause();
            return;
        }
        if was_created && let Own::Created { after: confirmed, .. } = &mut self.parts[store].own {
            *confirmed = Some(after);
        }
    }

    /// If the create at this store has succeeded, counts it for the lease.
    pub(super) fn count_create(&mut self, store: usize) {
        let part = &mut self.parts[store];
        part.own = match std::mem::replace(&mut part.own, Own::Free) {
            Own::Created { held, .. } => Own::Leading(LeadingState::granted_across(held)),
            own => own,
        };
    }
}
