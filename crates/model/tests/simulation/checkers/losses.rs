//! The reason of each loss is plausible. If all peers follow the rules for writers, they do not
//! tamper with an epoch object, do not delete a held epoch object, and supersede a leader only
//! after a seal of its epoch.

use super::{Checker, Event, View};

#[derive(Debug, Default)]
pub struct Expected;

impl Checker for Expected {
    fn name(&self) -> &'static str {
        "losses"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        let Event::Lost { lead, outcome } = event else { return Ok(()) };
        // If clocks exceed the drift, another process may supersede a live leader and delete its
        // epoch, so these reasons are plausible.
        let strange = matches!(*outcome, "superseded" | "vanished" | "tampered");
        if strange && view.plan.follows_section_4() && !view.plan.beyond_drift {
            return Err(format!("{} lost epoch {} as {outcome}", lead.who, lead.epoch));
        }
        Ok(())
    }
}
