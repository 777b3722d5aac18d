//! A gate that keeps the greatest token in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use tenure::Epoch;

use crate::error::Stale;

/// A guard in memory for a service that receives a token with each request. The gate refuses tokens
/// lower than the greatest that it has seen. It sends no requests. Clones share the gate.
///
/// **Guarantees.** After a token was admitted, no clone admits a lower one. With [`act`](Gate::act)
/// and [`enter`](Gate::enter), the admission and the action are one step: after an action under a
/// token, no action under a lower token occurs.
///
/// **Authenticate first.** The gate believes every token: one request with a token that was never
/// granted makes the gate refuse all leaders until the service restarts.
/// [`Election::newest_epoch`](tenure::Election::newest_epoch) returns the greatest token that can
/// be real.
///
/// **Limits.** A service that uses only [`admit`](Gate::admit) may pause after the admission, and
/// then act under an outdated token. The gate forgets its token at a restart: use
/// [`DurableGate`](super::DurableGate), or store the token with the data in one transaction, which
/// is the best guard. Two instances of a service do not share a gate. The gate admits all tasks
/// that have the same token.
///
/// # Examples
///
/// ```
/// # use tenure::Epoch;
/// # use tenure_fencing::Gate;
/// # let (old, new) = (Epoch::FIRST, Epoch::new(2).unwrap());
/// let (gate, mut rows) = (Gate::new(), Vec::new());
/// gate.act(old, || rows.push("by the old leader"))?;
/// gate.act(new, || rows.push("by the new leader"))?;
/// // A request that the old leader sent before it was paused arrives now:
/// let refused = gate.act(old, || rows.push("too late")).unwrap_err();
/// assert_eq!((refused.offered, refused.newest), (old, new));
/// assert_eq!(rows, ["by the old leader", "by the new leader"]);
/// # Ok::<(), tenure_fencing::Stale>(())
/// ```
#[derive(Clone, Default)]
pub struct Gate(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<Permits>,
    left: Notify,
}

#[derive(Default)]
struct Permits {
    newest: Option<Epoch>,
    /// The number of live permits of each token.
    inside: BTreeMap<Epoch, usize>,
}

/// The permit that [`Gate::enter`] returns. Until this permit is dropped, `enter` returns no permit
/// for a greater token.
#[must_use = "a permit that is dropped immediately guards nothing"]
pub struct GatePermit {
    gate: Gate,
    token: Epoch,
}

impl Gate {
    /// Creates a gate that has seen no token.
    #[must_use]
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Admits and remembers the token, unless the gate has seen a greater token.
    ///
    /// # Errors
    ///
    /// [`Stale`], with both tokens: refuse the request, and ask its sender to stop.
    pub fn admit(&self, token: Epoch) -> Result<(), Stale> {
        self.state().admit(token)
    }

    /// Admits the token and calls `act`, as one step. The gate admits no other token during the
    /// call, and other calls block, so `act` should be short. `act` must not use the gate: that
    /// would deadlock. This method does not wait for permits: use either this method or
    /// [`enter`](Gate::enter), not both.
    ///
    /// # Errors
    ///
    /// [`Stale`]: the token is lower than the greatest token seen. `act` was not called.
    pub fn act<T>(&self, token: Epoch, act: impl FnOnce() -> T) -> Result<T, Stale> {
        let mut state = self.state();
        state.admit(token)?;
        Ok(act())
    }

    /// Admits the token, and waits until all permits of lower tokens are dropped. The caller must
    /// act before it drops the returned permit.
    ///
    /// The first poll of the future admits the token. From then on the gate refuses lower tokens,
    /// even if the future is dropped before it is ready. A permit that is never dropped blocks all
    /// greater tokens, so limit the time of the work under a permit.
    ///
    /// # Errors
    ///
    /// [`Stale`]: a greater token was admitted before the call, or while the call waited.
    pub async fn enter(&self, token: Epoch) -> Result<GatePermit, Stale> {
        loop {
            let left = self.0.left.notified();
            let mut left = std::pin::pin!(left);
            left.as_mut().enable();
            {
                let mut state = self.state();
                state.admit(token)?;
                if state.inside.range(..token).next().is_none() {
                    *state.inside.entry(token).or_default() += 1;
                    return Ok(GatePermit { gate: self.clone(), token });
                }
            }
            left.await;
        }
    }

    /// Returns the greatest token seen; `None` if the gate has seen none.
    #[must_use]
    pub fn newest(&self) -> Option<Epoch> {
        self.state().newest
    }

    fn state(&self) -> MutexGuard<'_, Permits> {
        // A panic in `act` poisons the lock, but leaves a consistent state.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permits {
    fn admit(&mut self, token: Epoch) -> Result<(), Stale> {
        match self.newest {
            Some(newest) if token < newest => Err(Stale { offered: token, newest }),
            _ => {
                self.newest = Some(token);
                Ok(())
            }
        }
    }
}

impl GatePermit {
    /// Returns the admitted token.
    #[must_use]
    pub fn token(&self) -> Epoch {
        self.token
    }
}

impl Drop for GatePermit {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        if let Some(passes) = state.inside.get_mut(&self.token) {
            *passes -= 1;
            if *passes == 0 {
                state.inside.remove(&self.token);
            }
        }
        drop(state);
        self.gate.0.left.notify_waiters();
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `act` may print the gate while it holds the lock. In this case the state is omitted.
        let mut gate = f.debug_struct("Gate");
        if let Ok(state) = self.0.state.try_lock() {
            gate.field("newest", &state.newest);
        }
        gate.finish_non_exhaustive()
    }
}

impl fmt::Debug for GatePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatePermit").field("token", &self.token).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::FutureExt as _;

    use super::*;

    fn e(number: u64) -> Epoch {
        Epoch::new(number).unwrap()
    }

    #[test]
    fn tokens_only_grow() {
        let gate = Gate::new();
        assert_eq!(gate.newest(), None);
        gate.admit(e(2)).unwrap();
        gate.admit(e(2)).unwrap();
        gate.admit(e(5)).unwrap();
        assert_eq!(gate.clone().admit(e(4)), Err(Stale { offered: e(4), newest: e(5) }));
        assert_eq!(gate.newest(), Some(e(5)));
        let words = gate.admit(e(4)).unwrap_err().to_string();
        assert_eq!(words, "the token 4 is refused: epoch 5 has been seen");
    }

    /// Before the fix, `{gate:?}` inside `act` deadlocked: it waited for the lock that `act` holds.
    #[test]
    fn regression_a_gate_can_be_printed_within_act() {
        let gate = Gate::new();
        let shown = gate.act(e(2), || format!("{gate:?}")).unwrap();
        assert_eq!(shown, "Gate { .. }");
        assert_eq!(format!("{gate:?}"), "Gate { newest: Some(Epoch(2)), .. }");
    }

    /// With `admit`, a request that pauses between the check and its write can write after a newer
    /// request. With `act` and `enter`, the check and the write are one step.
    #[test]
    fn a_request_paused_between_admission_and_its_write_writes_late() {
        let (gate, written) = (Gate::new(), Cell::new(0));
        gate.admit(e(1)).unwrap();
        gate.act(e(2), || written.set(2)).unwrap();
        written.set(1);
        assert_eq!(written.get(), 1, "the paused request has overwritten the newer one");
        assert!(gate.act(e(1), || written.set(1)).is_err());
    }

    #[tokio::test]
    async fn a_greater_token_waits_until_lower_permits_are_dropped() {
        let gate = Gate::new();
        let old = gate.enter(e(1)).await.unwrap();
        let beside = gate.enter(e(1)).await.unwrap();
        let mut new = Box::pin(gate.enter(e(2)));
        assert!((&mut new).now_or_never().is_none(), "two older permits are alive");
        assert!(
            gate.enter(e(1)).await.is_err(),
            "the gate refuses older tokens while a newer one waits"
        );
        drop(old);
        assert!((&mut new).now_or_never().is_none(), "one older permit is alive");
        drop(beside);
        assert_eq!(new.await.unwrap().token(), e(2));
    }

    #[tokio::test]
    async fn a_waiting_token_is_refused_if_a_greater_one_arrives() {
        let gate = Gate::new();
        let old = gate.enter(e(1)).await.unwrap();
        let mut second = Box::pin(gate.enter(e(2)));
        assert!((&mut second).now_or_never().is_none());
        let mut third = Box::pin(gate.enter(e(3)));
        assert!((&mut third).now_or_never().is_none());
        drop(old);
        assert_eq!(second.await.unwrap_err(), Stale { offered: e(2), newest: e(3) });
        assert!(third.await.is_ok());
    }
}
