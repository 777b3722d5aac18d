//! The outcomes of the operator's calls on an election across stores.

use crate::driver::leader::Leader;
use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::message::EpochEnd;

/// The state of an election across stores and of each of its stores
/// ([`Election::store_set`](crate::Election::store_set)).
///
/// # Examples
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use tenure::{Election, SetState, Store, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let [a, b, c] = std::array::from_fn(|_| Arc::new(MemoryStore::new()) as Arc<dyn Store>);
/// # Election::across([a.clone(), b.clone(), c], "orders/leader").build()?.init_stores().await?;
/// let new = Arc::new(MemoryStore::new()); // the third store was lost
/// let election = Election::across([a, b, new], "orders/leader").build()?;
/// let set = election.store_set().await?;
/// assert_eq!(set.state, SetState::NoLeader);
/// assert!(set.stores[1].error.is_none());
/// assert!(set.stores[2].error.is_some()); // no marker
///
/// election.replace_store(2, Duration::from_secs(30)).await?;
/// let set = election.store_set().await?;
/// assert!(set.stores.iter().all(|store| store.error.is_none()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreSet {
    /// Each store, in the order of the election.
    pub stores: Vec<StoreStatus>,
    /// State of the election.
    pub state: SetState,
}

/// The state of one store of an election across stores.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreStatus {
    /// Name of the store for messages: a URL without secrets.
    pub store: String,
    /// Marker of the store. `None` if the store has no marker or did not answer.
    pub marker: Option<StoreMarker>,
    /// Newest epoch in this store. `None` if the store has no epoch or did not answer.
    pub newest: Option<Epoch>,
    /// Holder of this epoch, even after the end of the epoch. The holder has no name if an operator
    /// or a candidate created the object to close the epoch.
    pub holder: Option<Leader>,
    /// End of this epoch. `None` until the epoch is sealed in this store.
    pub end: Option<EpochEnd>,
    /// Reason why the store does not count towards the majority, with the remedy. `None` if the
    /// store counts.
    pub error: Option<Error>,
}

/// The marker that identifies one store of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreMarker {
    /// Name of the set: 16 hexadecimal digits.
    pub set: String,
    /// Number of the store in the set, from 1.
    pub number: usize,
    /// Number of stores in the set.
    pub of: usize,
    /// Number of the contents of the store: 1, and one more after each replacement.
    pub generation: u32,
}

/// The state of an election across stores.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SetState {
    /// This leader holds the newest epoch, which is unsealed in a majority of the stores. The lease
    /// may have lapsed.
    Leader(Leader),
    /// The newest epoch is sealed in a majority of the stores, or no store has an epoch.
    NoLeader,
    /// No majority of the stores agrees on the newest epoch. A candidate is creating or sealing
    /// this epoch, or has died before the end of these writes.
    Electing,
    /// Fewer stores than a majority count, so no candidate can be elected.
    NoMajority,
}

/// The outcome of [`Election::replace_store`](crate::Election::replace_store) and
/// [`Election::move_store`](crate::Election::move_store).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplacedStore {
    /// Generation of the new contents.
    pub generation: u32,
    /// Newest epoch of the election. The new contents have an object of this epoch, sealed as
    /// restored. `None` if the election has no epoch.
    pub epoch: Option<Epoch>,
}
