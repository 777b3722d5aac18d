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
                Err(format!("epoch {epoch} deleted, and it was the newest"))
            }
            _ => Ok(()),
        }
    }
}
