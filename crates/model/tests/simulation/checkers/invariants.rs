//! The invariants I1 to I8 of docs/design/protocol.md.

use std::collections::BTreeMap;

use super::{Checker, Event, View, Write};
use crate::sim::bucket::Body;
use crate::sim::world::Who;

/// I1: an epoch is granted to at most one campaign.
#[derive(Debug, Default)]
pub struct GrantedOnce {
    winners: BTreeMap<u64, Who>,
}

impl Checker for GrantedOnce {
    fn name(&self) -> &'static str {
        "I1"
    }

    fn see(&mut self, event: &Event<'_>, _: &View<'_>) -> Result<(), String> {
        let Event::Granted { grant } = event else { return Ok(()) };
        match self.winners.insert(grant.epoch, grant.who) {
            None => Ok(()),
            Some(first) => {
                Err(format!("epoch {} granted to {first} and {}", grant.epoch, grant.who))
            }
        }
    }
}

/// I2: epoch E is granted only while no greater epoch object exists. So the granted epochs increase
/// in real time, and the epochs of a process never decrease.
#[derive(Debug, Default)]
pub struct GrantedAsNewest {
    /// Granted epochs. The key is the step at which the store evaluated the LIST that confirmed the
    /// grant.
    by_step: BTreeMap<u64, u64>,
    greatest: BTreeMap<Who, u64>,
}

impl Checker for GrantedAsNewest {
    fn name(&self) -> &'static str {
        "I2"
    }

    fn see(&mut self, event: &Event<'_>, _: &View<'_>) -> Result<(), String> {
        let Event::Granted { grant } = event else { return Ok(()) };
        let epoch = grant.epoch;
        let Some(confirm) = &grant.confirm else {
            return Err(format!("epoch {epoch} granted to {} without a LIST", grant.who));
        };
        if confirm.newest > Some(epoch) {
            let newest = confirm.newest.expect("a greater epoch is on the page");
            return Err(format!("epoch {epoch} granted while {newest} existed"));
        }
        let before = self.by_step.range(..confirm.step).next_back();
        let after = self.by_step.range(confirm.step..).next();
        if before.is_some_and(|(_, e)| *e >= epoch) || after.is_some_and(|(_, e)| *e <= epoch) {
            return Err(format!("epoch {epoch} granted between {before:?} and {after:?}"));
        }
        self.by_step.insert(confirm.step, epoch);
        match self.greatest.insert(grant.who, epoch) {
            Some(last) if last >= epoch => {
                Err(format!("{} was granted epoch {epoch} after epoch {last}", grant.who))
            }
            _ => Ok(()),
        }
    }
}

/// I3: the newest epoch object is never deleted.
#[derive(Debug, Default)]
pub struct NewestStays;

impl Checker for NewestStays {
    fn name(&self) -> &'static str {
        "I3"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        match event {
            Event::Deleting { epoch } if view.bucket.newest() == Some(*epoch) => {
                Err(format!("the newest epoch {epoch} was deleted"))
            }
            // The token in the single object is the newest epoch, so a write with a lower token
            // deletes this epoch.
            Event::Replaced { write, before } if before.token > write.body.token => {
                let (from, to) = (before.token.unwrap_or_default(), write.epoch);
                Err(format!("the token decreased from {from} to {to}"))
            }
            _ => Ok(()),
        }
    }
}

/// I4: a sealed epoch object (with the granted nonce) is never unsealed or renewed. If the object
/// is sealed between its create and the confirming LIST, the epoch may still be granted. The
/// library then reports the loss together with the grant.
///
/// If an epoch is granted although its object is already sealed, the checker requires that no write
/// extends the lease. So `check` returns no token after the end of the lease that the create
/// started. If another process sealed the epoch, the library must not report that the holder has
/// resigned.
#[derive(Debug, Default)]
pub struct SealIsFinal;

impl Checker for SealIsFinal {
    fn name(&self) -> &'static str {
        "I4"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        match event {
            // After an epoch was sealed and compacted, a delayed create with the same nonce must
            // not take effect.
            Event::Created { write: Write { epoch, body, who: process, .. } } => {
                match view.book.seal(*epoch, body.nonce.clone()) {
                    Some(_) => Err(format!("{process} created the sealed epoch {epoch} again")),
                    None => Ok(()),
                }
            }
            Event::Replaced { write, before } => replaced(write, before),
            Event::Token { lead, clock, told } if lead.born_sealed => {
                let left = view.book.left_of_creation(lead, *clock);
                if *told > left || left.is_zero() {
                    return Err(format!(
                        "{} got the token {}, which was sealed before the grant; the lease of its create lasts {left:?}",
                        lead.who, lead.epoch
                    ));
                }
                Ok(())
            }
            Event::Resigned { lead } => {
                match view.book.seal(lead.epoch, Some(lead.nonce.clone())) {
                    Some(seal) if seal.by == lead.who => Ok(()),
                    seal => Err(format!(
                        "the library reported that {} resigned epoch {}, but the seal was {seal:?}",
                        lead.who, lead.epoch
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Checks that an acquisition of the single object increments the token and does not seal the new
/// epoch.
fn acquired(Write { who: process, epoch, body, .. }: &Write, before: &Body) -> Result<(), String> {
    let next = before.token.map(|token| token + 1);
    if body.token != next || body.sealed {
        return Err(format!("{process} wrote token {epoch} over {:?}", before.token));
    }
    Ok(())
}

fn replaced(write: &Write, before: &Body) -> Result<(), String> {
    let Write { who: process, epoch, body, .. } = write;
    if body.token != before.token {
        return acquired(write, before);
    }
    if before.sealed && !body.sealed {
        return Err(format!("{process} unsealed epoch {epoch}"));
    }
    if before.nonce != body.nonce {
        return Err(format!("epoch {epoch} got another nonce from {process}"));
    }
    // A peer that follows the If-Match post renews with a new `expires_at`, but without a
    // heartbeat.
    let foreign = body.token.is_some() && body.nonce.is_none();
    if before.heartbeat >= body.heartbeat && !foreign {
        return Err(format!("the heartbeat of epoch {epoch} did not increase"));
    }
    Ok(())
}

/// I5: a renewal of E (with the granted nonce) succeeds only while no greater epoch exists.
#[derive(Debug, Default)]
pub struct RenewedAsNewest;

impl Checker for RenewedAsNewest {
    fn name(&self) -> &'static str {
        "I5"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        let Event::Replaced { write, before } = event else { return Ok(()) };
        let newest = view.bucket.newest().max(before.token).unwrap_or_default();
        let granted = view.book.granted(write.epoch, write.body.nonce.as_ref());
        if granted && !write.body.sealed && newest > write.epoch {
            return Err(format!("epoch {} renewed while {newest} existed", write.epoch));
        }
        Ok(())
    }
}

/// I6: a granted epoch object is the newest while it is unsealed and has the granted nonce.
#[derive(Debug, Default)]
pub struct UnsealedIsNewest;

impl Checker for UnsealedIsNewest {
    fn name(&self) -> &'static str {
        "I6"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        // Only the create of an epoch, or a grant, can break the invariant I6.
        if !matches!(event, Event::Created { .. } | Event::Granted { .. }) {
            return Ok(());
        }
        let newest = view.bucket.newest();
        for (epoch, stored) in view.bucket.epochs() {
            let Some(body) = &stored.body else { continue };
            let granted = view.book.granted(epoch, body.nonce.as_ref());
            if granted && !body.sealed && Some(epoch) != newest {
                let newest = newest.unwrap_or_default();
                return Err(format!("granted epoch {epoch} is unsealed although {newest} exists"));
            }
        }
        Ok(())
    }
}

/// I7: `check` returns no token at or after the end of the lease. The remaining time of the lease
/// is the minimum over the holder's clocks.
#[derive(Debug, Default)]
pub struct NoTokenAfterTheEnd;

impl Checker for NoTokenAfterTheEnd {
    fn name(&self) -> &'static str {
        "I7"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        let Event::Token { lead, clock, told } = event else { return Ok(()) };
        if lead.over.is_some() {
            return Err(format!("{} got a token of a leadership that was lost", lead.who));
        }
        let left = view.book.left(lead, *clock);
        if left.is_zero() {
            return Err(format!(
                "{} got the token {} after the end of its lease",
                lead.who, lead.epoch
            ));
        }
        if *told > left {
            return Err(format!(
                "the library reported a remaining lease of {told:?} to {}, but {left:?} remained",
                lead.who
            ));
        }
        Ok(())
    }
}

/// I8: the lease windows of two leaders do not overlap while clock rates stay within the drift.
#[derive(Debug, Default)]
pub struct OneLeaseAtATime;

impl Checker for OneLeaseAtATime {
    fn name(&self) -> &'static str {
        "I8"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        match event {
            Event::Granted { grant } => {
                for lead in view.book.leading().filter(|lead| lead.epoch != grant.epoch) {
                    let left = view.book.left(lead, (view.clock)(lead.who));
                    if !left.is_zero() {
                        return Err(format!(
                            "{} began to lead with epoch {}, while {} had {left:?} left of its \
                             lease of epoch {}",
                            grant.who, grant.epoch, lead.who, lead.epoch
                        ));
                    }
                }
                Ok(())
            }
            Event::Token { lead, .. } => {
                let later = view.book.leads.iter().rev().find(|other| other.epoch > lead.epoch);
                match later {
                    None => Ok(()),
                    Some(later) => Err(format!(
                        "{} got the token {} after {} had begun to lead with epoch {}",
                        lead.who, lead.epoch, later.who, later.epoch
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}
