//! Lists the epochs below a restored epoch, and deposes their holders (RS4).

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};

use super::super::Operator;
use super::super::outcomes::{Deposed, Restored};
use super::Done;
use super::held::{RestoreHold, held};
use crate::driver::leader::Leader;
use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::depose::DeposeOrder;
use crate::protocol::find::After;
use crate::record::Record;
use crate::record::listing::{EpochsOfPage, key_of};

const PAGE_KEYS: usize = 1_000;

/// The effect of an epoch below the restored epoch. Either a successor waits for the lease of this
/// epoch, or the restore cannot complete before this epoch has ended.
pub(super) enum Below {
    Wait(Duration),
    NeedsForce(Leader),
    /// Another restore holds the epoch.
    Held(RestoreHold),
}

/// The time for which a successor waits. The error is a leader with a record that does not show
/// this time. An operator must depose this leader by force.
pub(super) type HeldFor = Result<Duration, Leader>;

/// The listed epochs below a held epoch, and whether a greater epoch exists.
pub(super) struct EpochsBelow {
    /// The lower epochs, in ascending order.
    pub(super) below: Vec<Epoch>,
    pub(super) greater: bool,
}

impl Operator {
    /// Lists the epochs below `epoch`. The listing starts at the epoch `held.above`, because no
    /// process leads an earlier epoch.
    pub(super) async fn list_below(
        &mut self,
        held: &RestoreHold,
        epoch: Epoch,
    ) -> Result<EpochsBelow, Error> {
        let keys = self.cx.keys.clone();
        let mut listed = EpochsBelow { below: Vec::new(), greater: false };
        let mut next = Some(After::Number(held.above.map_or(0, |above| above.get() - 1)));
        while let Some(after) = next {
            let store = Arc::clone(&self.cx.store);
            let call = || {
                let (store, keys, after) = (Arc::clone(&store), keys.clone(), after.clone());
                let list = async move {
                    let start = key_of(&keys, &after);
                    let page = store.list(keys.epoch_prefix(), &start, PAGE_KEYS).await?;
                    EpochsOfPage::of(&keys, &after, &page)
                };
                list.boxed()
            };
            let page = self.ask("listing the epochs", call).await?;
            let epochs = page.epochs.iter().map(|listed| listed.epoch);
            listed.below.extend(epochs.filter(|listed| *listed < epoch));
            listed.greater = page.epochs.last().is_some_and(|last| last.epoch > epoch);
            next = page.rest.filter(|_| !listed.greater);
        }
        Ok(listed)
    }

    /// Returns the time for which a successor waits for the leases of these epochs. This function
    /// does not change the epochs.
    pub(super) async fn look_all(&mut self, epochs: &[Epoch]) -> Result<HeldFor, Error> {
        let mut wait = Duration::ZERO;
        for epoch in epochs {
            match self.look_below(Some(*epoch)).await? {
                Some(Below::Wait(asked)) => wait = wait.max(asked),
                Some(Below::Held(held)) => wait = wait.max(held.longest()),
                Some(Below::NeedsForce(leader)) => return Ok(Err(leader)),
                // The epoch was compacted, so its lease ended long ago.
                None => {}
            }
        }
        Ok(Ok(wait))
    }

    /// Deposes the holders of these epochs. Returns the time for which a successor waits.
    pub(super) async fn depose_all(&mut self, epochs: &[Epoch]) -> Result<HeldFor, Error> {
        let mut wait = Duration::ZERO;
        for epoch in epochs {
            match self.depose_below(*epoch).await? {
                Below::Wait(asked) => wait = wait.max(asked),
                Below::NeedsForce(leader) => return Ok(Err(leader)),
                Below::Held(_) => return Err(self.too_busy(*epoch)),
            }
        }
        Ok(Ok(wait))
    }

    async fn depose_below(&mut self, below: Epoch) -> Result<Below, Error> {
        let order = DeposeOrder { only: Some(below), force: false };
        Ok(match self.depose_at(Some(below), order).await? {
            Deposed::Sealed { leader, .. } => Below::Wait(leader.validity.unwrap_or_default()),
            Deposed::NeedsForce(leader) => Below::NeedsForce(leader),
            Deposed::Renewed(_) => return Err(self.too_busy(below)),
            Deposed::Already { .. } => {
                self.look_below(Some(below)).await?.unwrap_or(Below::Wait(Duration::ZERO))
            }
            // Another restore holds the lower epoch. A seal of the lower epoch is safe now: no
            // candidate can succeed this epoch, because this restore holds a greater epoch.
            Deposed::Held(_) => match self.finish(below).await?.restored {
                Restored::NeedsForce(leader) => Below::NeedsForce(leader),
                _ => self.look_below(Some(below)).await?.unwrap_or(Below::Wait(Duration::ZERO)),
            },
            // The epoch was compacted, so its lease ended long ago.
            Deposed::NoLeader | Deposed::NotCurrent(_) => Below::Wait(Duration::ZERO),
        })
    }

    /// Seals an epoch that another restore holds. The future is boxed, because the call is
    /// recursive.
    fn finish(&mut self, held: Epoch) -> BoxFuture<'_, Result<Done, Error>> {
        self.seal_held(held, Duration::ZERO, false, None).boxed()
    }

    /// Returns the effect of this lower epoch on a successor. This function does not change the
    /// epoch.
    pub(super) async fn look_below(
        &mut self,
        below: Option<Epoch>,
    ) -> Result<Option<Below>, Error> {
        let Some(epoch) = below else { return Ok(None) };
        let Some(now) = self.read(below).await? else { return Ok(None) };
        self.refuse_later_format(&now)?;
        if let Some(held) = held(&now) {
            return Ok(Some(Below::Held(held)));
        }
        let blank = Record::blank();
        Ok(Some(asks(epoch, now.record.as_ref().unwrap_or(&blank))))
    }
}

/// Returns the effect of this record on a successor.
pub(super) fn asks(epoch: Epoch, record: &Record) -> Below {
    let seen = record.seen();
    if seen.ended.is_some() && !seen.is_waited_for() {
        return Below::Wait(Duration::ZERO);
    }
    match (seen.nonce, record.validity()) {
        (Some(_), Some(validity)) => Below::Wait(validity),
        _ => Below::NeedsForce(Leader::new(epoch, record)),
    }
}
