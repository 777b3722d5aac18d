//! Drives a campaign until its candidate is elected, or until another candidate leads.

use std::time::Duration;

use super::part::StorePart;
use super::{AcrossDriver, faults};
use crate::driver::leader::{CampaignEvent, Leader};
use crate::driver::{CampaignEnd, Patience};
use crate::env::timer::sleep;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::across::message::{AcrossEvent, AcrossInput, AcrossStep, AcrossWait};
use crate::protocol::message::{EpochEnd, Wait};
use crate::store::escape::plain;

/// Maximum time for which a candidate waits for the answer to its first create. Then it creates its
/// epoch at the other stores (Q5).
const SPREAD: Duration = Duration::from_millis(500);

impl AcrossDriver {
    /// Campaigns until the result is known. If the caller drops the future, epoch objects of this
    /// campaign may remain in the stores. Their leases lapse after the validity.
    pub(crate) async fn campaign(&mut self, patience: Patience) -> Result<CampaignEnd, Error> {
        let outcome = self.reach(patience).await;
        self.main().meter.campaigned(match &outcome {
            Ok(CampaignEnd::Elected) => "elected",
            Ok(CampaignEnd::Held(_)) => "held",
            Err(_) => "failed",
        });
        outcome
    }

    async fn reach(&mut self, patience: Patience) -> Result<CampaignEnd, Error> {
        loop {
            match self.machine.wait() {
                AcrossWait::Nonce => {
                    if patience == Patience::Once
                        && self.defers_for().is_some()
                        && let Some(leader) = self.leader()
                    {
                        return Ok(CampaignEnd::Held(leader));
                    }
                    if self.defer().await {
                        self.begin();
                    }
                }
                AcrossWait::Lead if self.remaining() >= self.main().config.validity / 3 => {
                    self.failed_attempts = 0;
                    return Ok(CampaignEnd::Elected);
                }
                AcrossWait::Over => {
                    self.main().meter.campaigned("abandoned");
                    self.machine.restart();
                }
                AcrossWait::Failed(_) => return Err(self.exhausted()),
                _ => {}
            }
            self.send();
            self.report();
            if let Some(error) = self.hopeless(patience) {
                return Err(error);
            }
            if patience == Patience::Once
                && let Some(leader) = self.would_wait()
            {
                return Ok(CampaignEnd::Held(leader));
            }
            self.turn().await;
        }
    }

    /// Waits for the next reply or the next input that is due, and passes it to the machine.
    pub(super) async fn turn(&mut self) -> Option<AcrossEvent> {
        let delay = self.next_in();
        let process = self.main().process.clone();
        let cx = std::sync::Arc::clone(self.main());
        tokio::select! {
            biased;
            (store, request, reply) = AcrossDriver::reply(&mut self.parts) => {
                let event = self.took(store, &request, reply);
                if let Some(error) = &self.parts[store].failure {
                    cx.tell(CampaignEvent::StoreFailed(error.clone()));
                }
                event
            }
            () = cx.refresh.after(&mut self.notified) => {
                self.poll_all();
                None
            }
            () = sleep(&process, delay) => self.act(),
        }
    }

    /// Begins an attempt (Q5).
    fn begin(&mut self) {
        let config = &self.main().config;
        let (validity, spread) = (config.validity, SPREAD.min(config.request_timeout / 2));
        let (now, nonce) = (self.now(), self.main().process.nonce());
        self.parts.iter_mut().for_each(|part| part.begin_attempt(now.time_of_day()));
        self.attempt_ends = now.boot.saturating_add(validity);
        self.spreads_at = now.boot.saturating_add(spread);
        self.handle(AcrossInput::Nonce(nonce));
    }

    /// Returns the time for which this candidate still waits although the election is vacant. The
    /// reason is a resignation that names a successor (PR1), or a takeover delay (E10).
    fn defers_for(&self) -> Option<(Epoch, Duration)> {
        let newest = self.machine.newest()?;
        let of_newest = |it: &(Epoch, Duration)| it.0 == newest && !it.1.is_zero();
        let deferring = self.parts.iter().filter_map(|part| part.link.followed.defers_for());
        let ends = || (0..self.parts.len()).map(|store| self.machine.ended(store).flatten());
        let has_resigned = ends().any(|end| end == Some(EpochEnd::Resigned));
        // The delay starts at a seal, so a store without a seal has no delay.
        let takeovers = self.parts.iter().zip(ends()).filter_map(|(part, end)| {
            let sighting = part.sighting.as_ref().filter(|it| it.epoch == newest)?;
            let waits = end.is_some_and(|end| end != EpochEnd::GivenUp) && !has_resigned;
            waits.then(|| (sighting.epoch, part.link.followed.takeover_in()))
        });
        deferring.chain(takeovers).filter(of_newest).max_by_key(|(_, left)| *left)
    }

    /// Waits if other candidates may take over first (PR1, E10). Returns true if this candidate may
    /// begin now.
    async fn defer(&mut self) -> bool {
        let Some((epoch, left)) = self.defers_for() else { return true };
        let (process, cx) = (self.main().process.clone(), std::sync::Arc::clone(self.main()));
        let refreshed = tokio::select! {
            biased;
            () = cx.refresh.after(&mut self.notified) => true,
            () = sleep(&process, left) => false,
        };
        if !refreshed {
            for part in &mut self.parts {
                part.link.followed.deferred = Some(epoch);
            }
        }
        self.machine.restart();
        false
    }

    /// Returns the holder of the newest epoch, as the last readings show it.
    pub(super) fn leader(&self) -> Option<Leader> {
        let newest = self.machine.newest()?;
        let nonce = self.machine.leader();
        let records = self.parts.iter().filter_map(|part| {
            let (epoch, record) = part.link.followed.record.as_deref()?;
            let is_led = nonce.is_none() || (record.nonce == nonce && !record.expired);
            (*epoch == newest && is_led).then(|| Leader::new(*epoch, record))
        });
        // One process wrote all these records, so its clock shows which record is the newest.
        records.max_by_key(|leader| leader.renewed_at)
    }

    /// Reports the leader of an epoch that this candidate begins to follow.
    fn report(&mut self) {
        let newest = self.machine.newest();
        if self.machine.leader().is_none()
            || self.machine.own().is_some()
            || self.reported == newest
        {
            return;
        }
        let Some(leader) = self.leader() else { return };
        self.reported = newest;
        let cx = self.main();
        tracing::info!(
            election = cx.keys.prefix(),
            candidate = cx.config.name,
            epoch = leader.epoch.get(),
            leader = plain(leader.name()),
            outcome = "following",
            "another candidate leads"
        );
        cx.tell(CampaignEvent::Following(leader));
    }

    /// Returns an error if fewer stores than a majority remain usable. With [`Patience::Once`], the
    /// campaign gives up a failing store sooner.
    pub(super) fn hopeless(&self, patience: Patience) -> Option<Error> {
        self.without_a_majority(|part| match patience {
            Patience::Wait => part.is_given_up,
            Patience::Once => part.fails_once(),
        })
    }

    /// Returns the failures of the stores, if no majority answers.
    pub(super) fn no_majority(&self) -> Option<Error> {
        self.without_a_majority(|part| part.failure.is_some())
    }

    /// Returns the failures of the stores for which `fails` is true, if the other stores are not a
    /// majority.
    fn without_a_majority(&self, fails: impl Fn(&&StorePart) -> bool) -> Option<Error> {
        let failing: Vec<_> = self.parts.iter().filter(fails).collect();
        if failing.len() + self.cx.majority() <= self.parts.len() {
            return None;
        }
        let errors: Vec<Error> = failing.iter().map(|part| part.why_given_up()).collect();
        let contexts = failing.iter().map(|part| &*part.link.cx);
        faults::no_majority(&self.cx, contexts.zip(&errors))
    }

    /// Returns the holder if the campaign would have to wait now, because the stores that answer
    /// and require no wait are no majority.
    fn would_wait(&self) -> Option<Leader> {
        if self.machine.own().is_some() {
            return None;
        }
        let waits = |store: &usize| match self.machine.step(*store) {
            AcrossStep::Wait(Wait::Follow) => !self.has_lapsed(*store),
            AcrossStep::Wait(Wait::Deposed) => true,
            _ => false,
        };
        let waiting = (0..self.parts.len()).filter(waits).count();
        let failing = self.parts.iter().filter(|part| part.fails_once()).count();
        let others = self.parts.len() - self.cx.majority();
        self.leader().filter(|_| waiting > 0 && waiting + failing > others)
    }

    /// Returns true if the followed object has lapsed at this store.
    fn has_lapsed(&self, store: usize) -> bool {
        let left = match self.machine.followed(store) {
            Some(_) => self.parts[store].link.followed.could_seal_in(),
            None => self.absence_lapses_in(store),
        };
        self.machine.has_lapsed(store) || left == Some(Duration::ZERO)
    }

    fn exhausted(&self) -> Error {
        let (cx, last) = (self.main(), Epoch::MAX);
        let (key, store) = (cx.keys.epoch(last), cx.store.describe());
        let why = format!("{key} in {store} has ended, and {last} is the last epoch");
        Error::new(ErrorKind::EpochsExhausted, why)
    }
}
