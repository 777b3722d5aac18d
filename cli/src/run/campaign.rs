//! The campaign of `tenure run`, with its log lines.

use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use tenure::{CampaignEvent, Election, Error, ErrorKind, Leadership};
use tracing::{info, warn};

use super::health::{CandidatePhase, ElectionHealth};
use crate::exit::Failure;
use crate::output::logs::Throttle;
use crate::output::print::{in_ms, plain};
use crate::process::signals::{self, Signals};
use crate::process::timer::pause;
use crate::store::patience::{AFTER_A_FAILURE, AT_START, OF_THE_MACHINE};

/// Campaigns until this process is elected. A signal ends the campaign with an exit code. If the
/// campaign has already written an epoch, this epoch lapses within a validity. `patience` limits
/// the retries of temporary errors.
pub(super) async fn campaign(
    election: &Election,
    signals: &mut Signals,
    health: &ElectionHealth,
    patience: Option<Duration>,
) -> Result<ControlFlow<u8, Leadership>, Failure> {
    let mut throttle = Throttle::default();
    let has_worked = || election.since_last_answer().is_some();
    loop {
        health.enter(CandidatePhase::Campaigning);
        let error = match campaign_once(election, signals, health, patience, &mut throttle).await {
            Ok(elected) => return Ok(elected),
            Err(error) if patience.is_none() && !error.kind().ends_a_service(has_worked()) => error,
            Err(error) => return Err(error.into()),
        };
        if throttle.is_due(&error) {
            let why = plain(&error.to_string());
            warn!(outcome = "failed", "the campaign failed, and is retried: {why}");
        }
        health.failed(&error);
        tokio::select! {
            signal = signals.next() => return Ok(ControlFlow::Break(signals::exit_code(signal))),
            () = pause(AFTER_A_FAILURE) => {}
        }
    }
}

async fn campaign_once(
    election: &Election,
    signals: &mut Signals,
    health: &ElectionHealth,
    patience: Option<Duration>,
    throttle: &mut Throttle,
) -> Result<ControlFlow<u8, Leadership>, Error> {
    let mut events = election.events();
    let mut campaign = pin!(election.campaign());
    let mut followed = None;
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => {
                return Ok(ControlFlow::Break(signals::exit_code(signal)));
            }
            elected = &mut campaign => return Ok(ControlFlow::Continue(elected?)),
            Some(event) = events.next() => match event {
                CampaignEvent::Following(leader) => {
                    let (name, epoch) = (plain(leader.name()), leader.epoch);
                    // The campaign reports the same leader again if its attempt to seal the epoch
                    // fails. Only the first report is logged.
                    if followed.replace(epoch) != Some(epoch) {
                        info!(outcome = "following", "waiting: {name} leads epoch {epoch}");
                    }
                    health.enter(CandidatePhase::Following);
                }
                CampaignEvent::StoreFailed(error) if throttle.is_due(&error) => {
                    let why = plain(&error.to_string());
                    let limit = match (error.kind(), patience) {
                        (ErrorKind::AccessDenied | ErrorKind::NoSuchStore, Some(patience)) => {
                            let of_machine = error.is_of_the_machine() && patience == AT_START;
                            let patience = if of_machine { OF_THE_MACHINE } else { patience };
                            format!(" for {}", in_ms(patience))
                        }
                        _ => String::new(),
                    };
                    warn!(outcome = "store_failed", "the store fails, trying again{limit}: {why}");
                }
                _ => {}
            },
        }
    }
}
