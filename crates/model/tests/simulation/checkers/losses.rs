//! Checks the reason of each loss. If all peers follow the rules for writers, no peer tampers with
//! an epoch object, no peer deletes a held epoch object, and no peer supersedes a leader before a
//! seal of the leader's epoch.

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
        // epoch. In such a run these reasons are possible.
        let strange = matches!(*outcome, "superseded" | "vanished" | "tampered");
        if strange && view.plan.follows_section_4() && !view.plan.beyond_drift {
            return Err(format!("{} lost epoch {} as {outcome}", lead.who, lead.epoch));
        }
        Ok(())
    }
}
