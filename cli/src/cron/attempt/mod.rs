//! The single attempt of `--try` to be elected.

use std::time::Duration;

use tenure::{CampaignOutcome, Election, Epoch, Leader, Leadership, Process, Snapshot};
use tracing::info;

use crate::exit::{self, Failure};
use crate::output::print::{in_ms, plain};
use crate::process::timer::pause;

/// The outcome of one attempt.
pub enum Attempt {
    Elected(Leadership),
    /// Another candidate leads.
    Held(Leader),
}

/// Makes one attempt. Returns without waiting if the store's dates show that the leader renewed its
/// lease in time. The dates decide only whether to wait: a new process cannot know that a lease has
/// lapsed, so it watches the leader for a whole lease before it takes over.
pub async fn attempt(election: &Election, look_every: Duration) -> Result<Attempt, Failure> {
    let mut watched: Option<Watched> = None;
    loop {
        let leader = match election.try_campaign().await? {
            CampaignOutcome::Elected(leadership) => return Ok(Attempt::Elected(leadership)),
            CampaignOutcome::Held(leader) => leader,
            // The compiler requires this arm because `CampaignOutcome` is non-exhaustive. It has no
            // other variant now.
            _ => return Err(Failure::new(exit::UNSAFE, "the attempt had an unknown outcome")),
        };
        let snapshot = election.snapshot().await?;
        let now = Process::system().now().boot;
        match &watched {
            None => watched = Watched::start(&leader, &snapshot, now),
            Some(watched) if watched.shows_life(&snapshot) || now > watched.until => {
                return Ok(Attempt::Held(snapshot.leader.unwrap_or(leader)));
            }
            Some(_) => {}
        }
        if watched.is_none() {
            return Ok(Attempt::Held(leader));
        }
        pause(look_every).await;
    }
}

/// A leader that appears to be dead, and that this process watches for a renewal.
struct Watched {
    epoch: Epoch,
    heartbeat: u64,
    /// Time on the boot clock at which the watch ends without a takeover.
    until: Duration,
}

/// Maximum duration of a watch as a multiple of the validity. It covers clock drift and all delays.
const LEASES: u32 = 3;

impl Watched {
    /// Starts to watch a leader for a renewal. Returns `None` if the leader seems to be alive.
    fn start(leader: &Leader, snapshot: &Snapshot, now: Duration) -> Option<Watched> {
        // A leader without a validity has a lease that never lapses, so no process can take it
        // over.
        let validity = leader.validity?;
        let current = snapshot.leader.as_ref().filter(|seen| seen.epoch == leader.epoch)?;
        let over = snapshot.end.is_some() || snapshot.lapsed || snapshot.age.is_none();
        if !over {
            return None;
        }
        let name = plain(leader.name());
        let (epoch, lease) = (leader.epoch, in_ms(validity));
        info!(
            outcome = "following",
            "{name} holds epoch {epoch} and seems to be dead: watching its lease for {lease}"
        );
        let until = now.saturating_add(validity.saturating_mul(LEASES));
        Some(Watched { epoch: leader.epoch, heartbeat: current.heartbeat, until })
    }

    fn shows_life(&self, snapshot: &Snapshot) -> bool {
        let Some(leader) = &snapshot.leader else { return false };
        // A seal of the watched epoch also changes the heartbeat, so a changed heartbeat shows life
        // only if the epoch has not ended.
        leader.epoch > self.epoch || leader.heartbeat != self.heartbeat && snapshot.end.is_none()
    }
}

#[cfg(test)]
mod tests;
