//! I1: an epoch is granted to at most one campaign.

use std::collections::BTreeMap;

use super::{Checker, Event, View};
use crate::sim::world::Who;

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
