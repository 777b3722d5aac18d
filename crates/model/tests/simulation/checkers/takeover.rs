//! After the seal of the previous epoch, a successor with a takeover delay waits for at least this
//! delay before it sends its create. After a resignation, the successor need not wait. If the epoch
//! is not sealed, or the holder may not know of the seal, the delay starts at the end of the
//! holder's lease.
//!
//! A successor starts this delay when it sees the seal, or when its timer for the lease ends. In
//! both cases the seal has taken effect, or the lease has ended, before the successor starts the
//! delay. So the checker measures from the earliest possible start of the delay.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_model::clock::{MOST_SLEWED, scale};
use tenure_model::time::now;

use super::{Checker, Event, View, Write};

#[derive(Debug, Default)]
pub struct Waited {
    /// For each epoch, the time of its first seal, and the values of `ended` in all its seals.
    seals: BTreeMap<u64, (Duration, Vec<String>)>,
    /// Possible violations. The key is the nonce of a create that was sent too early. A candidate
    /// that has missed the last renewal may send a create too early. Only a create that takes
    /// effect is a violation.
    early: BTreeMap<Option<String>, String>,
}

impl Checker for Waited {
    fn name(&self) -> &'static str {
        "takeover"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        match event {
            Event::Replaced { write, .. } if write.body.sealed => {
                let (_, words) = self.seals.entry(write.epoch).or_insert((now(), Vec::new()));
                words.push(write.body.ended.clone().unwrap_or_default());
                Ok(())
            }
            Event::Sending { write } if write.create && write.epoch > 1 => {
                if let Err(what) = self.creates(write, view) {
                    self.early.insert(write.body.nonce.clone(), what);
                }
                Ok(())
            }
            Event::Created { write } | Event::Replaced { write, .. } if write.create => {
                self.early.get(&write.body.nonce).map_or(Ok(()), |what| Err(what.clone()))
            }
            _ => Ok(()),
        }
    }
}

impl Waited {
    fn creates(&self, write: &Write, view: &View<'_>) -> Result<(), String> {
        let plan = view.plan;
        let Some(knobs) = (view.knobs)(write.who) else { return Ok(()) };
        // The checker measures the delay by the fastest possible clock.
        let fastest = plan.candidates.iter().map(|knobs| knobs.rate).max().unwrap_or_default();
        let fastest = fastest + fastest * MOST_SLEWED.unsigned_abs() / 1_000_000;
        let (before, delay) = (write.epoch - 1, knobs.takeover_delay);
        let seal = self.seals.get(&before);
        let ended = |word: &str| seal.is_some_and(|(_, words)| words.iter().any(|w| w == word));
        if ended("resigned") {
            return Ok(());
        }
        if let Some((at, words)) = seal {
            let waited = scale(now() - *at, fastest);
            if waited < delay {
                return Err(format!(
                    "{} creates epoch {} {waited:?} after the seal of {before} ({words:?}), but the delay is {delay:?}",
                    write.who, write.epoch
                ));
            }
        }
        // A candidate does not wait for a holder that is known to be dead.
        let unique = plan.candidates.iter().any(|knobs| knobs.name_is_unique);
        if ended("lapsed") || seal.is_none() && unique {
            return Ok(());
        }
        let held = view.book.leads.iter().filter(|lead| lead.epoch == before);
        for lead in held {
            let over_for = view.book.over_for(lead, (view.clock)(lead.who));
            let waited = scale(over_for.mul_f64(1.0 + plan.drift), fastest);
            if waited < delay {
                return Err(format!(
                    "{} creates epoch {} {over_for:?} after the lease of {before}, but the delay is {delay:?}",
                    write.who, write.epoch
                ));
            }
        }
        Ok(())
    }
}
