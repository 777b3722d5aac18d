//! One object that carries the epoch of its writer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::calls::{ATTEMPTS, Calls, Put, passes};
use super::envelope::{self, Line};
use super::{FencingError, Stale};
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::process::Process;
use crate::protocol::message::Nonce;
use crate::store::{ETag, GetOutcome, Happened, Store, StoreError};

/// One object on a store that only the newest leader can write. Clones are the same object.
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Epoch, fencing::FencedObject, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (old, new) = (Epoch::FIRST, Epoch::new(2).unwrap());
/// let object = FencedObject::new(Arc::new(MemoryStore::new()), "orders/state.json");
/// let mut writer = object.open(old).await?; // claims it: older epochs write no more
/// writer.write("one").await?;
///
/// let successor = object.open(new).await?;
/// assert_eq!(successor.body().unwrap(), "one");
/// let refused = writer.write("two").await.unwrap_err(); // although the successor has not written
/// assert_eq!(refused.stale().unwrap().newest, new);
/// # Ok(())
/// # }
/// ```
///
/// **What it guarantees.** [`open`](FencedObject::open) claims the object: it writes what is there
/// once more, under its own epoch. From then on no write of an older writer takes effect, whatever
/// that writer has checked before and however late its request arrives; what `open` has found is
/// all that older writers will ever have written. Each write of a writer is based on its last:
/// nothing that others have written is overwritten unseen.
///
/// Of several writers of one epoch the one that opened last can write; the others get
/// [`FencingError::Replaced`].
///
/// **What it does not.** A reader may be behind by the time it uses what it read. It guards against
/// old leaders, not against somebody who writes or deletes the object by other means: what is no
/// such object is refused and left as it is.
///
/// **What it looks like.** One line of JSON, `{"tenure_object":1,"epoch":7,"nonce":"…",
/// "written":true}`, then the body as it is, of any size that fits into memory and the store takes
/// in one request. The line is in the body, not in the object's metadata: `If-Match` compares
/// ETags, and on S3 those do not change with the metadata, so a claim there would stop nobody.
#[derive(Debug, Clone)]
pub struct FencedObject {
    calls: Calls,
    key: Arc<str>,
}

/// What a [`FencedObject`] holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Who has claimed it last: the greatest epoch that has.
    pub epoch: Epoch,
    /// What was written last; `None` if it was claimed but never written.
    pub body: Option<Bytes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectLine {
    tenure_object: u64,
    epoch: Epoch,
    nonce: Nonce,
    written: bool,
}

impl Line for ObjectLine {
    const TAG: &'static str = "tenure_object";
    const WHAT: &'static str = "a fenced object";
}

/// The object as it was found.
struct Found {
    line: ObjectLine,
    body: Bytes,
    etag: ETag,
}

impl Found {
    fn body(self) -> Option<Bytes> {
        self.line.written.then_some(self.body)
    }
}

impl FencedObject {
    /// The object at this key. Sends nothing.
    pub fn new(store: Arc<dyn Store>, key: impl Into<String>) -> FencedObject {
        FencedObject { calls: Calls::new(store), key: key.into().into() }
    }

    /// How long a single request may take: default 30 s. More for large bodies.
    #[must_use]
    pub fn request_timeout(mut self, request_timeout: Duration) -> FencedObject {
        self.calls.request_timeout = request_timeout;
        self
    }

    /// Where clock and random numbers come from: default [`Process::system`].
    #[must_use]
    pub fn process(mut self, process: Process) -> FencedObject {
        self.calls.process = process;
        self
    }

    /// What it holds; `None` if nobody has ever opened it. For readers: it needs no token. 1 GET.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unavailable`], [`ErrorKind::AccessDenied`], [`ErrorKind::NoSuchStore`]: the
    ///   request failed; it is not tried again here.
    /// - [`ErrorKind::CorruptRecord`], [`ErrorKind::RecordTooNew`]: there is another object at this
    ///   key, or one of a later version.
    pub async fn read(&self) -> Result<Option<Contents>, Error> {
        let found = self.find().await?.map_err(|error| self.failure("reading", error))?;
        Ok(found.map(|found| Contents { epoch: found.line.epoch, body: found.body() }))
    }

    /// Claims the object for this token: older writers write no more. 1 GET and 1 PUT of the whole
    /// body; more if others write at the time.
    ///
    /// Dropping the future is safe; the claim may still be made.
    ///
    /// # Errors
    ///
    /// - [`FencingError::Stale`]: a greater epoch has claimed it. Nothing was written.
    /// - [`FencingError::Failed`]: those of [`read`](FencedObject::read), after several attempts.
    ///   The object may have been claimed: open it again.
    pub async fn open(&self, token: Epoch) -> Result<ObjectWriter, FencingError> {
        let nonce = self.calls.nonce();
        let mut unknown = false;
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                self.calls.pause(attempt - 1).await;
            }
            let found = match self.find().await {
                Ok(Ok(found)) => found,
                Ok(Err(error)) if passes(&error) => {
                    last = Some(error);
                    continue;
                }
                Ok(Err(error)) => return Err(self.claiming(error, unknown).into()),
                Err(error) => return Err(error.into()),
            };
            if let Some(found) = &found {
                let newest = found.line.epoch;
                if newest > token {
                    let stale = Stale { offered: token, newest };
                    let happened = if unknown { Happened::Maybe } else { Happened::No };
                    return Err(FencingError::Stale { stale, happened });
                }
                if found.line.nonce == nonce {
                    let (etag, body) = (found.etag.clone(), found.body.clone());
                    let body = found.line.written.then_some(body);
                    return Ok(self.writer(token, etag, body));
                }
            }
            let etag = found.as_ref().map(|found| found.etag.clone());
            let body = found.and_then(Found::body);
            let bytes = line_and_body(token, nonce, body.as_deref());
            match self.calls.put(&self.key, bytes, etag).await {
                Put::Done(etag) => return Ok(self.writer(token, etag, body)),
                Put::Refused => {}
                Put::Unknown(error) => {
                    unknown = true;
                    last = Some(error);
                }
                Put::Failed(error) if passes(&error) => last = Some(error),
                Put::Failed(error) => return Err(self.claiming(error, unknown).into()),
            }
        }
        Err(self.claiming(last.unwrap_or_else(busy), unknown).into())
    }

    fn writer(&self, epoch: Epoch, etag: ETag, body: Option<Bytes>) -> ObjectWriter {
        ObjectWriter { object: self.clone(), epoch, etag, body, sent: Vec::new() }
    }

    /// The object as it is. The outer error says what is wrong with it.
    async fn find(&self) -> Result<Result<Option<Found>, StoreError>, Error> {
        let object = match self.calls.get(&self.key, None).await {
            Ok(GetOutcome::Found(object)) => object,
            Ok(GetOutcome::Missing | GetOutcome::NotModified) => return Ok(Ok(None)),
            Ok(GetOutcome::TooLarge { len, .. }) => {
                let why = format!("its {len} bytes do not fit into memory");
                return Err(envelope::corrupt::<ObjectLine>(&self.key, &why));
            }
            Err(error) => return Ok(Err(error)),
        };
        let (line, body) = envelope::unwrap(&self.key, &object.body)?;
        Ok(Ok(Some(Found { line, body, etag: object.etag })))
    }

    fn failure(&self, doing: &str, error: StoreError) -> Error {
        self.calls.failure(&format!("{doing} {}", self.key), error)
    }

    fn claiming(&self, error: StoreError, unknown: bool) -> Error {
        let error = self.failure("claiming", error);
        if unknown { error.maybe() } else { error }
    }
}

/// Writes a [`FencedObject`] under one epoch. It is not cloned: share it behind a lock.
#[derive(Debug)]
pub struct ObjectWriter {
    object: FencedObject,
    epoch: Epoch,
    /// Of what this writer has written last.
    etag: ETag,
    body: Option<Bytes>,
    /// Nonces of own writes that may have taken effect since.
    sent: Vec<Nonce>,
}

/// What reading back after a write says of it.
enum ReadBack {
    /// It is there.
    Written,
    /// It is not there, but may still come.
    NotYet,
}

impl ObjectWriter {
    /// The token.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What the object holds, as this writer knows it: what it wrote last, or found; `None` if
    /// nothing was ever written. No request.
    #[must_use]
    pub fn body(&self) -> Option<&Bytes> {
        self.body.as_ref()
    }

    /// Writes the object. 1 PUT; if its answer is lost, 1 GET to read back, and so on a few times.
    ///
    /// Dropping the future is safe; the write may still take effect until the next one has.
    ///
    /// # Errors
    ///
    /// - [`FencingError::Stale`], [`FencingError::Replaced`]: it is another's. Stop.
    /// - [`FencingError::Failed`]: the store failed, several times. Unless
    ///   [`may_have_happened`](FencingError::may_have_happened), nothing was written. Call it
    ///   again, with the same or another body: an earlier write can no longer take effect after a
    ///   later one. [`ErrorKind::NewestDeleted`]: the object is gone, and what it guarded is not
    ///   guarded any more. [`ErrorKind::UnsafeStore`]: it has gone back to an older epoch.
    pub async fn write(&mut self, body: impl Into<Bytes>) -> Result<(), FencingError> {
        let body = body.into();
        let nonce = self.object.calls.nonce();
        let bytes = line_and_body(self.epoch, nonce, Some(&body));
        self.sent.push(nonce);
        let mut unknown = false;
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                self.object.calls.pause(attempt - 1).await;
            }
            let etag = Some(self.etag.clone());
            match self.object.calls.put(&self.object.key, bytes.clone(), etag).await {
                Put::Done(etag) => {
                    self.adopt(etag, Some(body));
                    return Ok(());
                }
                Put::Refused => {}
                Put::Unknown(error) => {
                    unknown = true;
                    last = Some(error);
                }
                Put::Failed(error) if passes(&error) => {
                    last = Some(error);
                    continue;
                }
                Put::Failed(error) => return Err(self.give_up(nonce, error, unknown)),
            }
            match self.object.find().await.map_err(Error::maybe)? {
                Ok(found) => match self.read_back(found, nonce, unknown)? {
                    ReadBack::Written => return Ok(()),
                    ReadBack::NotYet => {}
                },
                // A refusal that cannot be looked into leaves everything open.
                Err(error) if passes(&error) => {
                    unknown = true;
                    last = Some(error);
                }
                Err(error) => return Err(self.give_up(nonce, error, true)),
            }
        }
        Err(self.give_up(nonce, last.unwrap_or_else(busy), unknown))
    }

    fn adopt(&mut self, etag: ETag, body: Option<Bytes>) {
        self.etag = etag;
        self.body = body;
        // Their condition was the ETag before, which never comes back.
        self.sent.clear();
    }

    fn read_back(
        &mut self,
        found: Option<Found>,
        nonce: Nonce,
        unknown: bool,
    ) -> Result<ReadBack, FencingError> {
        let key = self.object.key.clone();
        let Some(found) = found else {
            let why = format!("{key} is gone: somebody has deleted it, and with it the guard");
            return Err(self.object.calls.error(ErrorKind::NewestDeleted, &why).maybe().into());
        };
        if found.etag == self.etag {
            return Ok(ReadBack::NotYet);
        }
        let newest = found.line.epoch;
        let happened = if unknown { Happened::Maybe } else { Happened::No };
        if newest > self.epoch {
            let stale = Stale { offered: self.epoch, newest };
            return Err(FencingError::Stale { stale, happened });
        }
        if newest < self.epoch {
            let why = format!("{key} was epoch {}'s, and now is epoch {newest}'s", self.epoch);
            return Err(self.object.calls.error(ErrorKind::UnsafeStore, &why).maybe().into());
        }
        let own = found.line.nonce;
        if !self.sent.contains(&own) {
            return Err(FencingError::Replaced { epoch: self.epoch, happened });
        }
        // This write, or an earlier one whose answer was lost.
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

fn line_and_body(epoch: Epoch, nonce: Nonce, body: Option<&[u8]>) -> Bytes {
    let written = body.is_some();
    let line = ObjectLine { tenure_object: envelope::FORMAT, epoch, nonce, written };
    envelope::wrap(&line, body.unwrap_or_default())
}

fn busy() -> StoreError {
    use crate::store::StoreErrorKind;
    let why = "others write it all the time, or the store refuses for no reason";
    StoreError::new(StoreErrorKind::Transient, Happened::No, why)
}
