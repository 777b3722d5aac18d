//! The resignation of an epoch by another process, after the holder's death (L8).

use super::outcomes::Resigned;
use super::sent_seals::SentSeals;
use super::{ATTEMPTS, Operator};
use crate::driver::lead::ResignKey;
use crate::error::{Error, ErrorKind};
use crate::protocol::depose::{Verdict, resign_dead};
use crate::protocol::layout::Layout;

impl Operator {
    /// Seals the epoch like a resignation of its holder. The epoch must be unsealed and have the
    /// holder's nonce (L8).
    ///
    /// If the store refuses the seal because of a late renewal of the dead holder, this function
    /// reads the record and tries again. If the outcome of an attempt is unknown, this function
    /// reads the record back.
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
            "resigned for a dead leader"
        );
        Resigned::Sealed
    }
}
