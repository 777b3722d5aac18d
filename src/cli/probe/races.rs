//! Races: of 32 concurrent writers exactly one may win. A store that checks its condition and writes
//! in two steps passes every other check.

use std::sync::Arc;

use bytes::Bytes;
use tenure::store::{ETag, Happened, Object, PutOutcome, StoreError};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::ask::{Asker, Check, Ends, Kind};
use crate::cli::pause;

pub const WRITERS: usize = 32;
/// How often the read that settles a round is tried, and what a round needs before.
const TRIES: u32 = 5;

/// What the rounds of one race came to, writer by writer.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    pub rounds: u32,
    pub done: u64,
    pub refused: u64,
    /// Writers without a clear answer.
    pub unknown: u64,
    /// Rounds that a read could not settle.
    pub undecided: u32,
    /// Rounds in which the promise was broken.
    pub broken: u32,
    /// What was seen first.
    #[serde(skip)]
    pub first: Option<String>,
}

/// What a writer was told.
type Told = Result<PutOutcome, StoreError>;

/// What a round came to.
#[derive(Debug, PartialEq, Eq)]
enum Judged {
    /// Exactly one wrote.
    Decided,
    /// Nobody knows; nothing speaks against the store.
    Undecided,
    Broken(String),
}

impl Tally {
    /// Whether most writers had an answer that says something.
    pub fn is_clear(&self) -> bool {
        self.unknown <= self.done + self.refused && self.undecided * 2 <= self.rounds
    }

    fn count(&mut self, told: &[Told], judged: Judged) {
        self.rounds += 1;
        for told in told {
            match told {
                Ok(PutOutcome::Done { .. }) => self.done += 1,
                Ok(_) => self.refused += 1,
                Err(_) => self.unknown += 1,
            }
        }
        match judged {
            Judged::Decided => {}
            Judged::Undecided => self.undecided += 1,
            Judged::Broken(what) => self.breaks(what),
        }
    }

    fn breaks(&mut self, what: String) {
        self.broken += 1;
        self.first.get_or_insert(what);
    }
}

/// Opens a connection for each writer: with the connections still to be made, the first round would
/// be no race.
pub async fn warm_up(ask: &Arc<Asker>) -> Check {
    let mut readers = JoinSet::new();
    for _ in 0..WRITERS {
        let ask = Arc::clone(ask);
        readers.spawn(async move { ask.read(&ask.key("warm-up")).await });
    }
    for read in readers.join_all().await {
        match read {
            Ok(_) | Err(Ends::Unclear(_)) => {}
            Err(ends) => return Err(ends),
        }
    }
    Ok(())
}

/// 32 creators of one key, released together, and, where listings matter, one as an election confirms
/// by.
pub async fn one_creator_wins(
    ask: &Arc<Asker>,
    rounds: u32,
    listings: bool,
    tally: &mut Tally,
) -> Check {
    let folder = ask.key("create-race");
    let mut before = folder.clone();
    let mut doubtful = Vec::new();
    for round in 0..rounds {
        let key = format!("{folder}-{round:06}");
        let bodies = bodies(ask);
        let told = race(ask, &key, &bodies, None).await?;
        let (judged, found) = judged(ask, &key, &bodies, None, &told).await?;
        let decided = judged == Judged::Decided;
        tally.count(&told, judged);
        if let (Some(found), true) = (found, told.iter().any(Result::is_err)) {
            doubtful.push((key.clone(), found.etag));
        }
        if decided && listings {
            match ask.listed(&folder, &before, 2).await {
                Ok((listed, _)) if listed == [&key[..]] => {}
                Ok(_) => tally.breaks(format!(
                    "round {round}: a listing right after the create does not show it alone"
                )),
                Err(Ends::Broken(what)) => tally.breaks(what),
                Err(Ends::Unclear(_)) => {}
                Err(ends) => return Err(ends),
            }
        }
        before = key;
    }
    nothing_came_later(ask, &doubtful, tally).await
}

/// 32 replacers with one ETag, released together. Each round has an object of its own, made before
/// all races: some services allow an object one write a second.
pub async fn one_replacer_wins(ask: &Arc<Asker>, rounds: u32, tally: &mut Tally) -> Check {
    let mut objects = Vec::new();
    for _ in 0..rounds {
        objects.push(an_object(ask).await?);
    }
    let mut doubtful = Vec::new();
    for (key, before, etag) in objects {
        let bodies = bodies(ask);
        let told = race(ask, &key, &bodies, Some(&etag)).await?;
        let (judged, found) = judged(ask, &key, &bodies, Some(&before), &told).await?;
        tally.count(&told, judged);
        if let (Some(found), true) = (found, told.iter().any(Result::is_err)) {
            doubtful.push((key, found.etag));
        }
    }
    nothing_came_later(ask, &doubtful, tally).await
}

/// A new object, however often that has to be asked for: each time under another key.
async fn an_object(ask: &Asker) -> Check<(String, Bytes, ETag)> {
    let mut asked = 0;
    loop {
        asked += 1;
        let (key, body) = (ask.key("replace-race"), ask.body("nobody"));
        match ask.created(&key, &body).await {
            Ok(etag) => return Ok((key, body, etag)),
            Err(Ends::Unclear(_)) if asked < TRIES => pause(super::AGAIN * asked).await,
            Err(ends) => return Err(ends),
        }
    }
}

fn bodies(ask: &Asker) -> Vec<Bytes> {
    (0..WRITERS).map(|writer| ask.body(&format!("writer {writer}"))).collect()
}

/// Lets all writers go at once.
async fn race(
    ask: &Arc<Asker>,
    key: &str,
    bodies: &[Bytes],
    etag: Option<&ETag>,
) -> Check<Vec<Told>> {
    let barrier = Arc::new(Barrier::new(bodies.len()));
    let mut writers = JoinSet::new();
    for (writer, body) in bodies.iter().cloned().enumerate() {
        let (ask, barrier) = (Arc::clone(ask), Arc::clone(&barrier));
        let (key, etag) = (key.to_owned(), etag.cloned());
        writers.spawn(async move {
            barrier.wait().await;
            let told = match etag {
                Some(etag) => ask.replace(Kind::ReplaceRace, &key, body, &etag).await,
                None => ask.create(Kind::CreateRace, &key, body).await,
            };
            (writer, told)
        });
    }
    let mut told = writers.join_all().await;
    told.sort_by_key(|(writer, _)| *writer);
    let told = told.into_iter().map(|(_, told)| match told {
        Ok(outcome) => Ok(Ok(outcome)),
        Err(Ends::Unclear(error)) => Ok(Err(error)),
        Err(ends) => Err(ends),
    });
    told.collect()
}

/// The object at the key, however often that has to be asked.
async fn settled(ask: &Asker, key: &str) -> Check<Option<Object>> {
    let mut asked = 0;
    loop {
        asked += 1;
        match ask.read(key).await {
            Err(Ends::Unclear(_)) if asked < TRIES => pause(super::AGAIN).await,
            settled => return settled,
        }
    }
}

async fn judged(
    ask: &Asker,
    key: &str,
    bodies: &[Bytes],
    before: Option<&Bytes>,
    told: &[Told],
) -> Check<(Judged, Option<Object>)> {
    match settled(ask, key).await {
        Ok(found) => Ok((judge(bodies, before, told, found.as_ref()), found)),
        Err(Ends::Unclear(_)) => Ok((Judged::Undecided, None)),
        Err(ends) => Err(ends),
    }
}

/// An unclear answer is neither a win nor a loss: only what is there afterwards tells.
fn judge(
    bodies: &[Bytes],
    before: Option<&Bytes>,
    told: &[Told],
    found: Option<&Object>,
) -> Judged {
    let mut winners = Vec::new();
    let (mut refused, mut missing) = (0, 0);
    for (writer, told) in told.iter().enumerate() {
        match told {
            Ok(PutOutcome::Done { etag }) => winners.push((writer, etag)),
            Ok(PutOutcome::Refused) => refused += 1,
            Ok(PutOutcome::Missing) => missing += 1,
            Err(_) => {}
        }
    }
    let writers = told.len();
    if winners.len() > 1 {
        let winners = winners.len();
        return Judged::Broken(format!("{winners} of {writers} writers were told that they won"));
    }
    if missing > 0 {
        let why = format!("{missing} of {writers} writers were told that the object is missing");
        return Judged::Broken(why);
    }
    let changed = found.filter(|found| Some(&found.body) != before);
    let writer = changed.and_then(|found| bodies.iter().position(|body| *body == found.body));
    match (winners.first(), changed, writer) {
        (Some((winner, etag)), Some(found), Some(writer)) if *winner == writer => match etag {
            Some(etag) if *etag != found.etag => {
                let read = &found.etag;
                Judged::Broken(format!("the winner was answered the ETag {etag}, and {read} read"))
            }
            _ => Judged::Decided,
        },
        (None, Some(_), Some(writer)) if may_have_written(&told[writer]) => Judged::Decided,
        (None, None, _) if refused == 0 => Judged::Undecided,
        (Some(_), ..) => {
            Judged::Broken("one writer was told that it won, and its write is not there".to_owned())
        }
        (None, Some(_), _) => {
            Judged::Broken("the write of a writer that was refused is there".to_owned())
        }
        (None, None, _) => {
            Judged::Broken(format!("{refused} of {writers} writers were refused, and nobody won"))
        }
    }
}

fn may_have_written(told: &Told) -> bool {
    matches!(told, Err(error) if error.happened() == Happened::Maybe)
}

/// Writes that were given up on may come late: they, too, must be refused.
async fn nothing_came_later(ask: &Asker, doubtful: &[(String, ETag)], tally: &mut Tally) -> Check {
    for (key, etag) in doubtful {
        match ask.read(key).await {
            Ok(Some(object)) if object.etag == *etag => {}
            Ok(_) => tally.breaks("a write that came late has overwritten the winner's".to_owned()),
            Err(Ends::Unclear(_)) => {}
            Err(ends) => return Err(ends),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
