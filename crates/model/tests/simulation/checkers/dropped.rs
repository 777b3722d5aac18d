//! After the holder has dropped, resigned or lost the leadership, `check` never returns Ok. This
//! also holds for all views of the lease.

use super::{Checker, Event, View};

#[derive(Debug, Default)]
pub struct NeverAfterward;

impl Checker for NeverAfterward {
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
