//! I4: a sealed epoch object (with the granted nonce) is never unsealed or renewed. If the object
//! is sealed between its create and its confirm, the epoch may still be granted. The library then
//! reports the loss together with the grant.
//!
//! For a grant with a sealed epoch object, the checker requires: no write extends the lease, so
//! `check` returns no token after the lease of the create has ended. If another process sealed the
//! epoch, the library does not report that the holder has resigned.

use super::{Checker, Event, View, Write};
use crate::sim::bucket::Body;

#[derive(Debug, Default)]
pub struct SealIsFinal;

impl Checker for SealIsFinal {
    fn name(&self) -> &'static str {
        "I4"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        match event {
            // After an epoch was sealed and compacted, a delayed create with the same nonce must
            // not take effect.
            Event::Created { write: Write { epoch, body, who: process, .. } } => {
                match view.book.seal(*epoch, body.nonce.clone()) {
                    Some(_) => Err(format!("{process} created the sealed epoch {epoch} again")),
                    None => Ok(()),
                }
            }
            Event::Replaced { write, before } => replaced(write, before),
            Event::Token { lead, clock, told } if lead.born_sealed => {
                let left = view.book.left_of_creation(lead, *clock);
                if *told > left || left.is_zero() {
                    return Err(format!(
                        "{} got the token {}, which was sealed before the grant; the lease of its create lasts {left:?}",
                        lead.who, lead.epoch
                    ));
                }
                Ok(())
            }
            Event::Resigned { lead } => {
                match view.book.seal(lead.epoch, Some(lead.nonce.clone())) {
                    Some(seal) if seal.by == lead.who => Ok(()),
                    seal => Err(format!(
                        "the library reported that {} resigned epoch {}, but the seal was {seal:?}",
                        lead.who, lead.epoch
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Checks an acquisition of the single object: it increments the token, and the new epoch is held.
fn acquired(Write { who: process, epoch, body, .. }: &Write, before: &Body) -> Result<(), String> {
    let next = before.token.map(|token| token + 1);
    if body.token != next || body.sealed {
        return Err(format!("{process} wrote token {epoch} over {:?}", before.token));
    }
    Ok(())
}

fn replaced(write: &Write, before: &Body) -> Result<(), String> {
    let Write { who: process, epoch, body, .. } = write;
    if body.token != before.token {
        return acquired(write, before);
    }
    if before.sealed && !body.sealed {
        return Err(format!("{process} unsealed epoch {epoch}"));
    }
    if before.nonce != body.nonce {
        return Err(format!("epoch {epoch} got another nonce from {process}"));
    }
    // A renewal by a peer of the If-Match post has a new `expires_at`, but no heartbeat.
    let foreign = body.token.is_some() && body.nonce.is_none();
    if before.heartbeat >= body.heartbeat && !foreign {
        return Err(format!("the heartbeat of epoch {epoch} did not increase"));
    }
    Ok(())
}
