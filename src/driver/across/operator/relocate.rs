//! Moves one store of the set to new contents, while the old contents are reachable.

use std::sync::Arc;
use std::time::Duration;

use super::contents::{Contents, remedy};
use super::outcomes::ReplacedStore;
use super::replace::{Replacement, replace};
use crate::driver::across::AcrossContext;
use crate::driver::operator::outcomes::Deposed;
use crate::driver::{Context, Operator};
use crate::error::{Error, ErrorKind};
use crate::protocol::depose::DeposeOrder;
use crate::record::keys::SetKey;
use crate::store::Store;
use crate::telemetry::Meter;

/// Ends the use of the old contents: deletes their marker, and seals their newest epoch. Then
/// prepares the new contents.
pub(crate) async fn relocate(
    across: &AcrossContext,
    old: Arc<dyn Store>,
    store: usize,
    validity: Duration,
) -> Result<ReplacedStore, Error> {
    let replacement = Replacement::prepare(across, store, validity).await?;
    let new = &across.stores[store];
    let meter = Meter::new(&*old, &new.keys);
    let (keys, config, process) = (new.keys.clone(), new.config.clone(), new.process.clone());
    let old = Arc::new(Context::new(old, keys, config, process, &meter));
    let markers = own_markers(&replacement, &old, &Contents::of(&old).await?)?;
    end(&old, markers).await.map_err(Error::maybe)?;
    replace(across, store, validity).await.map_err(Error::maybe)
}

/// Deletes the markers, checks that they are gone, and seals the newest epoch.
async fn end(old: &Arc<Context>, markers: Vec<String>) -> Result<(), Error> {
    if !markers.is_empty() {
        Operator::new(old).delete(markers).await?;
    }
    let contents = Contents::of(old).await?;
    if contents.markers().next().is_some() {
        let why = format!("{} still lists the deleted marker; try again", old.store.describe());
        return Err(Error::new(ErrorKind::Unavailable, why));
    }
    seal_newest(old, &contents).await
}

/// Returns the keys of the markers to delete. Refuses the contents of another store.
///
/// An earlier call may have deleted the marker. The newest epoch of the other stores then shows
/// that these are the contents in use.
fn own_markers(
    replacement: &Replacement<'_>,
    old: &Context,
    contents: &Contents,
) -> Result<Vec<String>, Error> {
    let Replacement { set, store, newest, .. } = *replacement;
    let (number, of) = (store + 1, Some(replacement.across.stores.len()));
    let place = old.store.describe();
    let other = |name: &&SetKey| (name.set, name.store, name.of) != (set, store, of);
    if let Some(found) = contents.markers().find(other) {
        let why = format!(
            "{} in {place} is not the marker of store {number} of the set {set}. Nothing was \
             changed",
            old.keys.of_set(*found)
        );
        return Err(Error::new(ErrorKind::InvalidInput, why));
    }
    let markers: Vec<String> = contents.markers().map(|name| old.keys.of_set(*name)).collect();
    if markers.is_empty() && (newest.is_none() || contents.newest < newest) {
        let why = format!(
            "{place} has no marker of store {number} of the set {set} under {:?}, and no epoch as \
             new as the other stores: it may be another store. Check `old` (`--old`). If an \
             earlier call has deleted the marker there, delete the other objects there, and use \
             {}. Nothing was written",
            old.keys.prefix(),
            remedy(store)
        );
        return Err(Error::new(ErrorKind::InvalidInput, why));
    }
    Ok(markers)
}

async fn seal_newest(old: &Arc<Context>, contents: &Contents) -> Result<(), Error> {
    let Some(newest) = contents.newest else { return Ok(()) };
    let mut operator = Operator::new(old);
    let mut order = DeposeOrder { only: Some(newest), force: false };
    let mut deposed = operator.depose_at(Some(newest), order).await?;
    if let Deposed::NeedsForce(_) = deposed {
        // The restored epoch in the new contents makes successors wait, so this seal needs no wait.
        order.force = true;
        deposed = operator.depose_at(Some(newest), order).await?;
    }
    match deposed {
        Deposed::Sealed { .. } | Deposed::Already { .. } | Deposed::NoLeader => Ok(()),
        _ => {
            let (key, place) = (old.keys.epoch(newest), old.store.describe());
            let why = format!("{key} in {place} was renewed before each attempt; try again");
            Err(Error::new(ErrorKind::Unavailable, why))
        }
    }
}
