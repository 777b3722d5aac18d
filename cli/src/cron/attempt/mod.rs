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

/// Makes one attempt to be elected. Returns immediately if the store's dates show that the leader
/// has renewed its lease in time. The dates decide only whether to wait. A new process cannot know
/// that a lease has lapsed, so before it takes over, it watches the leader for the whole validity.
pub async fn attempt(election: &Election, look_every: Duration) -> Result<Attempt, Failure> {
    let mut watched: Option<Watched> = None;
    loop {
        let leader = match election.try_campaign().await? {
            CampaignOutcome::Elected(leadership) => return Ok(Attempt::Elected(leadership)),
            CampaignOutcome::Held(leader) => leader,
            // `CampaignOutcome` is non-exhaustive, so the compiler requires this arm. The enum has
            // no other variant at present.
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

/// A leader that appears to be dead. This process waits to see whether the leader renews its lease.
struct Watched {
    epoch: Epoch,
    heartbeat: u64,
    /// Time on the boot clock after which this process stops watching the leader, and reports that
    /// another candidate leads.
    until: Duration,
}

/// Maximum time for which this process watches a leader, as a multiple of the validity. It covers
/// clock drift and all delays.
const LEASES: u32 = 3;

impl Watched {
    /// Starts to watch a leader for a renewal. Returns `None` if the leader seems to be alive.
    fn start(leader: &Leader, snapshot: &Snapshot, now: Duration) -> Option<Watched> {
        // The lease of a leader without a validity never lapses, so no process can take over from
        // it.
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
        // A changed heartbeat is a sign that the leader is alive, but not after the end of the
        // epoch: a seal also changes the heartbeat.
        leader.epoch > self.epoch || leader.heartbeat != self.heartbeat && snapshot.end.is_none()
    }
}

#[cfg(test)]
mod tests;
