//! A gate that remembers its token across restarts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenure::internals::fencing::{Written, require_timers};
use tenure::internals::plain;
use tenure::store::{Determinacy, ETag, GetOutcome, Store, StoreError};
use tenure::{Epoch, Error, ErrorKind, Process};

use super::calls::{Attempts, Calls, Swap};
use super::envelope::{self, Line};
use crate::error::{FencingError, Stale};
use crate::meter::GateMeter;

mod reset;

pub use reset::GateState;

/// A [`Gate`](super::Gate) that keeps the greatest token in an object on a store, for services that
/// restart, or that have several instances. Clones share the gate.
///
/// Before the gate admits a greater token, it writes the token to the object with `If-Match`. Only
/// a [`reset`](GateState::reset) can lower the token in the object.
///
/// **Guarantees.** At some moment during a call that admits a token, the object had no greater
/// token. So once any instance has admitted a token, no instance admits a lower token in a call
/// that begins later. Only a reset ends this guarantee.
///
/// **Limits.** The admission and the action are two steps, as with
/// [`Gate::admit`](super::Gate::admit): the service may pause between them. To prevent late actions
/// within one instance, also use a [`Gate`](super::Gate) in memory. After the durable gate has
/// admitted the token, call [`Gate::enter`](super::Gate::enter), and act before you drop the
/// permit. With [`sole_instance`](DurableGate::sole_instance) the gate does not see the tokens of
/// other instances.
///
/// **Authenticate first.** The gate believes every token: one request with a token that was never
/// granted makes the gate refuse all leaders, even after a restart. Admit only tokens of
/// authenticated senders. Before you admit a token above [`newest`](DurableGate::newest), check
/// that it is not above [`Election::newest_epoch`](tenure::Election::newest_epoch). [`GateState`]
/// describes the repair of a gate that has admitted a wrong token.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Epoch, store::MemoryStore};
/// # use tenure_fencing::DurableGate;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure_fencing::FencingError> {
/// # let store = Arc::new(MemoryStore::new());
/// # let (old, new) = (Epoch::FIRST, Epoch::new(2).unwrap());
/// let gate = DurableGate::new(store.clone(), "orders/gate.json");
/// gate.admit(new).await?;
/// drop(gate); // the service restarts, or the next request reaches another instance
///
/// let gate = DurableGate::new(store, "orders/gate.json");
/// let refused = gate.admit(old).await.unwrap_err();
/// assert_eq!(refused.stale().map(|stale| stale.newest), Some(new));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DurableGate {
    // The object and its requests.
    calls: Calls,
    key: Arc<str>,
    /// True if no other process uses the gate.
    sole: bool,

    // The state that all clones share.
    seen: Arc<Mutex<Option<Seen>>>,
    meter: GateMeter,
}

/// The newest version of the object that this process has seen.
#[derive(Debug, Clone)]
struct Seen {
    newest: Epoch,
    resets: u64,
    etag: ETag,
}

/// The content of a gate's object. Two bodies of one gate are equal only if `newest` and `resets`
/// are equal. `resets` never decreases, and `newest` decreases only if `resets` increases. So each
/// write has a new body, and no later write has the ETag of an earlier write.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GateLine {
    tenure_gate: u64,
    newest: Epoch,
    /// Number that each reset raises. The new number is the time of the reset in milliseconds since
    /// 1970, or the previous number plus one if that is greater.
    #[serde(default, skip_serializing_if = "is_zero")]
    resets: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Line for GateLine {
    const TAG: &'static str = "tenure_gate";
    const WHAT: &'static str = "a gate";
}

impl Seen {
    /// Returns the reset number and the token. A later version of the object has a greater pair.
    fn order(&self) -> (u64, Epoch) {
        (self.resets, self.newest)
    }
}

impl DurableGate {
    /// Creates the gate at this key. Sends nothing.
    pub fn new(store: Arc<dyn Store>, key: impl Into<String>) -> DurableGate {
        let key: Arc<str> = key.into().into();
        let meter = GateMeter::new(store.as_ref(), &key);
        DurableGate { calls: Calls::new(store), key, sole: false, seen: Arc::default(), meter }
    }

    /// Declares that only one process uses this gate at any time. The gate then sends a request
    /// only for a token that is greater than all tokens that it has seen. A new process must not
    /// start before the previous one has ended.
    #[must_use]
    pub fn sole_instance(mut self) -> DurableGate {
        self.sole = true;
        self
    }

    /// Sets the time limit of a single request. Default: 30 s.
    #[must_use]
    pub fn request_timeout(mut self, request_timeout: Duration) -> DurableGate {
        self.calls.request_timeout = request_timeout;
        self
    }

    /// Sets the source of the clock and of random numbers. Default: [`Process::system`].
    #[must_use]
    pub fn process(mut self, process: Process) -> DurableGate {
        self.calls.process = process;
        self
    }

    /// Admits the token unless the gate has seen a greater token. Before the gate admits a token
    /// that is greater than all tokens that it has seen, it stores the token.
    ///
    /// If this process has seen this token or a greater one, the call costs 1 GET, or no request
    /// with [`sole_instance`](DurableGate::sole_instance). If the token is greater than all tokens
    /// that this process has seen, the call costs 1 PUT. If this process has not seen the object,
    /// the call costs 1 GET more.
    ///
    /// # Errors
    ///
    /// - [`FencingError::Stale`]: the gate has seen a greater token. Refuse the request, and ask
    ///   its sender to stop.
    /// - [`FencingError::Failed`]: the store failed at every attempt. The token was not admitted.
    ///   [`ErrorKind::CorruptRecord`]: the key has an object of another kind.
    ///   [`ErrorKind::NewestDeleted`]: the object was deleted; [`reset`](GateState::reset) the gate
    ///   to the greatest token ever granted. The gate logs each failure as a warning and counts it
    ///   in `tenure_gate_checks_total`.
    pub async fn admit(&self, token: Epoch) -> Result<(), FencingError> {
        require_timers()?;
        let outcome = self.check(token).await;
        self.meter.checked(match &outcome {
            Ok(()) => "admitted",
            Err(FencingError::Stale { .. }) => "stale",
            Err(error) => {
                let word = if may_pass(error) { "unavailable" } else { "failed" };
                tracing::warn!(
                    gate = plain(&self.key),
                    token = token.get(),
                    outcome = word,
                    %error,
                    "a fencing token could not be checked"
                );
                word
            }
        });
        outcome
    }

    async fn check(&self, token: Epoch) -> Result<(), FencingError> {
        let mut known = self.seen();
        let mut look = known.as_ref().is_none_or(|seen| seen.newest >= token);
        if self.sole && look && known.is_some() {
            return stale(token, known.as_ref());
        }
        let mut attempts = Attempts::default();
        while attempts.another(&self.calls).await {
            if look {
                let seen = attempts.read(self.look().await?);
                let seen = seen.map_err(|error| self.failed(error, &attempts))?;
                let Some(seen) = seen else { continue };
                known = seen;
                stale(token, known.as_ref())?;
                if known.as_ref().is_some_and(|seen| seen.newest == token) {
                    return Ok(());
                }
            }
            let resets = known.as_ref().map_or(0, |seen| seen.resets);
            let etag = known.as_ref().map(|seen| seen.etag.clone());
            let swapped = attempts.swapped(self.write(token, resets, etag).await);
            if let Swap::Done(_) = swapped.map_err(|error| self.failed(error, &attempts))? {
                return Ok(());
            }
            look = true;
        }
        let last = attempts.last_or("other instances changed the gate during each attempt");
        Err(self.failed(last, &attempts))
    }

    /// Returns the greatest token that any instance has seen. Cost: 1 GET.
    ///
    /// # Errors
    ///
    /// The errors of [`admit`](DurableGate::admit), except [`FencingError::Stale`].
    pub async fn newest(&self) -> Result<Option<Epoch>, Error> {
        require_timers()?;
        let seen = self.look().await?.map_err(|error| self.reading(error))?;
        Ok(seen.map(|seen| seen.newest))
    }

    async fn write(&self, newest: Epoch, resets: u64, etag: Option<ETag>) -> Written {
        let line = GateLine { tenure_gate: envelope::FORMAT, newest, resets };
        let written = self.calls.put(&self.key, envelope::wrap(&line, b""), etag).await;
        if let Written::Done(etag) = &written {
            self.see(Seen { newest, resets, etag: etag.clone() });
        }
        written
    }

    async fn look(&self) -> Result<Result<Option<Seen>, StoreError>, Error> {
        let known = self.seen();
        let unless = known.as_ref().map(|seen| seen.etag.clone());
        let found = match self.find(unless).await? {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Ok(known)),
            Err(error) => return Ok(Err(error)),
        };
        match (known, found) {
            (None, None) => Ok(Ok(None)),
            (Some(known), None) => Err(self.gone(known.newest)),
            (Some(known), Some(found)) if found.order() < known.order() => {
                let (key, before, now) = (&self.key, known.newest, found.newest);
                let why = format!("{key} was lowered from {before} to {now}, and not by a reset");
                Err(self.calls.error(ErrorKind::UnsafeStore, &why))
            }
            (_, Some(found)) => {
                self.see(found.clone());
                Ok(Ok(Some(found)))
            }
        }
    }

    /// Reads the object. Returns `None` if the object still has the ETag in `unless`, and
    /// `Some(None)` if the object does not exist.
    async fn find(
        &self,
        unless: Option<ETag>,
    ) -> Result<Result<Option<Option<Seen>>, StoreError>, Error> {
        let object = match self.calls.get(&self.key, unless).await {
            Ok(GetOutcome::Found(object)) => object,
            Ok(GetOutcome::NotModified) => return Ok(Ok(None)),
            Ok(GetOutcome::NotFound) => return Ok(Ok(Some(None))),
            Ok(_) => {
                return Err(envelope::corrupt::<GateLine>(&self.key, "it is too large"));
            }
            Err(error) => return Ok(Err(error)),
        };
        let (line, body) = envelope::unwrap::<GateLine>(&self.key, &object.body)?;
        if !body.is_empty() {
            return Err(envelope::corrupt::<GateLine>(&self.key, "it has more than one line"));
        }
        let GateLine { newest, resets, .. } = line;
        Ok(Ok(Some(Some(Seen { newest, resets, etag: object.etag }))))
    }

    fn seen(&self) -> Option<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn see(&self, new: Seen) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.as_ref().is_none_or(|seen| seen.order() < new.order()) {
            *seen = Some(new);
        }
    }

    fn gone(&self, newest: Epoch) -> Error {
        let why = format!("{} was deleted after it had admitted epoch {newest}", self.key);
        self.calls.error(ErrorKind::NewestDeleted, &why)
    }

    fn reading(&self, error: StoreError) -> Error {
        self.calls.failure(&format!("reading the gate {}", self.key), error)
    }

    fn failed(&self, error: StoreError, attempts: &Attempts) -> FencingError {
        let error = self.calls.failure(&format!("raising the gate {}", self.key), error);
        attempts.error(error).into()
    }
}

/// Returns true if a retry may succeed without a repair of the gate's object.
pub(super) fn may_pass(error: &FencingError) -> bool {
    matches!(error, FencingError::Failed(error) if error.kind() == ErrorKind::Unavailable)
}

fn stale(token: Epoch, seen: Option<&Seen>) -> Result<(), FencingError> {
    match seen {
        Some(seen) if token < seen.newest => {
            let stale = Stale { offered: token, newest: seen.newest };
            // The effect is known although a response may be lost: the refused token is not in the
            // object, and cannot replace the greater token later.
            Err(FencingError::Stale { stale, determinacy: Determinacy::Determinate })
        }
        _ => Ok(()),
    }
}
