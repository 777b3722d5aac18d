//! The deposition of a leader (O1 to O6). This module sends the requests that
//! [`DeposeOrder::decide`] needs.

use super::outcomes::Deposed;
use super::sent_seals::SentSeals;
use super::{ATTEMPTS, Operator, Standing, TRIES};
use crate::driver::leader::Leader;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::depose::{DeposeOrder, Verdict};
use crate::protocol::layout::Layout;
use crate::protocol::message::EpochEnd;
use crate::record::Record;
use crate::store::escape::plain;

impl Operator {
    /// Carries out the operator's order on the newest epoch object, or on `lock.json` with
    /// [`Layout::SingleObject`].
    pub(crate) async fn depose(&mut self, order: DeposeOrder) -> Result<Deposed, Error> {
        match self.cx.config.layout {
            Layout::SingleObject => self.depose_at(None, order).await,
            Layout::EpochFiles => {
                let mut deposed = Deposed::NoLeader;
                // `NoLeader` means that a compactor deleted the listed epoch before it was read. A
                // greater epoch then exists, so the loop lists the epochs again.
                for _ in 0..TRIES {
                    let Some(newest) = self.newest().await? else { break };
                    let meant = self.meant(newest, order).await?;
                    deposed = self.depose_at(Some(meant), order).await?;
                    // The outcome must name the newest held epoch, because the operator must finish
                    // the restore that holds this epoch.
                    let held = matches!(deposed, Deposed::NoLeader | Deposed::Held(_));
                    if held && meant != newest {
                        return Ok(Deposed::Held(newest));
                    }
                    if deposed != Deposed::NoLeader {
                        break;
                    }
                }
                Ok(deposed)
            }
        }
    }

    /// Returns the epoch to seal: the newest epoch or, if a restore holds the newest epoch, the
    /// lower epoch that the operator named. If the record of the lower epoch does not show when its
    /// holder stops leading, the restore stops at this epoch (RS4). The operator must then depose
    /// this epoch by force.
    async fn meant(&mut self, newest: Epoch, order: DeposeOrder) -> Result<Epoch, Error> {
        let Some(only) = order.only.filter(|only| *only < newest) else { return Ok(newest) };
        let now = self.read(Some(newest)).await?;
        let held = now.is_some_and(|now| now.record.as_ref().is_ok_and(Record::is_held));
        Ok(if held { only } else { newest })
    }

    /// Carries out the operator's order on the object of this epoch, or on `lock.json` with `None`.
    pub(in crate::driver) async fn depose_at(
        &mut self,
        epoch: Option<Epoch>,
        mut order: DeposeOrder,
    ) -> Result<Deposed, Error> {
        let mut sent = SentSeals::default();
        let mut attempt = 0;
        loop {
            let now = self.read(epoch).await.map_err(|error| sent.instead(error))?;
            let Some(now) = now else {
                return sent.unknown().map_or(Ok(Deposed::NoLeader), Err);
            };
            if let Some(seal) = sent.find(&now) {
                return Ok(self.deposed(now.epoch, &seal));
            }
            let blank = self.cx.config.blank();
            let record = now.record.as_ref().unwrap_or(&blank);
            let leader = Leader::new(now.epoch, record);
            let meant = order.only.is_none_or(|only| only == now.epoch);
            if epoch.is_some() && meant && record.is_held() {
                // A held epoch must stay unsealed. A seal would allow a successor while a lower
                // epoch may have a leader (O6).
                return Ok(Deposed::Held(now.epoch));
            }
            let (heartbeat, ended) = match self.decide(order, epoch, &now)? {
                Verdict::Seal { .. } if attempt == ATTEMPTS => {
                    return sent.failure().map_or(Ok(Deposed::Renewed(leader)), Err);
                }
                Verdict::Seal { heartbeat, ended } => (heartbeat, ended),
                Verdict::Sealed(ended) => {
                    let ended = record.end().unwrap_or(ended);
                    return Ok(Deposed::Already { leader, ended });
                }
                Verdict::NotCurrent => return Ok(Deposed::NotCurrent(leader)),
                Verdict::NeedsForce => return Ok(Deposed::NeedsForce(leader)),
            };
            // A later attempt must not depose a successor of this leader (O3).
            order.only = Some(now.epoch);
            let seal = self.cx.sealed(record, ended, heartbeat);
            let seal = seal.ordered(record, order.force, self.cx.config.reason.as_deref());
            let epoch = now.epoch;
            if self.write_seal(&mut sent, now, &seal, seal.clone()).await? {
                return Ok(self.deposed(epoch, &seal));
            }
            attempt += 1;
            self.pause().await;
        }
    }

    fn decide(
        &self,
        order: DeposeOrder,
        epoch: Option<Epoch>,
        now: &Standing,
    ) -> Result<Verdict, Error> {
        self.refuse_later_format(now)?;
        let record = match &now.record {
            Ok(record) => Some(record),
            // The token of `lock.json` is only in its body. This body is unreadable, so the token
            // for the seal is unknown.
            Err(why) if epoch.is_none() => {
                return Err(self.cannot_read(now, ErrorKind::CorruptRecord, why));
            }
            Err(_) => None,
        };
        let seen = record.map(Record::seen);
        Ok(order.decide(now.epoch, seen.as_ref(), record.and_then(Record::validity)))
    }

    fn deposed(&self, epoch: Epoch, seal: &Record) -> Deposed {
        let wait = match seal.ended {
            Some(EpochEnd::Deposed) => seal.validity().map(|v| self.cx.config.drift.stretch(v)),
            _ => None,
        };
        let leader = Leader::new(epoch, seal);
        tracing::info!(
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            epoch = epoch.get(),
            leader = plain(leader.name()),
            outcome = "deposed",
            "deposed"
        );
        Deposed::Sealed { leader, wait: wait.unwrap_or_default() }
    }
}
