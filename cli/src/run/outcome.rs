//! The outcome of one leadership.

use tenure::{Epoch, Loss};
use tracing::{info, warn};

use crate::cron::Turn;
use crate::exit::{self, Failure};
use crate::guard::Stop;
use crate::output::print::plain;

/// The outcome of one leadership of `tenure run`.
pub enum Outcome {
    /// CMD was not started, because a signal arrived, or because this host must not run CMD in the
    /// period. Contains the exit code.
    Done(u8),
    /// CMD ended under a valid lease, without an intervention of the guard.
    Ended {
        code: u8,
        /// True if a signal asked `tenure` to end before CMD ended.
        asked_to_end: bool,
    },
    /// CMD failed with this exit code while the lease was valid, and may run again in the same
    /// period.
    Retry(u8),
    /// CMD was stopped because the lease was lost or at risk, or because CMD was not healthy. This
    /// is also the outcome if CMD ended after the end of the lease, or if the lease was lost before
    /// CMD was started.
    Lost {
        why: String,
        /// True if a signal asked `tenure` to end before CMD ended.
        asked_to_end: bool,
        /// True if CMD was stopped because it was not healthy.
        unhealthy: bool,
    },
}

impl Outcome {
    pub fn lost_before_start(epoch: Epoch, loss: &Loss) -> Outcome {
        let why = format!("lost epoch {epoch} before CMD was started: {}", loss_text(loss));
        Outcome::Lost { why, asked_to_end: false, unhealthy: false }
    }
}

/// Returns the exit code of a service after CMD has ended under a valid lease. The code of CMD is
/// not passed on. A supervisor acts on the exit codes of `tenure`, and must not mistake a code of
/// CMD for one of these codes.
pub fn code_of_service(code: u8, asked_to_end: bool) -> u8 {
    match code {
        0 => 0,
        code if asked_to_end => {
            info!(outcome = "ended", "CMD was asked to end, and ended with exit code {code}");
            0
        }
        code => {
            warn!(outcome = "cmd_failed", "CMD ended with exit code {code}");
            exit::CMD_FAILED
        }
    }
}

/// Returns the text for an outcome `Lost`. The text says that CMD was not healthy, that the epoch
/// was lost, or that the lease was at risk. Fails if the guard has died.
pub fn why_lost(
    stop: Option<Stop>,
    unhealthy: Option<String>,
    loss: Option<Loss>,
    epoch: Epoch,
) -> Result<String, Failure> {
    match (stop, unhealthy, loss) {
        (Some(Stop::Unguarded), ..) => {
            Err(Failure::new(exit::OS, "the guard has died, so CMD was killed"))
        }
        (_, Some(why), _) => Ok(format!("gave up epoch {epoch}: {why}, so CMD was stopped")),
        (_, None, Some(loss)) => Ok(format!("lost epoch {epoch}: {}", loss_text(&loss))),
        (_, None, None) => Ok(format!("epoch {epoch} was at risk, so CMD was stopped")),
    }
}

/// Returns the outcome of a leadership in which CMD ended under a valid lease.
pub fn outcome_of(
    code: u8,
    turn: Option<Turn>,
    recorded: Result<(), Failure>,
    asked_to_end: bool,
) -> Result<Outcome, Failure> {
    match recorded {
        // CMD has succeeded, but its success is not recorded, and another host may run CMD again.
        // So the command fails.
        Err(failure) if code == 0 => return Err(failure),
        Err(failure) => warn!(outcome = "store_failed", "{}", failure.why),
        Ok(()) => {}
    }
    let again = code != 0 && !asked_to_end && turn.is_some_and(|turn| turn.may_retry());
    Ok(if again { Outcome::Retry(code) } else { Outcome::Ended { code, asked_to_end } })
}

pub fn loss_text(loss: &Loss) -> String {
    plain(&loss.to_string())
}
