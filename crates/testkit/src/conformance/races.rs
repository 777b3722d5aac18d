//! Races: of 32 writers exactly one may win.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use tenure::store::{Determinacy, ETag, GetOutcome, PutOutcome, Store, StoreError, StoreErrorKind};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::check::Check;

const WRITERS: usize = 32;

/// 32 creators of one key, released together.
pub(super) async fn one_creator_wins(check: Check<'_>, rounds: usize) {
    let mut decided = 0;
    for round in 0..rounds {
        let name = format!("lock-{round:010}.json");
        let key = check.key(&name);
        let results = race(&check.store, |store, body| {
            let key = key.clone();
            async move { store.create(&key, body).await }
        })
        .await;
        decided += usize::from(judge(&check, round, &name, None, &results).await);
    }
    at_least_one(&check, decided, rounds);
}

/// 32 replacers with the same ETag, released together; the next round's ETag is the winner's.
pub(super) async fn one_replacer_wins(check: Check<'_>, rounds: usize) {
    let name = "lock-0000000001.json";
    let key = check.key(name);
    check.created(name, "nobody").await;
    let mut decided = 0;
    for round in 0..rounds {
        let before = check.found(name).await;
        let etag = before.etag.clone();
        let results = race(&check.store, |store, body| {
            let (key, etag) = (key.clone(), etag.clone());
            let body = Bytes::from([&body[..], format!(" {round}").as_bytes()].concat());
            async move { store.replace(&key, body, etag).await }
        })
        .await;
        decided += usize::from(judge(&check, round, name, Some(&before.body), &results).await);
    }
    at_least_one(&check, decided, rounds);
}

type Outcome = Result<PutOutcome, StoreError>;

/// Lets all writers go at once; writer `i` writes the body `i`.
async fn race<F>(store: &Arc<dyn Store>, write: impl Fn(Arc<dyn Store>, Bytes) -> F) -> Vec<Outcome>
where
    F: Future<Output = Outcome> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(WRITERS));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let barrier = Arc::clone(&barrier);
        let attempt = write(Arc::clone(store), Bytes::from(format!("{writer}")));
        writers.spawn(async move {
            barrier.wait().await;
            (writer, attempt.await)
        });
    }
    let mut outcomes = writers.join_all().await;
    outcomes.sort_by_key(|(writer, _)| *writer);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Whether somebody won. An error (a 409, a timeout) is neither a win nor a loss: only what is
/// there afterwards tells.
async fn judge(
    check: &Check<'_>,
    round: usize,
    name: &str,
    before: Option<&Bytes>,
    outcomes: &[Outcome],
) -> bool {
    let mut winners = Vec::<(usize, &Option<ETag>)>::new();
    let mut unknown = BTreeSet::new();
    let mut refused = 0;
    for (writer, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Ok(PutOutcome::Done { etag }) => winners.push((writer, etag)),
            Ok(PutOutcome::PreconditionFailed) => refused += 1,
            Ok(other) => check.fail(format_args!("round {round}, writer {writer}: {other:?}")),
            Err(error) if error.kind() == StoreErrorKind::Transient => {
                if error.determinacy() == Determinacy::Indeterminate {
                    unknown.insert(writer);
                }
            }
            Err(error) => check.fail(format_args!("round {round}, writer {writer}: {error:?}")),
        }
    }
    if winners.len() > 1 {
        check.fail(format_args!("round {round}: {} winners: {winners:?}", winners.len()));
    }
    let object = match check.get(name, None, 100).await {
        GetOutcome::Found(object) if Some(&object.body) != before => object,
        _ if winners.is_empty() && refused == 0 => return false,
        other => check.fail(format_args!(
            "round {round}: winner {winners:?}, {refused} refused, and the object is {other:?}"
        )),
    };
    let text = String::from_utf8_lossy(&object.body).into_owned();
    let writer = text.split(' ').next().and_then(|writer| writer.parse::<usize>().ok());
    match (writer, winners.first()) {
        (Some(writer), Some((winner, etag))) if writer == *winner => {
            if etag.as_ref().is_some_and(|etag| *etag != object.etag) {
                check.fail(format_args!("round {round}: {etag:?} won, but read {}", object.etag));
            }
            true
        }
        (Some(writer), None) if unknown.contains(&writer) => true,
        _ => check.fail(format_args!(
            "round {round}: winner {winners:?}, may have written {unknown:?}, but {text:?} is there"
        )),
    }
}

fn at_least_one(check: &Check<'_>, decided: usize, rounds: usize) {
    if decided == 0 && rounds > 0 {
        check.fail(format_args!("nobody won any of {rounds} rounds"));
    }
}
