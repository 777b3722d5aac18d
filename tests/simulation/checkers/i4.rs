//! I4: a sealed epoch object (with the granted nonce) is never unsealed or renewed. It is granted
//! only if sealed between its create and its confirm, and then the loss is reported with it.

use super::{Checker, Event, View};

#[derive(Debug, Default)]
pub struct SealIsFinal;

impl Checker for SealIsFinal {
    fn name(&self) -> &'static str {
        "I4"
    }

    fn see(&mut self, event: &Event<'_>, _: &View<'_>) -> Result<(), String> {
        let Event::Replaced { write, before } = event else { return Ok(()) };
        if before.sealed && !write.body.sealed {
            return Err(format!("sealed epoch {} unsealed by {}", write.epoch, write.who));
        }
        if before.nonce != write.body.nonce {
            return Err(format!("epoch {} got another nonce from {}", write.epoch, write.who));
        }
        if before.heartbeat >= write.body.heartbeat {
            return Err(format!("the heartbeat of epoch {} did not rise", write.epoch));
        }
        Ok(())
    }
}
