//! The races of the conformance suite. Each race has a fixed number of rounds.

use std::sync::Arc;

use super::{Bounds, Races, Tally};
use crate::check_scope::{CheckScope, Checked, broken};

pub(crate) async fn one_creator_wins(scope: CheckScope<'_>) -> Checked {
    let (mut races, bounds) = of_the_suite(&scope).await?;
    while races.may_start(races.creates.rounds, &bounds) && !races.any_broken() {
        let left = bounds.batch(races.creates.rounds);
        races.create_batch(left, &bounds).await?;
    }
    one_wins(&races.creates)
}

pub(crate) async fn one_replacer_wins(scope: CheckScope<'_>) -> Checked {
    let (mut races, bounds) = of_the_suite(&scope).await?;
    while races.may_start(races.replaces.rounds, &bounds) && !races.any_broken() {
        let left = bounds.batch(races.replaces.rounds);
        races.replace_batch(left, &bounds).await?;
    }
    one_wins(&races.replaces)
}

async fn of_the_suite(scope: &CheckScope<'_>) -> Checked<(Races, Bounds)> {
    let longest = scope.can.race_bytes;
    let rounds = u32::try_from(scope.can.race_rounds).unwrap_or(u32::MAX);
    let races = Races::prepare(&scope.store, scope.key(""), true, longest).await?;
    Ok((races, Bounds { rounds: Some(rounds), span: None, enough: Arc::default(), longest }))
}

fn one_wins(tally: &Tally) -> Checked {
    let Tally { races, undecided, broken: faults, first, .. } = tally;
    match first {
        Some(first) => broken(format!("breaks its promise in {faults} of {races} races: {first}")),
        None if *races > 0 && undecided == races => {
            broken(format!("has no winner in any of {races} races"))
        }
        None => Ok(()),
    }
}
