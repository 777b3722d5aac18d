//! Drives the state machine of a campaign until its candidate is elected, or until another
//! candidate leads.

use std::time::Duration;

use super::Driver;
use crate::driver::backoff::Backoff;
use crate::driver::config::Config;
use crate::driver::leader::{CampaignEvent, Leader};
use crate::env::timer::sleep;
use crate::error::Error;
use crate::protocol::message::{Answer, Step, Wait};
use crate::protocol::message::{Event, Input};
use crate::store::escape::plain;

/// The condition that ends a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The campaign waits until it is elected.
    Wait,
    /// The campaign ends if another candidate holds the newest epoch, or after
    /// [`FAILURES_BEFORE_GIVING_UP`] consecutive failures.
    Once,
}

/// The result of a campaign.
#[derive(Debug)]
pub(crate) enum CampaignEnd {
    /// The candidate is elected, and at least a third of its lease remains.
    Elected,
    /// Another candidate holds the newest epoch, or may still believe that it leads.
    Held(Leader),
}

/// Number of consecutive failures that end a call with [`Patience::Once`].
pub(crate) const FAILURES_BEFORE_GIVING_UP: u32 = 3;

impl Driver {
    /// Campaigns until the result is known. If the caller drops the future, the epoch object of
    /// this campaign may remain in the store. The lease of this epoch lapses after its validity.
    pub(crate) async fn campaign(&mut self, patience: Patience) -> Result<CampaignEnd, Error> {
        let outcome = self.reach(patience).await;
        self.cx.meter.campaigned(match &outcome {
            Ok(CampaignEnd::Elected) => "elected",
            Ok(CampaignEnd::Held(_)) => "held",
            Err(_) => "failed",
        });
        outcome
    }

    async fn reach(&mut self, patience: Patience) -> Result<CampaignEnd, Error> {
        loop {
            match self.machine.step() {
                Step::Nonce if self.defers() => {
                    if patience == Patience::Once
                        && let Some(leader) = self.link.followed.leader()
                    {
                        return Ok(CampaignEnd::Held(leader));
                    }
                    self.defer().await;
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
                Step::Failed(failure) => {
                    let error = self.explain(failure);
                    match self.denial.pause(&self.cx, &error) {
                        Some(pause) if patience == Patience::Wait => {
                            self.cx.tell(CampaignEvent::StoreFailed(error));
                            sleep(&self.cx.process, pause).await;
                            self.machine.handle(Input::Resume);
                        }
                        _ => return Err(error),
                    }
                }
                Step::Wait(wait) => {
                    if patience == Patience::Once
                        && let Some(reached) = self.would_wait(&wait)?
                    {
                        return Ok(reached);
                    }
                    if wait != Wait::Retry {
                        self.denial.over();
                    }
                    self.wait(wait).await;
                }
            }
        }
    }

    async fn take_answer(&mut self, answer: Answer) -> Option<CampaignEnd> {
        let missed = matches!(answer, Answer::Missing) && self.link.requests.is_contradicted();
        let failed = missed || matches!(answer, Answer::Unknown);
        let followed = self.machine.followed().map(|it| (it.epoch, it.etag.clone()));
        let event = self.machine.handle(Input::Answer(answer));
        self.remember();
        if failed && let Some(error) = &self.link.requests.last_error {
            self.cx.tell(CampaignEvent::StoreFailed(error.clone()));
        }
        if let Some(sighting) = self.machine.followed() {
            match followed {
                Some((epoch, etag)) if epoch == sighting.epoch => {
                    if etag != sighting.etag {
                        let spread = self.poll_spread();
                        self.link.followed.draw_lapse_jitter(spread);
                    }
                }
                _ => self.started_following(),
            }
        }
        match event {
            Some(Event::Granted { heartbeat, .. }) => {
                self.link.own.lease.extended(heartbeat);
                self.link.own.leading = true;
                if self.settle().await {
                    self.denial.over();
                    return Some(CampaignEnd::Elected);
                }
                self.cx.meter.campaigned("abandoned");
                self.link.own.leading = false;
                self.machine.handle(Input::Abandon);
                self.restart_if_over();
                None
            }
            _ => None,
        }
    }

    /// After a grant, renews until at least a third of the lease remains (E13). Returns false if
    /// the grant is unusable (E14).
    async fn settle(&mut self) -> bool {
        let config = &self.cx.config;
        let (validity, timeout) = (config.validity, config.request_timeout);
        if self.outdated() {
            return false;
        }
        while self.link.own.remaining() < validity / 3 {
            match self.machine.step() {
                Step::Request(request) => {
                    let limit = timeout.min(self.link.own.remaining());
                    let answer = self.perform(&request, limit).await;
                    if self.link.own.remaining().is_zero() {
                        return false;
                    }
                    match self.machine.handle(Input::Answer(answer)) {
                        Some(Event::Extended { heartbeat }) => {
                            self.link.own.renewed(heartbeat);
                        }
                        Some(Event::Lost(_)) => return false,
                        _ => {}
                    }
                }
                Step::Wait(Wait::Lead) => {
                    self.machine.handle(Input::RenewDue);
                }
                _ => {
                    let delay = self.link.requests.retry_delay(validity / 10);
                    sleep(&self.cx.process, delay).await;
                    self.machine.handle(Input::Resume);
                }
            }
            if self.link.own.remaining().is_zero() {
                return false;
            }
        }
        !self.outdated()
    }

    /// Returns true if another call of this `Election` has seen an epoch above the granted epoch.
    fn outdated(&self) -> bool {
        self.cx.knowledge().greatest > self.machine.greatest()
    }

    /// Starts another campaign with the same driver, after a grant that was unusable (E14).
    fn restart_if_over(&mut self) {
        self.link.own.forget();
        if let Step::Wait(Wait::Over) = self.machine.step() {
            self.machine.restart();
        }
    }

    pub(super) fn remember(&mut self) {
        self.cx.knowledge().learn(self.machine.greatest(), &self.cx.meter);
    }

    fn started_following(&mut self) {
        let Some(leader) = self.link.followed.leader() else { return };
        tracing::info!(
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            epoch = leader.epoch.get(),
            leader = plain(leader.name()),
            outcome = "following",
            "another candidate leads"
        );
        self.cx.tell(CampaignEvent::Following(leader));
        self.link.followed.started();
        // Candidates that begin to follow at the same time, such as the losers of a race, must not
        // poll at the same time.
        let early = self.cx.process.jitter(self.poll_spread());
        self.link.requests.polled = self.link.requests.polled.saturating_sub(early);
    }

    /// Returns the time over which the candidates spread their polls after one renewal of the
    /// leader.
    fn poll_spread(&self) -> Duration {
        let config = &self.cx.config;
        if config.poll_at_lapse { Duration::ZERO } else { config.poll_interval }
    }

    /// Returns the result of a campaign with [`Patience::Once`] if the campaign would have to wait
    /// now. Returns `None` if the campaign can continue.
    fn would_wait(&self, wait: &Wait) -> Result<Option<CampaignEnd>, Error> {
        let held = || self.link.followed.leader().map(CampaignEnd::Held);
        Ok(match wait {
            Wait::Follow if self.link.followed.could_seal_in() != Some(Duration::ZERO) => held(),
            Wait::Deposed if self.link.followed.lapses_in() != Some(Duration::ZERO) => held(),
            Wait::Takeover if !self.link.followed.takeover_in().is_zero() => held(),
            Wait::Retry if self.link.requests.have_failed(FAILURES_BEFORE_GIVING_UP) => {
                let error = self.link.requests.last_error.clone();
                return Err(error.expect("the last failure was stored when it was counted"));
            }
            _ => None,
        })
    }

    /// Waits as the machine requests, and passes the next input to the machine.
    async fn wait(&mut self, wait: Wait) {
        let poll = self.poll_interval();
        let since_poll = self.now().boot.saturating_sub(self.link.requests.polled);
        let poll_in = poll.saturating_sub(since_poll);
        let (delay, input) = match wait {
            Wait::Follow => match self.link.followed.seals_in() {
                Some(left) if self.cx.config.poll_at_lapse => match self.answered_since_lapse() {
                    true => (left, Input::Lapsed),
                    false => (left, Input::PollDue),
                },
                Some(left) if left <= poll_in => (left, Input::Lapsed),
                _ => (poll_in, Input::PollDue),
            },
            Wait::Deposed => match self.link.followed.lapses_in() {
                Some(left) if left <= poll_in => (left, Input::Lapsed),
                _ => (poll_in, Input::PollDue),
            },
            Wait::Takeover => (self.link.followed.takeover_in(), Input::TakeoverOver),
            Wait::NoLeader => (poll_in, Input::PollDue),
            Wait::Retry => {
                let longest = self.cx.config.poll_interval;
                (self.link.requests.retry_delay(longest), Input::Resume)
            }
            // The machine of a campaign never requests these waits. A poll would be a harmless
            // reaction.
            Wait::Lead | Wait::Over => (poll, Input::Resume),
        };
        let input = match wait {
            Wait::Follow | Wait::Deposed | Wait::NoLeader => {
                if self.sleep_unless_refreshed(delay).await { Input::PollDue } else { input }
            }
            _ => {
                sleep(&self.cx.process, delay).await;
                input
            }
        };
        match input {
            // The sleep uses only the boot clock, so it can end before the lapse. The lease lapses
            // only after both the boot clock and the raw clock have passed its end (T2).
            Input::Lapsed if !self.lapse_is_due(&wait) => return,
            Input::TakeoverOver if !self.link.followed.takeover_in().is_zero() => return,
            Input::Lapsed => self.lapsed(),
            Input::PollDue => {
                self.link.followed.polls = self.link.followed.polls.saturating_add(1);
                self.cx.meter.polled();
            }
            _ => {}
        }
        self.machine.handle(input);
    }

    /// Returns the poll interval. With `poll_backoff`, the interval doubles with each poll of the
    /// same leader.
    fn poll_interval(&self) -> Duration {
        let Config { poll_interval, poll_backoff, .. } = *self.cx.config;
        let longest = poll_backoff.unwrap_or(poll_interval);
        Backoff { first: poll_interval, longest }.delay(self.link.followed.polls)
    }

    fn lapse_is_due(&self, wait: &Wait) -> bool {
        let left = match wait {
            Wait::Follow => self.link.followed.seals_in(),
            _ => self.link.followed.lapses_in(),
        };
        left == Some(Duration::ZERO)
    }

    /// Returns true if the store has answered since the lapse. A follower that polls only at the
    /// lapse may seal only after the store has answered (PR4).
    pub(super) fn answered_since_lapse(&self) -> bool {
        let lapsed = |at| self.link.followed.lapses_after(Duration::ZERO, at);
        self.link.requests.answered.is_some_and(|at| lapsed(at) == Some(Duration::ZERO))
    }

    /// Waits until the delay has passed or the application calls `refresh`. Returns true after a
    /// `refresh`.
    pub(super) async fn sleep_unless_refreshed(&mut self, delay: Duration) -> bool {
        let Driver { cx, link, .. } = self;
        tokio::select! {
            biased;
            () = cx.refresh.after(&mut link.followed.notified) => true,
            () = sleep(&cx.process, delay) => false,
        }
    }

    /// Returns true if this candidate must still wait, because only preferred candidates may take
    /// over the sealed epoch now (PR1, PR2).
    fn defers(&self) -> bool {
        self.link.followed.defers_for().is_some_and(|(_, left)| !left.is_zero())
    }

    /// Waits while a named successor (PR1) or candidates with a higher priority (PR2) may take over
    /// the sealed epoch. A refresh ends the wait early. After a refresh this candidate polls,
    /// because another candidate usually leads by then.
    ///
    /// This wait only delays the creation of the next epoch. No guarantee of the election depends
    /// on this wait.
    async fn defer(&mut self) {
        let Some((epoch, left)) = self.link.followed.defers_for() else { return };
        if !self.sleep_unless_refreshed(left).await {
            self.link.followed.deferred = Some(epoch);
        }
        self.machine.restart();
    }

    fn lapsed(&mut self) {
        tracing::info!(
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            epoch = self.machine.greatest().map(|epoch| epoch.get()),
            outcome = "lapsed",
            "the leader showed no sign of life for its whole validity"
        );
        let pause = self.link.requests.retry_delay(self.cx.config.poll_interval);
        self.link.followed.lapsed(pause);
    }
}
