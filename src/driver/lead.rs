//! Leading: renews until told to stop, or until the leadership is lost.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::Driver;
use super::wait::{LOOK, sleep};
use crate::clock::Moment;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::leadership::{LeadershipEvent, Loss};
use crate::process::Process;
use crate::protocol::candidate::{Event, Input};
use crate::protocol::message::{Lost, Step, Wait};

/// How it stands with a leadership. A loss is final.
#[derive(Debug, Clone)]
pub(crate) enum Status {
    Safe,
    /// Less than [`Lead::risk_margin`] is left.
    AtRisk,
    Lost(Loss),
}

/// What the application asks of the driver.
#[derive(Debug)]
pub(crate) enum Command {
    Proclaim { data: Value, reply: oneshot::Sender<Result<(), Error>> },
    Resign { reply: oneshot::Sender<Result<(), Error>> },
}

/// What the driver and the application's [`Leadership`](crate::Leadership) share.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) epoch: Epoch,
    pub(crate) candidate: String,
    pub(crate) validity: Duration,
    pub(crate) process: Process,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) events: broadcast::Sender<LeadershipEvent>,
    end: Mutex<Moment>,
}

impl Lead {
    /// From when on a lease is at risk: a renewal and its retry have failed by then.
    pub(crate) fn risk_margin(&self) -> Duration {
        self.validity / 4
    }

    /// The end of the lease, on both clocks.
    pub(crate) fn end(&self) -> Moment {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn remaining(&self) -> Duration {
        let (end, now) = (self.end(), self.process.now());
        end.boot.saturating_sub(now.boot).min(end.wall.saturating_sub(now.wall))
    }

    /// Ends the leadership for this reason, unless it has ended for another.
    pub(crate) fn lose(&self, loss: Loss) -> bool {
        let news = self.status.send_if_modified(|status| {
            let news = !matches!(status, Status::Lost(_));
            if news {
                *status = Status::Lost(loss.clone());
            }
            news
        });
        if news {
            // Nobody need be listening.
            let _ = self.events.send(LeadershipEvent::Lost(loss));
        }
        news
    }

    fn extended(&self, end: Moment) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
        self.status.send_if_modified(|status| {
            let was_at_risk = matches!(status, Status::AtRisk);
            if was_at_risk {
                *status = Status::Safe;
            }
            was_at_risk
        });
        let _ = self.events.send(LeadershipEvent::Renewed { remaining: self.remaining() });
    }

    fn at_risk(&self, last_error: Option<&Error>) {
        let news = self.status.send_if_modified(|status| {
            let news = matches!(status, Status::Safe);
            if news {
                *status = Status::AtRisk;
            }
            news
        });
        if news {
            let remaining = self.remaining();
            let last_error = last_error.cloned();
            let _ = self.events.send(LeadershipEvent::AtRisk { remaining, last_error });
        }
    }
}

/// Requests of the application that wait for a write.
#[derive(Debug, Default)]
struct Pending {
    /// Each with the first heartbeat whose body carries the data.
    proclaims: Vec<(u64, oneshot::Sender<Result<(), Error>>)>,
    resign: Option<oneshot::Sender<Result<(), Error>>>,
    /// The application has let go of its leadership.
    dropped: bool,
}

impl Driver {
    /// What the application shares with this driver, once elected.
    pub(crate) fn lead_handle(&self) -> Arc<Lead> {
        let (status, _) = watch::channel(Status::Safe);
        let (events, _) = broadcast::channel(64);
        let end = self.lease.end().unwrap_or_else(|| self.now());
        Arc::new(Lead {
            epoch: self.machine.greatest().unwrap_or(Epoch::FIRST),
            candidate: self.cx.config.name.clone(),
            validity: self.cx.config.validity,
            process: self.cx.process.clone(),
            status,
            events,
            end: Mutex::new(end),
        })
    }

    /// Leads until the leadership is over.
    pub(crate) async fn lead(
        mut self,
        lead: Arc<Lead>,
        mut commands: mpsc::Receiver<Command>,
        resign_on_drop: bool,
    ) {
        let mut pending = Pending::default();
        let mut look_at = self.now().boot.saturating_add(self.cx.config.validity);
        let mut retry_at = None;
        self.last_error = None;
        self.pulse.reset();
        loop {
            self.beat();
            if self.lease.remaining(self.now()).is_zero() {
                let lost = self.machine.handle(Input::LeaseEnded);
                return self.finish(&lead, lost, pending);
            }
            self.watch_risk(&lead);
            let event = match self.machine.step() {
                Step::Request(request) => {
                    let left = self.lease.remaining(self.now());
                    let limit = self.cx.config.request_timeout.min(left);
                    let answer = self.perform(&request, limit).await;
                    retry_at = None;
                    if self.lease.remaining(self.now()).is_zero() {
                        continue;
                    }
                    self.machine.handle(Input::Answer(answer))
                }
                Step::Wait(wait @ (Wait::Lead | Wait::Retry)) => {
                    let (due, input) = match wait {
                        Wait::Retry => {
                            (*retry_at.get_or_insert_with(|| self.next_retry()), Input::Resume)
                        }
                        _ => self.next_deed(&pending, look_at),
                    };
                    let delay = due.saturating_sub(self.now().boot).min(self.until_attention());
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
                // A leader's machine waits for nothing else; its lease ends all the same.
                Step::Wait(_) | Step::Nonce | Step::Failed(_) => {
                    sleep(&self.cx.process, self.until_attention()).await;
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

    fn beat(&mut self) {
        let now = self.now();
        self.pulse.beat(now);
    }

    /// What is due next, and when on the boot clock.
    fn next_deed(&self, pending: &Pending, look_at: Duration) -> (Duration, Input) {
        let now = self.now();
        if !pending.proclaims.is_empty() {
            return (now.boot, Input::RenewDue);
        }
        let renew_in = self.lease.renewal_in(self.cx.config.renew_interval, now);
        let renew_at = now.boot.saturating_add(renew_in);
        if look_at < renew_at { (look_at, Input::LookDue) } else { (renew_at, Input::RenewDue) }
    }

    fn next_retry(&self) -> Duration {
        let delay = self.retry_delay(self.cx.config.request_timeout / 2);
        self.now().boot.saturating_add(delay)
    }

    /// How long until the lease is at risk or ends, or the clocks are looked at again.
    fn until_attention(&self) -> Duration {
        let validity = self.cx.config.validity;
        let left = self.lease.remaining(self.now());
        let until_risk = left.saturating_sub(validity / 4);
        let next = if until_risk.is_zero() { left } else { until_risk };
        next.min(LOOK.min(validity / 10))
    }

    fn watch_risk(&self, lead: &Lead) {
        if self.lease.remaining(self.now()) <= lead.risk_margin() {
            lead.at_risk(self.last_error.as_ref());
        }
    }

    /// Takes a command; true if the driver is to stop, as nobody holds the leadership any more.
    fn take(
        &mut self,
        command: Option<Command>,
        lead: &Lead,
        pending: &mut Pending,
        resign_on_drop: bool,
    ) -> bool {
        match command {
            Some(Command::Proclaim { data, reply }) => {
                self.data = data;
                pending.proclaims.push((self.heartbeat + 1, reply));
            }
            Some(Command::Resign { reply }) => {
                pending.resign = Some(reply);
                self.machine.handle(Input::Resign);
            }
            None => {
                pending.dropped = true;
                let lost = matches!(*lead.status.borrow(), Status::Lost(_));
                if !resign_on_drop || lost {
                    lead.lose(Loss::Resigned);
                    return true;
                }
                lead.lose(Loss::Resigned);
                self.machine.handle(Input::Resign);
            }
        }
        false
    }

    fn extended(&mut self, heartbeat: u64, lead: &Lead, pending: &mut Pending) {
        self.lease.extended(heartbeat);
        self.pulse.reset();
        self.last_error = None;
        if let Some(end) = self.lease.end() {
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
        let waiting = std::mem::take(&mut pending.proclaims);
        for (first, reply) in waiting {
            if first <= heartbeat {
                // The caller may have stopped waiting.
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
        let loss = self.loss(lost);
        lead.lose(loss.clone());
        tracing::info!(
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            epoch = lead.epoch.get(),
            outcome = loss.outcome(),
            "the leadership is over: {loss}"
        );
        let over = |doing: &str| {
            let message = format!("{doing} epoch {}: the leadership is over: {loss}", lead.epoch);
            Err(Error::new(ErrorKind::LeadershipLost, message).maybe())
        };
        for (_, reply) in pending.proclaims {
            let _ = reply.send(over("proclaiming in"));
        }
        if let Some(reply) = pending.resign {
            let _ = reply.send(match (&loss, self.last_error.take()) {
                (Loss::Resigned, _) => Ok(()),
                (Loss::LeaseEnded { .. }, Some(error)) => Err(error),
                _ => over("resigning"),
            });
        }
    }

    /// The reason of a loss, with what the driver knows beyond the protocol.
    fn loss(&mut self, lost: Lost) -> Loss {
        let validity = self.cx.config.validity;
        match lost {
            Lost::Resigned => Loss::Resigned,
            Lost::Superseded(by) => Loss::Superseded { by },
            Lost::Vanished => Loss::Vanished,
            Lost::Tampered => Loss::Tampered,
            Lost::Sealed(ended) => {
                let by = self.record.as_ref().and_then(|(_, record)| record.sealed_by.clone());
                Loss::Sealed { by, ended }
            }
            Lost::LeaseEnded => {
                let gap = self.pulse.longest_gap();
                if gap > LOOK.min(validity / 10) + validity / 5 {
                    return Loss::Suspended { gap };
                }
                Loss::LeaseEnded { last_error: self.last_error.clone() }
            }
        }
    }
}
