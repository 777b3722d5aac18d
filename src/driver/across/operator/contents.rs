//! Lists the keys of all stores, and decides which stores count towards the majority.

use std::sync::Arc;

use futures::future::{FutureExt as _, join_all};

use super::settle;
use crate::driver::across::AcrossContext;
use crate::driver::{Context, Operator};
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::record::keys::{SetId, SetKey};
use crate::store::check_order;

/// Name of the method that creates the markers, and of the command's verb.
pub(super) const INIT: &str = "`init_stores` (`tenure across init`)";
/// Number of keys in one LIST: the maximum of S3.
const PAGE_KEYS: usize = 1_000;

/// The keys of elections under the prefix of one store.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) newest: Option<Epoch>,
    /// The markers and the notes.
    pub(super) names: Vec<SetKey>,
    /// The first key that shows another use of the prefix: `lock.json`, or an unknown key that
    /// starts with `lock-`.
    pub(super) foreign: Option<String>,
}

/// One listing of each store.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) across: &'a AcrossContext,
    pub(super) stores: Vec<Result<Contents, Error>>,
}

impl Contents {
    /// Lists the keys of the store that start with `lock`. Each page costs one LIST.
    pub(super) async fn of(cx: &Arc<Context>) -> Result<Contents, Error> {
        let mut operator = Operator::new(cx);
        let (keys, store) = (&cx.keys, &cx.store);
        let under = format!("{}lock", keys.prefix());
        let mut contents = Contents::default();
        let mut next = Some(under.clone());
        while let Some(after) = next {
            let call = || {
                let (store, under, after) = (Arc::clone(store), under.clone(), after.clone());
                let list = async move {
                    let page = store.list(&under, &after, PAGE_KEYS).await?;
                    check_order(&under, &after, &page)?;
                    Ok(page)
                };
                list.boxed()
            };
            let page = operator.ask(&format!("listing {under:?}"), call).await?;
            for entry in &page.entries {
                let key = entry.key.as_str();
                if let Some(epoch) = keys.parse(key) {
                    contents.newest = Some(epoch);
                } else if let Some(name) = keys.parse_set(key) {
                    contents.names.push(name);
                } else if key.starts_with(keys.epoch_prefix()) || key == keys.lock() {
                    contents.foreign.get_or_insert_with(|| key.to_owned());
                }
            }
            next = page.entries.last().filter(|_| page.truncated).map(|last| last.key.clone());
        }
        Ok(contents)
    }

    pub(super) fn markers(&self) -> impl Iterator<Item = &SetKey> {
        self.names.iter().filter(|name| name.of.is_some())
    }

    /// Returns the greatest generation that a note of this set names for a store. 0 means no note.
    pub(super) fn noted(&self, set: SetId, store: usize) -> u32 {
        let of_store = |name: &&SetKey| name.of.is_none() && name.set == set && name.store == store;
        self.names.iter().filter(of_store).map(|name| name.generation).max().unwrap_or(0)
    }
}

impl View<'_> {
    /// Lists all stores at the same time, and waits for all answers.
    pub(super) async fn of(across: &AcrossContext) -> View<'_> {
        View { across, stores: join_all(across.stores.iter().map(Contents::of)).await }
    }

    /// Lists all stores as [`of`](View::of) does. After a majority has shown markers, waits only a
    /// short time for the other stores.
    pub(super) async fn of_majority(across: &AcrossContext) -> View<'_> {
        let calls = across.stores.iter().map(Contents::of).enumerate();
        let stores = settle(across, calls, |contents| contents.markers().next().is_some()).await;
        View { across, stores: stores.into_iter().map(|(_, contents)| contents).collect() }
    }

    pub(super) fn answered(&self) -> impl Iterator<Item = (usize, &Contents)> {
        let stores = self.stores.iter().enumerate();
        stores.filter_map(|(store, contents)| Some((store, contents.as_ref().ok()?)))
    }

    /// Returns the set with markers in a majority of the stores.
    pub(super) fn set(&self) -> Result<SetId, Error> {
        let sets = || self.answered().flat_map(|(_, contents)| contents.markers());
        let stores = |set| {
            let has = |contents: &Contents| contents.markers().any(|name| name.set == set);
            self.answered().filter(|(_, contents)| has(contents)).count()
        };
        if let Some(found) = sets().find(|name| stores(name.set) >= self.across.majority()) {
            return Ok(found.set);
        }
        let failures: Vec<_> =
            self.stores.iter().filter_map(|contents| contents.as_ref().err().cloned()).collect();
        if !failures.is_empty() {
            return Err(self.across.too_few("answer", failures));
        }
        let why = format!(
            "no majority of the stores has markers of one set under {:?}. Create the markers once \
             with {INIT}",
            self.across.stores[0].keys.prefix()
        );
        Err(Error::new(ErrorKind::InvalidInput, why))
    }

    /// Returns the generation of a store that counts towards the majority, or the reason why the
    /// store does not count.
    pub(super) fn generation(&self, set: SetId, store: usize) -> Result<u32, Error> {
        let contents = self.stores[store].as_ref().map_err(Clone::clone)?;
        let cx = &self.across.stores[store];
        let (number, stores, place) = (store + 1, self.stores.len(), cx.store.describe());
        let other = |name: &&SetKey| (name.set, name.store, name.of) != (set, store, Some(stores));
        if let Some(found) = contents.markers().find(other) {
            let why = format!(
                "{place} is store {number} of {stores} of the set {set} here, and has the marker \
                 {}. Name the stores of one set, in the order of their markers",
                cx.keys.of_set(*found)
            );
            return Err(Error::new(ErrorKind::InvalidInput, why));
        }
        let Some(generation) = contents.markers().map(|name| name.generation).max() else {
            let why = format!(
                "{place} has no marker under {:?}: its contents are new or were lost. Use {}",
                cx.keys.prefix(),
                remedy(store)
            );
            return Err(Error::new(ErrorKind::UnsafeStore, why));
        };
        let noted = self.answered().map(|(_, contents)| contents.noted(set, store)).max();
        if let Some(noted) = noted.filter(|noted| *noted > generation) {
            let why = format!(
                "{place} has generation {generation} of its contents, but a replacement has begun \
                 generation {noted}. Name the new store. If the replacement has stopped, use {}",
                remedy(store)
            );
            return Err(Error::new(ErrorKind::UnsafeStore, why));
        }
        Ok(generation)
    }

    /// Returns the stores that count, or an error if they are fewer than a majority.
    pub(super) fn counted(&self) -> Result<Vec<usize>, Error> {
        let set = self.set()?;
        let (mut counted, mut failures) = (Vec::new(), Vec::new());
        for store in 0..self.stores.len() {
            match self.generation(set, store) {
                Ok(_) => counted.push(store),
                Err(error) => failures.push(error),
            }
        }
        match counted.len() >= self.across.majority() {
            true => Ok(counted),
            false => Err(self.across.too_few("count", failures)),
        }
    }

    /// Returns the greatest epoch that one of these stores shows.
    pub(super) fn newest(&self, stores: &[usize]) -> Option<Epoch> {
        let of_store = |store: &usize| self.stores[*store].as_ref().ok()?.newest;
        stores.iter().filter_map(of_store).max()
    }
}

impl AcrossContext {
    /// Returns the error of a call for which too few stores "answer" or "count" (`verb`).
    pub(super) fn too_few(&self, verb: &str, failures: Vec<Error>) -> Error {
        let (stores, majority) = (self.stores.len(), self.majority());
        let fit = stores - failures.len();
        let what = format!("{fit} of {stores} stores {verb}, and a majority is {majority}");
        several(what, &failures)
    }
}

/// Names the method that replaces this store, and the command's verb.
pub(super) fn remedy(store: usize) -> String {
    format!("`replace_store` with index {store} (`tenure across replace --number {}`)", store + 1)
}

/// Returns one error for the errors of several stores. The first of them determines the kind.
pub(super) fn several(what: String, failures: &[Error]) -> Error {
    let kind = failures.first().map_or(ErrorKind::Unavailable, Error::kind);
    let list: Vec<String> = failures.iter().map(Error::to_string).collect();
    Error::new(kind, format!("{what}: {}", list.join("; ")))
}
