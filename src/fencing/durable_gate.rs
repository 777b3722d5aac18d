//! A gate that a restart does not make forget.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::calls::{ATTEMPTS, Calls, Put, passes};
use super::envelope::{self, Line};
use super::{FencingError, Stale};
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::process::Process;
use crate::store::{ETag, GetOutcome, Happened, Store, StoreError};

/// A [`Gate`](super::Gate) that keeps the greatest token in an object on a store, for services that
/// are restarted, or that have several instances. Clones share what they know.
///
/// The object is raised with `If-Match` before the greater token is admitted, and never lowered.
///
/// **What it guarantees.** A token is admitted only if the object shows, at some time during the
/// call, none that is greater. So once any instance has admitted a token, no instance admits a
/// lower one in a call that begins later.
///
/// **What it does not.** Admission and what it admits to are two steps, as at
/// [`Gate::admit`](super::Gate::admit): the service may be paused between them. Within one instance
/// [`Gate::enter`](super::Gate::enter) makes them one; ask it after this gate. With
/// [`sole_instance`](DurableGate::sole_instance) it does not know what other instances have seen.
#[derive(Debug, Clone)]
pub struct DurableGate {
    calls: Calls,
    key: Arc<str>,
    sole: bool,
    seen: Arc<Mutex<Option<Seen>>>,
}

/// The object, as it was seen last.
#[derive(Debug, Clone)]
struct Seen {
    newest: Epoch,
    etag: ETag,
}

/// Two bodies of one gate are equal only if their tokens are.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GateLine {
    tenure_gate: u64,
    newest: Epoch,
}

impl Line for GateLine {
    const TAG: &'static str = "tenure_gate";
    const WHAT: &'static str = "a gate";
}

impl DurableGate {
    /// The gate at this key. Sends nothing.
    pub fn new(store: Arc<dyn Store>, key: impl Into<String>) -> DurableGate {
        let key = key.into().into();
        DurableGate { calls: Calls::new(store), key, sole: false, seen: Arc::default() }
    }

    /// Vouches that at any time one process alone uses this gate: a token that it has seen is then
    /// admitted without a request. A restart must not overlap with the process before.
    #[must_use]
    pub fn sole_instance(mut self) -> DurableGate {
        self.sole = true;
        self
    }

    /// How long a single request may take: default 30 s.
    #[must_use]
    pub fn request_timeout(mut self, request_timeout: Duration) -> DurableGate {
        self.calls.request_timeout = request_timeout;
        self
    }

    /// Where clock and random numbers come from: default [`Process::system`].
    #[must_use]
    pub fn process(mut self, process: Process) -> DurableGate {
        self.calls.process = process;
        self
    }

    /// Admits the token if it is not lower than the greatest seen, and remembers it.
    ///
    /// Costs nothing for a token below one that this process has seen, which is refused; 1 GET for
    /// the greatest that it has seen (nothing with [`sole_instance`](DurableGate::sole_instance));
    /// and 1 GET and 1 PUT for a greater one (1 PUT if it has seen the object).
    ///
    /// # Errors
    ///
    /// - [`FencingError::Stale`]: refuse the request, and tell its sender to stop.
    /// - [`FencingError::Failed`]: the store failed, several times; the token was not admitted.
    ///   [`ErrorKind::CorruptRecord`]: there is another object at this key.
    ///   [`ErrorKind::NewestDeleted`]: the object is gone: write it anew by hand, with the greatest
    ///   token ever handed out.
    pub async fn admit(&self, token: Epoch) -> Result<(), FencingError> {
        let mut known = self.seen();
        // What is known may be old, but the greatest token only grows.
        stale(token, known.as_ref())?;
        let mut look = match &known {
            Some(seen) if seen.newest == token && self.sole => return Ok(()),
            Some(seen) => seen.newest == token,
            None => true,
        };
        let mut last = None;
        let mut unknown = false;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                self.calls.pause(attempt - 1).await;
            }
            if look {
                match self.look().await? {
                    Ok(seen) => known = seen,
                    Err(error) if passes(&error) => {
                        last = Some(error);
                        continue;
                    }
                    Err(error) => return Err(self.failed(error, unknown)),
                }
                stale(token, known.as_ref())?;
                if known.as_ref().is_some_and(|seen| seen.newest == token) {
                    return Ok(());
                }
            }
            let line = GateLine { tenure_gate: envelope::FORMAT, newest: token };
            let etag = known.as_ref().map(|seen| seen.etag.clone());
            match self.calls.put(&self.key, envelope::wrap(&line, b""), etag).await {
                Put::Done(etag) => {
                    self.see(Seen { newest: token, etag });
                    return Ok(());
                }
                Put::Refused => {}
                Put::Unknown(error) => {
                    unknown = true;
                    last = Some(error);
                }
                Put::Failed(error) if passes(&error) => last = Some(error),
                Put::Failed(error) => return Err(self.failed(error, unknown)),
            }
            look = true;
        }
        let busy = || StoreError::timed_out("other instances raise it all the time");
        Err(self.failed(last.unwrap_or_else(busy), unknown))
    }

    /// The greatest token seen by any instance. 1 GET.
    ///
    /// # Errors
    ///
    /// Those of [`admit`](DurableGate::admit), the refusal apart.
    pub async fn newest(&self) -> Result<Option<Epoch>, Error> {
        let seen = self.look().await?.map_err(|error| self.reading(error))?;
        Ok(seen.map(|seen| seen.newest))
    }

    async fn look(&self) -> Result<Result<Option<Seen>, StoreError>, Error> {
        let known = self.seen();
        let unless = known.as_ref().map(|seen| seen.etag.clone());
        let object = match self.calls.get(&self.key, unless).await {
            Ok(GetOutcome::Found(object)) => object,
            Ok(GetOutcome::NotModified) => return Ok(Ok(known)),
            Ok(GetOutcome::Missing) => {
                return match known {
                    None => Ok(Ok(None)),
                    Some(seen) => Err(self.gone(seen.newest)),
                };
            }
            Ok(GetOutcome::TooLarge { .. }) => {
                return Err(envelope::corrupt::<GateLine>(&self.key, "it is too large"));
            }
            Err(error) => return Ok(Err(error)),
        };
        let (line, body) = envelope::unwrap::<GateLine>(&self.key, &object.body)?;
        if !body.is_empty() {
            return Err(envelope::corrupt::<GateLine>(&self.key, "more follows its line"));
        }
        if let Some(seen) = known.filter(|seen| seen.newest > line.newest) {
            let why = format!("{} was lowered from {} to {}", self.key, seen.newest, line.newest);
            return Err(self.calls.error(ErrorKind::UnsafeStore, &why));
        }
        let seen = Seen { newest: line.newest, etag: object.etag };
        self.see(seen.clone());
        Ok(Ok(Some(seen)))
    }

    fn seen(&self) -> Option<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn see(&self, new: Seen) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.as_ref().is_none_or(|seen| seen.newest < new.newest) {
            *seen = Some(new);
        }
    }

    fn gone(&self, newest: Epoch) -> Error {
        let why = format!("{} is gone; it has seen epoch {newest}", self.key);
        self.calls.error(ErrorKind::NewestDeleted, &why)
    }

    fn reading(&self, error: StoreError) -> Error {
        self.calls.failure(&format!("reading the gate {}", self.key), error)
    }

    fn failed(&self, error: StoreError, unknown: bool) -> FencingError {
        let error = self.calls.failure(&format!("raising the gate {}", self.key), error);
        if unknown { error.maybe().into() } else { error.into() }
    }
}

fn stale(token: Epoch, seen: Option<&Seen>) -> Result<(), FencingError> {
    match seen {
        Some(seen) if token < seen.newest => {
            let stale = Stale { offered: token, newest: seen.newest };
            // What the object shows now is greater, whatever this call has done to it.
            Err(FencingError::Stale { stale, happened: Happened::No })
        }
        _ => Ok(()),
    }
}
