//! One object that carries the epoch of its writer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use tenure::internals::fencing::{Nonce, require_timers};
use tenure::store::{Determinacy, ETag, GetOutcome, Store, StoreError};
use tenure::{Epoch, Error, Process};

use super::calls::{ATTEMPTS, Attempts, Calls, Swap};
use super::envelope::{self, Line};
use crate::error::{FencingError, Stale};
use crate::token::Token;
use reservation::{Operations, REFUSALS, RESERVE_AFTER};
#[cfg(doc)]
use tenure::ErrorKind;

mod reservation;
mod writer;

pub use writer::ObjectWriter;

/// One object on a store. Only the newest leader can write the object. Clones share the object.
///
/// **Guarantees.** [`open`](FencedObject::open) claims the object: it writes the present body
/// again, under the new epoch. From then on no write of an older writer takes effect, however late
/// it arrives. This holds even if the older writer checked its lease before the claim. The body
/// that `open` returns includes all writes of older writers. Each write requires the ETag of the
/// writer's previous write, so a writer never overwrites a body that it has not seen.
///
/// If an epoch has several writers, only the writer that opened last can write; the others get
/// [`FencingError::Replaced`].
///
/// **Limits.** The data of a reader may be outdated when the reader uses them. The object is
/// protected from old leaders, but not from writes or deletions by other means. If the key has an
/// object of another kind, each call fails and leaves that object unchanged.
///
/// **The object.** One line of JSON, `{"tenure_object":1,"epoch":7,"nonce":"…", "written":true}`,
/// then the body. The body must fit into memory and into one request of the store. The line is in
/// the body, because a claim must change the ETag, which `If-Match` compares. On S3 a change of the
/// metadata does not change the ETag. After a busy older writer has delayed an `open`, the object
/// `<key>.reservation` exists. It contains one line with the greatest epoch whose `open` was
/// delayed. The reservation may be deleted at any time.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Epoch, store::MemoryStore};
/// # use tenure_fencing::FencedObject;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (old, new) = (Epoch::FIRST, Epoch::new(2).unwrap());
/// let object = FencedObject::new(Arc::new(MemoryStore::new()), "orders/state.json");
/// let mut writer = object.open(old).await?; // claims it: older epochs cannot write
/// writer.write("one").await?;
///
/// let successor = object.open(new).await?;
/// assert_eq!(successor.body().unwrap(), "one");
/// let refused = writer.write("two").await.unwrap_err(); // `successor` has claimed the object
/// assert_eq!(refused.stale().unwrap().newest, new);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FencedObject {
    calls: Calls,
    key: Arc<str>,
    operations: Arc<Operations>,
}

/// The contents of a [`FencedObject`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// Epoch of the last claim, which is the greatest epoch.
    pub epoch: Epoch,
    /// Last written body; `None` if the object was claimed but never written.
    pub body: Option<Bytes>,
}

impl Contents {
    /// Creates contents, for tests of code that reads an object.
    #[must_use]
    pub fn new(epoch: Epoch, body: Option<Bytes>) -> Contents {
        Contents { epoch, body }
    }
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

/// The result of one attempt to claim the object.
enum Claim {
    Made(ObjectWriter),
    /// Another writer wrote the object between the read and the write of this attempt.
    Refused,
    /// A transient failure. The claim may have taken effect.
    Failed,
}

/// An object that a GET returned.
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
    /// Creates the object at this key. Sends nothing.
    pub fn new(store: Arc<dyn Store>, key: impl Into<String>) -> FencedObject {
        let operations = Arc::default();
        FencedObject { calls: Calls::new(store), key: key.into().into(), operations }
    }

    /// Sets the time limit of a single request. Default: 30 s. A large body needs a longer limit.
    #[must_use]
    pub fn request_timeout(mut self, request_timeout: Duration) -> FencedObject {
        self.calls.request_timeout = request_timeout;
        self
    }

    /// Sets the source of the clock and of random numbers. Default: [`Process::system`].
    #[must_use]
    pub fn process(mut self, process: Process) -> FencedObject {
        self.calls.process = process;
        self
    }

    /// Reads the contents; `None` if the object was never opened. This method is for readers: it
    /// needs no token. Cost: 1 GET.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unavailable`], [`ErrorKind::AccessDenied`], [`ErrorKind::NoSuchStore`]: the
    ///   request failed; this call does not retry it.
    /// - [`ErrorKind::CorruptRecord`], [`ErrorKind::RecordTooNew`]: the key has an object of
    ///   another kind, or of a later version.
    pub async fn read(&self) -> Result<Option<Contents>, Error> {
        require_timers()?;
        let found = self.find().await?.map_err(|error| self.failure("reading", error))?;
        Ok(found.map(|found| Contents::new(found.line.epoch, found.body())))
    }

    /// Claims the object for this token. Older writers cannot write any more. Cost: 1 GET and 1 PUT
    /// of the whole body, and 1 GET more if this epoch has opened the object before.
    ///
    /// A busy older writer may write between the GET and the PUT, so that the PUT is refused. After
    /// two refusals `open` writes a reservation object (1 GET, 1 PUT). An older writer reads the
    /// reservation before every 16th write and whenever it opens the object. If the reservation has
    /// a greater epoch, the older writer stops. So `open` makes at most 16 more attempts for each
    /// older writer.
    ///
    /// Dropping the future is safe, but the claim may still take effect.
    ///
    /// # Errors
    ///
    /// - [`FencingError::Stale`]: a greater epoch has claimed or reserved the object. Nothing was
    ///   written.
    /// - [`FencingError::LeaseEnding`]: the lease of the token is at risk or has ended.
    /// - [`FencingError::Failed`]: the errors of [`read`](FencedObject::read), after several
    ///   attempts. If other writers ignore the reservation, so that the store refuses 64 attempts,
    ///   the kind is [`ErrorKind::Unavailable`]. The claim may have taken effect: open the object
    ///   again. [`ErrorKind::NoRuntime`]: nothing was sent; call this method in a Tokio runtime
    ///   with timers.
    pub async fn open(&self, token: impl Into<Token>) -> Result<ObjectWriter, FencingError> {
        require_timers()?;
        let token = token.into();
        let opened = token.bound(self.open_under(&token)).await;
        opened.unwrap_or_else(|loss| Err(FencingError::ending(loss, true)))
    }

    async fn open_under(&self, token: &Token) -> Result<ObjectWriter, FencingError> {
        let nonce = self.calls.nonce();
        let (mut attempts, mut failures, mut refusals) = (Attempts::default(), 0, 0);
        loop {
            match self.claim(token, nonce, &mut attempts).await? {
                Claim::Made(writer) => return Ok(writer),
                Claim::Refused => {
                    refusals += 1;
                    attempts.last = None;
                    if refusals == RESERVE_AFTER {
                        self.reserve(token.epoch()).await?;
                    }
                }
                Claim::Failed => failures += 1,
            }
            if refusals == REFUSALS || failures == ATTEMPTS {
                let last = attempts.last.take().unwrap_or_else(busy);
                return Err(self.claiming(last, &attempts));
            }
            self.calls.pause((failures + refusals.min(2)).saturating_sub(1)).await;
        }
    }

    /// Makes one attempt to claim the object: 1 GET and 1 PUT.
    async fn claim(
        &self,
        under: &Token,
        nonce: Nonce,
        attempts: &mut Attempts,
    ) -> Result<Claim, FencingError> {
        let token = under.epoch();
        let found = attempts.read(self.find().await?);
        let found = found.map_err(|error| self.claiming(error, attempts))?;
        let Some(found) = found else { return Ok(Claim::Failed) };
        if let Some(found) = &found {
            let newest = found.line.epoch;
            if newest > token {
                let stale = Stale { offered: token, newest };
                return Err(FencingError::Stale { stale, determinacy: attempts.determinacy() });
            }
            if found.line.nonce == nonce {
                let (etag, body) = (found.etag.clone(), found.body.clone());
                let body = found.line.written.then_some(body);
                return Ok(Claim::Made(self.writer(under, etag, body)));
            }
            if newest == token {
                self.require_unreserved(token).await?;
            }
        }
        let etag = found.as_ref().map(|found| found.etag.clone());
        let body = found.and_then(Found::body);
        let bytes = line_and_body(token, nonce, body.as_deref());
        let swapped = attempts.swapped(self.calls.put(&self.key, bytes, etag).await);
        Ok(match swapped.map_err(|error| self.claiming(error, attempts))? {
            Swap::Done(etag) => Claim::Made(self.writer(under, etag, body)),
            Swap::Refused => Claim::Refused,
            Swap::Unknown | Swap::Failed => Claim::Failed,
        })
    }

    fn writer(&self, token: &Token, etag: ETag, body: Option<Bytes>) -> ObjectWriter {
        ObjectWriter::new(self.clone(), token.clone(), etag, body)
    }

    /// Reads the object. The outer error means that the object has unexpected content.
    async fn find(&self) -> Result<Result<Option<Found>, StoreError>, Error> {
        let object = match self.calls.get(&self.key, None).await {
            Ok(GetOutcome::Found(object)) => object,
            Ok(GetOutcome::NotFound | GetOutcome::NotModified) => return Ok(Ok(None)),
            Ok(_) => {
                let why = "it does not fit into memory";
                return Err(envelope::corrupt::<ObjectLine>(&self.key, why));
            }
            Err(error) => return Ok(Err(error)),
        };
        let (line, body) = envelope::unwrap(&self.key, &object.body)?;
        Ok(Ok(Some(Found { line, body, etag: object.etag })))
    }

    fn failure(&self, doing: &str, error: StoreError) -> Error {
        self.calls.failure(&format!("{doing} {}", self.key), error)
    }

    fn claiming(&self, error: StoreError, attempts: &Attempts) -> FencingError {
        attempts.error(self.failure("claiming", error)).into()
    }
}

fn line_and_body(epoch: Epoch, nonce: Nonce, body: Option<&[u8]>) -> Bytes {
    let written = body.is_some();
    let line = ObjectLine { tenure_object: envelope::FORMAT, epoch, nonce, written };
    envelope::wrap(&line, body.unwrap_or_default())
}

fn busy() -> StoreError {
    use tenure::store::StoreErrorKind;
    let why = "other writers changed the object during each attempt, or the store refuses without \
               a reason";
    StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why)
}
