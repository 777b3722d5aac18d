//! I6: while a granted epoch object is unsealed and has the granted nonce, it is the newest.

use super::{Checker, Event, View};

#[derive(Debug, Default)]
pub struct UnsealedIsNewest;

impl Checker for UnsealedIsNewest {
    fn name(&self) -> &'static str {
        "I6"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        // Only these two events can break the invariant.
        if !matches!(event, Event::Created { .. } | Event::Granted { .. }) {
            return Ok(());
        }
        let newest = view.bucket.newest();
        for (epoch, stored) in view.bucket.epochs() {
            let Some(body) = &stored.body else { continue };
            let granted = view.book.granted(epoch, body.nonce.as_ref());
            if granted && !body.sealed && Some(epoch) != newest {
                let newest = newest.unwrap_or_default();
                return Err(format!("granted epoch {epoch} is unsealed although {newest} exists"));
            }
        }
        Ok(())
    }
}
