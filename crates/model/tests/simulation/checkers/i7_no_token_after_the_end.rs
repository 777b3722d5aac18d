//! I7: `check` returns no token at or after the end of the lease. The remaining time of the lease
//! is the minimum over the holder's clocks.

use super::{Checker, Event, View};

#[derive(Debug, Default)]
pub struct NoTokenAfterTheEnd;

impl Checker for NoTokenAfterTheEnd {
    fn name(&self) -> &'static str {
        "I7"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        let Event::Token { lead, clock, told } = event else { return Ok(()) };
        if lead.over.is_some() {
            return Err(format!("{} got a token of a leadership that was lost", lead.who));
        }
        let left = view.book.left(lead, *clock);
        if left.is_zero() {
            return Err(format!(
                "{} got the token {} after the end of its lease",
                lead.who, lead.epoch
            ));
        }
        if *told > left {
            return Err(format!(
                "the library reported a remaining lease of {told:?} to {}, but {left:?} remained",
                lead.who
            ));
        }
        Ok(())
    }
}
