//! Reads the state of all stores.

use futures::future::join_all;

use super::contents::View;
use super::outcomes::{SetState, StoreMarker, StoreSet, StoreStatus};
use crate::driver::Operator;
use crate::driver::across::AcrossContext;
use crate::driver::leader::Leader;
use crate::epoch::Epoch;
use crate::error::Error;
use crate::record::Record;

/// Lists all stores, and reads the newest epoch of each store.
pub(crate) async fn status(across: &AcrossContext) -> StoreSet {
    let view = View::of(across).await;
    let read = |store| read(&view, store);
    let read = join_all((0..view.stores.len()).map(read)).await;
    let set = view.set();
    let mut newest = Vec::new();
    let statuses = read.into_iter().enumerate().map(|(store, (epoch, record))| {
        let contents = view.stores[store].as_ref();
        let counts = match (contents, &set) {
            (Err(error), _) | (_, Err(error)) => Err(error.clone()),
            (Ok(_), Ok(set)) => view.generation(*set, store).map(drop),
        };
        let (record, error) = match record {
            Ok(record) => (record, counts.err()),
            Err(error) => (None, counts.err().or(Some(error))),
        };
        if error.is_none() {
            newest.push((epoch, record.clone()));
        }
        let marker = contents.ok().and_then(|contents| contents.markers().last());
        StoreStatus {
            store: across.stores[store].store.describe(),
            marker: marker.map(|name| StoreMarker {
                set: name.set.to_string(),
                number: name.store + 1,
                of: name.of.unwrap_or_default(),
                generation: name.generation,
            }),
            newest: epoch,
            holder: epoch.zip(record.as_ref()).map(|(epoch, record)| Leader::new(epoch, record)),
            end: record.as_ref().and_then(Record::end),
            error,
        }
    });
    let stores = statuses.collect();
    StoreSet { stores, state: state(&newest, across.majority()) }
}

/// Reads the newest epoch of one store.
async fn read(view: &View<'_>, store: usize) -> (Option<Epoch>, Result<Option<Record>, Error>) {
    let newest = view.stores[store].as_ref().ok().and_then(|contents| contents.newest);
    let Some(newest) = newest else { return (None, Ok(None)) };
    let record = Operator::new(&view.across.stores[store]).record(newest).await;
    (Some(newest), record)
}

/// Returns the state of the election, from the newest epochs of the stores that count.
fn state(stores: &[(Option<Epoch>, Option<Record>)], majority: usize) -> SetState {
    if stores.len() < majority {
        return SetState::NoMajority;
    }
    let Some(newest) = stores.iter().filter_map(|(epoch, _)| *epoch).max() else {
        return SetState::NoLeader;
    };
    let records = || {
        let of_newest = stores.iter().filter(|(epoch, _)| *epoch == Some(newest));
        of_newest.filter_map(|(_, record)| record.as_ref())
    };
    if records().filter(|record| record.expired).count() >= majority {
        return SetState::NoLeader;
    }
    let held = |record: &&Record| {
        let same = |other: &&Record| !other.expired && other.nonce == record.nonce;
        record.nonce.is_some() && records().filter(same).count() >= majority
    };
    let leader = records().filter(|record| !record.expired).find(held);
    leader.map_or(SetState::Electing, |record| SetState::Leader(Leader::new(newest, record)))
}
