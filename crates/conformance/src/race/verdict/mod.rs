//! The outcome of a race, from the responses to its writers and the stored object.

use bytes::Bytes;
use serde::Serialize;
use tenure::store::{Determinacy, PutOutcome};

use super::Seen;
use super::writers::WriteAnswer;

/// The counts of all rounds of one kind of race.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Number of rounds of 32 writers.
    pub rounds: u32,
    /// Number of races. Each key of a round is one race, and a round has one or two keys.
    pub races: u32,
    /// Number of writers that won.
    pub done: u64,
    /// Number of writers that were refused.
    pub refused: u64,
    /// Number of writers whose write has an unknown effect.
    pub unknown: u64,
    /// Number of races without a known outcome.
    pub undecided: u32,
    /// Number of races that violated the guarantee.
    pub broken: u32,
    /// The first violation. The serialized tally omits this text.
    #[serde(skip)]
    pub first: Option<String>,
}

/// The outcome of a race.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RaceOutcome {
    /// Exactly one writer won.
    Decided,
    /// The winner is unknown, but the store violated no guarantee.
    Undecided,
    Broken(String),
}

impl Tally {
    /// Returns true if most writes have a known effect, and if most races have a known outcome.
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
                RaceOutcome::Broken(violation) => self.breaks(violation),
            }
        }
    }

    pub(super) fn breaks(&mut self, violation: String) {
        self.broken += 1;
        self.first.get_or_insert(violation);
    }
}

/// Returns the outcome of a race. If the effect of a write is unknown, the stored body decides
/// whether the writer won.
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
        return RaceOutcome::Broken(format!("{winners} of {writers} writers received a success"));
    }
    if missing > 0 {
        let why = format!(
            "{missing} of {writers} writers received the response that the object does not exist"
        );
        return RaceOutcome::Broken(why);
    }
    let changed = found.filter(|found| before.is_none_or(|before| !found.shows(before)));
    let writer = changed.and_then(|found| bodies.iter().position(|body| found.shows(body)));
    match (winners.first(), changed, writer) {
        (Some((winner, etag)), Some(found), Some(writer)) if *winner == writer => match etag {
            Some(etag) if *etag != found.etag => {
                let read = &found.etag;
                RaceOutcome::Broken(format!(
                    "the winner received the ETag {etag}, but a read returns {read}"
                ))
            }
            _ => RaceOutcome::Decided,
        },
        (None, Some(_), Some(writer)) if may_have_written(&told[writer]) => RaceOutcome::Decided,
        (None, None, _) if refused == 0 => RaceOutcome::Undecided,
        (Some(_), ..) => RaceOutcome::Broken(
            "one writer received a success, but its write is not stored".to_owned(),
        ),
        (None, Some(_), _) => {
            RaceOutcome::Broken("the write of a writer that was refused is stored".to_owned())
        }
        (None, None, _) => RaceOutcome::Broken(format!(
            "{refused} of {writers} writers were refused, but no writer won"
        )),
    }
}

fn may_have_written(told: &WriteAnswer) -> bool {
    matches!(told, Err(error) if error.determinacy() == Determinacy::Indeterminate)
}

#[cfg(test)]
mod tests;
