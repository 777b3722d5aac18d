//! I2: epoch E is granted only while no greater epoch object exists. So grants increase in real
//! time, and the epochs of a process never decrease.

use std::collections::BTreeMap;

use super::{Checker, Event, View};
use crate::sim::world::Who;

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
            let newest = confirm.newest.expect("no greater epoch is on the page of a grant");
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
