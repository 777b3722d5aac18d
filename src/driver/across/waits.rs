//! The inputs that the machine waits for, and their times.

use std::time::Duration;

use super::AcrossDriver;
use crate::driver::backoff::Backoff;
use crate::protocol::across::message::{AcrossEvent, AcrossInput, AcrossStep, AcrossWait};
use crate::protocol::message::Wait;

impl AcrossDriver {
    /// Returns the time until the next input is due.
    pub(super) fn next_in(&mut self) -> Duration {
        let waits = self.waits();
        waits.into_iter().map(|(left, _)| left).min().unwrap_or(Duration::MAX)
    }

    /// Passes a due input to the machine.
    pub(super) fn act(&mut self) -> Option<AcrossEvent> {
        let waits = self.waits();
        let (_, input) = waits.into_iter().find(|(left, _)| left.is_zero())?;
        match input {
            AcrossInput::PollDue { store } => self.polls(store),
            AcrossInput::StoreResume { store } => self.parts[store].retry_at = None,
            _ => {}
        }
        self.handle(input)
    }

    /// Makes all idle stores poll now.
    pub(super) fn poll_all(&mut self) {
        for store in 0..self.parts.len() {
            if let AcrossStep::Wait(Wait::Follow | Wait::Deposed | Wait::NoLeader) =
                self.machine.step(store)
            {
                self.polls(store);
                self.handle(AcrossInput::PollDue { store });
            }
        }
    }

    fn polls(&mut self, store: usize) {
        let part = &mut self.parts[store];
        part.link.followed.polls = part.link.followed.polls.saturating_add(1);
        // The poll interval starts now, even if the machine sends no request.
        part.link.requests.polled = part.link.cx.process.now().boot;
        part.link.cx.meter.polled();
    }

    fn waits(&mut self) -> Vec<(Duration, AcrossInput)> {
        let now = self.now().boot;
        let mut waits = Vec::new();
        for store in 0..self.parts.len() {
            if let AcrossStep::Wait(wait) = self.machine.step(store) {
                self.waits_of(store, &wait, &mut waits);
            }
        }
        match self.machine.wait() {
            AcrossWait::Spread => {
                waits.push((self.spreads_at.saturating_sub(now), AcrossInput::SpreadDue));
            }
            AcrossWait::Pause => {
                let at = self.resumes_at.unwrap_or(now);
                waits.push((at.saturating_sub(now), AcrossInput::Resume));
            }
            // The task of a leadership ends the lease itself. During a resignation, the task
            // continues until the time at which the lease would have ended.
            AcrossWait::Lead if self.led.is_none() => {
                waits.push((self.remaining(), AcrossInput::LeaseEnded))
            }
            _ => {}
        }
        if self.machine.own().is_some() && self.machine.wait() != AcrossWait::Lead {
            waits.push((self.attempt_ends.saturating_sub(now), AcrossInput::LeaseEnded));
        }
        waits
    }

    fn waits_of(&mut self, store: usize, wait: &Wait, waits: &mut Vec<(Duration, AcrossInput)>) {
        match wait {
            Wait::Retry => {}
            Wait::Follow | Wait::Lead => self.parts[store].rests(),
            _ => self.parts[store].pauses = 0,
        }
        let poll_in = self.poll_interval(store).saturating_sub(self.parts[store].since_poll());
        match wait {
            Wait::Follow => match self.lapses_in(store) {
                // The epoch is sealed here only once the store has answered after the lapse (PR4).
                Some(left) if self.polls_first(store) => {
                    waits.push((left, AcrossInput::PollDue { store }));
                }
                Some(left) => {
                    waits.push((left, AcrossInput::Lapsed { store }));
                    let part = &self.parts[store];
                    if !self.main().config.poll_at_lapse || part.is_of_observer() {
                        waits.push((poll_in, AcrossInput::PollDue { store }));
                    }
                }
                None => waits.push((poll_in, AcrossInput::PollDue { store })),
            },
            Wait::Deposed => {
                if let Some(left) = self.wait_ends_in(store) {
                    waits.push((left, AcrossInput::WaitOver { store }));
                }
                waits.push((poll_in, AcrossInput::PollDue { store }));
            }
            Wait::NoLeader => waits.push((poll_in, AcrossInput::PollDue { store })),
            Wait::Retry => {
                let config = &self.main().config;
                let longest = match self.led.is_some() {
                    // If a store has a fault, it counts again only after an operator has acted.
                    _ if self.machine.fault(store).is_some() => config.validity,
                    true => config.request_timeout / 2,
                    false => config.poll_interval,
                };
                let left = self.parts[store].retries_in(longest);
                waits.push((left, AcrossInput::StoreResume { store }));
            }
            Wait::Lead => {
                let (now, interval) = (self.now(), self.main().config.renew_interval);
                let part = &self.parts[store];
                let left = match part.counted < part.hurries_to {
                    true => Duration::ZERO,
                    false => part.link.own.lease.renewal_in(interval, now),
                };
                waits.push((left, AcrossInput::RenewDue { store }));
            }
            Wait::Takeover | Wait::Over => {}
        }
    }

    fn polls_first(&self, store: usize) -> bool {
        self.main().config.poll_at_lapse
            && !self.parts[store].is_of_observer()
            && self.machine.followed(store).is_some()
            && !self.parts[store].answered_since_lapse()
    }

    fn poll_interval(&self, store: usize) -> Duration {
        let (config, part) = (&self.main().config, &self.parts[store]);
        if part.is_of_observer() {
            let record = part.link.followed.record.as_deref();
            return config.poll_interval_for(record.and_then(|(_, it)| it.validity()));
        }
        let longest = config.poll_backoff.unwrap_or(config.poll_interval);
        Backoff { first: config.poll_interval, longest }.delay(part.link.followed.polls)
    }

    /// Returns the time until the followed object lapses at this store (Q3). Returns `None` if the
    /// machine knows of the lapse, or if the object never lapses.
    fn lapses_in(&self, store: usize) -> Option<Duration> {
        let part = &self.parts[store];
        if self.machine.has_lapsed(store) {
            return None;
        }
        match self.machine.followed(store) {
            // The timer belongs to the object that was read last.
            followed @ Some(_) if followed == part.sighting.as_ref() => {
                part.link.followed.seals_in()
            }
            Some(_) => None,
            None => self.absence_lapses_in(store),
        }
    }

    /// Returns the time until the absent object lapses at this store.
    pub(super) fn absence_lapses_in(&self, store: usize) -> Option<Duration> {
        let (part, epoch) = (&self.parts[store], self.machine.newest()?);
        let (_, since) = part.absent.filter(|(absent, _)| *absent == epoch)?;
        let config = &self.main().config;
        let patience = config.drift.stretch(config.validity);
        Some(patience.saturating_sub(self.now().since(since)))
    }

    /// Returns the time until the wait after a deposition ends at this store (E9).
    fn wait_ends_in(&self, store: usize) -> Option<Duration> {
        let (part, epoch) = (&self.parts[store], self.machine.newest()?);
        let sighting = part.sighting.as_ref()?;
        let is_newest = sighting.epoch == epoch && sighting.seen.ended.is_some();
        is_newest.then(|| part.link.followed.lapses_in()).flatten()
    }
}
