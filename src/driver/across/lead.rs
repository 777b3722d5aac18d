//! Renews a leadership across stores until the leader resigns, drops it or loses it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::{Instrument as _, Span};

use super::{AcrossDriver, HoldState, StoreHold};
use crate::driver::lead::{Command, Lead, LeadershipEvent, Loss, ResignKey, StartedLead};
use crate::driver::spans;
use crate::env::timer::sleep;
use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::across::message::{AcrossEvent, AcrossInput};
use crate::protocol::message::Lost;
use crate::record::Record;
use crate::telemetry::StoreGauge;

/// A caller of `proclaim` that waits for its data in a majority of the stores.
#[derive(Debug)]
struct Proclaim {
    /// The first heartbeat that carries the data, for each store.
    first: Vec<u64>,
    reply: oneshot::Sender<Result<(), Error>>,
}

/// Requests of the application that wait for a write.
#[derive(Debug, Default)]
struct Pending {
    proclaims: Vec<Proclaim>,
    resign: Option<oneshot::Sender<Result<(), Error>>>,
    /// True if the application has dropped its leadership.
    dropped: bool,
}

/// Data for the reports of the stores' states.
#[derive(Debug)]
pub(super) struct Led {
    /// Start of the leadership, on the boot clock.
    since: Duration,
    /// The states of the last report.
    reported: Vec<HoldState>,
    gauge: StoreGauge,
}

impl AcrossDriver {
    /// Leads in the background until the leadership has ended. The driver's candidate must have
    /// been elected.
    pub(crate) fn start_leading(mut self, caller: &Span) -> StartedLead {
        let end = self.lease_end().unwrap_or_else(|| self.now());
        let cx = Arc::clone(self.main());
        let process = cx.process.clone();
        // A machine that was elected always has an epoch. The fallback would be harmless, because
        // the lease `end` would already be past.
        let (epoch, nonce) = self.machine.own().unwrap_or((Epoch::FIRST, process.nonce()));
        let leading = cx.meter.elected();
        let (name, validity) = (cx.config.name.clone(), cx.config.validity);
        let lead = Arc::new(Lead::new(epoch, name, validity, process, end, leading));
        let (commands, receiver) = mpsc::unbounded_channel();
        let span = spans::leadership(&cx, epoch, caller);
        let (since, gauge) = (self.now().boot, cx.meter.stores());
        self.led = Some(Led { since, reported: Vec::new(), gauge });
        self.parts.iter_mut().for_each(|part| part.link.own.leading = true);
        self.publish(&lead);
        let config = Arc::clone(&cx.config);
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
        let process = lead.process.clone();
        loop {
            lead.look();
            if lead.has_ended() {
                self.handle(AcrossInput::LeaseEnded);
                return self.finish(&lead, Lost::LeaseEnded, pending);
            }
            self.send();
            let delay = self.next_in().min(lead.until_look());
            let event = tokio::select! {
                biased;
                command = commands.recv(), if !pending.dropped => {
                    if self.take_command(command, &lead, &mut pending, resign_on_drop) {
                        return;
                    }
                    None
                }
                (store, request, reply) = AcrossDriver::reply(&mut self.parts) => {
                    // An answer after the end of the lease does not extend it.
                    if lead.has_ended() {
                        continue;
                    }
                    let event = self.took(store, &request, reply);
                    lead.failed(self.no_majority().as_ref(), Some(lead.process.now().boot));
                    event
                }
                () = sleep(&process, delay) => self.act(),
            };
            let lost = match event {
                Some(AcrossEvent::Lost(lost)) => Some(lost),
                // If the loss of this store ends the lease, this loss is the reason.
                Some(AcrossEvent::StoreLost { lost, .. }) if lead.loss().is_none() => {
                    self.remaining().is_zero().then_some(lost)
                }
                _ => None,
            };
            if let Some(lost) = lost {
                return self.finish(&lead, lost, pending);
            }
            // During a resignation `check` fails, so the lease is not extended. The resignation
            // continues until the time at which the lease would have ended.
            if lead.loss().is_none() {
                self.extend(&lead, &mut pending);
                self.publish(&lead);
            }
        }
    }

    /// Publishes the end of the lease, and answers the callers of `proclaim`.
    fn extend(&self, lead: &Lead, pending: &mut Pending) {
        match self.lease_end() {
            Some(end) if end != lead.end() => {
                let is_later = lead.process.now().until(end) > lead.remaining();
                if is_later { lead.extended(end) } else { lead.shortened(end) }
            }
            Some(_) => {}
            None => lead.shortened(lead.process.now()),
        }
        let majority = self.cx.majority();
        for waiting in std::mem::take(&mut pending.proclaims) {
            let stores = self.parts.iter().zip(&waiting.first);
            let carrying = stores.filter(|(part, first)| part.counted >= Some(**first)).count();
            if carrying >= majority {
                // An error means that the caller no longer waits for the reply.
                let _ = waiting.reply.send(Ok(()));
            } else {
                pending.proclaims.push(waiting);
            }
        }
    }

    /// Publishes the state of the stores, and reports its changes. In the first round of renewals,
    /// a store that has not failed so far counts as held, so its state is not reported.
    fn publish(&mut self, lead: &Lead) {
        let hold = |(store, part): (usize, &super::StorePart)| StoreHold {
            store: part.link.cx.store.describe(),
            state: match part.counted {
                Some(_) if part.answers() && part.unrenewed.is_none() => HoldState::Held,
                _ if self.machine.is_lost(store) => HoldState::Lost,
                _ => HoldState::Down,
            },
            last_error: part.failure.as_ref().or(part.unrenewed.as_ref()).cloned(),
        };
        let holds: Vec<StoreHold> = self.parts.iter().enumerate().map(hold).collect();
        lead.set_stores(holds.clone());
        let joins = |it: &StoreHold| match it.state {
            HoldState::Held => true,
            HoldState::Down => it.last_error.is_none(),
            HoldState::Lost => false,
        };
        let (now, first_round) = (self.now().boot, self.main().config.renew_interval);
        let Some(led) = &mut self.led else { return };
        let states: Vec<HoldState> = holds.iter().map(|it| it.state).collect();
        led.gauge.set(|state| states.iter().filter(|it| it.as_str() == state).count());
        if now < led.since.saturating_add(first_round) && holds.iter().all(joins) {
            return;
        }
        let is_whole = states.iter().all(|it| *it == HoldState::Held);
        let before = std::mem::replace(&mut led.reported, states);
        if before == led.reported {
            return;
        }
        if !is_whole {
            let stores: Vec<String> = holds
                .iter()
                .filter(|it| it.state != HoldState::Held)
                .map(|it| format!("{}: {}", it.store, it.state.as_str()))
                .collect();
            tracing::warn!(
                target: "tenure::lease",
                election = self.main().keys.prefix(),
                candidate = self.main().config.name,
                epoch = lead.epoch.get(),
                outcome = "degraded",
                "the leadership does not hold all stores: {}",
                stores.join("; ")
            );
            lead.events.tell(LeadershipEvent::Degraded { stores: holds });
        } else if !before.is_empty() {
            tracing::info!(
                target: "tenure::lease",
                election = self.main().keys.prefix(),
                candidate = self.main().config.name,
                epoch = lead.epoch.get(),
                outcome = "whole",
                "the leadership holds all stores"
            );
            lead.events.tell(LeadershipEvent::Whole);
        }
    }

    /// Processes a command. Returns true if the driver must stop.
    fn take_command(
        &mut self,
        command: Option<Command>,
        lead: &Lead,
        pending: &mut Pending,
        resign_on_drop: bool,
    ) -> bool {
        match command {
            Some(Command::Proclaim { data, reply }) => {
                self.set_data(&data);
                let first = self.parts.iter_mut().map(|part| {
                    let next = part.link.own.heartbeat + 1;
                    part.hurries_to = Some(next);
                    next
                });
                let first = first.collect();
                pending.proclaims.push(Proclaim { first, reply });
            }
            Some(Command::RenewWith { data }) => self.set_data(&data),
            Some(Command::Resign { successor, reserve, reply }) => {
                for part in &mut self.parts {
                    part.link.own.successor.clone_from(&successor);
                    part.link.own.reserve = reserve;
                }
                pending.resign = Some(reply);
                self.handle(AcrossInput::Resign);
            }
            None => {
                pending.dropped = true;
                if pending.resign.is_some() {
                    return false;
                }
                if lead.is_abandoned(resign_on_drop) {
                    return true;
                }
                self.handle(AcrossInput::Resign);
            }
        }
        false
    }

    fn set_data(&mut self, data: &serde_json::Value) {
        self.parts.iter_mut().for_each(|part| part.link.own.data = data.clone());
    }

    fn finish(&mut self, lead: &Lead, lost: Lost, pending: Pending) {
        let loss = self.loss(lost, lead);
        lead.lose(loss.clone());
        lead.log_the_end(self.main(), &loss);
        Span::current().record("outcome", loss.outcome());
        for waiting in pending.proclaims {
            let _ = waiting.reply.send(Err(lead.ended("proclaiming in", &loss)));
        }
        if let Some(reply) = pending.resign {
            let _ = reply.send(match loss {
                Loss::Resigned => Ok(()),
                _ => Err(lead.ended("resigning", &loss)),
            });
        }
    }

    fn loss(&self, lost: Lost, lead: &Lead) -> Loss {
        let records = self.parts.iter().filter_map(|it| it.link.followed.record.as_deref());
        let sealed = |(epoch, record): &&(Epoch, Record)| *epoch == lead.epoch && record.expired;
        let record = records.filter(sealed).map(|(_, record)| record).next();
        lead.reason(lost, record, self.now())
    }
}
