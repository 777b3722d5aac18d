//! Campaigning: drives the machine until it is elected, or until somebody else is seen to lead.

use std::time::Duration;

use super::Driver;
use crate::config::Config;
use crate::error::Error;
use crate::escape::plain;
use crate::layout::Layout;
use crate::leader::{CampaignEvent, Leader};
use crate::moment::Moment;
use crate::protocol::candidate::{Event, Input};
use crate::protocol::message::{Answer, Step, Wait};
use crate::timer::sleep;

/// How long a campaign goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until elected.
    Wait,
    /// Until somebody else is seen to lead, or the store fails this often in a row.
    Once,
}

/// Where a campaign got to.
#[derive(Debug)]
pub(crate) enum Reached {
    /// Elected, with at least a third of the lease left.
    Elected,
    /// Somebody else holds the newest epoch, or its holder may still believe so.
    Held(Leader),
}

/// Requests that may fail in a row before a call that does not wait gives up.
pub(crate) const FAILURES_BEFORE_GIVING_UP: u32 = 3;

impl Driver {
    /// Drives the machine. Dropping the future leaves at most an epoch object that lapses within its
    /// validity.
    pub(crate) async fn campaign(&mut self, patience: Patience) -> Result<Reached, Error> {
        let outcome = self.reach(patience).await;
        self.cx.meter.campaigned(match &outcome {
            Ok(Reached::Elected) => "elected",
            Ok(Reached::Held(_)) => "held",
            Err(_) => "failed",
        });
        outcome
    }

    async fn reach(&mut self, patience: Patience) -> Result<Reached, Error> {
        loop {
            match self.machine.step() {
                Step::Nonce if self.others_go_first() => {
                    if patience == Patience::Once
                        && let Some(leader) = self.leader()
                    {
                        return Ok(Reached::Held(leader));
                    }
                    self.stand_back().await;
                }
                Step::Nonce => {
                    let nonce = self.cx.process.nonce();
                    self.machine.handle(Input::Nonce(nonce));
                }
                Step::Request(request) => {
                    let limit = self.cx.config.request_timeout;
                    let answer = self.perform(&request, limit).await;
                    if let Some(elected) = self.take_answer(answer).await {
                        return Ok(elected);
                    }
                }
                Step::Failed(failure) => return Err(self.explain(failure)),
                Step::Wait(wait) => {
                    if patience == Patience::Once
                        && let Some(reached) = self.would_wait(&wait)?
                    {
                        return Ok(reached);
                    }
                    self.wait(wait).await;
                }
            }
        }
    }

    async fn take_answer(&mut self, answer: Answer) -> Option<Reached> {
        let failed = matches!(answer, Answer::Unknown);
        let followed = self.machine.followed().map(|it| (it.epoch, it.etag.clone()));
        let event = self.machine.handle(Input::Answer(answer));
        self.remember();
        if failed && let Some(error) = &self.last_error {
            self.cx.tell(CampaignEvent::StoreFailed(error.clone()));
        }
        if let Some(sighting) = self.machine.followed() {
            match followed {
                Some((epoch, etag)) if epoch == sighting.epoch => {
                    if etag != sighting.etag {
                        self.draw_lapse_jitter(self.poll_spread());
                    }
                }
                _ => self.started_following(),
            }
        }
        match event {
            Some(Event::Granted { heartbeat, .. }) => {
                self.lease.extended(heartbeat);
                self.leading = true;
                if self.settle().await {
                    return Some(Reached::Elected);
                }
                self.cx.meter.campaigned("abandoned");
                self.leading = false;
                self.machine.handle(Input::Abandon);
                self.restart_if_over();
                None
            }
            _ => None,
        }
    }

    /// A grant is reported only with at least a third of the lease left: renews first otherwise.
    async fn settle(&mut self) -> bool {
        let config = &self.cx.config;
        let (validity, timeout) = (config.validity, config.request_timeout);
        if self.outdated() {
            return false;
        }
        while self.lease.remaining(self.now()) < validity / 3 {
            match self.machine.step() {
                Step::Request(request) => {
                    let limit = timeout.min(self.lease.remaining(self.now()));
                    let answer = self.perform(&request, limit).await;
                    if self.lease.remaining(self.now()).is_zero() {
                        return false;
                    }
                    match self.machine.handle(Input::Answer(answer)) {
                        Some(Event::Extended { heartbeat }) => self.renewed(heartbeat),
                        Some(Event::Lost(_)) => return false,
                        _ => {}
                    }
                }
                Step::Wait(Wait::Lead) => {
                    self.machine.handle(Input::RenewDue);
                }
                _ => {
                    let delay = self.retry_delay(validity / 10);
                    sleep(&self.cx.process, delay).await;
                    self.machine.handle(Input::Resume);
                }
            }
            if self.lease.remaining(self.now()).is_zero() {
                return false;
            }
        }
        !self.outdated()
    }

    /// Another call of this `Election` has seen a greater epoch than the one granted.
    fn outdated(&self) -> bool {
        self.cx.knowledge().greatest > self.machine.greatest()
    }

    /// After a grant that came to nothing: the next campaign of the same driver.
    fn restart_if_over(&mut self) {
        self.lease.reset();
        self.renewing_since = None;
        self.elected_at = None;
        if let Step::Wait(Wait::Over) = self.machine.step() {
            self.machine.restart();
        }
    }

    pub(super) fn remember(&mut self) {
        self.cx.knowledge().learn(self.machine.greatest(), &self.cx.meter);
    }

    fn started_following(&mut self) {
        let Some(leader) = self.leader() else { return };
        tracing::info!(
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            epoch = leader.epoch.get(),
            leader = plain(leader.name()),
            outcome = "following",
            "somebody else leads"
        );
        self.cx.tell(CampaignEvent::Following(leader));
        self.polls = 0;
        // Whoever saw this first may have seen it at the same moment as all others.
        self.draw_lapse_jitter(Duration::ZERO);
        self.draw_phase();
    }

    /// Up to a tenth of the leader's validity, less what candidates are spread over already, so that
    /// they do not all seal at once.
    fn draw_lapse_jitter(&mut self, spread: Duration) {
        let validity = self.timer.as_ref().and_then(|timer| timer.validity());
        let most = (validity.unwrap_or_default() / 10).saturating_sub(spread);
        self.lapse_jitter = self.cx.process.jitter(most);
    }

    /// Over how long candidates see one renewal, each by its own polls.
    fn poll_spread(&self) -> Duration {
        let config = &self.cx.config;
        if config.poll_at_lapse { Duration::ZERO } else { config.poll_interval }
    }

    /// Those who begin to follow together, such as the losers of one race, do not poll together.
    fn draw_phase(&mut self) {
        let early = self.cx.process.jitter(self.poll_spread());
        self.polled = self.polled.saturating_sub(early);
    }

    /// For a call that does not wait: what it answers instead of waiting for this.
    fn would_wait(&self, wait: &Wait) -> Result<Option<Reached>, Error> {
        let held = || self.leader().map(Reached::Held);
        Ok(match wait {
            Wait::Follow | Wait::Deposed => {
                let left = self.waits_in(wait);
                if left.is_some_and(|left| left.is_zero()) { None } else { held() }
            }
            Wait::Takeover if !self.takeover_in().is_zero() => held(),
            Wait::Retry if self.failures >= FAILURES_BEFORE_GIVING_UP => {
                let error = self.last_error.clone();
                return Err(error.expect("a failure was counted, so it was remembered"));
            }
            _ => None,
        })
    }

    /// Waits for what the machine waits for, and tells it.
    async fn wait(&mut self, wait: Wait) {
        let poll = self.poll_interval();
        let since_poll = self.now().boot.saturating_sub(self.polled);
        let poll_in = poll.saturating_sub(since_poll);
        let (delay, input) = match wait {
            Wait::Follow => match self.seals_in() {
                Some(left) if self.cx.config.poll_at_lapse => match self.answered_since_lapse() {
                    true => (left, Input::Lapsed),
                    false => (left, Input::PollDue),
                },
                Some(left) if left <= poll_in => (left, Input::Lapsed),
                _ => (poll_in, Input::PollDue),
            },
            Wait::Deposed => match self.lapses_in() {
                Some(left) if left <= poll_in => (left, Input::Lapsed),
                _ => (poll_in, Input::PollDue),
            },
            Wait::Takeover => (self.takeover_in(), Input::TakeoverOver),
            Wait::Vacant => (poll_in, Input::PollDue),
            Wait::Retry => (self.retry_delay(self.cx.config.poll_interval), Input::Resume),
            // Neither can be reached while campaigning; looking again does no harm.
            Wait::Lead | Wait::Over => (poll, Input::Resume),
        };
        let input = match wait {
            Wait::Follow | Wait::Deposed | Wait::Vacant => {
                if self.sleep_unless_refreshed(delay).await { Input::PollDue } else { input }
            }
            _ => {
                sleep(&self.cx.process, delay).await;
                input
            }
        };
        match input {
            // It has waited by one clock; the end is only due once the others agree.
            Input::Lapsed if !self.lapse_is_due(&wait) => return,
            Input::TakeoverOver if !self.takeover_in().is_zero() => return,
            Input::Lapsed => self.lapsed(),
            Input::PollDue => {
                self.polls = self.polls.saturating_add(1);
                self.cx.meter.polled();
            }
            _ => {}
        }
        self.machine.handle(input);
    }

    /// Doubles with each poll that was made of this leader, where that is asked for.
    fn poll_interval(&self) -> Duration {
        let Config { poll_interval, poll_backoff, .. } = *self.cx.config;
        let longest = poll_backoff.unwrap_or(poll_interval);
        poll_interval.saturating_mul(1 << self.polls.min(20)).min(longest)
    }

    fn lapse_is_due(&self, wait: &Wait) -> bool {
        let left = match wait {
            Wait::Follow => self.seals_in(),
            _ => self.lapses_in(),
        };
        left == Some(Duration::ZERO)
    }

    /// Whether the store has answered after the lease had lapsed: only then does a follower that polls
    /// at the lapse alone know that there was no sign of life.
    pub(super) fn answered_since_lapse(&self) -> bool {
        self.answered
            .is_some_and(|at| self.lapses_after(Duration::ZERO, at) == Some(Duration::ZERO))
    }

    /// Waits; true if somebody asked for a look before that was over.
    pub(super) async fn sleep_unless_refreshed(&mut self, delay: Duration) -> bool {
        let Driver { cx, refreshed, .. } = self;
        tokio::select! {
            biased;
            () = cx.refresh.after(refreshed) => true,
            () = sleep(&cx.process, delay) => false,
        }
    }

    /// How long until this candidate seals the followed epoch: its jitter after the lapse.
    fn seals_in(&self) -> Option<Duration> {
        let delay = self.delay_after_lapse().saturating_add(self.cx.config.priority_delay);
        let left = self.lapses_after(delay.saturating_add(self.lapse_jitter), self.now())?;
        Some(left.max(self.seal_again.saturating_sub(self.now().boot)))
    }

    /// How long until nothing but the jitter keeps this candidate from acting.
    fn waits_in(&self, wait: &Wait) -> Option<Duration> {
        let delay = match wait {
            Wait::Follow => self.delay_after_lapse(),
            _ => Duration::ZERO,
        };
        self.lapses_after(delay, self.now())
    }

    /// The takeover delay, where there is no seal from which it would count.
    fn delay_after_lapse(&self) -> Duration {
        match self.cx.config.layout {
            Layout::EpochFiles => Duration::ZERO,
            Layout::SingleObject => self.cx.config.takeover_delay,
        }
    }

    /// The next seal of the same epoch waits again, so that a store that refuses it for no reason
    /// does not make the candidate spin.
    fn lapsed(&mut self) {
        tracing::info!(
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            epoch = self.machine.greatest().map(|epoch| epoch.get()),
            outcome = "lapsed",
            "the leader showed no sign of life for its whole validity"
        );
        let pause = self.retry_delay(self.cx.config.poll_interval);
        self.draw_lapse_jitter(Duration::ZERO);
        self.seal_again = self.now().boot.saturating_add(pause.max(self.lapse_jitter));
    }

    /// How long until the followed lease lapses by this process's clocks; `None` if it never does.
    pub(super) fn lapses_in(&self) -> Option<Duration> {
        self.lapses_after(Duration::ZERO, self.now())
    }

    /// How long from `now` until `delay` after the lapse.
    fn lapses_after(&self, delay: Duration, now: Moment) -> Option<Duration> {
        let (epoch, _) = self.record.as_ref()?;
        // An own epoch that was read has no timer.
        let timer = self.timer.as_ref().filter(|timer| timer.epoch() == *epoch)?;
        timer.lapses_in(delay, self.cx.config.drift, now)
    }

    /// The takeover delay counts from the first sight of the seal; after a deposition from the lapse,
    /// if that is later, as until then its holder may believe that it leads.
    fn takeover_in(&self) -> Duration {
        let (delay, now) = (self.cx.config.takeover_delay, self.now());
        let after_seal = self.timer.as_ref().map_or(delay, |timer| timer.takeover_in(delay, now));
        let waited_for =
            self.record.as_ref().is_some_and(|(_, record)| record.seen().is_waited_for());
        let after_lapse = if waited_for { self.lapses_after(delay, now) } else { None };
        after_seal.max(after_lapse.unwrap_or_default())
    }
}
