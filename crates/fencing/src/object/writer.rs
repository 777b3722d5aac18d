//! The writer of a fenced object. Each write requires the ETag of the writer's previous write.

use bytes::Bytes;

use tenure::internals::fencing::{Nonce, require_timers};
use tenure::store::{Determinacy, ETag, StoreError};
use tenure::{Epoch, Error, ErrorKind};

use super::{FencedObject, Found, busy, line_and_body};
use crate::calls::{Attempts, Swap};
use crate::error::{FencingError, Stale};
use crate::token::Token;

/// Writes a [`FencedObject`] under one epoch. A writer cannot be cloned: share it behind a lock.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Epoch, store::MemoryStore};
/// # use tenure_fencing::{FencedObject, FencingError};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), FencingError> {
/// # let (old, new) = (Epoch::FIRST, Epoch::new(2).unwrap());
/// let counter = FencedObject::new(Arc::new(MemoryStore::new()), "orders/count");
/// let mut former = counter.open(old).await?;
/// former.write("41").await?;
///
/// let mut writer = counter.open(new).await?; // `former` cannot write any more
/// let count: u32 = std::str::from_utf8(writer.body().unwrap()).unwrap().parse().unwrap();
/// writer.write((count + 1).to_string()).await?; // no increment is lost
/// assert!(former.write("0").await.unwrap_err().stale().is_some());
/// assert_eq!(counter.read().await?.unwrap().body.unwrap(), "42");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ObjectWriter {
    object: FencedObject,
    token: Token,
    /// ETag of the last successful write of this writer.
    etag: ETag,
    body: Option<Bytes>,
    /// Nonces of the writes that this writer sent after its last successful write, and that may
    /// have taken effect.
    sent: Vec<Nonce>,
    /// The greater epoch that this writer has seen, if any.
    stale: Option<Epoch>,
}

/// The result of reading the object after a write was refused or had an unknown effect.
enum ReadBack {
    /// The object shows that the write took effect.
    Written,
    /// The object shows no effect of the write. The write may still take effect later.
    NotYet,
}

impl ObjectWriter {
    pub(super) fn new(
        object: FencedObject,
        token: Token,
        etag: ETag,
        body: Option<Bytes>,
    ) -> ObjectWriter {
        ObjectWriter { object, token, etag, body, sent: Vec::new(), stale: None }
    }

    /// Returns the token of this writer.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.token.epoch()
    }

    /// Returns the body that this writer wrote or read last; `None` if the object was never
    /// written. Sends no request.
    #[must_use]
    pub fn body(&self) -> Option<&Bytes> {
        self.body.as_ref()
    }

    /// Writes the object. Cost: 1 PUT, and 1 GET more at each 16th write. If the response to the
    /// PUT is lost, the call reads the object back with 1 GET, and may make a few further attempts.
    ///
    /// Dropping the future is safe. The write may still take effect until the next write succeeds.
    ///
    /// # Errors
    ///
    /// - [`FencingError::Stale`], [`FencingError::Replaced`]: another writer has claimed the
    ///   object. Stop.
    /// - [`FencingError::LeaseEnding`]: the lease of the writer's token is at risk or has ended.
    ///   Stop.
    /// - [`FencingError::Failed`]: the store failed at every attempt. If
    ///   [`may_have_happened`](FencingError::may_have_happened) returns `false`, nothing was
    ///   written. Write again, with the same or another body: after a later write succeeds, an
    ///   earlier one cannot take effect. [`ErrorKind::NewestDeleted`]: the object was deleted, so
    ///   it cannot refuse old leaders. [`ErrorKind::UnsafeStore`]: the epoch in the object changed
    ///   from this epoch back to an older one. [`ErrorKind::NoRuntime`]: nothing was sent; call
    ///   this method in a Tokio runtime with timers.
    pub async fn write(&mut self, body: impl Into<Bytes>) -> Result<(), FencingError> {
        require_timers()?;
        let token = self.token.clone();
        let written = token.bound(self.write_on(body.into())).await;
        // The writer records the nonce of a write before it sends the write. So if `sent` is empty,
        // no write can have taken effect.
        written.unwrap_or_else(|loss| Err(FencingError::ending(loss, !self.sent.is_empty())))
    }

    async fn write_on(&mut self, body: Bytes) -> Result<(), FencingError> {
        self.require_newest().await?;
        let nonce = self.object.calls.nonce();
        let bytes = line_and_body(self.epoch(), nonce, Some(&body));
        self.sent.push(nonce);
        let mut attempts = Attempts::default();
        while attempts.another(&self.object.calls).await {
            let etag = Some(self.etag.clone());
            let put = self.object.calls.put(&self.object.key, bytes.clone(), etag).await;
            match attempts.swapped(put) {
                Ok(Swap::Done(etag)) => {
                    self.adopt(etag, Some(body));
                    return Ok(());
                }
                Ok(Swap::Refused | Swap::Unknown) => {}
                Ok(Swap::Failed) => continue,
                Err(error) => return Err(self.give_up(nonce, error, attempts.unknown)),
            }
            match attempts.read(self.object.find().await.map_err(Error::maybe)?) {
                Ok(Some(found)) => match self.read_back(found, nonce, attempts.determinacy())? {
                    ReadBack::Written => return Ok(()),
                    ReadBack::NotYet => {}
                },
                // If the read after a refusal fails, the effect of the write is unknown.
                Ok(None) => attempts.unknown = true,
                Err(error) => return Err(self.give_up(nonce, error, true)),
            }
        }
        let last = attempts.last.take().unwrap_or_else(busy);
        Err(self.give_up(nonce, last, attempts.unknown))
    }

    /// Checks that the object and the reservation show no greater epoch.
    async fn require_newest(&mut self) -> Result<(), FencingError> {
        if let Some(newest) = self.stale {
            let stale = Stale { offered: self.epoch(), newest };
            return Err(FencingError::Stale { stale, determinacy: Determinacy::Determinate });
        }
        let checked = self.object.require_unreserved_at_times(self.epoch()).await;
        if let Err(FencingError::Stale { stale, .. }) = &checked {
            self.stale = Some(stale.newest);
        }
        checked
    }

    fn adopt(&mut self, etag: ETag, body: Option<Bytes>) {
        self.etag = etag;
        self.body = body;
        // The writes in `sent` require the previous ETag. The object never has that ETag again, so
        // these writes cannot take effect.
        self.sent.clear();
    }

    fn read_back(
        &mut self,
        found: Option<Found>,
        nonce: Nonce,
        determinacy: Determinacy,
    ) -> Result<ReadBack, FencingError> {
        let key = self.object.key.clone();
        let Some(found) = found else {
            let why = format!("{key} was deleted by other means, so it cannot refuse old leaders");
            return Err(self.object.calls.error(ErrorKind::NewestDeleted, &why).maybe().into());
        };
        if found.etag == self.etag {
            return Ok(ReadBack::NotYet);
        }
        let newest = found.line.epoch;
        if newest > self.epoch() {
            let stale = Stale { offered: self.epoch(), newest };
            return Err(FencingError::Stale { stale, determinacy });
        }
        if newest < self.epoch() {
            let why = format!("{key} changed from epoch {} back to epoch {newest}", self.epoch());
            return Err(self.object.calls.error(ErrorKind::UnsafeStore, &why).maybe().into());
        }
        let own = found.line.nonce;
        if !self.sent.contains(&own) {
            return Err(FencingError::Replaced { epoch: self.epoch(), determinacy });
        }
        // The nonce belongs to this write, or to an earlier write with a lost response.
        let etag = found.etag.clone();
        self.adopt(etag, found.body());
        if own == nonce {
            return Ok(ReadBack::Written);
        }
        self.sent.push(nonce);
        Ok(ReadBack::NotYet)
    }

    fn give_up(&mut self, nonce: Nonce, error: StoreError, unknown: bool) -> FencingError {
        let error = self.object.failure("writing", error);
        if unknown {
            return error.maybe().into();
        }
        self.sent.retain(|sent| *sent != nonce);
        error.into()
    }
}
