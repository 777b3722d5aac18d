//! The fenced resource never accepts a lower epoch after a higher one.

use super::{Checker, Event, View};

#[derive(Debug, Default)]
pub struct NeverLower {
    greatest: u64,
}

impl Checker for NeverLower {
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
