//! Moves one store of the set to new contents, while the old contents are reachable.

use std::sync::Arc;
use std::time::Duration;

use super::contents::Contents;
use super::outcomes::ReplacedStore;
use super::replace::{Replacement, replace};
use crate::driver::across::AcrossContext;
use crate::driver::operator::outcomes::Deposed;
use crate::driver::{Context, Operator};
use crate::error::{Error, ErrorKind};
use crate::protocol::depose::DeposeOrder;
use crate::record::keys::{SetId, SetKey};
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
    let set = Replacement::prepare(across, store, validity).await?.set;
    let new = &across.stores[store];
    let meter = Meter::new(&*old, &new.keys);
    let (keys, config, process) = (new.keys.clone(), new.config.clone(), new.process.clone());
    let old = Arc::new(Context::new(old, keys, config, process, &meter));
    let markers = own_markers(across, &old, set, store, &Contents::of(&old).await?)?;
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
fn own_markers(
    across: &AcrossContext,
    old: &Context,
    set: SetId,
    store: usize,
    contents: &Contents,
) -> Result<Vec<String>, Error> {
    let of = Some(across.stores.len());
    let other = |name: &&SetKey| (name.set, name.store, name.of) != (set, store, of);
    if let Some(found) = contents.markers().find(other) {
        let why = format!(
            "{} in {} is not the marker of store {} of the set {set}. Nothing was changed",
            old.keys.of_set(*found),
            old.store.describe(),
            store + 1
        );
        return Err(Error::new(ErrorKind::InvalidInput, why));
    }
    Ok(contents.markers().map(|name| old.keys.of_set(*name)).collect())
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
