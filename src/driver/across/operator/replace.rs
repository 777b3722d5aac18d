//! Replaces the contents of one store.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, try_join_all};

use super::Put;
use super::contents::{Contents, View, remedy, several};
use super::init::body;
use super::outcomes::ReplacedStore;
use crate::driver::across::AcrossContext;
use crate::driver::operator::restore::MAX_WAIT;
use crate::driver::operator::{ATTEMPTS, Wrote};
use crate::driver::{Context, Operator};
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::record::Record;
use crate::record::keys::{SetId, SetKey};

/// One replacement, after its first listing.
pub(super) struct Replacement<'a> {
    pub(super) across: &'a AcrossContext,
    pub(super) set: SetId,
    pub(super) store: usize,
    generation: u32,
    /// The other stores that count, at least a majority.
    others: Vec<usize>,
    /// Their greatest epoch in the first listing.
    pub(super) newest: Option<Epoch>,
}

/// Writes notes at the other stores, and the newest epoch and the marker to the new contents.
pub(crate) async fn replace(
    across: &AcrossContext,
    store: usize,
    validity: Duration,
) -> Result<ReplacedStore, Error> {
    let mut replacement = Replacement::prepare(across, store, validity).await?;
    for _ in 0..=ATTEMPTS {
        if replacement.note().await.map_err(Error::maybe)? {
            return replacement.complete(validity).await.map_err(Error::maybe);
        }
        Operator::new(&across.stores[store]).pause().await;
        replacement.generation += 1;
    }
    Err(replacement.overtaken())
}

/// Refuses an unknown store, and a validity out of bounds.
fn check(across: &AcrossContext, store: usize, validity: Duration) -> Result<(), Error> {
    let invalid = |why| Err(Error::new(ErrorKind::InvalidInput, why));
    let stores = across.stores.len();
    if store >= stores {
        return invalid(format!(
            "the index must be less than {stores} (`--number` at most {stores}), got {store}"
        ));
    }
    if validity.is_zero() || validity > MAX_WAIT {
        return invalid(format!(
            "validity must be the longest validity of all candidates, above 0 and at most \
             {MAX_WAIT:?}, got {validity:?}"
        ));
    }
    Ok(())
}

/// Refuses contents of another election. Epoch objects alone are not refused, because a candidate
/// that does not know of the loss may have created them.
async fn refuse_foreign(
    across: &AcrossContext,
    set: SetId,
    store: usize,
    contents: &Contents,
) -> Result<(), Error> {
    let cx = &across.stores[store];
    let of = Some(across.stores.len());
    let other = |name: &&SetKey| {
        name.set != set || name.of.is_some() && (name.store, name.of) != (store, of)
    };
    let name = contents.names.iter().find(other).map(|name| cx.keys.of_set(*name));
    let lock = contents.foreign.clone().filter(|key| *key == cx.keys.lock());
    if let Some(key) = lock.or(name) {
        let why = format!(
            "{key} in {} is not of store {} of the set {set}: name the new store, or delete the \
             objects of the other election. Nothing was written",
            cx.store.describe(),
            store + 1
        );
        return Err(Error::new(ErrorKind::InvalidInput, why));
    }
    let Some(newest) = contents.newest else { return Ok(()) };
    let mut operator = Operator::new(cx);
    let now = operator.read(Some(newest)).await?;
    now.map_or(Ok(()), |now| operator.refuse_later_format(&now))
}

impl Replacement<'_> {
    /// Lists all stores, and checks that the replacement can begin. Writes nothing.
    pub(super) async fn prepare(
        across: &AcrossContext,
        store: usize,
        validity: Duration,
    ) -> Result<Replacement<'_>, Error> {
        check(across, store, validity)?;
        let view = View::of(across).await;
        let set = view.set()?;
        let contents = view.stores[store].as_ref().map_err(Clone::clone)?;
        refuse_foreign(across, set, store, contents).await?;
        let known = contents.markers().map(|name| name.generation).max().unwrap_or(1);
        let noted = view.answered().map(|(_, contents)| contents.noted(set, store)).max();
        let generation = known.max(noted.unwrap_or(0)) + 1;
        let mut replacement =
            Replacement { across, set, store, generation, others: Vec::new(), newest: None };
        replacement.others = replacement.that_count(&view)?;
        replacement.newest = view.newest(&replacement.others);
        Ok(replacement)
    }

    /// Returns the other stores that count, or an error if they are fewer than a majority.
    fn that_count(&self, view: &View<'_>) -> Result<Vec<usize>, Error> {
        let (mut count, mut failures) = (Vec::new(), Vec::new());
        for other in (0..self.across.stores.len()).filter(|other| *other != self.store) {
            match view.generation(self.set, other) {
                Ok(_) => count.push(other),
                Err(error) => failures.push(error),
            }
        }
        self.majority_or(count, &failures)
    }

    fn majority_or(&self, count: Vec<usize>, failures: &[Error]) -> Result<Vec<usize>, Error> {
        let majority = self.across.majority();
        if count.len() >= majority {
            return Ok(count);
        }
        let what = format!("a replacement needs {majority} other stores, got {}", count.len());
        Err(several(what, failures))
    }

    /// Creates the notes at the other stores (step 1). Returns false if another run has this
    /// generation.
    async fn note(&mut self) -> Result<bool, Error> {
        let Replacement { set, store, generation, .. } = *self;
        let name = SetKey { set, store, generation, of: None };
        let across = self.across;
        let create = |other: usize| async move {
            let cx = &across.stores[other];
            let put =
                Operator::new(cx).put_new(&cx.keys.of_set(name), &body(across, cx, name)).await;
            (other, put)
        };
        let (mut noted, mut failures) = (Vec::new(), Vec::new());
        for (other, put) in join_all(self.others.iter().copied().map(create)).await {
            match put {
                Ok(Put::Own) => noted.push(other),
                Ok(Put::Other) => return Ok(false),
                Err(error) => failures.push(error),
            }
        }
        self.others = self.majority_or(noted, &failures)?;
        Ok(true)
    }

    /// Carries out the steps 2 to 4: finds the newest epoch, and writes its object, the notes and
    /// the marker.
    async fn complete(mut self, validity: Duration) -> Result<ReplacedStore, Error> {
        let Replacement { across, set, store, generation, .. } = self;
        let view = View::of(across).await;
        let count = self.that_count(&view)?;
        // A listing counts only if the store had the note of this run before the listing (step 2).
        let count = count.into_iter().filter(|other| self.others.contains(other)).collect();
        self.others = self.majority_or(count, &[])?;
        let contents = view.stores[store].as_ref().map_err(Clone::clone)?;
        if view.answered().any(|(_, contents)| contents.noted(set, store) > generation) {
            return Err(self.overtaken());
        }
        let epoch = view.newest(&self.others).max(contents.newest);
        let cx = &across.stores[store];
        if let Some(epoch) = epoch {
            let wait = validity.max(self.longest(&view, epoch).await?);
            seal(cx, epoch, &Operator::new(cx).restored(wait)).await?;
        }
        // The old contents also had notes about the other stores. The new contents must have these
        // notes, too.
        for other in (0..across.stores.len()).filter(|other| *other != store) {
            let noted = view.answered().map(|(_, contents)| contents.noted(set, other)).max();
            let known = view.generation(set, other).unwrap_or(1).max(noted.unwrap_or(0));
            if known > 1 {
                let name = SetKey { set, store: other, generation: known, of: None };
                Operator::new(cx).put_new(&cx.keys.of_set(name), &body(across, cx, name)).await?;
            }
        }
        let name = SetKey { set, store, generation, of: Some(across.stores.len()) };
        // No other run has this generation, so no other process creates this marker.
        Operator::new(cx).put_new(&cx.keys.of_set(name), &body(across, cx, name)).await?;
        tracing::warn!(
            election = cx.keys.prefix(),
            candidate = cx.config.name,
            store = cx.store.describe(),
            generation,
            epoch = epoch.map(Epoch::get),
            outcome = "replaced",
            "replaced a store of the election"
        );
        Ok(ReplacedStore { generation, epoch })
    }

    /// Returns the longest validity in the records of this epoch at the other stores. The old
    /// contents may have had the same record, so a successor waits for this time (step 3).
    async fn longest(&self, view: &View<'_>, epoch: Epoch) -> Result<Duration, Error> {
        let shows = |other: &&usize| view.newest(&[**other]) == Some(epoch);
        let reads = self.others.iter().filter(shows).map(|other| async {
            let now = Operator::new(&self.across.stores[*other]).read(Some(epoch)).await?;
            Ok(now.and_then(|now| now.record.ok()?.validity()))
        });
        let found = try_join_all(reads).await?;
        Ok(found.into_iter().flatten().max().unwrap_or_default())
    }

    fn overtaken(&self) -> Error {
        let why = format!(
            "another call replaces {} at the same time (generation {} or later). If it does \
             not finish, use {} again",
            self.across.stores[self.store].store.describe(),
            self.generation,
            remedy(self.store)
        );
        Error::new(ErrorKind::Unavailable, why).maybe()
    }
}

/// Writes the object of this epoch, sealed as restored. An existing object is overwritten, because
/// a candidate that does not know of the loss may have created it.
pub(super) async fn seal(cx: &Arc<Context>, epoch: Epoch, restored: &Record) -> Result<(), Error> {
    let mut operator = Operator::new(cx);
    let body = operator.encode(epoch, restored);
    let mut last = None;
    for _ in 0..=ATTEMPTS {
        let now = operator.read(Some(epoch)).await?;
        let wrote = match now {
            Some(now) if now.body.as_ref() == Some(&body) => return Ok(()),
            Some(now) => {
                operator.refuse_later_format(&now)?;
                operator.replace("restoring", epoch, body.clone(), now.etag).await?
            }
            None => operator.create(&cx.keys.epoch(epoch), body.clone()).await?,
        };
        match wrote {
            Wrote::Done => return Ok(()),
            Wrote::Refused => {}
            Wrote::Unknown(error) | Wrote::TurnedAway(error) => last = Some(error),
        }
        operator.pause().await;
    }
    let why = || {
        let (key, place) = (cx.keys.epoch(epoch), cx.store.describe());
        let why = format!("other processes wrote {key} in {place} before each attempt; try again");
        Error::new(ErrorKind::Unavailable, why)
    };
    Err(last.unwrap_or_else(why).maybe())
}
