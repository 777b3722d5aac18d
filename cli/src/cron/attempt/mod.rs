//! `--try`: one attempt to be elected.

use std::time::Duration;

use tenure::{CampaignOutcome, Election, Epoch, Leader, Leadership, Process, Snapshot};
use tracing::info;

use crate::exit::{self, Failure};
use crate::output::print::{in_ms, plain};
use crate::process::timer::pause;

/// What came of it.
pub enum Attempt {
    Elected(Leadership),
    /// Somebody else leads.
    Held(Leader),
}

/// Makes one attempt. It returns at once if the store's dates say that the leader has renewed its
/// lease in time. They only decide whether to wait: a process that has just started cannot know
/// that a lease has lapsed, so it watches the leader for a whole lease before it takes over.
pub async fn attempt(election: &Election, look_every: Duration) -> Result<Attempt, Failure> {
    let mut watched: Option<Watched> = None;
    loop {
        let leader = match election.try_campaign().await? {
            CampaignOutcome::Elected(leadership) => return Ok(Attempt::Elected(leadership)),
            CampaignOutcome::Held(leader) => leader,
            // There is no other outcome yet.
            _ => return Err(Failure::new(exit::UNSAFE, "an unknown outcome")),
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

/// A leader that seems to be dead.
struct Watched {
    epoch: Epoch,
    heartbeat: u64,
    /// On the boot clock. By then it was taken over, or something keeps this candidate from it.
    until: Duration,
}

/// A lease is watched for so many times its length at most: the clocks' drift and all delays are
/// in it.
const LEASES: u32 = 3;

impl Watched {
    /// `None` if the leader lives.
    fn start(leader: &Leader, snapshot: &Snapshot, now: Duration) -> Option<Watched> {
        // A lease that never lapses is nothing to wait for; a seal is, whatever delays its
        // successor.
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
            "{name} holds epoch {epoch}, and seems to have died: watching it for {lease}"
        );
        let until = now.saturating_add(validity.saturating_mul(LEASES));
        Some(Watched { epoch: leader.epoch, heartbeat: current.heartbeat, until })
    }

    fn shows_life(&self, snapshot: &Snapshot) -> bool {
        let Some(leader) = &snapshot.leader else { return false };
        // The seal of the watched epoch raises the heartbeat, too.
        leader.epoch > self.epoch || leader.heartbeat != self.heartbeat && snapshot.end.is_none()
    }
}

#[cfg(test)]
mod tests;
