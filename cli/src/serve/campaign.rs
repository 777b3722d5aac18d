//! Campaigns and leads in one election, until the process ends.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tenure::{CampaignEvent, Election, Error, ErrorKind, Leadership};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::candidacy::{
    Candidacy, CandidateRole, ElectionOrder, OrderReply, ResignOrder, Resigned,
};
use super::refusal::Refusal;
use super::stream::Source as _;
use crate::output::logs::Throttle;
use crate::output::print::{in_ms, plain};
use crate::process::lock::lock;
use crate::process::timer::pause;
use crate::store::patience::{AFTER_A_FAILURE, caught};

/// The clocks are looked at this often, as a timer stands still while the machine sleeps.
pub const LOOK: Duration = Duration::from_millis(500);

pub const TOO_LATE: &str = "its lease is about to end, and was not renewed in time";

/// The task of one election.
pub struct Campaigner {
    pub candidacy: Arc<Candidacy>,
    pub orders: mpsc::Receiver<ElectionOrder>,
    /// Whether the application is healthy.
    pub healthy: watch::Receiver<bool>,
    /// Whether this process is to end.
    pub ending: watch::Receiver<bool>,
    /// How long the application has for its work once this process is to end.
    pub grace: Duration,
    /// How long this candidate stays out of the election after it has resigned.
    pub defer_for: Duration,
    pub throttle: Throttle,
}

/// Why a leadership is over.
enum LeadershipOver {
    /// The application has asked for it: its work has ended.
    Resign(ResignOrder, OrderReply<Resigned>),
    Unhealthy,
    /// This process is to end.
    Ending,
    /// The lease was lost, or is about to end.
    Lost,
}

impl Campaigner {
    pub async fn run(mut self) {
        let mut defer_for = None;
        while !*self.ending.borrow() {
            if !caught(self.turn(&mut defer_for)).await {
                self.wait_after("panicked", String::new()).await;
            }
        }
        self.candidacy.enter(CandidateRole::Ending);
    }

    async fn turn(&mut self, defer_for: &mut Option<Duration>) {
        if !*self.healthy.borrow() {
            self.stand_by("app_unhealthy", None).await;
        } else if let Some(time) = defer_for.take() {
            self.stand_by("resigned", Some(time)).await;
        } else if let Some(leadership) = self.campaign().await {
            *defer_for = self.lead(leadership).await;
        }
    }

    /// Leaves the leadership to others, and follows who leads: for this time, or until the
    /// application is healthy.
    async fn stand_by(&mut self, why: &'static str, time: Option<Duration>) {
        self.candidacy.enter(CandidateRole::Standby(why));
        match time {
            Some(time) => info!(outcome = "standby", "no campaign for {}: {why}", in_ms(time)),
            None => info!(outcome = "standby", "no campaign: {why}"),
        }
        let over = async {
            match time {
                Some(time) => pause(time).await,
                None => drop(self.healthy.wait_for(|healthy| *healthy).await),
            }
        };
        let looking = follow(&self.candidacy.election);
        tokio::select! {
            biased;
            _ = self.ending.wait_for(|ending| *ending) => {}
            () = over => {}
            never = refuse_all(&mut self.orders) => match never {},
            never = looking => match never {},
        }
    }

    /// Waits until elected; `None` if something else is to be done first.
    async fn campaign(&mut self) -> Option<Leadership> {
        self.candidacy.enter(CandidateRole::Campaigning);
        let election = &self.candidacy.election;
        let campaign = async {
            let mut events = election.events();
            let mut campaign = std::pin::pin!(election.campaign());
            loop {
                tokio::select! {
                    biased;
                    elected = &mut campaign => return elected,
                    Some(event) = events.next() => log(&event, &mut self.throttle),
                }
            }
        };
        let elected = tokio::select! {
            biased;
            _ = self.ending.wait_for(|ending| *ending) => return None,
            _ = self.healthy.wait_for(|healthy| !*healthy) => return None,
            elected = campaign => elected,
            never = refuse_all(&mut self.orders) => match never {},
        };
        match elected {
            Ok(leadership) => Some(leadership),
            Err(error) => {
                self.failed(&error).await;
                None
            }
        }
    }

    /// Retrying cannot fix it, but an operator can while the other elections go on.
    async fn failed(&mut self, error: &Error) {
        let why = plain(&error.to_string());
        if self.throttle.is_due(error) {
            let again = in_ms(AFTER_A_FAILURE);
            warn!(outcome = "failed", "the campaign failed, and is repeated in {again}: {why}");
        }
        self.wait_after(code_of(error.kind()), why).await;
    }

    async fn wait_after(&mut self, failure: &'static str, why: String) {
        *lock(&self.candidacy.failure) = why;
        self.candidacy.enter(CandidateRole::Failed(failure));
        tokio::select! {
            biased;
            _ = self.ending.wait_for(|ending| *ending) => {}
            () = pause(AFTER_A_FAILURE) => {}
            never = refuse_all(&mut self.orders) => match never {},
        }
    }

    /// Leads until the leadership is over. Returns how long to stay out of the election then.
    async fn lead(&mut self, leadership: Leadership) -> Option<Duration> {
        let epoch = leadership.epoch();
        // From here on replies say so, until the lease or this task ends it.
        self.candidacy.enter(CandidateRole::Leading(leadership.lease()));
        info!(outcome = "elected", "elected: epoch {epoch}");
        match self.until_over(&leadership).await {
            LeadershipOver::Lost => {
                // What the application does is not known, so the lease is left to lapse.
                match leadership.check() {
                    Err(loss) => {
                        let why = plain(&loss.to_string());
                        warn!(outcome = "lost", "epoch {epoch} is lost: {why}");
                    }
                    Ok(_) => warn!(outcome = "lost", "epoch {epoch} is given up: {TOO_LATE}"),
                }
                None
            }
            LeadershipOver::Unhealthy => {
                self.candidacy.give_up("app_unhealthy");
                warn!(outcome = "app_unhealthy", "the application is not healthy: resigning");
                resign(leadership, None).await;
                None
            }
            LeadershipOver::Ending => {
                self.candidacy.give_up("ending");
                self.drain(leadership).await;
                None
            }
            LeadershipOver::Resign(ResignOrder { successor, pause }, reply) => {
                self.candidacy.give_up("resigned");
                let sealed = resign(leadership, successor).await;
                let _ = reply.send(Ok(Resigned { epoch: epoch.get(), sealed }));
                Some(pause.unwrap_or(self.defer_for))
            }
        }
    }

    async fn until_over(&mut self, leadership: &Leadership) -> LeadershipOver {
        let candidacy = &self.candidacy;
        let mut changes = candidacy.changes();
        let mut proclaims = FuturesUnordered::new();
        loop {
            let Some((epoch, left)) = candidacy.leadership() else { return LeadershipOver::Lost };
            tokio::select! {
                biased;
                _ = self.ending.wait_for(|ending| *ending) => return LeadershipOver::Ending,
                _ = self.healthy.wait_for(|healthy| !*healthy) => return LeadershipOver::Unhealthy,
                _ = leadership.lost() => {}
                _ = changes.changed() => {}
                Some(()) = proclaims.next(), if !proclaims.is_empty() => {}
                Some(order) = self.orders.recv() => match order {
                    ElectionOrder::Proclaim { epoch: Some(only), reply, .. } if only != epoch => {
                        let _ = reply.send(Err(other_epoch(epoch)));
                    }
                    ElectionOrder::Resign { epoch: Some(only), reply, .. } if only != epoch => {
                        let _ = reply.send(Err(other_epoch(epoch)));
                    }
                    ElectionOrder::Resign { order, reply, .. } => return LeadershipOver::Resign(order, reply),
                    ElectionOrder::Proclaim { data, reply, .. } => proclaims.push(async move {
                        let outcome = leadership.proclaim(data.clone()).await;
                        if outcome.is_ok() {
                            candidacy.proclaimed(data);
                        }
                        let _ = reply.send(outcome.map(|()| epoch).map_err(|error| of(&error)));
                    }),
                },
                () = pause(left.min(LOOK)) => {}
            }
        }
    }

    /// The application has its grace to end its work, and the lease is renewed meanwhile. It ends
    /// the wait by resigning.
    async fn drain(&mut self, leadership: Leadership) {
        info!(outcome = "ending", "resigning after a grace of {}", in_ms(self.grace));
        let epoch = leadership.epoch().get();
        let asked = async {
            while let Some(order) = self.orders.recv().await {
                match order {
                    ElectionOrder::Resign { epoch: only, order, reply }
                        if only.is_none_or(|only| only == epoch) =>
                    {
                        return Some((order, reply));
                    }
                    other => refuse(other, &Refusal::ENDING),
                }
            }
            None
        };
        let asked = tokio::select! {
            biased;
            asked = asked => asked,
            _ = leadership.lost() => None,
            () = pause(self.grace) => None,
        };
        let (order, reply) = asked.unzip();
        let sealed = resign(leadership, order.and_then(|order| order.successor)).await;
        if let Some(reply) = reply {
            let _ = reply.send(Ok(Resigned { epoch, sealed }));
        }
    }
}

/// Gives up the epoch; true if others need not wait for its lapse.
async fn resign(leadership: Leadership, successor: Option<String>) -> bool {
    let epoch = leadership.epoch();
    let outcome = match successor {
        Some(name) => leadership.resign_to(name).boxed().await,
        None => leadership.resign().boxed().await,
    };
    match outcome {
        Ok(()) => {
            info!(outcome = "resigned", "resigned epoch {epoch}");
            true
        }
        // The epoch was sealed, or its lease has ended: there is nothing to resign.
        Err(error) if error.kind() == ErrorKind::LeadershipLost => {
            let why = plain(&error.to_string());
            warn!(outcome = "not_resigned", "epoch {epoch} is not resigned: {why}");
            false
        }
        Err(error) => {
            let why = plain(&error.to_string());
            warn!(
                outcome = "not_resigned",
                "epoch {epoch} is not resigned, others wait until its lease lapses: {why}"
            );
            false
        }
    }
}

/// Follows who leads, for the replies.
async fn follow(election: &Election) -> Infallible {
    loop {
        let mut changes = election.observe();
        while let Some(Ok(_)) = changes.next().await {}
        // An error that retrying cannot fix ended it: as a campaign does, it looks again.
        pause(AFTER_A_FAILURE).await;
    }
}

/// Only a leader carries out orders.
async fn refuse_all(orders: &mut mpsc::Receiver<ElectionOrder>) -> Infallible {
    while let Some(order) = orders.recv().await {
        refuse(order, &Refusal::NOT_LEADING);
    }
    // The candidacy holds a sender.
    std::future::pending().await
}

fn refuse(order: ElectionOrder, why: &Refusal) {
    match order {
        ElectionOrder::Proclaim { reply, .. } => drop(reply.send(Err(why.clone()))),
        ElectionOrder::Resign { reply, .. } => drop(reply.send(Err(why.clone()))),
    }
}

fn other_epoch(epoch: u64) -> Refusal {
    Refusal::new(
        409,
        "other_epoch",
        format!("this candidate leads epoch {epoch}; nothing was changed"),
    )
}

/// What a client gets for an error of `proclaim`.
fn of(error: &Error) -> Refusal {
    match error.kind() {
        ErrorKind::InvalidInput => Refusal::new(413, "data_too_long", plain(&error.to_string())),
        _ if error.may_have_happened() => Refusal::UNKNOWN_OUTCOME,
        _ => Refusal::NOT_LEADING,
    }
}

/// One stable word, as `reason` of a failed election.
pub fn code_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AccessDenied => "access_denied",
        ErrorKind::NoSuchStore => "no_such_store",
        ErrorKind::UnsafeStore => "unsafe_store",
        ErrorKind::CorruptRecord => "corrupt_record",
        ErrorKind::RecordTooNew => "record_too_new",
        ErrorKind::EpochsExhausted => "epochs_exhausted",
        ErrorKind::NewestDeleted => "newest_deleted",
        _ => "unavailable",
    }
}

fn log(event: &CampaignEvent, throttle: &mut Throttle) {
    match event {
        CampaignEvent::Following(leader) => {
            let (name, epoch) = (plain(leader.name()), leader.epoch);
            info!(outcome = "following", "waiting: {name} leads epoch {epoch}");
        }
        CampaignEvent::StoreFailed(error) if throttle.is_due(error) => {
            let why = plain(&error.to_string());
            warn!(outcome = "store_failed", "the store fails, trying again: {why}");
        }
        _ => {}
    }
}
