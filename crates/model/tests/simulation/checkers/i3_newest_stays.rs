//! I3: the newest epoch object is never deleted.

use super::{Checker, Event, View};

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
            // The token of a single object is the newest epoch.
            Event::Replaced { write, before } if before.token > write.body.token => {
                let (from, to) = (before.token.unwrap_or_default(), write.epoch);
                Err(format!("the token decreased from {from} to {to}"))
            }
            _ => Ok(()),
        }
    }
}
