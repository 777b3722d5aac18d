//! I5: a renewal of E (with the granted nonce) succeeds only while no greater epoch exists.

use super::{Checker, Event, View};

#[derive(Debug, Default)]
pub struct RenewedAsNewest;

impl Checker for RenewedAsNewest {
    fn name(&self) -> &'static str {
        "I5"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        let Event::Replaced { write, before } = event else { return Ok(()) };
        let newest = view.bucket.newest().max(before.token).unwrap_or_default();
        let granted = view.book.granted(write.epoch, write.body.nonce.as_ref());
        if granted && !write.body.sealed && newest > write.epoch {
            return Err(format!("epoch {} renewed while {newest} existed", write.epoch));
        }
        Ok(())
    }
}
