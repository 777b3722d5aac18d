//! A service's own memory of tokens.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use tenure::Epoch;

use crate::error::Stale;

/// Refuses tokens lower than the greatest it has seen, for a service that gets a token with each
/// request. In memory, no requests to a store. Clones are the same gate.
///
/// **What it guarantees.** Once a token was admitted, no clone admits a lower one. With
/// [`act`](Gate::act) and [`enter`](Gate::enter), the admission and the action are one step: once
/// an action was done under a token, none is done under a lower one.
///
/// **Authenticate first.** The gate believes every token: one request with a token that nobody was
/// granted makes it refuse all leaders until the service restarts.
/// [`Election::newest_epoch`](tenure::Election::newest_epoch) returns the greatest token that can be
/// real.
///
/// **What it does not.** After [`admit`](Gate::admit) alone the service may be paused, and act
/// under a token that is old by then. The gate forgets at a restart: use
/// [`DurableGate`](super::DurableGate), or, best of all, store the token with the data, in one
/// transaction. Two instances of a service know nothing of each other. Tasks with one token are all
/// admitted.
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
    /// How many permits each token has.
    inside: BTreeMap<Epoch, usize>,
}

/// The result of [`Gate::enter`]: as long as it lives, no greater token is let in.
#[must_use = "dropped at once, it guards nothing"]
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

    /// Admits the token if it is not lower than the greatest seen, and remembers it.
    ///
    /// # Errors
    ///
    /// [`Stale`], with both tokens: refuse the request, and tell its sender to stop.
    pub fn admit(&self, token: Epoch) -> Result<(), Stale> {
        self.state().admit(token)
    }

    /// Admits the token and acts, as one step: no other token is admitted meanwhile. Other calls
    /// block meanwhile, so `act` should be short. It must not use the gate itself. This call does
    /// not wait for permits: use either this or [`enter`](Gate::enter).
    ///
    /// # Errors
    ///
    /// [`Stale`]: nothing was done.
    pub fn act<T>(&self, token: Epoch, act: impl FnOnce() -> T) -> Result<T, Stale> {
        let mut state = self.state();
        state.admit(token)?;
        Ok(act())
    }

    /// Admits the token, and waits until all permits of lower tokens are dropped. Act while the
    /// returned permit lives.
    ///
    /// From the call on the gate refuses lower tokens, also if the future is dropped before it is
    /// ready. It waits as long as they hold their permits, so limit the time spent inside.
    ///
    /// # Errors
    ///
    /// [`Stale`]: at once, or because a greater token arrived while this one waited.
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

    /// Returns the greatest token seen; `None` if there was none.
    #[must_use]
    pub fn newest(&self) -> Option<Epoch> {
        self.state().newest
    }

    fn state(&self) -> MutexGuard<'_, Permits> {
        // An act may panic, but the state is whole before it begins.
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
    /// Returns the token that was admitted.
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
        // Also from within an act, which holds the lock: then the state is left out.
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
        let words = gate.admit(e(4)).unwrap_err().to_string();
        assert_eq!(words, "the token 4 is refused: epoch 5 has been seen");
    }

    /// `{gate:?}` inside an act waited for the lock that the act holds.
    #[test]
    fn regression_a_gate_can_be_shown_within_an_act() {
        let gate = Gate::new();
        let shown = gate.act(e(2), || format!("{gate:?}")).unwrap();
        assert_eq!(shown, "Gate { .. }");
        assert_eq!(format!("{gate:?}"), "Gate { newest: Some(Epoch(2)), .. }");
    }

    /// Admission alone is a check before a write; what it cannot do, `act` and `enter` can.
    #[test]
    fn a_request_paused_between_admission_and_its_write_writes_late() {
        let (gate, written) = (Gate::new(), Cell::new(0));
        gate.admit(e(1)).unwrap();
        gate.act(e(2), || written.set(2)).unwrap();
        written.set(1);
        assert_eq!(written.get(), 1, "the zombie has overwritten the newer");
        assert!(gate.act(e(1), || written.set(1)).is_err());
    }

    #[tokio::test]
    async fn a_newer_token_waits_until_the_older_has_left() {
        let gate = Gate::new();
        let old = gate.enter(e(1)).await.unwrap();
        let beside = gate.enter(e(1)).await.unwrap();
        let mut new = Box::pin(gate.enter(e(2)));
        assert!((&mut new).now_or_never().is_none(), "two are inside");
        assert!(gate.enter(e(1)).await.is_err(), "refused from then on");
        drop(old);
        assert!((&mut new).now_or_never().is_none(), "one is inside");
        drop(beside);
        assert_eq!(new.await.unwrap().token(), e(2));
    }

    #[tokio::test]
    async fn who_waits_is_refused_once_a_greater_token_came() {
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
