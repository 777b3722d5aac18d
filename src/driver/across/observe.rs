//! Observes an election across stores, and does not campaign in it.

use std::sync::Arc;
use std::time::Duration;

use super::part::StorePart;
use super::{AcrossContext, AcrossDriver};
use crate::driver::Patience;
use crate::driver::leader::{Observation, Snapshot, same_leader};
use crate::driver::runtime::require_timers;
use crate::env::timer::sleep;
use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::across::message::AcrossInput;
use crate::protocol::message::EpochEnd;
use crate::telemetry::Sight;

/// Observes an election across stores, and returns the changes of its state.
#[derive(Debug)]
pub(crate) struct AcrossObserver {
    driver: AcrossDriver,
    told: Option<Observation>,
    /// Time at which the state became unknown, on the boot clock.
    unknown_since: Option<Duration>,
    over: bool,
    sight: Sight,
}

/// The newest epoch at one store, as an observer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sees {
    /// The epoch is unsealed, and its lease runs.
    Held,
    /// The epoch is sealed, has lapsed or is absent.
    Over,
    /// The store has not answered since the lapse, or since a newer epoch became known.
    Reading,
    /// The store does not answer.
    Silent,
}

impl AcrossObserver {
    pub(crate) fn new(cx: &Arc<AcrossContext>) -> AcrossObserver {
        AcrossObserver {
            driver: AcrossDriver::observer(cx),
            told: None,
            unknown_since: None,
            over: false,
            sight: cx.stores[0].meter.observer(),
        }
    }

    /// Returns the next change. An error is the last item.
    pub(crate) async fn next(&mut self) -> Option<Result<Observation, Error>> {
        loop {
            if self.over {
                return None;
            }
            self.driver.send();
            let failed = require_timers().err().or_else(|| self.driver.hopeless(Patience::Wait));
            if let Some(error) = failed {
                self.over = true;
                return Some(Err(error));
            }
            if let Some(observation) = self.judge().filter(|it| !self.is_told(it)) {
                self.sight.sees(match &observation {
                    Observation::Leader(_) => "held",
                    Observation::NoLeader => "vacant",
                    Observation::Unknown => "unknown",
                });
                self.told = Some(observation.clone());
                return Some(Ok(observation));
            }
            let process = self.driver.main().process.clone();
            let changes_in = self.changes_in();
            tokio::select! {
                biased;
                _ = self.driver.turn() => {}
                () = sleep(&process, changes_in) => self.driver.ask_after_lapses(),
            }
        }
    }

    fn is_told(&self, now: &Observation) -> bool {
        match (&self.told, now) {
            (Some(Observation::Leader(told)), Observation::Leader(now)) => same_leader(told, now),
            (told, now) => told.as_ref() == Some(now),
        }
    }

    /// Returns the state of the election, or `None` if it is not known yet.
    fn judge(&mut self) -> Option<Observation> {
        let (majority, now) = (self.driver.cx.majority(), self.driver.now().boot);
        let sees: Vec<Sees> = self.driver.sees().collect();
        let count = |of: Sees| sees.iter().filter(|it| **it == of).count();
        let machine = &self.driver.machine;
        let leader = machine.leader();
        let is_silent = count(Sees::Silent) + majority > sees.len();
        let is_empty = machine.is_found() && machine.newest().is_none();
        let known = if is_silent {
            None
        } else if machine.is_given_back() || is_empty {
            Some(Observation::NoLeader)
        } else if leader.is_some() && count(Sees::Held) >= majority {
            self.driver.leader().map(Observation::Leader)
        } else if count(Sees::Over) >= majority
            || (leader.is_none() && count(Sees::Held) + count(Sees::Over) == sees.len())
        {
            Some(Observation::NoLeader)
        } else {
            None
        };
        if known.is_some() {
            self.unknown_since = None;
            return known;
        }
        let since = *self.unknown_since.get_or_insert(now);
        // Without an epoch, the first failure of a store makes it `Silent`, so the observer reports
        // `Unknown` only after a validity.
        let was_known = match self.told {
            Some(Observation::Leader(_)) => true,
            Some(Observation::NoLeader) => machine.newest().is_some(),
            _ => false,
        };
        let patience = self.driver.main().config.validity;
        let is_late = now.saturating_sub(since) >= patience;
        (is_late || (was_known && is_silent)).then_some(Observation::Unknown)
    }

    /// Returns the time until the state may change even if no store answers.
    fn changes_in(&self) -> Duration {
        let parts = self.driver.parts.iter();
        let lapses = parts.filter_map(|part| part.link.followed.lapses_in());
        let lapses = lapses.filter(|left| !left.is_zero()).min();
        let late = self.unknown_since.map(|since| {
            let late = since.saturating_add(self.driver.main().config.validity);
            late.saturating_sub(self.driver.now().boot)
        });
        let late = late.filter(|left| !left.is_zero());
        lapses.into_iter().chain(late).min().unwrap_or(Duration::MAX)
    }
}

impl AcrossDriver {
    fn sees(&self) -> impl Iterator<Item = Sees> {
        self.parts.iter().enumerate().map(|(store, part)| self.sees_at(store, part))
    }

    fn sees_at(&self, store: usize, part: &StorePart) -> Sees {
        let is_silent = part.failure.is_some();
        if self.machine.ended(store).is_some() {
            // Once the store has failed for a validity, a newer epoch may exist.
            let is_late = is_silent && !part.has_answered_within(self.main().config.validity);
            return if is_late { Sees::Silent } else { Sees::Over };
        }
        if self.machine.followed(store).is_none() {
            return if is_silent { Sees::Silent } else { Sees::Reading };
        }
        match part.link.followed.lapses_in() {
            Some(Duration::ZERO) if is_silent => Sees::Silent,
            Some(Duration::ZERO) if !part.answered_since_lapse() => Sees::Reading,
            Some(Duration::ZERO) => Sees::Over,
            _ => Sees::Held,
        }
    }

    /// Polls the stores that have not answered since the lapse.
    fn ask_after_lapses(&mut self) {
        for store in 0..self.parts.len() {
            if self.sees_at(store, &self.parts[store]) == Sees::Reading {
                self.handle(AcrossInput::PollDue { store });
            }
        }
    }

    /// Reads the newest epoch once. If `only_list` is true, only finds its number.
    async fn look_once(&mut self, only_list: bool) -> Result<(), Error> {
        loop {
            self.send();
            let is_read = |(store, part): (usize, &StorePart)| {
                let known = self.machine.followed(store).is_some()
                    || self.machine.ended(store).is_some()
                    || self.machine.newest().is_none();
                (known, known || part.failure.is_some())
            };
            let states: Vec<(bool, bool)> = self.parts.iter().enumerate().map(is_read).collect();
            let known = states.iter().filter(|(known, _)| *known).count();
            let is_complete = states.iter().all(|(_, settled)| *settled);
            if self.machine.is_found()
                && (only_list || (known >= self.cx.majority() && is_complete))
            {
                return Ok(());
            }
            if let Some(error) = self.hopeless(Patience::Once) {
                return Err(error);
            }
            self.turn().await;
        }
    }

    /// Reads the newest epoch at all stores, and merges their records.
    pub(crate) async fn snapshot(&mut self) -> Result<Snapshot, Error> {
        self.look_once(false).await?;
        let ends = (0..self.parts.len()).filter_map(|store| self.machine.ended(store).flatten());
        let is_led = self.machine.leader().is_some();
        let end = ends.filter(|_| !is_led).min_by_key(|end| *end == EpochEnd::Lapsed);
        let record = self.parts.iter().filter_map(|part| part.link.followed.record.as_deref());
        let record = record
            .filter(|(epoch, record)| {
                Some(*epoch) == self.machine.newest() && record.expired != is_led
            })
            .max_by_key(|(_, record)| (record.nonce.is_some(), record.heartbeat))
            .map(|(_, record)| record);
        let leader = self.leader();
        let end = record.filter(|it| it.expired).and_then(|record| record.end()).or(end);
        Ok(Snapshot {
            lapsed: leader.is_some() && end.is_none() && !self.may_be_held(),
            leader,
            end,
            sealed_by: record.and_then(|it| it.sealed_by.clone()),
            forced_by: record.and_then(|it| it.forced_by.clone()),
            reason: record.and_then(|it| it.reason.clone()),
            age: self.parts.iter().filter_map(|part| part.link.followed.age).min(),
        })
    }

    /// Returns whether one attempt may have, at a majority of the stores, unsealed objects that are
    /// not older than its validity. A store without an answer may have such an object.
    fn may_be_held(&self) -> bool {
        let unread = |store: &usize| {
            self.machine.followed(*store).is_none() && self.machine.ended(*store).is_none()
        };
        let unread = (0..self.parts.len()).filter(unread).count();
        let live = self.parts.iter().enumerate().filter_map(|(store, part)| {
            let nonce = self.machine.followed(store)?.seen.nonce;
            let followed = &part.link.followed;
            let validity = followed.record.as_deref().and_then(|(_, record)| record.validity());
            let is_old = followed.age.zip(validity).is_some_and(|(age, validity)| age > validity);
            (!is_old).then_some(nonce)
        });
        let live: Vec<_> = live.collect();
        let of_one = live.iter().map(|nonce| live.iter().filter(|it| it == &nonce).count());
        of_one.max().unwrap_or(0) + unread >= self.cx.majority()
    }

    /// Returns the greatest epoch that a majority of the stores shows. No greater epoch was granted
    /// before the call.
    pub(crate) async fn newest_epoch(&mut self) -> Result<Option<Epoch>, Error> {
        self.look_once(true).await?;
        Ok(self.machine.newest())
    }
}
