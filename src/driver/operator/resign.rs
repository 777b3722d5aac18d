//! The resignation of an epoch whose holder is dead, by another process.

use super::outcomes::Resigned;
use super::sent_seals::SentSeals;
use super::{ATTEMPTS, Operator};
use crate::driver::lead::ResignKey;
use crate::error::{Error, ErrorKind};
use crate::protocol::depose::{Verdict, resign_dead};
use crate::protocol::layout::Layout;

impl Operator {
    /// Seals the epoch as its holder would have, if it is still that holder's and unsealed.
    ///
    /// A renewal that the holder sent before its death makes the store refuse the seal; then it is
    /// read and decided anew. An attempt whose fate is unknown is read back.
    pub(crate) async fn resign_dead(
        &mut self,
        key: ResignKey,
        successor: Option<String>,
    ) -> Result<Resigned, Error> {
        let at = match self.cx.config.layout {
            Layout::EpochFiles => Some(key.epoch),
            Layout::SingleObject => None,
        };
        let mut sent = SentSeals::default();
        for attempt in 0..=ATTEMPTS {
            let now = self.read(at).await.map_err(|error| sent.instead(error))?;
            let Some(now) = now else { return Ok(Resigned::NotCurrent) };
            if sent.find(&now).is_some() {
                return Ok(self.resigned(key));
            }
            self.refuse_later_format(&now)?;
            let record = match &now.record {
                Ok(record) => record,
                Err(why) => return Err(self.cannot_read(&now, ErrorKind::CorruptRecord, why)),
            };
            let verdict = resign_dead((key.epoch, key.nonce), now.epoch, &record.seen());
            let (heartbeat, ended) = match verdict {
                Verdict::Seal { .. } if attempt == ATTEMPTS => break,
                Verdict::Seal { heartbeat, ended } => (heartbeat, ended),
                Verdict::Sealed(ended) => return Ok(Resigned::Already(ended)),
                Verdict::NotCurrent | Verdict::NeedsForce => return Ok(Resigned::NotCurrent),
            };
            let mut seal = self.cx.sealed(record, ended, heartbeat);
            seal.successor.clone_from(&successor);
            if self.write_seal(&mut sent, now, &seal, ()).await? {
                return Ok(self.resigned(key));
            }
            self.pause().await;
        }
        sent.failure().map_or(Ok(Resigned::Renewed), Err)
    }

    fn resigned(&self, key: ResignKey) -> Resigned {
        tracing::info!(
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            epoch = key.epoch.get(),
            outcome = "resigned",
            "resigned in the place of a dead leader"
        );
        Resigned::Sealed
    }
}
