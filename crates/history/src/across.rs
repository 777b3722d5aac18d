//! Merges the epoch objects of an election across stores into one history.

use std::collections::BTreeMap;

use tenure::{Epoch, EpochEnd};

use super::build::Found;
use super::{LeadershipSpan, StoreEpoch};

/// The objects of one store: the epochs that were read, and the oldest of them.
#[derive(Debug, Default)]
pub(super) struct StoreObjects {
    pub(super) found: Vec<Found>,
    /// The oldest epoch that was read. `None` if the store has no epoch object.
    pub(super) first: Option<Epoch>,
}

/// One object for each epoch, and the state of this epoch in each store.
pub(super) type Merged = (Vec<Found>, Vec<Vec<StoreEpoch>>);

/// Merges the objects of these stores. `None` is a store that could not be read.
///
/// If several attempts created objects of one epoch, this function uses the attempt with the most
/// objects. The lease of an election is the (f + 1)-th longest lease at one store. So the result
/// uses the object with the (f + 1)-th latest write.
pub(super) fn merge(stores: Vec<Option<StoreObjects>>) -> Merged {
    let (count, majority) = (stores.len(), stores.len() / 2 + 1);
    let firsts: Vec<_> = stores.iter().map(|it| it.as_ref().map(|it| it.first)).collect();
    let mut epochs: BTreeMap<Epoch, Vec<(usize, Found)>> = BTreeMap::new();
    for (store, objects) in stores.into_iter().enumerate() {
        for found in objects.into_iter().flat_map(|it| it.found) {
            epochs.entry(found.epoch).or_default().push((store, found));
        }
    }
    let merged = epochs.into_iter().map(|(epoch, mut found)| {
        let of_store = |store: usize| match firsts[store] {
            Some(first) if first.is_none_or(|first| first <= epoch) => StoreEpoch::Absent,
            _ => StoreEpoch::Unknown,
        };
        let mut states: Vec<StoreEpoch> = (0..count).map(of_store).collect();
        let holders = |nonce| found.iter().filter(|(_, it)| self::nonce(it) == nonce).count();
        let nonces = found.iter().filter_map(|(_, it)| self::nonce(it));
        let counts = nonces.max_by_key(|nonce| holders(Some(*nonce)));
        for (store, found) in &found {
            let is_held = counts.is_some() && self::nonce(found) == counts;
            states[*store] = if is_held { StoreEpoch::Held } else { StoreEpoch::Other };
        }
        if counts.is_some() {
            found.retain(|(_, it)| self::nonce(it) == counts);
        }
        found.sort_by_key(|(_, it)| std::cmp::Reverse(it.written.map(|date| date.at)));
        let decides = majority.min(found.len()) - 1;
        (found.swap_remove(decides).1, states)
    });
    merged.unzip()
}

fn nonce(found: &Found) -> Option<impl Copy + PartialEq + use<>> {
    found.body.as_ref().ok()?.nonce
}

/// Adds the states of the stores to the spans. An epoch that no majority can have granted had no
/// leader.
pub(super) fn add(spans: &mut [LeadershipSpan], stores: Vec<Vec<StoreEpoch>>) {
    for (span, stores) in spans.iter_mut().zip(stores) {
        span.stores = stores;
        if !span.may_be_granted() && span.unreadable.is_none() {
            span.end = Some(EpochEnd::GivenUp);
        }
    }
}
