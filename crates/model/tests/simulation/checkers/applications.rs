//! Checks the results that applications receive: the state of a lease, the reason of a loss, the
//! answers of the fenced resource, and the leaders that an observer reports.

use std::collections::BTreeMap;

use super::{Checker, Event, View};
use crate::sim::world::Who;

/// After the holder has dropped, resigned or lost the leadership, `check` never returns Ok. This
/// also holds for all [`Lease`](tenure::Lease) handles.
#[derive(Debug, Default)]
pub struct NotOkAfterTheEnd;

impl Checker for NotOkAfterTheEnd {
    fn name(&self) -> &'static str {
        "dropped"
    }

    fn see(&mut self, event: &Event<'_>, _: &View<'_>) -> Result<(), String> {
        let Event::LeaseOk { lead } = event else { return Ok(()) };
        match lead.over {
            None => Ok(()),
            Some(at) => Err(format!(
                "the lease of epoch {} is Ok, although {} dropped the leadership at {at:?} ({})",
                lead.epoch, lead.who, lead.outcome
            )),
        }
    }
}

/// The fenced resource never accepts a lower epoch after a higher one.
#[derive(Debug, Default)]
pub struct FencedInOrder {
    greatest: u64,
}

impl Checker for FencedInOrder {
    fn name(&self) -> &'static str {
        "fencing"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        let Event::Fenced { epoch } = event else { return Ok(()) };
        if *epoch < self.greatest {
            return Err(format!(
                "the resource accepted a write of epoch {epoch} after a write of epoch {}",
                self.greatest
            ));
        }
        self.greatest = *epoch;
        // Every token belongs to a grant. No process writes with an epoch that was never won.
        if !view.book.grants.contains_key(epoch) {
            return Err(format!("a process wrote with epoch {epoch}, which was never granted"));
        }
        Ok(())
    }
}

/// The epochs of the leaders that an observer sees never decrease, and each of these epochs exists.
#[derive(Debug, Default)]
pub struct ObservedInOrder {
    greatest: BTreeMap<(Who, &'static str), u64>,
}

impl Checker for ObservedInOrder {
    fn name(&self) -> &'static str {
        "observer"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        let Event::Observed { who: process, by, epoch } = event else { return Ok(()) };
        // The newest epoch is never deleted. So an epoch greater than the newest existing epoch was
        // never created.
        if view.bucket.newest() < Some(*epoch) {
            return Err(format!("{process} saw a leader of epoch {epoch}, which does not exist"));
        }
        match self.greatest.insert((*process, by), *epoch) {
            Some(last) if last > *epoch => Err(format!(
                "{process} saw a leader of epoch {last}, then a leader of epoch {epoch}"
            )),
            _ => Ok(()),
        }
    }
}

/// Checks the reason of each loss. A peer that follows the rules for writers never tampers with an
/// epoch object, never deletes the newest one, and never creates a greater epoch before the
/// leader's epoch is sealed. If all peers follow these rules, no leader may report such a loss.
#[derive(Debug, Default)]
pub struct ExpectedLoss;

impl Checker for ExpectedLoss {
    fn name(&self) -> &'static str {
        "losses"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        let Event::Lost { lead, outcome } = event else { return Ok(()) };
        // If clocks exceed the drift, another process may supersede a live leader and delete its
        // epoch. In such a run, the reasons in the next line are possible.
        let strange = matches!(*outcome, "superseded" | "vanished" | "tampered");
        if strange && view.plan.follows_section_4() && !view.plan.beyond_drift {
            return Err(format!(
                "{} lost epoch {} with the reason {outcome}",
                lead.who, lead.epoch
            ));
        }
        Ok(())
    }
}
