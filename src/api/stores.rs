//! The operator's calls on the stores of an election across stores.

use std::sync::Arc;
use std::time::Duration;

use crate::api::election::Election;
use crate::driver::across::operator::EpochFloor;
use crate::driver::across::operator::outcomes::{ReplacedStore, StoreSet};
use crate::driver::across::{AcrossContext, operator};
use crate::driver::runtime::require_timers;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::store::Store;

/// The stores of an election [across stores](Election::across), for operators.
///
/// A *marker* in each store identifies the store: `lock-set-<set>-<k>of<n>-<generation>.json`. A
/// store without its marker does not count towards the majority. The *generation* is the number of
/// the store's contents: 1, and one more after each replacement. An index is the position of a
/// store in [`Election::across`], from 0.
///
/// Each call waits for the answers of all stores. A store that does not answer delays the call by
/// up to three request timeouts for each step.
impl Election {
    /// Creates the markers of a new set of stores. An operator calls this method once, before the
    /// candidates start.
    ///
    /// All stores must answer, and the prefix must contain no `lock` object in any store. The call
    /// may be repeated: after a crash it creates the missing markers, and a complete set stays
    /// unchanged. If two calls run at the same time, there are two cases: at least one of them
    /// fails and deletes its markers, or both complete the same set.
    ///
    /// **Never call this method for a store that lost its contents.** Call
    /// [`replace_store`](Election::replace_store). The call detects the loss only if another store
    /// shows an epoch or a replacement.
    ///
    /// Cost at each store: LIST, PUT and LIST. A complete set costs one LIST at each store. A
    /// listing costs one LIST for each 1,000 keys.
    ///
    /// # Errors
    /// - [`InvalidInput`](ErrorKind::InvalidInput): the election has one store, or the prefix of a
    ///   store is in use. The message names the key and the store, and this call wrote nothing.
    ///   Choose another prefix. If the message names a marker, correct the order of the stores, or
    ///   replace the named store.
    /// - `InvalidInput`: the stores have markers of two sets. Delete the keys that the message
    ///   names, except the keys of one set.
    /// - [`Unavailable`](ErrorKind::Unavailable): a store did not answer, or another call ran at the
    ///   same time. Repeat the call.
    /// - The other errors of [`depose`](Election::depose).
    pub async fn init_stores(&self) -> Result<(), Error> {
        operator::init(self.set_of_stores()?, None).await
    }

    /// Creates the markers of a new set, and raises its epoch floor: the tokens of its leaders are
    /// above `epoch`. An operator calls this method after the loss of a majority of another set, or
    /// to change the number of stores. Guarded resources then accept the next leaders.
    ///
    /// **First stop all processes of the old set.** `epoch` must be at least the greatest token
    /// that any guarded resource has seen. `wait` is the longest validity of the old candidates, at
    /// most 24 h, or 0 if none of them can run. The first leader of the new set waits for this
    /// time.
    ///
    /// The call acts as [`init_stores`](Election::init_stores) does, and may be repeated with the
    /// same epoch. Further cost at each store: two GETs and one PUT.
    ///
    /// # Errors
    /// The errors of `init_stores`, and:
    /// - [`InvalidInput`](ErrorKind::InvalidInput): `wait` is above 24 h, or the stores have a set
    ///   that continues above a lower epoch. This call wrote nothing.
    /// - [`EpochsExhausted`](ErrorKind::EpochsExhausted) for [`Epoch::MAX`].
    pub async fn init_stores_above(&self, epoch: Epoch, wait: Duration) -> Result<(), Error> {
        operator::init(self.set_of_stores()?, Some(EpochFloor { epoch, wait })).await
    }

    /// Returns the state of each store, and of the election.
    ///
    /// If a store does not answer, or does not count towards the majority, it has an
    /// [error](crate::StoreStatus::error) with the remedy. Cost: LIST and GET at each store.
    ///
    /// # Errors
    /// - [`InvalidInput`](ErrorKind::InvalidInput): the election has one store.
    /// - [`NoRuntime`](ErrorKind::NoRuntime): call it in a Tokio runtime with timers.
    pub async fn store_set(&self) -> Result<StoreSet, Error> {
        Ok(operator::status(self.set_of_stores()?).await)
    }

    /// Replaces the contents of a store that was lost or wiped. This `Election` must have the new
    /// store at this index. The new store may be empty, or may have objects of this election.
    ///
    /// **The caller asserts that no process reaches the old contents**: the bucket is deleted, or
    /// its objects are deleted, or all credentials for it are revoked. If a process still reached
    /// the old contents, two processes could lead with the same epoch. If the old contents are
    /// reachable, call [`move_store`](Election::move_store).
    ///
    /// `validity` is the longest [validity](crate::ElectionBuilder::validity) of all candidates,
    /// above 0 and at most 24 h. The last leader may believe for this time that it holds a lease in
    /// the old contents. So a candidate that needs the new contents for a majority waits for this
    /// time, or for the validity in the newest records of the other stores if it is longer.
    ///
    /// The election continues during the call. A living leader keeps its lease without this store.
    /// With 3 stores, the loss of another store would then end this lease. So let the leader resign
    /// soon: the next leader also uses the new contents.
    ///
    /// The call may be repeated after an error or a crash, and then takes a new generation. Until
    /// the call returns `Ok`, the store does not count. If several calls run concurrently, only the
    /// contents with the greatest generation count towards the majority.
    ///
    /// Cost, for f = 1 of 3 stores or 2 of 5: two LISTs at each store, one PUT (a note) and one
    /// GET at each other store, and up to two GETs and two PUTs at the new store.
    ///
    /// # Errors
    /// - [`InvalidInput`](ErrorKind::InvalidInput): the election has one store, the index or the
    ///   validity is out of bounds, or the new store has an object of another election. Nothing was
    ///   written.
    /// - [`Unavailable`](ErrorKind::Unavailable): fewer than f + 1 other stores answered, the new
    ///   store did not answer, or another call with a greater generation runs. Repeat the call.
    /// - [`UnsafeStore`](ErrorKind::UnsafeStore): fewer than f + 1 other stores count. Replace these
    ///   stores first. If no majority of the stores is left, create a new set with
    ///   [`init_stores_above`](Election::init_stores_above) under another prefix.
    /// - The other errors of [`depose`](Election::depose).
    pub async fn replace_store(
        &self,
        index: usize,
        validity: Duration,
    ) -> Result<ReplacedStore, Error> {
        operator::replace(self.set_of_stores()?, index, validity).await
    }

    /// Moves a store to new contents while the old contents are reachable. This `Election` must
    /// have the new store at this index. `old` is the replaced store, with the same prefix.
    ///
    /// The call deletes the marker in `old`, seals the newest epoch there, and then acts as
    /// [`replace_store`](Election::replace_store) does. The leader loses its lease in `old`, and
    /// keeps its leadership with the other stores. The call may be repeated with the same
    /// arguments. Delete the objects in `old` afterwards, and never name `old` again.
    ///
    /// Cost: the cost of `replace_store`, one LIST at each store, and two LISTs, one DELETE, one GET
    /// and one PUT in `old`.
    ///
    /// # Errors
    /// The errors of `replace_store`, and [`InvalidInput`](ErrorKind::InvalidInput) if `old` has the
    /// marker of another store, or has no marker and lacks the newest epoch. If `old` is lost, call
    /// `replace_store` instead.
    pub async fn move_store(
        &self,
        old: Arc<dyn Store>,
        index: usize,
        validity: Duration,
    ) -> Result<ReplacedStore, Error> {
        operator::relocate(self.set_of_stores()?, old, index, validity).await
    }

    /// Returns the stores, or an error for an election in one store.
    fn set_of_stores(&self) -> Result<&AcrossContext, Error> {
        require_timers()?;
        let why = "the election has one store: this call needs an election across stores, built \
                   with `Election::across`";
        self.across.as_deref().ok_or_else(|| Error::new(ErrorKind::InvalidInput, why))
    }
}
