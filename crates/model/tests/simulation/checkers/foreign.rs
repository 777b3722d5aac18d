//! A living peer of Morling's post is never sealed: who seals its epoch as lapsed has seen one
//! state of it, ETag and `Last-Modified`, for the whole lapse by its own clock.
//!
//! Judged from what the process read, by whichever of its calls, and when it got the answers.
//! Stores date objects in whole seconds, so two touches within a second are one state here as well.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tenure::Moment;
use tenure::store::ETag;

use super::{Checker, Event, View};
use crate::sim::world::Who;

type EntryState = (ETag, Option<DateTime<Utc>>);
/// A state, and when it was first and last received.
type Read = (EntryState, Moment, Moment);

#[derive(Debug, Default)]
pub struct SealedOnlyWhenDead {
    /// The states of each foreign epoch.
    read: BTreeMap<(Who, u64), Vec<Read>>,
}

impl Checker for SealedOnlyWhenDead {
    fn name(&self) -> &'static str {
        "foreign"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        match event {
            Event::ReadForeign { who, epoch, etag, modified } => {
                let now = (view.clock)(*who);
                let state = (etag.clone(), *modified);
                let states = self.read.entry((*who, *epoch)).or_default();
                match states.iter_mut().find(|(seen, ..)| *seen == state) {
                    Some((_, _, last)) => *last = now,
                    None => states.push((state, now, now)),
                }
                Ok(())
            }
            Event::Sending { write }
                if write.body.nonce.is_none() && write.body.ended.as_deref() == Some("lapsed") =>
            {
                let lapse = write.body.validity.mul_f64(1.0 + view.plan.drift);
                let states = self.read.get(&(write.who, write.epoch));
                let longest =
                    states.into_iter().flatten().map(|(_, first, last)| last.since(*first));
                let longest = longest.max().unwrap_or_default();
                // Rounded as the library does, and floats are not exact.
                if longest + Duration::from_micros(1) >= lapse {
                    return Ok(());
                }
                Err(format!(
                    "{} seals the foreign epoch {} of {:?}, which it saw unchanged for {longest:?} \
                     of {lapse:?} at most",
                    write.who, write.epoch, write.body.validity
                ))
            }
            _ => Ok(()),
        }
    }
}
