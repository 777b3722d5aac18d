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
                "a write of epoch {epoch} accepted after one of {}",
                self.greatest
            ));
        }
        self.greatest = *epoch;
        // A token is a grant: no process writes with an epoch that was never won.
        if !view.book.grants.contains_key(epoch) {
            return Err(format!("a write with epoch {epoch}, which was never granted"));
        }
        Ok(())
    }
}
