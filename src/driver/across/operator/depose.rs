//! Ends the newest epoch at all stores (Q9).

use std::fmt;
use std::time::Duration;

use super::contents::{View, several};
use super::{AtStore, Put, settle};
use crate::driver::Operator;
use crate::driver::across::AcrossContext;
use crate::driver::lead::ResignKey;
use crate::driver::operator::outcomes::{Deposed, Resigned};
use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::depose::DeposeOrder;
use crate::protocol::message::EpochEnd;

/// Seals the newest epoch at all stores. The epoch is deposed once it is sealed at a majority.
pub(crate) async fn depose(across: &AcrossContext, order: DeposeOrder) -> Result<Deposed, Error> {
    let mut view = View::of_majority(across).await;
    if view.counted().is_err() && view.answered().count() >= across.majority() {
        // A store with old contents does not count towards the majority, so list the slow stores
        // too.
        view = View::of(across).await;
    }
    let counted = view.counted()?;
    let Some(newest) = view.newest(&counted) else { return Ok(Deposed::NoLeader) };
    let order = DeposeOrder { only: order.only.or(Some(newest)), ..order };
    let seal = |store: usize| (store, depose_at(across, store, newest, order));
    let mut sealed = settle(across, counted.into_iter().map(seal), is_sealed).await;
    if ended(&sealed) < across.majority() && ended(&sealed) > 0 {
        // The epoch is missing at some stores, where its holder may still create it.
        let place = |(store, sealed)| {
            let placed = async move {
                match sealed {
                    Ok(Deposed::NoLeader) => place(across, store, newest, order).await,
                    other => other,
                }
            };
            (store, placed)
        };
        sealed = settle(across, sealed.into_iter().map(place), is_sealed).await;
    }
    conclude(across, newest, sealed)
}

async fn depose_at(
    across: &AcrossContext,
    store: usize,
    epoch: Epoch,
    order: DeposeOrder,
) -> Result<Deposed, Error> {
    Operator::new(&across.stores[store]).depose_at(Some(epoch), order).await
}

/// Creates a sealed object, a placeholder, where the epoch is missing. If the epoch exists by then,
/// seals it.
async fn place(
    across: &AcrossContext,
    store: usize,
    epoch: Epoch,
    order: DeposeOrder,
) -> Result<Deposed, Error> {
    let cx = &across.stores[store];
    let mut operator = Operator::new(cx);
    let placeholder = cx.sealed(&cx.config.blank(), EpochEnd::Lapsed, 1);
    let body = operator.encode(epoch, &placeholder);
    let (Put::Own | Put::Other) = operator.put_new(&cx.keys.epoch(epoch), &body).await?;
    depose_at(across, store, epoch, order).await
}

fn is_sealed(deposed: &Deposed) -> bool {
    matches!(deposed, Deposed::Sealed { .. } | Deposed::Already { .. })
}

fn ended(sealed: &[AtStore<Deposed>]) -> usize {
    sealed.iter().filter(|(_, it)| it.as_ref().is_ok_and(is_sealed)).count()
}

/// Returns the outcome for the election, from the outcomes at its stores.
fn conclude(
    across: &AcrossContext,
    epoch: Epoch,
    sealed: Vec<AtStore<Deposed>>,
) -> Result<Deposed, Error> {
    let count = ended(&sealed);
    let is_closed = count >= across.majority();
    let is_partial = |(_, it): &AtStore<Deposed>| matches!(it, Err(_) | Ok(Deposed::Sealed { .. }));
    if !is_closed && sealed.iter().any(is_partial) {
        return Err(partly(across, "sealed", epoch, count, sealed));
    }
    // If this call sealed the epoch at any store, the outcome is the one of these seals with the
    // longest wait. Otherwise it is an earlier seal, preferably of a holder with a name.
    let rank = |deposed: &Deposed| match deposed {
        Deposed::Sealed { wait, .. } => (3, *wait),
        Deposed::Already { leader, .. } if is_closed => {
            (1 + u8::from(leader.candidate.is_some()), Duration::ZERO)
        }
        Deposed::NoLeader | Deposed::Already { .. } => (0, Duration::ZERO),
        _ => (u8::from(!is_closed), Duration::ZERO),
    };
    let outcomes = sealed.into_iter().filter_map(|(_, deposed)| deposed.ok());
    Ok(outcomes.max_by_key(rank).unwrap_or(Deposed::NoLeader))
}

/// Resigns for a dead process at all stores (L8). The epoch is resigned once it is sealed at a
/// majority.
pub(crate) async fn resign_dead(
    across: &AcrossContext,
    key: ResignKey,
    successor: Option<String>,
) -> Result<Resigned, Error> {
    let resign = |(store, cx)| {
        let successor = successor.clone();
        (store, async move { Operator::new(cx).resign_dead(key, successor).await })
    };
    let is_sealed = |it: &Resigned| matches!(it, Resigned::Sealed | Resigned::Already(_));
    let resigned = settle(across, across.stores.iter().enumerate().map(resign), is_sealed).await;
    let count = |outcome: fn(&Resigned) -> bool| {
        resigned.iter().filter(|(_, it)| it.as_ref().is_ok_and(outcome)).count()
    };
    let ended = count(is_sealed);
    let by_this_call = count(|it| *it == Resigned::Sealed);
    let answered = count(|_| true);
    let is_known = match ended >= across.majority() {
        true => true,
        false => by_this_call == 0 && answered >= across.majority(),
    };
    if !is_known {
        return Err(partly(across, "resigned", key.epoch(), ended, resigned));
    }
    let rank = |resigned: &Resigned| match resigned {
        Resigned::Sealed => 0,
        Resigned::Already(_) => 1,
        Resigned::Renewed => 2,
        Resigned::NotCurrent => 3,
    };
    let outcomes = resigned.into_iter().filter_map(|(_, resigned)| resigned.ok());
    Ok(outcomes.min_by_key(rank).unwrap_or(Resigned::NotCurrent))
}

/// Returns the error of an epoch that has ended at fewer stores than a majority.
fn partly<T: fmt::Debug>(
    across: &AcrossContext,
    verb: &str,
    epoch: Epoch,
    count: usize,
    outcomes: Vec<AtStore<T>>,
) -> Error {
    let failures = outcomes.into_iter().filter_map(|(_, outcome)| outcome.err());
    let failures: Vec<Error> = failures.collect();
    let what = format!(
        "epoch {epoch} is {verb} at {count} of {} stores, and a majority is {}. Call again",
        across.stores.len(),
        across.majority()
    );
    several(what, &failures).maybe()
}
