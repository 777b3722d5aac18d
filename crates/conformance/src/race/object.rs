//! Requests for the objects of a race. A request with an unknown effect is retried.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure::store::{ETag, GetOutcome, PutOutcome, Store};

use crate::check_scope::{CheckFailure, Checked, broken};

/// Pause before the retry of a request with an unknown effect.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(200);
/// Maximum length of a body that the race reads, in bytes. The race identifies a longer body by its
/// length.
pub(super) const MAX_READ: usize = 64 << 10;
/// Maximum number of attempts of the write that prepares a race, and of the read that decides the
/// race.
pub(super) const TRIES: u32 = 5;

/// An object that was read. A body longer than [`MAX_READ`] is omitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) etag: ETag,
    pub(super) body: Option<Bytes>,
    pub(super) len: u64,
}

impl Seen {
    /// Returns true if the object has this body. A body longer than [`MAX_READ`] is compared by its
    /// length.
    pub(super) fn shows(&self, body: &Bytes) -> bool {
        match &self.body {
            Some(seen) => seen == body,
            None => self.len == body.len() as u64,
        }
    }
}

pub(super) async fn created(store: &Arc<dyn Store>, key: &str, body: &Bytes) -> Checked<ETag> {
    match store.create(key, body.clone()).await.map_err(CheckFailure::Request)? {
        PutOutcome::Done { etag: Some(etag) } => Ok(etag),
        PutOutcome::Done { etag: None } => match look(store, key).await? {
            Some(seen) => Ok(seen.etag),
            None => broken("does not return an object that was written before (read after write)"),
        },
        other => broken(format!("refuses to create a missing object: {other:?}")),
    }
}

/// Reads the object at a key. A body longer than [`MAX_READ`] is omitted, and is not an error.
pub(super) async fn look(store: &Arc<dyn Store>, key: &str) -> Checked<Option<Seen>> {
    match store.get(key, None, MAX_READ).await.map_err(CheckFailure::Request)? {
        GetOutcome::TooLarge { etag, len } => Ok(Some(Seen { etag, body: None, len })),
        GetOutcome::Found(object) => {
            let len = object.body.len() as u64;
            Ok(Some(Seen { etag: object.etag, body: Some(object.body), len }))
        }
        GetOutcome::NotFound => Ok(None),
        _ => broken(format!("returns \"not modified\" for a read of {key} without a condition")),
    }
}

/// Reads the object at a key, with up to [`TRIES`] attempts.
pub(super) async fn settled(store: &Arc<dyn Store>, key: &str) -> Checked<Option<Seen>> {
    let mut asked = 0;
    loop {
        asked += 1;
        match look(store, key).await {
            Err(failure) if failure.is_unclear() && asked < TRIES => pause(RETRY_AFTER).await,
            settled => return settled,
        }
    }
}

pub(super) fn unless_unclear<T>(result: Checked<T>) -> Checked {
    match result {
        Err(failure) if !failure.is_unclear() => Err(failure),
        _ => Ok(()),
    }
}

/// Returns a unique body.
pub(super) fn body(name: &str) -> Bytes {
    let nonce = fastrand::u128(..);
    format!("{{\"tenure\":\"test of the store\",\"{name}\":\"{nonce:032x}\"}}\n").into()
}

/// Returns a unique body of this length.
pub(super) fn long_body(len: usize) -> Bytes {
    let mut body = body("a long write").to_vec();
    body.resize(len, b' ');
    body.into()
}

#[allow(clippy::disallowed_methods, reason = "real requests race in real time")]
pub(super) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}
