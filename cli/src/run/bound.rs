//! The bound of a campaign: the single attempt of `--try`, and the limit of `--wait`.

use std::ops::ControlFlow;
use std::time::Duration;

use tenure::{Election, LastSeen, Leadership};
use tracing::info;

use crate::cron::{Attempt, attempt};
use crate::exit::{self, Failure};
use crate::output::print::{in_ms, plain};
use crate::process::signals::{self, Signals};
use crate::process::timer::pause;
use crate::store::patience::{AT_START, patiently};

/// Makes one attempt to be elected. If another candidate leads, returns `Break` with the exit code
/// `busy`. After a signal, returns `Break` with the exit code for the signal.
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

/// The limit of `--wait`. The time that passes before the campaign counts toward this limit.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    pub limit: Duration,
    /// The part of `limit` that has not passed yet.
    pub left: Duration,
}

/// Waits for `campaign`, which campaigns or does the work before a campaign. Returns its outcome if
/// it completes within the bound. If the bound passes first, returns an error if the last request
/// has failed, or if the store has never answered. In all other cases returns `Break` with the exit
/// code `busy`. An epoch that the campaign was writing when the bound passed lapses within a
/// validity.
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
    async fn the_wait_ends_exactly_at_its_limit() {
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
    async fn a_silent_or_failing_store_is_unavailable_and_not_busy() {
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
}
