//! The attempt to be elected with `--try`, its bound with `--wait`, and the turn of a host in a period with `--once-per`.

use std::ops::ControlFlow;
use std::time::Duration;

use tenure::{Election, LastSeen, Leadership};
use tracing::info;

use super::lead::{Job, lead, resign};
use super::outcome::Outcome;
use crate::cron::{Attempt, OncePer, attempt};
use crate::exit::{self, Failure};
use crate::output::print::{in_ms, plain};
use crate::process::signals::{self, Signals};
use crate::process::timer::pause;
use crate::store::patience::{AT_START, patiently};

/// Minimum pause of a service before its next campaign.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause of a service after a CMD that was not healthy. If two poll intervals are longer,
/// the pause is two poll intervals.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Makes one attempt to be elected. If another candidate leads, breaks the control flow with the
/// exit code `busy`. A signal also breaks the control flow, with the exit code for the signal.
pub async fn try_once(
    election: &Election,
    look_every: Duration,
    busy: u8,
    signals: &mut Signals,
) -> Result<ControlFlow<u8, Leadership>, Failure> {
    let attempt = tokio::select! {
        biased;
        signal = signals.next() => return Ok(ControlFlow::Break(signals::exit_code(signal))),
        attempt = patiently(Some(AT_START), || attempt(election, look_every)) => attempt?,
    };
    Ok(match attempt {
        Attempt::Elected(leadership) => ControlFlow::Continue(leadership),
        Attempt::Held(leader) => {
            let (name, epoch) = (plain(leader.name()), leader.epoch);
            info!(outcome = "busy", "not waiting: {name} leads epoch {epoch}; exit code {busy}");
            ControlFlow::Break(busy)
        }
    })
}

/// The bound of `--wait`. It includes the work before the campaign.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    pub limit: Duration,
    /// The rest of the limit.
    pub left: Duration,
}

/// `campaign` is the campaign or the work before it. Returns its outcome if it completes within the
/// bound. Otherwise breaks with `busy`, or fails if the store has not answered or the last request
/// has failed. If the campaign was writing an epoch, that epoch lapses within a validity.
pub async fn wait_at_most<T>(
    bound: Bound,
    election: &Election,
    busy: u8,
    campaign: impl Future<Output = Result<ControlFlow<u8, T>, Failure>>,
) -> Result<ControlFlow<u8, T>, Failure> {
    tokio::select! {
        biased;
        elected = campaign => return elected,
        () = pause(bound.left) => {}
    }
    let limit = in_ms(bound.limit);
    if let Some(error) = election.last_failure() {
        return Err(error.into());
    }
    if election.since_last_answer().is_none() {
        let why = format!("the store has not answered within {limit}; check the connection to it");
        return Err(Failure::new(exit::UNAVAILABLE, why));
    }
    let leads = match election.last_seen().filter(LastSeen::is_held) {
        Some(LastSeen { leader, .. }) => {
            format!("{} leads epoch {}", plain(leader.name()), leader.epoch)
        }
        None => "not elected".to_owned(),
    };
    info!(outcome = "busy", "waited for {limit}: {leads}; exit code {busy}");
    Ok(ControlFlow::Break(busy))
}

/// Breaks the control flow with exit code 0 if the period is already completed, so that this host
/// does not campaign.
pub async fn look_first(
    once: Option<&OncePer>,
    signals: &mut Signals,
) -> Result<ControlFlow<u8>, Failure> {
    let Some(once) = once else { return Ok(ControlFlow::Continue(())) };
    tokio::select! {
        biased;
        signal = signals.next() => Ok(ControlFlow::Break(signals::exit_code(signal))),
        over = patiently(Some(AT_START), || once.is_over()) => Ok(match over? {
            true => ControlFlow::Break(0),
            false => ControlFlow::Continue(()),
        }),
    }
}

/// Runs CMD as the leader. With `--once-per`, CMD runs only if the record of the period allows it.
pub async fn lead_in_turn(
    job: &Job,
    once: Option<&OncePer>,
    leadership: Leadership,
    signals: &mut Signals,
) -> Result<Outcome, Failure> {
    let Some(once) = once else { return lead(job, None, leadership, signals).await };
    let epoch = leadership.epoch();
    let taken = tokio::select! {
        biased;
        signal = signals.next() => Ok(ControlFlow::Break(signals::exit_code(signal))),
        loss = leadership.lost() => return Ok(Outcome::lost_before_start(epoch, &loss)),
        taken = once.take(epoch) => taken,
    };
    match taken {
        Ok(ControlFlow::Continue(turn)) => lead(job, Some(turn), leadership, signals).await,
        Ok(ControlFlow::Break(code)) => {
            resign(job, leadership, signals).await;
            Ok(Outcome::Done(code))
        }
        Err(failure) => {
            resign(job, leadership, signals).await;
            Err(failure)
        }
    }
}

/// Waits for two poll intervals, so that another host can make the next attempt. A signal ends the
/// wait, and breaks the control flow with the exit code for the signal.
pub async fn let_others_try(poll: Duration, signals: &mut Signals) -> ControlFlow<u8> {
    tokio::select! {
        biased;
        signal = signals.next() => ControlFlow::Break(signals::exit_code(signal)),
        () = pause(poll.saturating_mul(2)) => ControlFlow::Continue(()),
    }
}

/// Returns the pause before a service campaigns again. Without a pause, repeated failures to start
/// a process would be a busy loop. After a CMD that was not healthy, the pause is two poll
/// intervals, so that another candidate can be elected. The pause doubles with each consecutive CMD
/// that was not healthy, up to a minute. `unhealthy` is the number of these CMDs.
pub fn pause_after(unhealthy: u32, poll: Duration) -> Duration {
    let Some(before) = unhealthy.checked_sub(1) else { return SHORTEST_PAUSE };
    let first = SHORTEST_PAUSE.max(poll.saturating_mul(2));
    first.saturating_mul(1 << before.min(6)).min(LONGEST_PAUSE.max(first))
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, pending, ready};
    use std::sync::Arc;

    use tenure_testkit::fault_store::Fault;
    use tenure_testkit::time::{secs, timed};
    use tenure_testkit::world::{World, elect};

    use super::*;

    fn bound(limit: Duration) -> Bound {
        Bound { limit, left: limit }
    }

    async fn campaign(election: &Election) -> Result<ControlFlow<u8, Leadership>, Failure> {
        Ok(ControlFlow::Continue(election.campaign().await?))
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_the_lease_is_exact() {
        let world = World::new();
        let leader = world.node("a").build().expect("settings that fit");
        let leadership = elect(&leader).await;
        let election = world.node("b").build().expect("settings that fit");
        for limit in [Duration::from_millis(1), secs(15), secs(100)] {
            let waited = wait_at_most(bound(limit), &election, 76, campaign(&election));
            let (took, outcome) = timed(waited).await;
            assert!(matches!(outcome, Ok(ControlFlow::Break(76))), "{limit:?}");
            assert_eq!(took, limit);
        }
        let resigned = async {
            pause(secs(7)).await;
            leadership.resign().await
        };
        let waited = wait_at_most(bound(secs(15)), &election, 76, campaign(&election));
        let (elected, _) = tokio::join!(waited, resigned);
        assert!(matches!(elected, Ok(ControlFlow::Continue(_))));
        let ended: Ready<Result<ControlFlow<u8>, Failure>> = ready(Ok(ControlFlow::Break(143)));
        let ended = wait_at_most(bound(secs(15)), &election, 76, ended);
        assert!(matches!(ended.await, Ok(ControlFlow::Break(143))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_without_answers_is_not_busy() {
        let world = World::new();
        let store = Arc::new(tenure::store::MemoryStore::new());
        let election = Election::builder(store, "p").build().expect("settings that fit");
        let silent = pending::<Result<ControlFlow<u8>, Failure>>();
        let silent = wait_at_most(bound(secs(2)), &election, 76, silent).await;
        assert_eq!(silent.err().map(|failure| failure.code), Some(exit::UNAVAILABLE));
        let store = world.another_way();
        let election = world.node_behind(&store, &world.clock, "b").build().expect("they fit");
        store.always(Fault::FailBefore);
        let failing = wait_at_most(bound(secs(15)), &election, 76, campaign(&election)).await;
        assert_eq!(failing.err().map(|failure| failure.code), Some(exit::UNAVAILABLE));
    }

    #[test]
    fn an_unhealthy_service_campaigns_less_often() {
        let pauses = |poll| {
            [0, 1, 2, 3, 6, 7, 99]
                .map(|times| pause_after(times, Duration::from_secs(poll)).as_secs())
        };
        assert_eq!(pauses(0), [1, 1, 2, 4, 32, 60, 60]);
        assert_eq!(pauses(5), [1, 10, 20, 40, 60, 60, 60]);
        assert_eq!(pauses(600), [1, 1200, 1200, 1200, 1200, 1200, 1200]);
    }
}
