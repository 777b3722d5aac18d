//! I8: the lease windows of two leaders do not overlap while clock rates stay within the drift.

use super::{Checker, Event, View};

#[derive(Debug, Default)]
pub struct OneLeaseAtATime;

impl Checker for OneLeaseAtATime {
    fn name(&self) -> &'static str {
        "I8"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        match event {
            Event::Granted { grant } => {
                for lead in view.book.leading().filter(|lead| lead.epoch != grant.epoch) {
                    let left = view.book.left(lead, (view.clock)(lead.who));
                    if !left.is_zero() {
                        return Err(format!(
                            "{} began to lead with epoch {}, while {} had {left:?} of the lease of epoch {}",
                            grant.who, grant.epoch, lead.who, lead.epoch
                        ));
                    }
                }
                Ok(())
            }
            Event::Token { lead, .. } => {
                let later = view.book.leads.iter().rev().find(|other| other.epoch > lead.epoch);
                match later {
                    None => Ok(()),
                    Some(later) => Err(format!(
                        "{} got the token {} after {} had begun to lead with epoch {}",
                        lead.who, lead.epoch, later.who, later.epoch
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}
