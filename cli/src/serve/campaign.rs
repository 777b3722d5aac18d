//! Campaigns and leads in one election, until the process ends.

use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tenure::{CampaignEvent, Error, ErrorKind, Leadership};
use tracing::{info, warn};

use super::candidacy::{Candidacy, ElectionOrder, ResignOrder, Resigned};
use super::machine::{
    Common, LOOK, Machine, OrderReply, ServedRole, ServedTask, TOO_LATE, refuse_all, until,
};
use crate::http::refusal::Refusal;
use crate::output::logs::Throttle;
use crate::output::print::{in_ms, plain};
use crate::process::timer::pause;

/// The reason for the end of a leadership of this sidecar.
enum LeadershipOver {
    /// The application has ended its work and ordered this process to resign.
    Resign(ResignOrder, OrderReply<Resigned>),
    Unhealthy,
    /// This process must end, so the application gets its grace.
    Ending,
    /// The lease was lost, or is about to end.
    Lost,
}

impl Machine for Candidacy {
    type Order = ElectionOrder;

    const SEEKING: &str = "the campaign";
    const NO_SEEKING: &str = "no campaign";
    const GIVEN_UP: &str = "resigned";

    fn common(&self) -> &Common<ElectionOrder> {
        &self.common
    }

    fn enter(&self, role: ServedRole) {
        Candidacy::enter(self, role);
    }

    async fn follow(&self) {
        let mut changes = self.election.observe();
        while let Some(Ok(_)) = changes.next().await {}
    }

    fn refuse(order: ElectionOrder) {
        refuse(order, &Refusal::NOT_LEADING);
    }

    async fn seek_and_hold(task: &mut ServedTask<Candidacy>) -> Option<Duration> {
        let leadership = task.campaign().await?;
        task.lead(leadership).await
    }
}

impl ServedTask<Candidacy> {
    /// Campaigns until elected. Returns `None` if the process ends, the application becomes
    /// unhealthy, or the campaign fails.
    async fn campaign(&mut self) -> Option<Leadership> {
        self.machine.enter(ServedRole::Seeking);
        let election = &self.machine.election;
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
            () = until(&mut self.ending, true) => return None,
            () = until(&mut self.healthy, false) => return None,
            elected = campaign => elected,
            never = refuse_all::<Candidacy>(&mut self.orders) => match never {},
        };
        match elected {
            Ok(leadership) => Some(leadership),
            Err(error) => {
                self.failed(&error).await;
                None
            }
        }
    }

    /// Serves as the leader until the leadership ends. Returns the pause before the next campaign.
    async fn lead(&mut self, leadership: Leadership) -> Option<Duration> {
        let epoch = leadership.epoch();
        // From this call on, replies report the leadership, until the lease ends or this task gives
        // up the leadership.
        self.machine.elected(leadership.lease());
        info!(outcome = "elected", "elected: epoch {epoch}");
        match self.until_over(&leadership).await {
            LeadershipOver::Lost => {
                // The application may still work, so this process does not resign, and other
                // candidates wait until the lease lapses.
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
                self.machine.give_up("app_unhealthy");
                warn!(outcome = "app_unhealthy", "the application is not healthy: resigning");
                resign(leadership, None).await;
                None
            }
            LeadershipOver::Ending => {
                self.machine.give_up("ending");
                self.drain(leadership).await;
                None
            }
            LeadershipOver::Resign(ResignOrder { successor, pause }, reply) => {
                self.machine.give_up("resigned");
                let sealed = resign(leadership, successor).await;
                let _ = reply.send(Ok(Resigned { epoch: epoch.get(), sealed }));
                Some(pause.unwrap_or(self.defer_for))
            }
        }
    }

    async fn until_over(&mut self, leadership: &Leadership) -> LeadershipOver {
        let candidacy = &self.machine;
        let mut changes = candidacy.common.changes.subscribe();
        let mut proclaims = FuturesUnordered::new();
        loop {
            let Some((epoch, left)) = candidacy.leadership() else { return LeadershipOver::Lost };
            tokio::select! {
                biased;
                () = until(&mut self.ending, true) => return LeadershipOver::Ending,
                () = until(&mut self.healthy, false) => return LeadershipOver::Unhealthy,
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
                    ElectionOrder::Resign { order, reply, .. } => {
                        return LeadershipOver::Resign(order, reply);
                    }
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

    /// Gives the application the grace to end its work, and renews the lease during the grace. The
    /// grace ends early if the application resigns.
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

/// Resigns the epoch. Returns whether this process has sealed the epoch. If it has, other
/// candidates do not wait until the lease lapses.
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
        // The epoch is already sealed, or its lease has ended, so nothing is left to resign.
        Err(error) if error.kind() == ErrorKind::LeadershipLost => {
            let why = plain(&error.to_string());
            warn!(outcome = "not_resigned", "epoch {epoch} is not resigned: {why}");
            false
        }
        Err(error) => {
            let why = plain(&error.to_string());
            warn!(
                outcome = "not_resigned",
                "epoch {epoch} is not resigned ({why}): other candidates wait for its lapse"
            );
            false
        }
    }
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

/// Returns the reply to the client for an error of `proclaim`.
fn of(error: &Error) -> Refusal {
    match error.kind() {
        ErrorKind::InvalidInput => Refusal::new(413, "data_too_long", plain(&error.to_string())),
        _ if error.may_have_happened() => Refusal::UNKNOWN_OUTCOME,
        _ => Refusal::NOT_LEADING,
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
