//! The state that the application and the driver of one leadership share: the end of the lease and
//! the status of the leadership. Either side may detect the end of the leadership first.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::listeners::Listeners;
use super::pulse::Pulse;
use super::{LeadershipEvent, Loss, SharedValues};
use crate::driver::across::StoreHold;
use crate::env::moment::Moment;
use crate::env::mutex::unpoisoned;
use crate::env::process::Process;
use crate::env::timer::{LOOK, pause};
use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::lease::risk_margin;
use crate::telemetry::Leading;

/// The status of a leadership. A loss is final.
#[derive(Debug, Clone)]
pub(crate) enum Status {
    Safe,
    /// The remaining time is less than [`risk_margin`].
    AtRisk,
    Lost(Loss),
}

/// A command from the application to the driver.
#[derive(Debug)]
pub(crate) enum Command {
    Proclaim {
        data: Value,
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// Publishes data with the next renewal. The driver sends no reply.
    RenewWith {
        data: Value,
    },
    Resign {
        successor: Option<String>,
        reserve: Option<Duration>,
        reply: oneshot::Sender<Result<(), Error>>,
    },
}

/// The state shared by the driver and the application's [`Leadership`](crate::Leadership).
#[derive(Debug)]
pub(crate) struct Lead {
    // These values do not change after the election.
    pub(crate) epoch: Epoch,
    pub(crate) candidate: String,
    pub(crate) validity: Duration,
    pub(crate) process: Process,
    /// Values that all tasks under this leadership share.
    pub(crate) shared: SharedValues,

    // These fields hold the lease, and the state that depends on the lease.
    lease: Mutex<LeaseFacts>,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) events: Listeners<LeadershipEvent>,
    /// Token that cancels the work under this leadership. Work that begins after a risk has passed
    /// gets a new token.
    work: Mutex<CancellationToken>,
    leading: Leading,
    /// The stores of an election across stores.
    stores: Mutex<Vec<StoreHold>>,
}

/// The lease, and the facts that explain its end.
#[derive(Debug)]
struct LeaseFacts {
    end: Moment,
    pulse: Pulse,
    last_error: Option<Error>,
    /// Send time of the last failed request that was not abandoned early, on the boot clock.
    failed: Option<Duration>,
}

impl Lead {
    pub(crate) fn new(
        epoch: Epoch,
        candidate: String,
        validity: Duration,
        process: Process,
        end: Moment,
        leading: Leading,
    ) -> Lead {
        let (status, _) = watch::channel(Status::Safe);
        let pulse = Pulse::new(process.now());
        let lease = Mutex::new(LeaseFacts { end, pulse, last_error: None, failed: None });
        let events = Listeners::default();
        let work = Mutex::default();
        let shared = SharedValues::default();
        Lead {
            epoch,
            candidate,
            validity,
            process,
            shared,
            status,
            events,
            lease,
            work,
            leading,
            stores: Mutex::default(),
        }
    }

    /// Returns the maximum time between two readings of the clocks.
    fn look_interval(&self) -> Duration {
        LOOK.min(self.validity / 10)
    }

    fn held(&self) -> MutexGuard<'_, LeaseFacts> {
        unpoisoned(self.lease.lock())
    }

    /// Returns the end of the lease on each clock.
    pub(crate) fn end(&self) -> Moment {
        self.held().end
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.process.now().until(self.end())
    }

    /// Returns the loss, if the leadership has ended.
    pub(crate) fn loss(&self) -> Option<Loss> {
        match &*self.status.borrow() {
            Status::Lost(loss) => Some(loss.clone()),
            _ => None,
        }
    }

    /// Returns the epoch while the lease runs, and the loss after its end.
    pub(crate) fn check(&self) -> Result<Epoch, Loss> {
        if self.remaining().is_zero() {
            // This call may detect the end before the driver does. The loss is final, so a clock
            // that is set back cannot revive the lease.
            self.look();
        }
        match self.loss() {
            Some(loss) => Err(loss),
            None => Ok(self.epoch),
        }
    }

    /// Waits until the leadership has ended, and returns the loss.
    pub(crate) async fn lost(&self) -> Loss {
        let mut status = self.status.subscribe();
        loop {
            if let Status::Lost(loss) = &*status.borrow_and_update() {
                return loss.clone();
            }
            self.news(&mut status).await;
        }
    }

    /// Waits until the lease is at risk or has ended. Returns the loss if it has ended.
    pub(crate) async fn ending(&self) -> Option<Loss> {
        let mut status = self.status.subscribe();
        loop {
            self.look_for_risk();
            match &*status.borrow_and_update() {
                Status::Safe => {}
                Status::AtRisk => return None,
                Status::Lost(loss) => return Some(loss.clone()),
            }
            self.news(&mut status).await;
        }
    }

    /// Returns true if the lease has ended, now or at an earlier check. A clock that is set back
    /// does not revive the lease.
    pub(crate) fn has_ended(&self) -> bool {
        let ended =
            |status: &Status| matches!(status, Status::Lost(loss) if loss.is_by_the_clock());
        self.remaining().is_zero() || ended(&self.status.borrow())
    }

    /// Reads the clocks. If the lease is at risk or has ended, updates the status.
    pub(crate) fn look(&self) {
        let now = self.process.now();
        self.held().pulse.beat(now);
        let left = self.remaining();
        self.leading.remains(left);
        if left.is_zero() {
            self.lose(self.why_ended(now));
        } else if left <= risk_margin(self.validity) {
            self.at_risk(left);
        }
    }

    /// Calls [`look`](Lead::look) if the clocks show that the lease is at risk. Otherwise this
    /// method costs only one reading of the clocks.
    pub(crate) fn look_for_risk(&self) {
        if self.remaining() <= risk_margin(self.validity) {
            self.look();
        }
    }

    /// Returns a token for new work. The first task that detects that the lease is at risk or lost
    /// cancels the token.
    pub(crate) fn begin_work(&self) -> CancellationToken {
        let mut work = unpoisoned(self.work.lock());
        if work.is_cancelled() {
            *work = CancellationToken::new();
        }
        let token = work.clone();
        drop(work);
        // If the lease is at risk, the report of the risk has cancelled only the previous token. So
        // this function cancels the new token too.
        if !matches!(*self.status.borrow(), Status::Safe) {
            token.cancel();
        }
        token
    }

    fn cancel_work(&self) {
        unpoisoned(self.work.lock()).cancel();
    }

    /// Returns the time until the next reading of the clocks. At the latest, the reading comes when
    /// the lease becomes at risk, or when a lease at risk ends.
    pub(crate) fn until_look(&self) -> Duration {
        let left = self.remaining();
        let until_risk = left.saturating_sub(risk_margin(self.validity));
        let next = if until_risk.is_zero() { left } else { until_risk };
        next.min(self.look_interval())
    }

    /// Reads the clocks repeatedly until the lease has ended.
    pub(crate) async fn watch(&self) {
        loop {
            self.look();
            if self.has_ended() {
                return;
            }
            pause(self.until_look()).await;
        }
    }

    /// Waits for a change of the status. This method reads the clocks itself, because the driver's
    /// runtime may have shut down.
    pub(crate) async fn news(&self, status: &mut watch::Receiver<Status>) {
        tokio::select! {
            biased;
            // The sender lives in `self`, so the channel is open.
            _ = status.changed() => {}
            () = pause(self.until_look()) => self.look(),
        }
    }

    /// Returns the reason why the lease has ended. The lease must have ended at `now`.
    pub(crate) fn why_ended(&self, now: Moment) -> Loss {
        if let Some(loss) = self.loss().filter(Loss::is_by_the_clock) {
            // An earlier call detected the loss. A clock may have been set since that call, so the
            // recorded reason stays.
            return loss;
        }
        let held = self.held();
        if let Some(by) = wall_clock_ahead(held.end, now) {
            return Loss::WallClockAhead { by };
        }
        let gap = held.pulse.longest_gap();
        // The gap is a pause of the process. If a request that was sent after this pause has
        // failed, the store, and not the pause, has caused the end of the lease.
        let tried_since = held.failed.is_some_and(|sent| sent >= held.pulse.gap_over());
        if gap > self.look_interval() + self.validity / 5 && !tried_since {
            return Loss::Suspended { gap };
        }
        Loss::LeaseEnded { last_error: held.last_error.clone() }
    }

    /// Returns the error of the last request, if it failed.
    pub(crate) fn last_error(&self) -> Option<Error> {
        self.held().last_error.clone()
    }

    /// Notes the outcome of a request. An `error` of `None` clears the last error. `sent` is the
    /// send time of the request on the boot clock, or `None` if it was abandoned early.
    pub(crate) fn failed(&self, error: Option<&Error>, sent: Option<Duration>) {
        let mut held = self.held();
        held.last_error = error.cloned();
        held.failed = error.and(sent.or(held.failed));
    }

    /// Ends the leadership for this reason, unless it has ended already.
    pub(crate) fn lose(&self, loss: Loss) {
        let news = self.status.send_if_modified(|status| {
            let news = !matches!(status, Status::Lost(_));
            if news {
                *status = Status::Lost(loss.clone());
            }
            news
        });
        if news {
            self.cancel_work();
            self.leading.lost(loss.outcome());
            self.events.tell(LeadershipEvent::Lost(loss));
        }
    }

    /// Extends the lease until `end`. This call does not revoke a loss, and sends no event during a
    /// resignation.
    pub(crate) fn extended(&self, end: Moment) {
        let pulse = Pulse::new(self.process.now());
        *self.held() = LeaseFacts { end, pulse, last_error: None, failed: None };
        self.status.send_if_modified(|status| {
            let was_at_risk = matches!(status, Status::AtRisk);
            if was_at_risk {
                *status = Status::Safe;
            }
            was_at_risk
        });
        self.leading.remains(self.remaining());
        if self.loss().is_none() {
            self.events.tell(LeadershipEvent::Renewed { remaining: self.remaining() });
        }
    }

    /// Sets an earlier end of the lease, because the lease at a store no longer counts.
    pub(crate) fn shortened(&self, end: Moment) {
        self.held().end = end;
        self.leading.remains(self.remaining());
    }

    /// Returns the stores of an election across stores.
    pub(crate) fn stores(&self) -> Vec<StoreHold> {
        unpoisoned(self.stores.lock()).clone()
    }

    /// Sets the stores of an election across stores.
    pub(crate) fn set_stores(&self, stores: Vec<StoreHold>) {
        *unpoisoned(self.stores.lock()) = stores;
    }

    fn at_risk(&self, remaining: Duration) {
        let news = self.status.send_if_modified(|status| {
            let news = matches!(status, Status::Safe);
            if news {
                *status = Status::AtRisk;
            }
            news
        });
        if news {
            self.cancel_work();
            self.leading.at_risk();
            let last_error = self.held().last_error.clone();
            self.events.tell(LeadershipEvent::AtRisk { remaining, last_error });
        }
    }
}

/// Returns the gain of the wall clock on the boot clock, if only the wall clock ended the lease.
fn wall_clock_ahead(end: Moment, now: Moment) -> Option<Duration> {
    let boot = end.boot.checked_sub(now.boot)?;
    let raw = end.raw.checked_sub(now.raw)?;
    let gained = match now.wall.checked_sub(end.wall) {
        Some(beyond) => boot.saturating_add(beyond),
        None => boot.saturating_sub(end.wall.saturating_sub(now.wall)),
    };
    (!boot.is_zero() && !raw.is_zero() && !gained.is_zero()).then_some(gained)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_the_reason_if_no_other_clock_ended_the_lease() {
        let at = |boot, raw, wall| {
            let [boot, raw, wall] = [boot, raw, wall].map(Duration::from_secs);
            Moment { boot, raw, wall }
        };
        let end = at(10, 10, 10);
        for (now, ahead) in [
            (at(4, 4, 12), Some(8)),
            (at(4, 4, 10), Some(6)),
            (at(4, 4, 7), Some(3)),
            (at(4, 4, 4), None),
            (at(4, 4, 2), None),
            (at(10, 4, 12), None),
            (at(4, 10, 12), None),
            (at(11, 4, 12), None),
            (at(4, 11, 12), None),
        ] {
            assert_eq!(wall_clock_ahead(end, now), ahead.map(Duration::from_secs), "{now:?}");
        }
    }
}
