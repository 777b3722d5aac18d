//! The operator's actions on an election across stores (Q9, and "Replacing a store", in
//! `protocol/across/rules.md`).

mod contents;
mod depose;
mod init;
pub(crate) mod outcomes;
mod relocate;
mod replace;
mod status;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};

pub(crate) use depose::{depose, resign_dead};
pub(crate) use init::{EpochFloor, init};
pub(crate) use relocate::relocate;
pub(crate) use replace::replace;
pub(crate) use status::status;

use crate::driver::Operator;
use crate::driver::across::AcrossContext;
use crate::driver::operator::{ATTEMPTS, Wrote};
use crate::env::timer::sleep;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::record::{MAX_READ_BYTES, Record};
use crate::store::GetOutcome;

/// The outcome of [`Operator::put_new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    /// The object has the body of this call.
    Own,
    /// Another process created the object.
    Other,
}

type AtStore<T> = (usize, Result<T, Error>);

/// Time for which a call waits for the other stores once a majority has outcomes.
const GRACE: Duration = Duration::from_secs(1);

/// Runs these calls at the same time, and returns their outcomes in the order of the stores. Once a
/// majority has outcomes for which `counts` is true, waits for the other calls for at most
/// [`GRACE`].
async fn settle<T>(
    across: &AcrossContext,
    calls: impl Iterator<Item = (usize, impl Future<Output = Result<T, Error>>)>,
    counts: impl Fn(&T) -> bool,
) -> Vec<AtStore<T>> {
    let process = &across.stores[0].process;
    let (mut late, mut ended) = (Vec::new(), Vec::new());
    let calls = calls.inspect(|(store, _)| late.push(*store));
    let mut calls: FuturesUnordered<_> =
        calls.map(|(store, call)| call.map(move |outcome| (store, outcome))).collect();
    let mut decided = None;
    while !calls.is_empty() {
        let now = process.now().boot;
        let left = decided.map_or(Duration::MAX, |at: Duration| (at + GRACE).saturating_sub(now));
        let next = tokio::select! {
            biased;
            next = calls.next() => next,
            () = sleep(process, left) => None,
        };
        let Some((store, outcome)) = next else { break };
        late.retain(|it| *it != store);
        ended.push((store, outcome));
        let counted = ended.iter().filter(|(_, it)| it.as_ref().is_ok_and(&counts)).count();
        if decided.is_none() && counted >= across.majority() {
            decided = Some(process.now().boot);
        }
    }
    ended.extend(late.into_iter().map(|store| {
        let why = format!("{} has not answered yet", across.stores[store].store.describe());
        (store, Err(Error::new(ErrorKind::Unavailable, why)))
    }));
    ended.sort_unstable_by_key(|(store, _)| *store);
    ended
}

impl Operator {
    /// Creates an object. Reads the object back if the store refuses the write, because an earlier
    /// attempt may have created the object.
    async fn put_new(&mut self, key: &str, body: &Bytes) -> Result<Put, Error> {
        let mut last = None;
        for _ in 0..=ATTEMPTS {
            match self.create(key, body.clone()).await? {
                Wrote::Done => return Ok(Put::Own),
                Wrote::Unknown(error) | Wrote::TurnedAway(error) => last = Some(error),
                Wrote::Refused => match self.get(key).await? {
                    GetOutcome::Found(object) if object.body == *body => return Ok(Put::Own),
                    GetOutcome::Found(_) | GetOutcome::TooLarge { .. } => return Ok(Put::Other),
                    GetOutcome::NotFound | GetOutcome::NotModified => {}
                },
            }
            self.pause().await;
        }
        let busy = || {
            let place = self.cx.store.describe();
            let why = format!("{place} refuses to create {key} and does not show it; try again");
            Error::new(ErrorKind::Unavailable, why)
        };
        Err(last.unwrap_or_else(busy).maybe())
    }

    /// Reads the record of this epoch. Returns `None` if the object is missing.
    async fn record(&mut self, epoch: Epoch) -> Result<Option<Record>, Error> {
        let Some(now) = self.read(Some(epoch)).await? else { return Ok(None) };
        self.refuse_later_format(&now)?;
        match &now.record {
            Ok(record) => Ok(Some(record.clone())),
            Err(why) => Err(self.cannot_read(&now, ErrorKind::CorruptRecord, why)),
        }
    }

    async fn get(&mut self, key: &str) -> Result<GetOutcome, Error> {
        let store = Arc::clone(&self.cx.store);
        let call = || {
            let (store, key) = (Arc::clone(&store), key.to_owned());
            async move { store.get(&key, None, MAX_READ_BYTES).await }.boxed()
        };
        self.ask(&format!("reading {key}"), call).await
    }

    /// Deletes objects. A missing object counts as deleted.
    async fn delete(&mut self, keys: Vec<String>) -> Result<(), Error> {
        let doing = format!("deleting {}", keys.join(", "));
        let store = Arc::clone(&self.cx.store);
        let call = || {
            let (store, keys) = (Arc::clone(&store), keys.clone());
            async move { store.delete(keys).await }.boxed()
        };
        let failed = self.ask(&doing, call).await.map_err(Error::maybe)?;
        failed.into_iter().next().map_or(Ok(()), |(_, error)| Err(self.failed(&doing, error)))
    }
}
