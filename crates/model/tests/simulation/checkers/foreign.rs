//! A candidate never seals the epoch of a live peer that follows Morling's post. A process may seal
//! the epoch of such a peer as lapsed only if the object has not changed until the lapse. The
//! process measures this time by its own clock. All reads of the process during this time must have
//! shown the same state, that is, the same ETag and `Last-Modified`.
//!
//! The checker uses the reads of all calls of the process, with the times of their answers. The
//! dates of objects have whole seconds, so a process cannot distinguish two writes of the same body
//! within one second. The checker also treats two such writes as one state.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tenure::Moment;
use tenure::store::ETag;

use super::{Checker, Event, View};
use crate::sim::world::Who;

type EntryState = (ETag, Option<DateTime<Utc>>);
/// A state of an object, and the times of the first and the last read that showed this state.
type Read = (EntryState, Moment, Moment);

#[derive(Debug, Default)]
pub struct SealedOnlyWhenDead {
    /// For each process and each epoch of a peer that follows Morling's post, the states that the
    /// process has read.
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
                // The tolerance of 1 µs covers rounding errors.
                if longest + Duration::from_micros(1) >= lapse {
                    return Ok(());
                }
                Err(format!(
                    "{} seals the foreign epoch {} of {:?}, which was unchanged for {longest:?} \
                     and not for {lapse:?}",
                    write.who, write.epoch, write.body.validity
                ))
            }
            _ => Ok(()),
        }
    }
}
