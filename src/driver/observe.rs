//! Observes an election, and does not campaign in it.

use std::sync::Arc;
use std::time::Duration;

use super::{Context, Driver};
use crate::driver::leader::{CampaignEvent, Leader, Observation, Snapshot, same_leader};
use crate::driver::runtime::require_timers;
use crate::env::timer::sleep;
use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::message::Input;
use crate::protocol::message::{Answer, Request, Step, Wait};
use crate::telemetry::Sight;

/// Observes an election, and returns the changes of its state.
#[derive(Debug)]
pub(crate) struct Observer {
    driver: Driver,
    told: Option<Observation>,
    /// Time of the first failed request since the store's last answer, on the boot clock.
    unanswered: Option<Duration>,
    /// True if `next` must still return the observation in `told`.
    ready: bool,
    failed: Option<Box<Error>>,
    over: bool,
    sight: Sight,
    /// Number of polls since this observer last reported a leader. The first polls after the end of
    /// this leader's epoch are early, because another candidate usually takes over soon.
    polls_since_leader: u32,
}

/// Number of early polls after the end of an epoch. The pauses before these polls are an eighth, a
/// quarter and a half of the poll interval.
const SOON: u32 = 3;

impl Observer {
    pub(crate) fn new(cx: &Arc<Context>) -> Observer {
        Observer {
            driver: Driver::observer(cx),
            told: None,
            unanswered: None,
            ready: false,
            failed: None,
            over: false,
            sight: cx.meter.observer(),
            polls_since_leader: SOON + 1,
        }
    }

    /// Returns the next change. An error is the last item.
    pub(crate) async fn next(&mut self) -> Option<Result<Observation, Error>> {
        loop {
            if std::mem::take(&mut self.ready) {
                return self.told.clone().map(Ok);
            }
            if let Some(error) = self.failed.take() {
                return Some(Err(*error));
            }
            if self.over {
                return None;
            }
            self.advance().await;
        }
    }

    async fn advance(&mut self) {
        if let Err(error) = require_timers() {
            self.over = true;
            self.failed = Some(Box::new(error));
            return;
        }
        match self.driver.machine.step() {
            Step::Request(request) => {
                let limit = self.driver.cx.config.request_timeout;
                let answer = self.driver.perform(&request, limit).await;
                self.answered(&answer);
                self.driver.machine.handle(Input::Answer(answer));
                self.driver.remember();
            }
            Step::Failed(failure) => {
                let error = self.driver.explain(failure);
                self.failed(error).await;
            }
            Step::Wait(wait) => self.wait(&wait).await,
            // An observer does not create epochs, so its machine does not request a nonce.
            Step::Nonce => self.over = true,
        }
    }

    fn answered(&mut self, answer: &Answer) {
        let now = self.driver.now().boot;
        match answer {
            _ if self.driver.link.requests.is_contradicted() => {
                self.unanswered.get_or_insert(now);
            }
            Answer::Unknown | Answer::Denied => {
                self.unanswered.get_or_insert(now);
            }
            _ => {
                self.unanswered = None;
            }
        }
    }

    /// Waits after a transient error. Any other error becomes the last item of the stream.
    async fn failed(&mut self, error: Error) {
        let cx = Arc::clone(&self.driver.cx);
        let Some(pause) = self.driver.denial.pause(&cx, &error) else {
            self.over = true;
            self.failed = Some(Box::new(error));
            return;
        };
        self.unanswered = self.driver.denial.since();
        if self.silent_too_long(self.driver.link.followed.lapses_in()) {
            self.tell(Observation::Unknown);
        }
        if !self.ready {
            cx.tell(CampaignEvent::StoreFailed(error));
            sleep(&cx.process, pause).await;
            self.driver.machine.handle(Input::Resume);
        }
    }

    async fn wait(&mut self, wait: &Wait) {
        if *wait != Wait::Retry {
            self.driver.denial.over();
        }
        let driver = &self.driver;
        let record = driver.link.followed.record.as_deref();
        let poll = driver.cx.config.poll_interval_for(record.and_then(|(_, it)| it.validity()));
        let at_lapse = driver.cx.config.poll_at_lapse;
        let since_poll = driver.now().boot.saturating_sub(driver.link.requests.polled);
        let poll_in = poll.saturating_sub(since_poll);
        let soon = self.next_interval(poll).saturating_sub(since_poll);
        let lapses_in = driver.link.followed.lapses_in();
        let lapsed = lapses_in.is_some_and(|left| left.is_zero());
        let asked_since = driver.answered_since_lapse();
        let (delay, input) = match wait {
            // The process may have been suspended, or the caller may not have polled the stream. So
            // the observer reports the lapse only after a new answer of the store.
            Wait::Follow if lapsed && !asked_since && self.unanswered.is_none() => {
                (Duration::ZERO, Input::PollDue)
            }
            Wait::Follow if lapsed => {
                self.tell(if self.unanswered.is_some() {
                    Observation::Unknown
                } else {
                    Observation::NoLeader
                });
                (soon, Input::Lapsed)
            }
            Wait::Follow => {
                if let Some(leader) = self.driver.link.followed.leader() {
                    self.tell(Observation::Leader(leader));
                }
                match lapses_in {
                    // The wait ends at the lapse, because the observer must report the lapse in
                    // time.
                    Some(left) if left < poll_in || at_lapse => (left, Input::Resume),
                    _ => (poll_in, Input::PollDue),
                }
            }
            // The next epoch may already exist, so the observer polls before it reports `NoLeader`.
            Wait::NoLeader if self.polls_since_leader == 0 => (Duration::ZERO, Input::PollDue),
            Wait::NoLeader => {
                self.tell(Observation::NoLeader);
                (soon, Input::PollDue)
            }
            _ => {
                if self.silent_too_long(lapses_in) {
                    self.tell(Observation::Unknown);
                }
                (self.driver.link.requests.retry_delay(poll), Input::Resume)
            }
        };
        // If an observation is ready, `next` returns it without this wait. The next call of `next`
        // waits.
        if !self.ready {
            let follows = matches!(wait, Wait::Follow | Wait::NoLeader);
            let refreshed = if follows {
                self.driver.sleep_unless_refreshed(delay).await
            } else {
                sleep(&self.driver.cx.process, delay).await;
                false
            };
            let input = if refreshed { Input::PollDue } else { input };
            if lapsed || matches!(wait, Wait::NoLeader) {
                self.polls_since_leader = self.polls_since_leader.saturating_add(1);
            }
            if matches!(input, Input::PollDue | Input::Lapsed) {
                self.driver.cx.meter.polled();
            }
            self.driver.machine.handle(input);
        }
    }

    /// Returns the time between two polls while the election is vacant.
    fn next_interval(&self, poll: Duration) -> Duration {
        match self.polls_since_leader.max(1) {
            polls @ 1..=SOON => poll / (1 << (SOON + 1 - polls)),
            _ => poll,
        }
    }

    /// Returns true if the last leader's lease has lapsed while the store did not answer. Without a
    /// leader, returns true if the store has not answered for this observer's validity.
    fn silent_too_long(&self, lapses_in: Option<Duration>) -> bool {
        let Some(since) = self.unanswered else { return false };
        let silence = self.driver.now().boot.saturating_sub(since);
        match (&self.told, lapses_in) {
            (Some(Observation::Leader(_)), Some(left)) => left.is_zero(),
            (Some(Observation::Leader(_)), None) => false,
            _ => silence >= self.driver.cx.config.validity,
        }
    }

    fn tell(&mut self, observation: Observation) {
        if matches!(observation, Observation::Leader(_)) {
            self.polls_since_leader = 0;
        }
        let same = match (&self.told, &observation) {
            (Some(Observation::Leader(told)), Observation::Leader(now)) => same_leader(told, now),
            (Some(told), now) => told == now,
            (None, _) => false,
        };
        if !same {
            self.sight.sees(match &observation {
                Observation::Leader(_) => "held",
                Observation::NoLeader => "vacant",
                Observation::Unknown => "unknown",
            });
            self.told = Some(observation);
            self.ready = true;
        }
    }
}

impl Driver {
    /// Reads the newest epoch. This costs a LIST and a GET, or only a GET with
    /// `Layout::SingleObject`.
    pub(crate) async fn snapshot(&mut self) -> Result<Snapshot, Error> {
        self.look_once(false).await?;
        Ok(self.snapshot_of_last_read())
    }

    /// Returns the greatest existing epoch. This costs a LIST, or a GET with
    /// `Layout::SingleObject`.
    pub(crate) async fn newest_epoch(&mut self) -> Result<Option<Epoch>, Error> {
        self.look_once(true).await?;
        Ok(self.machine.greatest())
    }

    async fn look_once(&mut self, only_list: bool) -> Result<(), Error> {
        loop {
            match self.machine.step() {
                Step::Request(Request::Get { epoch: Some(_), .. }) if only_list => return Ok(()),
                Step::Request(request) => {
                    let answer = self.perform(&request, self.cx.config.request_timeout).await;
                    self.machine.handle(Input::Answer(answer));
                    self.remember();
                }
                Step::Failed(failure) => return Err(self.explain(failure)),
                Step::Wait(Wait::Retry) => match self.link.requests.last_error.take() {
                    Some(error) => return Err(error),
                    None => {
                        let delay = self.link.requests.retry_delay(LOOK_AGAIN);
                        sleep(&self.cx.process, delay).await;
                        self.machine.handle(Input::Resume);
                    }
                },
                _ => return Ok(()),
            }
        }
    }

    fn snapshot_of_last_read(&self) -> Snapshot {
        let Some((epoch, record)) = self.link.followed.record.as_deref() else {
            return Snapshot {
                leader: None,
                end: None,
                sealed_by: None,
                forced_by: None,
                reason: None,
                age: None,
                lapsed: false,
            };
        };
        let age = self.link.followed.age;
        Snapshot {
            leader: Some(Leader::new(*epoch, record)),
            end: record.end(),
            sealed_by: record.sealed_by.clone().filter(|_| record.expired),
            forced_by: record.forced_by.clone().filter(|_| record.expired),
            reason: record.reason.clone().filter(|_| record.expired),
            age,
            lapsed: !record.expired && age.zip(record.validity()).is_some_and(|(a, v)| a > v),
        }
    }
}

/// Maximum pause before another search for the newest epoch, if a compactor deleted the epoch that
/// the last search found.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
