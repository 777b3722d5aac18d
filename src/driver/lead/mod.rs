//! Renews a leadership until the leader resigns, drops the leadership or loses it.

mod event;
mod listeners;
mod loss;
mod pulse;
mod resign_key;
mod shared_values;
mod state;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::{Instrument as _, Span};

pub use event::LeadershipEvent;
pub(crate) use listeners::Listeners;
pub use loss::Loss;
pub use resign_key::ResignKey;
pub use shared_values::SharedValues;
pub(crate) use state::{Command, Lead};

use super::config::Config;
use super::{Context, Driver, spans};
use crate::env::moment::Moment;
use crate::env::timer::sleep;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::message::{Answer, EpochEnd, Lost, Request, Step, Wait};
use crate::protocol::message::{Event, Input};
use crate::record::Record;

/// Requests of the application that wait for a write.
#[derive(Debug, Default)]
struct Pending {
    /// The waiting callers of `proclaim`, each with the number of the first heartbeat that carries
    /// the caller's data.
    proclaims: Vec<(u64, oneshot::Sender<Result<(), Error>>)>,
    resign: Option<oneshot::Sender<Result<(), Error>>>,
    /// Span of the current renewal, from its first request to its last.
    renewal: Option<Span>,
    /// True if the application has dropped its leadership.
    dropped: bool,
    /// True if the store has denied a request since the last renewal. The driver logs only the
    /// first denial.
    denied: bool,
}

impl Pending {
    /// Returns the span for a request. All requests of one renewal share a span.
    fn span_of(&mut self, request: &Request, new: impl FnOnce() -> Span) -> Span {
        if matches!(request, Request::Renew { .. }) {
            self.renewal.get_or_insert_with(new);
        }
        self.renewal.clone().unwrap_or_else(Span::current)
    }
}

/// The handles of a leadership whose driver runs in the background.
pub(crate) struct StartedLead {
    pub(crate) lead: Arc<Lead>,
    pub(crate) key: ResignKey,
    pub(crate) config: Arc<Config>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
}

impl Driver {
    /// Leads in the background until the leadership has ended. The driver's candidate must have
    /// been elected.
    pub(crate) fn start_leading(self, caller: &Span) -> StartedLead {
        let end = self.link.own.lease.end().unwrap_or_else(|| self.now());
        let epoch = self.machine.greatest().unwrap_or(Epoch::FIRST);
        let config = Arc::clone(&self.cx.config);
        let process = self.cx.process.clone();
        // A leading machine always has a nonce. The fresh nonce is a harmless fallback, because no
        // record contains it.
        let nonce = self.machine.nonce().unwrap_or_else(|| process.nonce());
        let leading = self.cx.meter.elected();
        let (name, validity) = (config.name.clone(), config.validity);
        let lead = Arc::new(Lead::new(epoch, name, validity, process, end, leading));
        let (commands, receiver) = mpsc::unbounded_channel();
        let span = spans::leadership(&self.cx, epoch, caller);
        let task = self.lead(Arc::clone(&lead), receiver, config.resign_on_drop);
        lead.process.spawn(task.instrument(span));
        StartedLead { lead, key: ResignKey { epoch, nonce }, config, commands }
    }

    async fn lead(
        mut self,
        lead: Arc<Lead>,
        mut commands: mpsc::UnboundedReceiver<Command>,
        resign_on_drop: bool,
    ) {
        let mut pending = Pending::default();
        let mut look_at = self.now().boot.saturating_add(self.cx.config.validity);
        let mut retry_at = None;
        self.link.requests.last_error = None;
        loop {
            lead.look();
            if lead.has_ended() {
                let lost = self.machine.handle(Input::LeaseEnded);
                return self.finish(&lead, lost, pending);
            }
            let event = match self.machine.step() {
                Step::Request(request) => {
                    self.send(&request, &lead, &mut pending, &mut retry_at).await
                }
                Step::Wait(wait @ (Wait::Lead | Wait::Retry)) => {
                    let (due, input) = match wait {
                        Wait::Retry => {
                            (*retry_at.get_or_insert_with(|| self.next_retry()), Input::Resume)
                        }
                        _ => self.next_deed(&pending, look_at),
                    };
                    let delay = due.saturating_sub(self.now().boot).min(lead.until_look());
                    tokio::select! {
                        biased;
                        command = commands.recv(), if !pending.dropped => {
                            if self.take(command, &lead, &mut pending, resign_on_drop) {
                                return;
                            }
                            continue;
                        }
                        () = sleep(&self.cx.process, delay) => {}
                    }
                    if self.now().boot < due {
                        continue;
                    }
                    if input == Input::LookDue {
                        look_at = self.now().boot.saturating_add(self.cx.config.validity);
                    }
                    self.machine.handle(input)
                }
                // The machine of a leader does not return these steps. After such a step, the lease
                // would still end in time.
                Step::Wait(_) | Step::Nonce | Step::Failed(_) => {
                    sleep(&self.cx.process, lead.until_look()).await;
                    None
                }
            };
            match event {
                Some(Event::Extended { heartbeat }) => {
                    self.extended(heartbeat, &lead, &mut pending);
                }
                Some(Event::Lost(_)) => return self.finish(&lead, event, pending),
                Some(Event::Granted { .. }) | None => {}
            }
        }
    }

    /// Sends a request that the machine returned. If this function abandons the request early, it
    /// sets `retry_at` to the time of the next attempt.
    async fn send(
        &mut self,
        request: &Request,
        lead: &Lead,
        pending: &mut Pending,
        retry_at: &mut Option<Duration>,
    ) -> Option<Event> {
        let limit = self.link.own.attempt_limit(request, self.link.own.remaining());
        let sent = self.now().boot;
        let within = pending.span_of(request, || spans::renewal(&self.cx, lead.epoch));
        // A pending request must not delay the report that the lease is at risk.
        let answer = tokio::select! {
            biased;
            answer = self.perform(request, limit).instrument(within) => answer,
            () = lead.watch() => return None,
        };
        // If the request was abandoned early, `retry_at` replaces the usual pause before the next
        // attempt.
        *retry_at = self.link.own.given_up(&answer, limit, sent);
        let had_its_time = retry_at.is_none().then_some(sent);
        lead.failed(self.link.requests.last_error.as_ref(), had_its_time);
        if let Answer::Denied | Answer::Unsafe = answer {
            self.report_denial(lead, pending);
        }
        if lead.has_ended() {
            return None;
        }
        self.machine.handle(Input::Answer(answer))
    }

    /// Logs the first of several consecutive denials. So an operator can correct the cause before
    /// the lease ends.
    fn report_denial(&self, lead: &Lead, pending: &mut Pending) {
        if std::mem::replace(&mut pending.denied, true) {
            return;
        }
        let error = self.link.requests.last_error.as_ref();
        tracing::warn!(
            target: "tenure::lease",
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            epoch = lead.epoch.get(),
            outcome = "store_failed",
            "the lease is not renewed; trying again: {}",
            error.map(ToString::to_string).unwrap_or_default()
        );
    }

    /// Returns the next input of the machine, and the time of this input on the boot clock.
    fn next_deed(&self, pending: &Pending, look_at: Duration) -> (Duration, Input) {
        let now = self.now();
        if !pending.proclaims.is_empty() {
            return (now.boot, Input::RenewDue);
        }
        let renew_in = self.link.own.lease.renewal_in(self.cx.config.renew_interval, now);
        let renew_at = now.boot.saturating_add(renew_in);
        if look_at < renew_at { (look_at, Input::LookDue) } else { (renew_at, Input::RenewDue) }
    }

    fn next_retry(&self) -> Duration {
        let longest = self.cx.config.request_timeout / 2;
        let delay = self.link.requests.retry_delay(longest);
        self.now().boot.saturating_add(delay)
    }

    /// Processes a command. Returns true if the application has dropped the leadership and the
    /// driver must stop.
    fn take(
        &mut self,
        command: Option<Command>,
        lead: &Lead,
        pending: &mut Pending,
        resign_on_drop: bool,
    ) -> bool {
        match command {
            Some(Command::Proclaim { data, reply }) => {
                self.link.own.data = data;
                pending.proclaims.push((self.link.own.heartbeat + 1, reply));
            }
            Some(Command::RenewWith { data }) => self.link.own.data = data,
            Some(Command::Resign { successor, reserve, reply }) => {
                (self.link.own.successor, self.link.own.reserve) = (successor, reserve);
                pending.resign = Some(reply);
                self.machine.handle(Input::Resign);
            }
            None => {
                pending.dropped = true;
                // The application dropped the leadership during a resignation. The resignation
                // continues, although the caller no longer waits for its result.
                if pending.resign.is_some() {
                    return false;
                }
                if lead.is_abandoned(resign_on_drop) {
                    return true;
                }
                self.machine.handle(Input::Resign);
            }
        }
        false
    }

    fn extended(&mut self, heartbeat: u64, lead: &Lead, pending: &mut Pending) {
        self.link.own.renewed(heartbeat);
        self.link.requests.last_error = None;
        pending.denied = false;
        if let Some(end) = self.link.own.lease.end() {
            lead.extended(end);
        }
        tracing::debug!(
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            epoch = lead.epoch.get(),
            heartbeat,
            outcome = "renewed",
            "renewed the lease"
        );
        if let Some(renewal) = pending.renewal.take() {
            renewal.record("outcome", "renewed");
        }
        let waiting = std::mem::take(&mut pending.proclaims);
        for (first, reply) in waiting {
            if first <= heartbeat {
                // An error means that the caller no longer waits for the reply.
                let _ = reply.send(Ok(()));
            } else {
                pending.proclaims.push((first, reply));
            }
        }
    }

    fn finish(&mut self, lead: &Lead, event: Option<Event>, pending: Pending) {
        let lost = match event {
            Some(Event::Lost(lost)) => lost,
            _ => Lost::LeaseEnded,
        };
        self.remember();
        let loss = self.loss(lost, lead);
        lead.lose(loss.clone());
        lead.log_the_end(&self.cx, &loss);
        for span in [Some(Span::current()), pending.renewal].into_iter().flatten() {
            span.record("outcome", loss.outcome());
        }
        for (_, reply) in pending.proclaims {
            let _ = reply.send(Err(lead.ended("proclaiming in", &loss)));
        }
        if let Some(reply) = pending.resign {
            let _ = reply.send(match (&loss, self.link.requests.last_error.take()) {
                (Loss::Resigned, _) => Ok(()),
                (Loss::LeaseEnded { .. }, Some(error)) => Err(error),
                _ => Err(lead.ended("resigning", &loss)),
            });
        }
    }

    /// Converts the protocol's reason for a loss to a [`Loss`], and adds details that only the
    /// driver knows.
    fn loss(&self, lost: Lost, lead: &Lead) -> Loss {
        let record = self.link.followed.record.as_deref().map(|(_, record)| record);
        lead.reason(lost, record, self.now())
    }
}

/// The end of a leadership, in one store or across stores.
impl Lead {
    /// Converts the protocol's reason for a loss to a [`Loss`]. `record` is the last record of the
    /// epoch that the driver has read.
    pub(super) fn reason(&self, lost: Lost, record: Option<&Record>, now: Moment) -> Loss {
        match lost {
            Lost::Resigned => Loss::Resigned,
            Lost::Superseded(by) => Loss::Superseded { by },
            Lost::Vanished => Loss::Vanished,
            Lost::Tampered => Loss::Tampered,
            Lost::Sealed(ended) => {
                let by = record.and_then(|it| it.forced_by.as_ref().or(it.sealed_by.as_ref()));
                let forced = record.is_some_and(|it| it.end() == Some(EpochEnd::DeposedDead));
                let ended = if forced { EpochEnd::DeposedDead } else { ended };
                Loss::Sealed { by: by.cloned(), ended }
            }
            Lost::LeaseEnded => self.why_ended(now),
        }
    }

    pub(super) fn log_the_end(&self, cx: &Context, loss: &Loss) {
        macro_rules! event {
            ($level:ident) => {
                tracing::$level!(
                    election = cx.keys.prefix(),
                    candidate = cx.config.name,
                    epoch = self.epoch.get(),
                    outcome = loss.outcome(),
                    "the leadership has ended: {loss}"
                )
            };
        }
        match loss {
            Loss::Resigned => event!(info),
            _ => event!(warn),
        }
    }

    /// Returns the error of a call that was in progress at the end of the leadership.
    pub(super) fn ended(&self, doing: &str, loss: &Loss) -> Error {
        let message = format!("{doing} epoch {}: the leadership has ended: {loss}", self.epoch);
        Error::new(ErrorKind::LeadershipLost, message).maybe()
    }

    /// Returns true if a dropped leadership ends without a resignation.
    pub(super) fn is_abandoned(&self, resign_on_drop: bool) -> bool {
        // The drop of a `Leadership` sets `Loss::Resigned`. Any other loss happened before the
        // drop.
        !resign_on_drop || !matches!(self.loss(), Some(Loss::Resigned))
    }
}
