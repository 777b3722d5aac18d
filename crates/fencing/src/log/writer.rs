//! Opening the log and appending to it: sends the state machine's requests to the store.

use bytes::Bytes;

use tenure::seam::fencing::{Written, require_timers};
use tenure::store::{Determinacy, StoreError, StoreErrorKind};
use tenure::{Epoch, Error, ErrorKind};

use super::{FencedLog, LogEntry, LogLine};
use crate::calls::{ATTEMPTS, passes};
use crate::envelope;
use crate::error::{FencingError, Stale};
use crate::protocol::{Ended, Kind, LogAnswer, LogRequest, Writer};
use crate::token::Token;

/// Appends to a [`FencedLog`] under one epoch. It is not cloned: share it behind a lock.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Epoch, store::MemoryStore};
/// # use tenure_fencing::{FencedLog, FencingError};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), FencingError> {
/// # let (old, new) = (Epoch::FIRST, Epoch::new(2).unwrap());
/// let log = FencedLog::new(Arc::new(MemoryStore::new()), "orders/manifest")?;
/// let mut former = log.open(old).await?;
/// former.append("a.sst").await?;
///
/// let mut writer = log.open(new).await?;
/// let last = writer.latest().await?.unwrap(); // the last that `former` will ever have appended
/// let manifest = format!("{},b.sst", str::from_utf8(&last.body).unwrap());
/// writer.append(manifest).await?;
/// assert!(former.append("a.sst,c.sst").await.unwrap_err().stale().is_some());
/// assert_eq!(log.latest().await?.unwrap().body, "a.sst,b.sst");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LogWriter {
    log: FencedLog,
    token: Token,
    machine: Writer,
    /// The body of the append under way.
    body: Bytes,
    /// Whether an object may have been written by an attempt that did not clearly fail.
    unknown: bool,
}

impl FencedLog {
    /// Claims the log for this token: older writers append no more.
    ///
    /// 2 LIST, 1 GET and 1 PUT where the log has fewer than 1,000 objects or this value has seen
    /// its end; some 25 LIST more at a million. Beside an older writer that appends meanwhile the
    /// number of requests is bounded by its pace: 18 in all where it sends as many requests as this
    /// one, 38 where it sends four times as many (docs/protocol.md section 8).
    ///
    /// Dropping the future is safe; the claim may still be made. If it created a fence because of a
    /// busy older writer, that request may also arrive late, and end the writer of the next `open`
    /// with [`Replaced`](FencingError::Replaced): open the log again.
    ///
    /// # Errors
    ///
    /// - [`FencingError::Stale`]: a greater epoch has claimed the log.
    /// - [`FencingError::LeaseEnding`]: the lease of the token is at risk or over.
    /// - [`FencingError::Failed`]: a request failed, several times; the claim may have been made,
    ///   which stops older writers but does no other harm. Open it again.
    ///   [`ErrorKind::CorruptRecord`]: an object under a number is none of the log's, or one is
    ///   missing that was not trimmed. [`ErrorKind::NewestDeleted`]: somebody has deleted the end
    ///   of the log.
    ///   [`ErrorKind::NoRuntime`]: call it in a Tokio runtime with timers; nothing was sent.
    pub async fn open(&self, token: impl Into<Token>) -> Result<LogWriter, FencingError> {
        require_timers()?;
        let token = token.into();
        let machine = Writer::new(token.epoch(), self.known());
        let log = self.clone();
        let mut writer = LogWriter { log, token, machine, body: Bytes::new(), unknown: false };
        writer.drive("claiming").await?;
        Ok(writer)
    }
}

impl LogWriter {
    /// Returns the token under which it appends.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.machine.epoch()
    }

    /// Returns the number of the newest entry that this writer appended or found; `None` if there
    /// is none, or while the outcome of an append is unknown. No request.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.machine.standing().map(|standing| standing.last).filter(|last| *last > 0)
    }

    /// Reads the newest entry that this writer appended or found. 1 GET. Right after
    /// [`open`](FencedLog::open) it is the last entry of all older writers; later, a newer writer
    /// may have appended.
    ///
    /// # Errors
    ///
    /// [`FencingError::Failed`], [`FencingError::LeaseEnding`], and the errors of
    /// [`settle`](LogWriter::settle), which it calls first.
    pub async fn latest(&mut self) -> Result<Option<LogEntry>, FencingError> {
        self.settle().await?;
        let Some(number) = self.last() else { return Ok(None) };
        let read = async {
            // Gone only if a newer writer has appended; what is then filled anew is a claim.
            match self.log.object(number).await? {
                Some(read) if read.header.kind == Kind::Entry => {
                    Ok(Some(LogEntry { number, epoch: read.header.epoch, body: read.body }))
                }
                _ => self.log.latest().await,
            }
        };
        self.token.bound(read).await.unwrap_or_else(|loss| Err(FencingError::ending(loss, false)))
    }

    /// Appends an entry, and returns its number. 1 PUT; if its answer is lost, 1 GET to read back,
    /// then further attempts, a few in all. 1 PUT and 2 GET more for each fence of a lower epoch
    /// that it meets.
    ///
    /// Dropping the future leaves the outcome open, like an error with
    /// [`may_have_happened`](FencingError::may_have_happened).
    ///
    /// # Errors
    ///
    /// - [`FencingError::Stale`], [`FencingError::Replaced`]: another writer has claimed the log.
    ///   Stop. 2 GET.
    /// - [`FencingError::LeaseEnding`]: the lease of the writer's token is at risk or over. Stop.
    /// - [`FencingError::Failed`]: a request failed, several times. Unless
    ///   [`may_have_happened`](FencingError::may_have_happened) nothing was appended. If it may
    ///   have, the next call *finishes this append first*: call [`settle`](LogWriter::settle) to
    ///   learn its number, and do not append the same once more.
    ///   [`ErrorKind::NoRuntime`]: call it in a Tokio runtime with timers; nothing was sent.
    pub async fn append(&mut self, body: impl Into<Bytes>) -> Result<u64, FencingError> {
        self.settle().await?;
        self.body = body.into();
        self.unknown = false;
        self.machine.append(self.log.calls.nonce());
        self.finish().await
    }

    /// Finishes an append whose outcome was left open, and returns its number; `None` if there is
    /// no such append.
    ///
    /// # Errors
    ///
    /// Those of [`append`](LogWriter::append).
    pub async fn settle(&mut self) -> Result<Option<u64>, FencingError> {
        require_timers()?;
        if self.machine.standing().is_some() { Ok(None) } else { self.finish().await.map(Some) }
    }

    async fn finish(&mut self) -> Result<u64, FencingError> {
        match self.drive("appending").await {
            Ok(last) => {
                self.body = Bytes::new();
                Ok(last)
            }
            Err(error) => {
                if !error.may_have_happened() {
                    self.machine.withdraw();
                }
                Err(error)
            }
        }
    }

    /// The same as [`drive_on`](LogWriter::drive_on), at most until the lease is at risk.
    async fn drive(&mut self, doing: &str) -> Result<u64, FencingError> {
        let token = self.token.clone();
        let outcome = token.bound(self.drive_on(doing)).await;
        outcome.unwrap_or_else(|loss| Err(FencingError::ending(loss, self.unknown)))
    }

    /// Until the machine stands, ends, or a request has failed too often: the newest entry.
    async fn drive_on(&mut self, doing: &str) -> Result<u64, FencingError> {
        let (mut failures, mut refused) = (0, false);
        while let Some(request) = self.machine.request() {
            let before = self.unknown;
            let read = if let LogRequest::Read(number) = request { Some(number) } else { None };
            let answer = match self.perform(request).await? {
                Ok(answer) => answer,
                Err(error) => {
                    if matches!(self.machine.request(), Some(LogRequest::Create { .. })) {
                        if error.determinacy() == Determinacy::Indeterminate {
                            self.machine.handle(LogAnswer::Unknown, self.log.calls.nonce());
                        } else {
                            self.unknown = before;
                        }
                    }
                    if !passes(&error) || failures + 1 == ATTEMPTS {
                        return Err(self.failed(self.log.failure(doing, error)));
                    }
                    self.log.calls.pause(failures).await;
                    failures += 1;
                    continue;
                }
            };
            let missing = read.filter(|_| answer == LogAnswer::Missing);
            let after_refusal = refused;
            refused = answer == LogAnswer::Refused;
            self.machine.handle(answer, self.log.calls.nonce());
            let Some(number) = missing else { continue };
            // Trimmed since it was listed or refused a create; or it was deleted by other means, or
            // reads of the store lag behind, and this would have no end.
            let again = matches!(self.machine.request(), Some(LogRequest::List(_)));
            if after_refusal || again {
                if failures + 1 == ATTEMPTS {
                    let error = if after_refusal {
                        self.log.failure(doing, lags_behind())
                    } else {
                        self.log.missing(doing, number).await
                    };
                    return Err(self.failed(error));
                }
                self.log.calls.pause(failures).await;
                failures += 1;
            }
        }
        if let Some(ended) = self.machine.ended() {
            return Err(self.ended(ended));
        }
        let standing = self.machine.standing();
        let standing = standing.expect("a machine that asks nothing has ended or stands");
        self.unknown = false;
        self.log.saw(standing.next - 1);
        Ok(standing.last)
    }

    fn failed(&self, error: Error) -> FencingError {
        if self.unknown { error.maybe().into() } else { error.into() }
    }

    /// The outer error is about what was read, and another attempt would end the same way.
    async fn perform(
        &mut self,
        request: LogRequest,
    ) -> Result<Result<LogAnswer, StoreError>, FencingError> {
        let log = &self.log;
        Ok(match request {
            LogRequest::List(after) => log.list(&after).await.map(LogAnswer::Listed),
            LogRequest::Read(number) => {
                match log.read(number).await.map_err(|error| self.failed(error))? {
                    Ok(Some(read)) => Ok(LogAnswer::Found(read.header)),
                    Ok(None) => Ok(LogAnswer::Missing),
                    Err(error) => Err(error),
                }
            }
            LogRequest::Floor => log
                .marker()
                .await
                .map_err(Error::maybe)?
                .map(|(marker, _)| LogAnswer::Floor(marker.floor)),
            LogRequest::Create { number, header } => {
                let bytes = envelope::wrap(&LogLine::of(&header), &self.body);
                // If this future is dropped now, the object may still be written.
                self.unknown = true;
                match log.calls.put(&log.keys.numbered(number), bytes, None).await {
                    Written::Done(_) => Ok(LogAnswer::Created),
                    Written::Refused | Written::Missing => Ok(LogAnswer::Refused),
                    Written::Unknown(error) | Written::Failed(error) => Err(error),
                }
            }
        })
    }

    fn ended(&self, ended: Ended) -> FencingError {
        let determinacy =
            |maybe: bool| if maybe { Determinacy::Indeterminate } else { Determinacy::Determinate };
        let epoch = self.epoch();
        let calls = &self.log.calls;
        match ended {
            Ended::Stale { newest, maybe } => {
                let stale = Stale { offered: epoch, newest };
                FencingError::Stale { stale, determinacy: determinacy(maybe) }
            }
            Ended::Replaced { maybe } => {
                FencingError::Replaced { epoch, determinacy: determinacy(maybe) }
            }
            Ended::Gone(number) => self.log.gone(number).maybe().into(),
            Ended::WentBack { number, epoch: older } => {
                let key = self.log.keys.numbered(number);
                let why = format!("{key} is of epoch {older}, after one of epoch {epoch}");
                calls.error(ErrorKind::UnsafeStore, &why).maybe().into()
            }
            Ended::Full => {
                let why = format!("the log {} has used its last number", self.log.keys.0);
                calls.error(ErrorKind::CorruptRecord, &why).into()
            }
        }
    }
}

fn lags_behind() -> StoreError {
    let why = "reads say again and again that an object is missing which has refused a create; do \
               reads of this store lag behind its writes?";
    StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why)
}
