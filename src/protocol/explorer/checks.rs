//! The invariants of docs/protocol.md section 5 that need no clock, judged from what the store did.

use std::collections::{BTreeMap, BTreeSet};

use super::store::{ModelStore, Reply, Wire};
use crate::epoch::Epoch;
use crate::protocol::message::{Answer, Ended, Lost, Nonce, Request, Write};

/// What was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) id: &'static str,
    pub(super) what: String,
}

pub(super) type Checked = Result<(), Violation>;

fn require(holds: bool, id: &'static str, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Violation { id, what: what() }) }
}

/// What the store held when it evaluated the first page of a listing.
///
/// The first page decides: the newest is never deleted, so if a greater epoch had existed then, a
/// later page would have shown it or one that is greater still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Evaluated {
    pub(super) after: u64,
    pub(super) at: usize,
    pub(super) newest: Option<Epoch>,
}

/// The history that the invariants speak of.
#[derive(Debug, Clone, Default)]
pub(super) struct Checks {
    /// Are all peers lawful? Morling's get I1 to I3 only.
    lawful: bool,
    verify_renewals: bool,
    grants: BTreeMap<Epoch, Nonce>,
    /// When each grant's listing was evaluated.
    granted_at: Vec<(usize, Epoch)>,
    sealed: BTreeMap<(Epoch, Nonce), Ended>,
    written: BTreeSet<(Epoch, Nonce, u64)>,
    existed: BTreeSet<Epoch>,
    pub(super) deleted: BTreeSet<Epoch>,
    crashed: BTreeSet<Epoch>,
    pub(super) seen: Reached,
}

/// What must happen sometimes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) grants: usize,
    pub(super) crash_succeeded: bool,
    pub(super) resignation_succeeded: bool,
    pub(super) deposition_succeeded: bool,
    pub(super) own_write_adopted: bool,
    pub(super) zombie_confirmed_nothing: bool,
    /// How much of the walk happened while somebody followed the protocol to a loss.
    pub(super) losses: usize,
}

impl Reached {
    pub(super) fn or(self, other: Reached) -> Reached {
        Reached {
            grants: self.grants.max(other.grants),
            crash_succeeded: self.crash_succeeded | other.crash_succeeded,
            resignation_succeeded: self.resignation_succeeded | other.resignation_succeeded,
            deposition_succeeded: self.deposition_succeeded | other.deposition_succeeded,
            own_write_adopted: self.own_write_adopted | other.own_write_adopted,
            zombie_confirmed_nothing: self.zombie_confirmed_nothing
                | other.zombie_confirmed_nothing,
            losses: self.losses + other.losses,
        }
    }
}

impl Checks {
    pub(super) fn new(lawful: bool, verify_renewals: bool) -> Checks {
        Checks { lawful, verify_renewals, ..Checks::default() }
    }

    fn granted(&self, epoch: Epoch, nonce: Option<Nonce>) -> bool {
        nonce.is_some() && self.grants.get(&epoch).copied() == nonce
    }

    /// Before the store carries out a request.
    pub(super) fn before(&self, store: &ModelStore, wire: &Wire) -> Checked {
        if let Wire::Delete(epoch) = wire {
            let newest = store.newest();
            require(newest != Some(*epoch), "I3", || format!("newest epoch {epoch} deleted"))?;
        }
        Ok(())
    }

    /// After it did.
    pub(super) fn after(&mut self, store: &ModelStore, wire: &Wire, reply: &Reply) -> Checked {
        if let Wire::Delete(epoch) = wire {
            self.deleted.insert(*epoch);
        }
        self.existed.extend(store.newest());
        if let Wire::Protocol(Request::Renew { epoch, write, .. }) = wire
            && matches!(reply.answer, Answer::Done { .. })
            && self.granted(*epoch, Some(write.nonce))
            && self.lawful
        {
            let newest = store.newest();
            require(newest == Some(*epoch), "I5", || format!("{epoch} renewed under {newest:?}"))?;
        }
        if matches!(reply.answer, Answer::Done { .. }) {
            match wire {
                Wire::Protocol(
                    Request::Create { epoch, write } | Request::Renew { epoch, write, .. },
                ) => {
                    self.written.insert((*epoch, write.nonce, write.heartbeat));
                }
                Wire::Protocol(Request::Seal { epoch, nonce: Some(nonce), ended, .. }) => {
                    self.sealed.insert((*epoch, *nonce), *ended);
                }
                _ => {}
            }
        }
        self.whole(store)
    }

    /// I4 and I6, of the state of the store.
    fn whole(&self, store: &ModelStore) -> Checked {
        if !self.lawful {
            return Ok(());
        }
        let newest = store.newest();
        for (epoch, object) in &store.objects {
            let unsealed = object.body.sealed.is_none();
            let Some(nonce) =
                object.body.nonce.filter(|n| unsealed && self.granted(*epoch, Some(*n)))
            else {
                continue;
            };
            let sealed = self.sealed.contains_key(&(*epoch, nonce));
            require(!sealed, "I4", || format!("sealed epoch {epoch} is unsealed again"))?;
            require(newest == Some(*epoch), "I6", || {
                format!("epoch {epoch} is unsealed and granted, the newest is {newest:?}")
            })?;
        }
        Ok(())
    }

    pub(super) fn grant(
        &mut self,
        store: &ModelStore,
        epoch: Epoch,
        nonce: Nonce,
        evaluated: Option<Evaluated>,
    ) -> Checked {
        let before = self.grants.get(&epoch);
        require(before.is_none(), "I1", || {
            format!("{epoch} granted again: {before:?}, {nonce:?}")
        })?;
        let evaluated = evaluated.filter(|evaluated| evaluated.after == epoch.get());
        let Some(Evaluated { at, newest, .. }) = evaluated else {
            return require(false, "I2", || format!("epoch {epoch} granted without a listing"));
        };
        require(newest <= Some(epoch), "I2", || format!("{epoch} granted under {newest:?}"))?;
        self.granted_at.push((at, epoch));
        self.granted_at.sort_unstable();
        let ordered = self.granted_at.is_sorted_by_key(|(_, epoch)| *epoch);
        require(ordered, "I2", || format!("grants out of order: {:?}", self.granted_at))?;

        let previous = self.grants.last_key_value().map(|(epoch, nonce)| (*epoch, *nonce));
        if let Some((previous, nonce)) = previous {
            let word = self.sealed.get(&(previous, nonce));
            self.seen.resignation_succeeded |= word == Some(&Ended::Resigned);
            self.seen.deposition_succeeded |= word == Some(&Ended::Deposed);
            self.seen.crash_succeeded |= self.crashed.contains(&previous);
        }
        self.grants.insert(epoch, nonce);
        self.seen.grants += 1;
        self.whole(store)
    }

    pub(super) fn crash(&mut self, epoch: Epoch) {
        self.crashed.insert(epoch);
    }

    /// A renewal counts: the write must have taken effect, and verified ones under nothing greater.
    pub(super) fn extended(
        &mut self,
        epoch: Epoch,
        write: Write,
        evaluated: Option<Evaluated>,
    ) -> Checked {
        let Write { nonce, heartbeat } = write;
        let written = self.written.contains(&(epoch, nonce, heartbeat));
        require(written, "honest", || format!("{epoch} extended by a write that never was"))?;
        if self.verify_renewals {
            let verified = evaluated.is_some_and(|evaluated| {
                evaluated.after == epoch.get() && evaluated.newest <= Some(epoch)
            });
            require(verified, "verified", || format!("{epoch} extended under {evaluated:?}"))?;
        }
        Ok(())
    }

    /// The reason of a loss must be what happened.
    pub(super) fn lost(&mut self, epoch: Epoch, nonce: Nonce, lost: Lost) -> Checked {
        self.seen.losses += 1;
        let word = self.sealed.get(&(epoch, nonce)).copied();
        let true_reason = match lost {
            Lost::LeaseEnded => true,
            Lost::Resigned => word == Some(Ended::Resigned),
            Lost::Sealed(ended) => word == Some(ended),
            Lost::Superseded(by) => by > epoch && self.existed.contains(&by),
            // Another write under the same number needs that number to have been free again.
            Lost::Vanished | Lost::Tampered => self.deleted.contains(&epoch),
        };
        require(true_reason || !self.lawful, "honest", || format!("{epoch} lost: {lost:?}"))
    }
}
