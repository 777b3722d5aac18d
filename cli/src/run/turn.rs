//! With `--once-per`, decides whether this host runs CMD in the period. Computes the pauses between
//! two campaigns.

use std::ops::ControlFlow;
use std::time::Duration;

use tenure::Leadership;

use super::lead::{Job, lead, resign};
use super::outcome::Outcome;
use crate::cron::OncePer;
use crate::exit::Failure;
use crate::process::signals::{self, Signals};
use crate::process::timer::pause;
use crate::store::patience::{AT_START, patiently};

/// Minimum pause of a service between the end of CMD and its next campaign.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause of a service after a CMD that was not healthy. If two poll intervals are longer,
/// the pause is two poll intervals.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Returns `Break` with exit code 0 if this host can skip the period without a campaign. After a
/// signal, returns `Break` with the exit code for the signal.
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
/// wait. The result is then `Break` with the exit code for the signal.
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
/// that was not healthy, up to the longer of a minute and two poll intervals. `unhealthy` is the
/// number of these consecutive CMDs.
pub fn pause_after(unhealthy: u32, poll: Duration) -> Duration {
    let Some(before) = unhealthy.checked_sub(1) else { return SHORTEST_PAUSE };
    let first = SHORTEST_PAUSE.max(poll.saturating_mul(2));
    first.saturating_mul(1 << before.min(6)).min(LONGEST_PAUSE.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

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
