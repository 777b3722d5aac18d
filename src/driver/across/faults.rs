//! The markers of the stores, and the errors of stores that do not count towards the majority.

use crate::driver::Context;
use crate::error::{Error, ErrorKind};
use crate::protocol::across::message::{MAX_STORES, Marker, StoreFault};
use crate::record::keys::{SetId, SetKey};
use crate::record::listing::PageOfSet;

use super::AcrossContext;

/// Returns the set in the marker of this store, if the page shows this marker.
pub(super) fn set_of(page: &PageOfSet, store: usize, stores: usize) -> Option<SetId> {
    let is_own = |name: &&SetKey| name.store == store && name.of == Some(stores);
    page.names.iter().find(is_own).map(|name| name.set)
}

/// Returns the marker and the notes that a page of this store shows. Returns `None` if the page has
/// no marker of this store and set, or has another marker.
pub(super) fn marker(page: &PageOfSet, set: SetId, store: usize, stores: usize) -> Option<Marker> {
    let mut marker = Marker { generation: 0, notes: [0; MAX_STORES] };
    for name in &page.names {
        let is_own = name.set == set && name.store == store && name.of == Some(stores);
        match name.of {
            Some(_) if is_own => marker.generation = marker.generation.max(name.generation),
            Some(_) => return None,
            None if name.set == set && name.store < stores => {
                let noted = &mut marker.notes[name.store];
                *noted = (*noted).max(name.generation);
            }
            None => {}
        }
    }
    (marker.generation > 0).then_some(marker)
}

/// Returns the error of a store that answers, but does not count towards the majority.
pub(super) fn explain(
    cx: &AcrossContext,
    store: usize,
    fault: StoreFault,
    page: &PageOfSet,
) -> Error {
    let context = &cx.stores[store];
    let (name, number, stores) = (context.store.describe(), store + 1, cx.stores.len());
    let prefix = context.keys.prefix();
    match fault {
        StoreFault::NoMarker => {
            let why = match page.names.iter().find(|name| name.of.is_some()) {
                None => format!(
                    "no marker of this election under {prefix:?} in {name}. Create the markers \
                     once with `tenure across init`. If the store had a marker and lost it, \
                     replace the store"
                ),
                Some(found) => format!(
                    "{name} is store {number} of {stores} here, and its marker under {prefix:?} \
                     is {found}. Name the stores of one set, in the order of their markers"
                ),
            };
            Error::new(ErrorKind::InvalidInput, why)
        }
        StoreFault::Replaced { generation } => {
            let why = format!(
                "{name} has old contents: another store has a note that store {number} was \
                 replaced (generation {generation}). Name the new store instead"
            );
            Error::new(ErrorKind::UnsafeStore, why)
        }
        StoreFault::GreatestFell { from } => {
            let why = format!(
                "{name} has lost epoch {from} and shows no greater epoch, so it does not count. \
                 Replace the store"
            );
            Error::new(ErrorKind::NewestDeleted, why)
        }
    }
}

/// Returns the error of an election without a majority, from the failures of its stores.
pub(super) fn no_majority<'a>(
    cx: &AcrossContext,
    failures: impl Iterator<Item = (&'a Context, &'a Error)>,
) -> Option<Error> {
    let failures: Vec<(String, &Error)> =
        failures.map(|(cx, error)| (cx.store.describe(), error)).collect();
    let (_, first) = failures.first()?;
    // If a failure may end without an operator, the error has the kind of this failure, so a
    // service tries again. Meanwhile an operator may correct the other failures.
    let passes = failures.iter().map(|(_, it)| it.kind()).find(|kind| !kind.is_final());
    let (majority, stores) = (cx.majority(), cx.stores.len());
    let list: Vec<String> = failures.iter().map(|(name, it)| format!("{name}: {it}")).collect();
    let message = format!(
        "fewer than {majority} of the {stores} stores answer, so no candidate can be elected. {}",
        list.join("; ")
    );
    Some(Error::new(passes.unwrap_or(first.kind()), message))
}
