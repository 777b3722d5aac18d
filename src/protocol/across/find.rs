//! Finding, following and closing the newest epoch (Q1 to Q4).

use super::message::Marker;
use super::part::{Doing, Known, Own};
use super::{Across, Phase, is_waived};
use crate::epoch::Epoch;
use crate::protocol::find::{Listing, Progress, Search};
use crate::protocol::message::{Answer, EpochEnd, Failure, Nonce, Sighting};

impl Across {
    pub(super) fn enter_find(&mut self) {
        self.phase = Phase::Find;
        for part in &mut self.parts {
            part.listed = false;
            part.forget();
            if !matches!(part.own, Own::Created { .. }) {
                part.own = Own::Free;
            }
        }
    }

    /// Starts the next request at each idle store. If the newest epoch is closed, ends the search.
    pub(super) fn schedule_find(&mut self) {
        self.schedule_seals();
        let majority = self.majority();
        let is_found = self.parts.iter().filter(|part| part.listed).count() >= majority;
        let closes = !self.observer && is_found && self.is_closing();
        let ended = self.ended_nonces();
        for store in self.stores() {
            if self.parts[store].doing == Doing::Idle {
                let doing = self.next_in_find(store, is_found, closes, &ended);
                self.parts[store].doing = doing;
            }
        }
        if self.observer || !is_found {
            return;
        }
        let closed = self.parts.iter().filter(|part| part.is_closed()).count();
        match self.newest {
            None => self.phase = Phase::NeedNonce { epoch: Epoch::FIRST },
            Some(newest) if closed >= majority => {
                self.phase = newest
                    .next()
                    .map_or(Phase::Failed(Failure::Exhausted), |epoch| Phase::NeedNonce { epoch });
            }
            Some(_) => {}
        }
    }

    /// Returns whether the newest epoch may be closed: it is sealed or lapsed at a majority (Q4).
    fn is_closing(&self) -> bool {
        let ended = self.ended_nonces();
        let allowing =
            self.parts.iter().filter(|it| it.allows_closing() || is_waived(&it.known, &ended));
        allowing.count() >= self.majority()
    }

    /// Returns the nonces of the holders that have ended the newest epoch at some store. At the
    /// other stores, the objects with these nonces count as lapsed (Q4).
    fn ended_nonces(&self) -> Vec<Option<Nonce>> {
        let ended = self.parts.iter().filter_map(|part| match part.known {
            Known::Sealed { nonce, ended: EpochEnd::Resigned | EpochEnd::GivenUp, .. } => {
                Some(nonce)
            }
            _ => None,
        });
        ended.collect()
    }

    fn next_in_find(
        &self,
        store: usize,
        is_found: bool,
        closes: bool,
        ended: &[Option<Nonce>],
    ) -> Doing {
        let part = &self.parts[store];
        let find = || Doing::find(part.contents.and_then(|contents| contents.greatest));
        if !part.listed {
            return find();
        }
        let Some(epoch) = self.newest.filter(|_| is_found) else { return Doing::Idle };
        match &part.known {
            Known::Unread => Doing::Read { epoch, unless: None },
            Known::Sealed { .. } if !part.marked => find(),
            known @ Known::Absent { lapsed } if closes && (*lapsed || is_waived(known, ended)) => {
                Doing::Place { epoch }
            }
            known @ Known::Unsealed { sighting, lapsed }
                if closes && (*lapsed || is_waived(known, ended)) =>
            {
                Doing::Seal { sighting: sighting.clone() }
            }
            _ => Doing::Idle,
        }
    }

    /// Handles a page of the search for the newest epoch of this store.
    pub(super) fn found(
        &mut self,
        store: usize,
        mut search: Search,
        page: Listing,
        marker: Option<Marker>,
    ) {
        let greatest = match search.handle(page) {
            Progress::More => {
                self.parts[store].doing = Doing::Find { search, marker };
                return;
            }
            Progress::Newest(greatest) => greatest,
            Progress::KnownIsGone(_) => None,
        };
        if !self.count(store, marker, greatest) {
            self.parts[store].doing = Doing::pause();
            return;
        }
        if let Some(epoch) = greatest {
            self.saw(epoch);
        }
        let part = &mut self.parts[store];
        part.listed = true;
        // At most one request to a store is under way. So a seal that is known now was already
        // known when this LIST was sent (Q2).
        part.marked |= matches!(part.known, Known::Sealed { .. });
    }

    pub(super) fn poll(&mut self, store: usize) {
        let is_found = self.parts.iter().filter(|part| part.listed).count() >= self.majority();
        let (Phase::Find, Some(epoch), true) = (self.phase, self.newest, is_found) else {
            if self.phase == Phase::Find && self.parts[store].doing == Doing::Idle {
                self.parts[store].listed = false;
            }
            return;
        };
        // An epoch that no majority holds, or that has lapsed, may have been compacted. Only a LIST
        // shows a greater epoch, so an observer lists again. A candidate closes the epoch instead.
        let (observer, no_leader) = (self.observer, self.leader().is_none());
        let part = &mut self.parts[store];
        if part.doing != Doing::Idle {
            return;
        }
        match &part.known {
            Known::Absent { .. } if observer && no_leader => part.list_again(),
            Known::Unsealed { lapsed: true, .. } if observer => part.list_again(),
            Known::Unsealed { sighting, .. } => {
                part.doing = Doing::Read { epoch, unless: Some(sighting.etag.clone()) };
            }
            Known::Absent { .. } => part.doing = Doing::Read { epoch, unless: None },
            Known::Sealed { .. } | Known::Unread => part.listed = false,
        }
    }

    pub(super) fn read(&mut self, store: usize, epoch: Epoch, answer: Answer) {
        let is_newest = Some(epoch) == self.newest;
        let knew_end = !self.ended_nonces().is_empty();
        let part = &mut self.parts[store];
        match answer {
            Answer::Found { .. } | Answer::NotModified | Answer::Missing if !is_newest => {}
            Answer::Found { sighting, .. } => {
                part.read(sighting);
                if !knew_end {
                    self.read_after_end(epoch);
                }
            }
            Answer::NotModified if part.known != Known::Unread => {}
            Answer::Missing => part.read_absent(),
            // Without an answer, the object at this store does not lapse. So no follower closes an
            // epoch at a store that it cannot read.
            _ if is_newest => {
                part.doing = Doing::Pause(Box::new(Doing::Read { epoch, unless: None }));
            }
            _ => part.doing = Doing::pause(),
        }
    }

    /// Reads the other stores again if the holder has ended the epoch. The holder seals all its
    /// objects at about the same time, so the stores would refuse most seals with the known ETags.
    fn read_after_end(&mut self, epoch: Epoch) {
        let ended = self.ended_nonces();
        for part in &mut self.parts {
            if let (Doing::Idle, Known::Unsealed { sighting, lapsed: false }) =
                (&part.doing, &part.known)
                && ended.contains(&sighting.seen.nonce)
            {
                part.doing = Doing::Read { epoch, unless: Some(sighting.etag.clone()) };
            }
        }
    }

    pub(super) fn sealed(&mut self, store: usize, sighting: &Sighting, answer: &Answer) {
        let epoch = sighting.epoch;
        let is_newest = Some(epoch) == self.newest;
        let part = &mut self.parts[store];
        match answer {
            Answer::Done { .. } if is_newest => {
                let nonce = sighting.seen.nonce;
                part.marked = false;
                part.known = Known::Sealed { nonce, ended: EpochEnd::Lapsed, waits: false };
            }
            // Another process has written, so the object is read before the next seal. A pause
            // prevents a busy loop (E19).
            Answer::Refused | Answer::Missing if is_newest => {
                part.doing = Doing::Pause(Box::new(Doing::Read { epoch, unless: None }));
            }
            _ if !is_newest => {}
            _ => part.doing = Doing::pause(),
        }
    }

    pub(super) fn placed(&mut self, store: usize, epoch: Epoch, answer: &Answer) {
        let is_newest = Some(epoch) == self.newest;
        let part = &mut self.parts[store];
        match answer {
            Answer::Done { .. } if is_newest => {
                part.marked = false;
                part.known = Known::Sealed { nonce: None, ended: EpochEnd::Lapsed, waits: false };
            }
            Answer::Refused if is_newest => {
                part.doing = Doing::Pause(Box::new(Doing::Read { epoch, unless: None }));
            }
            _ if !is_newest => {}
            _ => part.doing = Doing::pause(),
        }
    }
}
