//! The outcome of a race, from the answers to its writers and the stored object.

use bytes::Bytes;
use serde::Serialize;
use tenure::store::{Determinacy, PutOutcome};

use super::Seen;
use super::writers::WriteAnswer;

/// The answers to the writers in all rounds of one kind of race.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Rounds of 32 writers.
    pub rounds: u32,
    /// Keys of the races: one or two per round.
    pub races: u32,
    /// Writers with a successful answer.
    pub done: u64,
    /// Writers with a refusal.
    pub refused: u64,
    /// Writers without a clear answer.
    pub unknown: u64,
    /// Races without a known outcome.
    pub undecided: u32,
    /// Races with a broken promise.
    pub broken: u32,
    /// The first broken promise. The serialized tally omits it.
    #[serde(skip)]
    pub first: Option<String>,
}

/// The outcome of a race.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RaceOutcome {
    /// Exactly one writer won.
    Decided,
    /// The winner is unknown. The store broke no promise.
    Undecided,
    Broken(String),
}

impl Tally {
    /// Returns true if most writers have a clear answer.
    pub fn is_clear(&self) -> bool {
        self.races > 0
            && self.unknown <= self.done + self.refused
            && self.undecided * 2 <= self.races
    }

    /// Adds a round with these races.
    pub(super) fn count(&mut self, races: Vec<(Vec<WriteAnswer>, RaceOutcome)>) {
        self.rounds += 1;
        for (told, outcome) in races {
            self.races += 1;
            for told in told {
                match told {
                    Ok(PutOutcome::Done { .. }) => self.done += 1,
                    Ok(_) => self.refused += 1,
                    Err(_) => self.unknown += 1,
                }
            }
            match outcome {
                RaceOutcome::Decided => {}
                RaceOutcome::Undecided => self.undecided += 1,
                RaceOutcome::Broken(what) => self.breaks(what),
            }
        }
    }

    pub(super) fn breaks(&mut self, what: String) {
        self.broken += 1;
        self.first.get_or_insert(what);
    }
}

/// Returns the outcome of a race. An unclear answer is neither a win nor a loss: the stored body
/// decides.
pub(super) fn check(
    bodies: &[Bytes],
    before: Option<&Bytes>,
    told: &[WriteAnswer],
    found: Option<&Seen>,
) -> RaceOutcome {
    let mut winners = Vec::new();
    let (mut refused, mut missing) = (0, 0);
    for (writer, told) in told.iter().enumerate() {
        match told {
            Ok(PutOutcome::Done { etag }) => winners.push((writer, etag)),
            Ok(PutOutcome::PreconditionFailed) => refused += 1,
            Ok(PutOutcome::NotFound) => missing += 1,
            _ => {}
        }
    }
    let writers = told.len();
    if winners.len() > 1 {
        let winners = winners.len();
        return RaceOutcome::Broken(format!(
            "{winners} of {writers} writers were told that they won"
        ));
    }
    if missing > 0 {
        let why = format!("{missing} of {writers} writers were told that the object is missing");
        return RaceOutcome::Broken(why);
    }
    let changed = found.filter(|found| before.is_none_or(|before| !found.shows(before)));
    let writer = changed.and_then(|found| bodies.iter().position(|body| found.shows(body)));
    match (winners.first(), changed, writer) {
        (Some((winner, etag)), Some(found), Some(writer)) if *winner == writer => match etag {
            Some(etag) if *etag != found.etag => {
                let read = &found.etag;
                RaceOutcome::Broken(format!(
                    "the winner was answered the ETag {etag}, and {read} read"
                ))
            }
            _ => RaceOutcome::Decided,
        },
        (None, Some(_), Some(writer)) if may_have_written(&told[writer]) => RaceOutcome::Decided,
        (None, None, _) if refused == 0 => RaceOutcome::Undecided,
        (Some(_), ..) => RaceOutcome::Broken(
            "one writer was told that it won, and its write is not there".to_owned(),
        ),
        (None, Some(_), _) => {
            RaceOutcome::Broken("the write of a writer that was refused is there".to_owned())
        }
        (None, None, _) => RaceOutcome::Broken(format!(
            "{refused} of {writers} writers were refused, and nobody won"
        )),
    }
}

fn may_have_written(told: &WriteAnswer) -> bool {
    matches!(told, Err(error) if error.determinacy() == Determinacy::Indeterminate)
}

#[cfg(test)]
mod tests;
