//! Creates the markers of a set of stores.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{join_all, try_join_all};

use super::Put;
use super::contents::{INIT, View, remedy, several};
use super::replace::seal;
use crate::driver::across::AcrossContext;
use crate::driver::operator::restore::check_floor;
use crate::driver::{Context, Operator};
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::message::EpochEnd;
use crate::record::keys::{SetId, SetKey};
use crate::store::GetOutcome;

/// The epoch above which the epochs of a new set begin, and the time for which its first leader
/// waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EpochFloor {
    pub(crate) epoch: Epoch,
    pub(crate) wait: Duration,
}

/// The markers that the listings show as missing, or the reason to stop.
enum Plan {
    /// Each store has its marker.
    Complete,
    /// These stores have no marker.
    Write { set: SetId, missing: Vec<usize> },
    /// The stores have markers of several sets.
    Several(Error),
}

/// Creates the missing markers, lists all stores again, and checks them. If another call has
/// created markers of another set meanwhile, deletes the markers that this call created.
///
/// In each store, the sealed epoch of the floor is written before the marker, because a candidate
/// may use a store that has its marker.
pub(crate) async fn init(across: &AcrossContext, floor: Option<EpochFloor>) -> Result<(), Error> {
    if let Some(EpochFloor { epoch, wait }) = floor {
        check_floor(epoch, wait)?;
    }
    let fresh = SetId(across.stores[0].process.unique() as u64);
    let plan = |view: &View<'_>| plan(view, fresh, floor.map(|floor| floor.epoch));
    let (set, missing) = match plan(&View::of(across).await)? {
        Plan::Complete => return Ok(()),
        Plan::Write { set, missing } => (set, missing),
        Plan::Several(error) => return Err(error),
    };
    refuse_other_stores(across, set, &missing).await?;
    if let Some(EpochFloor { epoch, wait }) = floor {
        try_join_all(across.stores.iter().map(|cx| refuse_held(cx, epoch))).await?;
        let stores = missing.iter().map(|store| &across.stores[*store]);
        // The nonce is the same at all stores, so `tenure history` recognizes these objects as one
        // epoch.
        let restored = Operator::new(&across.stores[0]).restored(wait);
        try_join_all(stores.map(|cx| seal(cx, epoch, &restored))).await?;
    }
    let wrote = join_all(missing.iter().map(|store| write(across, set, *store))).await;
    let own = missing.iter().zip(&wrote).filter(|(_, put)| !matches!(put, Ok(Put::Other)));
    let own: Vec<usize> = own.map(|(store, _)| *store).collect();
    if let Some(error) = wrote.into_iter().find_map(Result::err) {
        // A later call completes this set.
        return Err(error.maybe());
    }
    let again = |why: &str| Error::new(ErrorKind::Unavailable, format!("{why}. Use {INIT} again"));
    let view = View::of(across).await;
    match plan(&view) {
        Ok(Plan::Complete) => Ok(()),
        Ok(Plan::Write { .. }) => {
            Err(again("another process has deleted a marker during this call"))
        }
        Ok(Plan::Several(_)) => {
            withdraw(across, set, &own).await?;
            Err(again(
                "another call has created markers at the same time, so this call has deleted its \
                 own markers",
            ))
        }
        // A store did not answer, so a later call checks the stores.
        Err(error) if view.stores.iter().any(Result::is_err) => Err(error.maybe()),
        Err(error) => withdraw(across, set, &own).await.and(Err(error)),
    }
}

/// Refuses an object of this epoch that no call of [`init`] has written.
async fn refuse_held(cx: &Arc<Context>, epoch: Epoch) -> Result<(), Error> {
    let Some(now) = Operator::new(cx).read(Some(epoch)).await? else { return Ok(()) };
    match &now.record {
        Ok(record) if record.end() == Some(EpochEnd::Restored) => Ok(()),
        _ => Err(Error::new(ErrorKind::InvalidInput, in_use(cx, &cx.keys.epoch(epoch)))),
    }
}

/// Decides which markers are missing, and refuses stores that are in use. A store that has only the
/// object of the epoch `floor` is not in use.
fn plan(view: &View<'_>, fresh: SetId, floor: Option<Epoch>) -> Result<Plan, Error> {
    let failures: Vec<_> =
        view.stores.iter().filter_map(|contents| contents.as_ref().err().cloned()).collect();
    if !failures.is_empty() {
        return Err(several(format!("{INIT} needs the answers of all stores"), &failures));
    }
    let invalid = |why| Err(Error::new(ErrorKind::InvalidInput, why));
    for (store, contents) in view.answered() {
        if let Some(key) = &contents.foreign {
            return invalid(in_use(&view.across.stores[store], key));
        }
    }
    let mut keys = Vec::new();
    let mut sets: Vec<SetId> = Vec::new();
    for (store, contents) in view.answered() {
        for name in &contents.names {
            keys.push(located(&view.across.stores[store], *name));
            if !sets.contains(&name.set) {
                sets.push(name.set);
            }
        }
    }
    if sets.len() > 1 {
        let why = format!(
            "the stores have markers of {} sets. If another {INIT} runs, try again after it. \
             Otherwise delete the keys of all sets but one: {}",
            sets.len(),
            keys.join(", ")
        );
        return Ok(Plan::Several(Error::new(ErrorKind::InvalidInput, why)));
    }
    let has_marker =
        |store: &usize| view.stores[*store].as_ref().is_ok_and(|it| it.markers().next().is_some());
    let missing: Vec<usize> = (0..view.stores.len()).filter(|store| !has_marker(store)).collect();
    let set = sets.first().copied();
    if let Some(set) = set {
        let with_marker = (0..view.stores.len()).filter(has_marker);
        with_marker.map(|store| view.generation(set, store)).collect::<Result<Vec<_>, _>>()?;
    }
    let is_note = |name: &SetKey| name.of.is_none();
    let used = view.answered().find_map(|(store, contents)| {
        let cx = &view.across.stores[store];
        let note =
            contents.names.iter().find(|name| is_note(name)).map(|name| cx.keys.of_set(*name));
        let newest = contents.newest.filter(|newest| Some(*newest) != floor);
        let key = newest.map(|newest| cx.keys.epoch(newest)).or(note)?;
        Some((cx, key))
    });
    if let (Some(_), Some(lost), Some((cx, key))) = (set, missing.first(), &used) {
        return invalid(format!(
            "{} has no marker, but {key} in {} shows that the set is in use, so the contents may \
             have been lost. Use {}. Nothing was written",
            view.across.stores[*lost].store.describe(),
            cx.store.describe(),
            remedy(*lost)
        ));
    }
    let below = |store: &usize| view.newest(&[*store]) < floor;
    if let Some(store) = (0..view.stores.len()).filter(has_marker).find(below) {
        return invalid(format!(
            "{} has the marker of a set that continues above a lower epoch. Choose another prefix. \
             Nothing was written",
            view.across.stores[store].store.describe()
        ));
    }
    match (set, missing.first(), used) {
        (Some(_), None, _) => Ok(Plan::Complete),
        (None, _, Some((cx, key))) => invalid(in_use(cx, &key)),
        (set, Some(_), _) => Ok(Plan::Write { set: set.unwrap_or(fresh), missing }),
        (None, None, None) => unreachable!("a store with a marker has a set"),
    }
}

/// Refuses to complete a set that was created for other stores. Two majorities, one of the old list
/// and one of the new list, may share no store.
async fn refuse_other_stores(
    across: &AcrossContext,
    set: SetId,
    missing: &[usize],
) -> Result<(), Error> {
    let stores = names(across);
    for store in (0..across.stores.len()).filter(|store| !missing.contains(store)) {
        let cx = &across.stores[store];
        let name = marker(across, set, store);
        let GetOutcome::Found(object) = Operator::new(cx).get(&cx.keys.of_set(name)).await? else {
            continue;
        };
        let body: serde_json::Value = serde_json::from_slice(&object.body).unwrap_or_default();
        if let Some(first) = body.get("stores").filter(|first| **first != stores) {
            let why = format!(
                "{} was created for the stores {first}, not {stores}. Pass the stores of this \
                 marker, in this order, or delete the marker if no process uses them. Nothing was \
                 written",
                located(cx, name)
            );
            return Err(Error::new(ErrorKind::InvalidInput, why));
        }
    }
    Ok(())
}

fn names(across: &AcrossContext) -> serde_json::Value {
    across.stores.iter().map(|cx| cx.store.describe()).collect()
}

fn in_use(cx: &Context, key: &str) -> String {
    format!(
        "{key} in {} belongs to something else: {INIT} needs a prefix without `lock` objects in all \
         stores. Choose another prefix. Nothing was written",
        cx.store.describe()
    )
}

fn located(cx: &Context, name: SetKey) -> String {
    format!("{} in {}", cx.keys.of_set(name), cx.store.describe())
}

fn marker(across: &AcrossContext, set: SetId, store: usize) -> SetKey {
    SetKey { set, store, generation: 1, of: Some(across.stores.len()) }
}

async fn write(across: &AcrossContext, set: SetId, store: usize) -> Result<Put, Error> {
    let cx = &across.stores[store];
    let name = marker(across, set, store);
    Operator::new(cx).put_new(&cx.keys.of_set(name), &body(across, cx, name)).await
}

/// Returns the body of a marker or a note. People read this body, and its writer recognizes it,
/// because the nonce makes each body unique.
pub(super) fn body(across: &AcrossContext, cx: &Context, name: SetKey) -> Bytes {
    let SetKey { set, store, generation, of } = name;
    let body = serde_json::json!({
        "tenure": if of.is_some() { "the marker of a store" } else { "the replacement of a store" },
        "set": set.to_string(),
        "store": store + 1,
        "stores": names(across),
        "generation": generation,
        "created_by": cx.config.name,
        "created_at": cx.process.now().time_of_day(),
        "nonce": format!("{:032x}", cx.process.unique()),
    });
    format!("{body:#}\n").into()
}

/// Deletes the markers that this call has created.
async fn withdraw(across: &AcrossContext, set: SetId, own: &[usize]) -> Result<(), Error> {
    let delete = |store: &usize| {
        let cx = &across.stores[*store];
        let key = cx.keys.of_set(marker(across, set, *store));
        async move { Operator::new(cx).delete(vec![key]).await }
    };
    try_join_all(own.iter().map(delete)).await.map(drop).map_err(|failed| {
        let keys =
            own.iter().map(|store| located(&across.stores[*store], marker(across, set, *store)));
        let keys: Vec<String> = keys.collect();
        let why = format!(
            "another call has created markers at the same time, and the markers of this call \
             cannot be deleted ({failed}). Delete {}",
            keys.join(", ")
        );
        Error::new(ErrorKind::InvalidInput, why).maybe()
    })
}
