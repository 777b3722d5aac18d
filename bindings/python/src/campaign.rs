//! Campaigns that leave no leadership behind if they are cancelled.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tenure::{Election, Error, Leadership};
use tokio_util::sync::CancellationToken;

use crate::claims::Writes;
use crate::errors::Failure;
use crate::runtime::{Counted, background, pause};

/// Campaigns until this process is elected, or until `cancel` is cancelled.
///
/// A cancelled campaign may have created an epoch. So the campaign continues in the background
/// until the store shows that the newest epoch is sealed or belongs to another candidate, or until
/// the campaign is elected. If it is elected, it resigns. After two validities it stops in any
/// case, because the lease of its epoch has lapsed by then.
pub async fn campaign(
    election: Election,
    validity: Duration,
    cancel: CancellationToken,
) -> Result<Leadership, Failure> {
    let _counted = Counted::start();
    let writes = Arc::new(Writes::default());
    let task = election.clone();
    let mut running = Box::pin(writes.clone().of(async move { task.campaign().await }));
    tokio::select! {
        biased;
        elected = &mut running => return Ok(elected?),
        () = cancel.cancelled() => {}
    }
    if writes.started() > 0 {
        background(async move {
            tokio::select! {
                () = wind_down(&election, running.as_mut(), &writes) => {}
                () = pause(validity * 2) => {}
            }
        });
    }
    Err(Failure::Cancelled)
}

async fn wind_down(
    election: &Election,
    mut running: Pin<&mut impl Future<Output = Result<Leadership, Error>>>,
    writes: &Writes,
) {
    loop {
        let before = writes.settled();
        let is_ours = {
            let mut look = pin!(election.snapshot());
            tokio::select! {
                biased;
                elected = running.as_mut() => return resign(elected).await,
                snapshot = &mut look => snapshot.map(|newest| {
                    let name = newest.leader.as_ref().and_then(|it| it.candidate.as_deref());
                    newest.end.is_none() && name == Some(election.name())
                }),
            }
        };
        // A write that was under way during the snapshot may have taken effect after it.
        if matches!(is_ours, Ok(false)) && before.is_some() && writes.settled() == before {
            return;
        }
        tokio::select! {
            biased;
            elected = running.as_mut() => return resign(elected).await,
            () = pause(Duration::from_millis(20)) => {}
        }
    }
}

async fn resign(elected: Result<Leadership, Error>) {
    if let Ok(leadership) = elected
        && let Err(error) = leadership.resign().await
    {
        tracing::warn!(%error, "could not resign after a cancelled campaign; the lease lapses");
    }
}
