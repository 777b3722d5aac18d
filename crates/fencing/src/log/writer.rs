//! Opens the log and appends to it: sends the requests of the state machine to the store.

use bytes::Bytes;

use tenure::internals::fencing::{Written, require_timers};
use tenure::store::{Determinacy, StoreError, StoreErrorKind};
use tenure::{Epoch, Error, ErrorKind};

use super::{FencedLog, LogEntry, LogLine};
use crate::calls::{ATTEMPTS, passes};
use crate::envelope;
use crate::error::{FencingError, Stale};
use crate::protocol::{Ended, Kind, LogAnswer, LogRequest, Writer};
use crate::token::Token;

/// Appends to a [`FencedLog`] under one epoch. A writer cannot be cloned: share it behind a lock.
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
/// let last = writer.latest().await?.unwrap(); // `former` cannot append after this entry
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
    /// Body of the pending append.
    body: Bytes,
    /// True if an attempt with an unknown effect may have written an object.
    unknown: bool,
}

impl FencedLog {
    /// Claims the log for this token. Older writers cannot append any more.
    ///
    /// Cost: 2 LIST, 1 GET and 1 PUT. A log of a million objects costs about 25 LIST more, unless
    /// this `FencedLog` has seen its end before. While an older writer appends, the number of
    /// requests depends on the pace of that writer. It is at most 18 if the older writer sends as
    /// many requests as this writer, and at most 38 if the older writer sends four times as many
    /// (F18).
    ///
    /// Dropping the future is safe, but the claim may still take effect. If an older writer is
    /// busy, this call may also have sent a fence, which may arrive late. A late fence may end the
    /// writer that the next call of `open` returns. An append of that writer then fails with
    /// [`Replaced`](FencingError::Replaced): open the log again.
    ///
    /// # Errors
    ///
    /// - [`FencingError::Stale`]: a greater epoch has claimed the log.
    /// - [`FencingError::LeaseEnding`]: the lease of the token is at risk or has ended.
    /// - [`FencingError::Failed`]: a request failed at every attempt. The claim may have taken
    ///   effect, which stops older writers but does no other harm. Open the log again.
    ///   [`ErrorKind::CorruptRecord`]: a numbered object does not belong to the log, or an object
    ///   that was not trimmed is missing. [`ErrorKind::NewestDeleted`]: the end of the log was
    ///   deleted. [`ErrorKind::NoRuntime`]: nothing was sent; call this method in a Tokio runtime
    ///   with timers.
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
    /// Returns the token of this writer.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.machine.epoch()
    }

    /// Returns the number of the newest entry that this writer appended or found. `None` if the log
    /// has no entry, or while the effect of an append is unknown. Sends no request.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.machine.standing().map(|standing| standing.last).filter(|last| *last > 0)
    }

    /// Reads the newest entry that this writer appended or found. Cost: 1 GET. Immediately after
    /// [`open`](FencedLog::open), this is the last entry that any older writer appended. Later, a
    /// newer writer may have appended other entries.
    ///
    /// # Errors
    ///
    /// [`FencingError::Failed`], [`FencingError::LeaseEnding`], and the errors of
    /// [`settle`](LogWriter::settle), which this method calls first.
    pub async fn latest(&mut self) -> Result<Option<LogEntry>, FencingError> {
        self.settle().await?;
        let Some(number) = self.last() else { return Ok(None) };
        let read = async {
            // A trim deletes this entry only after a newer writer has appended an entry. After the
            // deletion, a delayed request can create only a claim or a fence at this number.
            match self.log.object(number).await? {
                Some(read) if read.header.kind == Kind::Entry => {
                    Ok(Some(LogEntry { number, epoch: read.header.epoch, body: read.body }))
                }
                _ => self.log.latest().await,
            }
        };
        self.token.bound(read).await.unwrap_or_else(|loss| Err(FencingError::ending(loss, false)))
    }

    /// Appends an entry, and returns its number. Cost: 1 PUT. If the response to the PUT is lost,
    /// the call reads the object back with 1 GET, and may make a few further attempts. Each fence
    /// of a lower epoch at the number of the append costs 1 PUT and 2 GET more.
    ///
    /// If the future is dropped, the effect of the append is unknown, as after an error with
    /// [`may_have_happened`](FencingError::may_have_happened).
    ///
    /// # Errors
    ///
    /// - [`FencingError::Stale`], [`FencingError::Replaced`]: another writer has claimed the log.
    ///   Stop. This error costs 2 GET more.
    /// - [`FencingError::LeaseEnding`]: the lease of the writer's token is at risk or has ended.
    ///   Stop.
    /// - [`FencingError::Failed`]: a request failed at every attempt. If
    ///   [`may_have_happened`](FencingError::may_have_happened) returns `false`, nothing was
    ///   appended. If it returns `true`, the next call *finishes this append first*: call
    ///   [`settle`](LogWriter::settle) to learn its number, and do not append the same body again.
    ///   [`ErrorKind::NoRuntime`]: nothing was sent; call this method in a Tokio runtime with
    ///   timers.
    pub async fn append(&mut self, body: impl Into<Bytes>) -> Result<u64, FencingError> {
        self.settle().await?;
        self.body = body.into();
        self.unknown = false;
        self.machine.append(self.log.calls.nonce());
        self.finish().await
    }

    /// Finishes an append with an unknown effect, and returns its number; `None` if the effect of
    /// each append is known.
    ///
    /// # Errors
    ///
    /// The errors of [`append`](LogWriter::append).
    pub async fn settle(&mut self) -> Result<Option<u64>, FencingError> {
        require_timers()?;
        if self.machine.standing().is_some() { Ok(None) } else { self.finish().await.map(Some) }
    }

    async fn finish(&mut self) -> Result<u64, FencingError> {
        match self.drive("appending to").await {
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

    /// Calls [`drive_on`](LogWriter::drive_on), but stops when the lease is at risk.
    async fn drive(&mut self, doing: &str) -> Result<u64, FencingError> {
        let token = self.token.clone();
        let outcome = token.bound(self.drive_on(doing)).await;
        outcome.unwrap_or_else(|loss| Err(FencingError::ending(loss, self.unknown)))
    }

    /// Sends the requests of the state machine until the writer has a position or has ended, or
    /// until too many requests have failed. Returns the number of the newest entry.
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
            // The object that the writer wanted to read is missing. Usually a trim has deleted it
            // after the listing, or after the refusal of a create at its number. But each attempt
            // ends here if the object was deleted by other means, or if reads of the store lag
            // behind its writes. So the number of attempts is limited.
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
        let standing = standing.expect("a machine without a request has ended or has a position");
        self.unknown = false;
        self.log.saw(standing.next - 1);
        Ok(standing.last)
    }

    fn failed(&self, error: Error) -> FencingError {
        if self.unknown { error.maybe().into() } else { error.into() }
    }

    /// Sends one request. The outer error means that the object has unexpected content: another
    /// attempt would fail too.
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
                // If the caller drops this future now, the object may still be written.
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
                let why =
                    format!("{key} has epoch {older}, although epoch {epoch} was there before");
                calls.error(ErrorKind::UnsafeStore, &why).maybe().into()
            }
            Ended::Full => {
                let why = format!("the log {} is full: its last number is used", self.log.keys.0);
                calls.error(ErrorKind::CorruptRecord, &why).into()
            }
        }
    }
}

fn lags_behind() -> StoreError {
    let why = "each create was refused, but no read found an object at its number; check whether \
               reads of this store lag behind its writes";
    StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why)
}
