//! Deletes objects. object_store returns an outcome for each key, or one error for many keys.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use futures::future::join_all;
use object_store::Error;
use object_store::path::Path;

use super::AnyObjectStore;
use super::failure::missing_key;
use crate::store::StoreError;
use crate::store::request_context::Verb;

/// Number of keys in one call of the client. Azure accepts at most 256 keys in a request. Four
/// calls of 250 keys delete 1,000 keys, the maximum for one call of `Store::delete`. A client
/// without batch deletion sends a request for each key of a call, at most ten at a time.
const AT_ONCE: usize = 250;

/// The outcome of one call of the client: the deleted keys, and the last error.
#[derive(Default)]
struct DeleteResult {
    gone: BTreeSet<String>,
    error: Option<Error>,
}

pub(super) async fn all(
    store: &AnyObjectStore,
    keys: Vec<String>,
) -> Result<Vec<(String, StoreError)>, StoreError> {
    let request = store.request(Verb::Delete, "");
    let paths = keys.iter().map(|key| store.path(request, key)).collect::<Result<Vec<_>, _>>()?;
    let calls = paths.chunks(AT_ONCE).map(|paths| some(store, paths.to_vec()));
    let calls = join_all(calls).await;
    let mut failed = Vec::new();
    for (keys, call) in keys.chunks(AT_ONCE).zip(&calls) {
        let left = keys.iter().filter(|key| !call.gone.contains(*key));
        let error = match &call.error {
            Some(error) => request.failed(error),
            None => request.transient("the store returned no outcome for the key"),
        };
        failed.extend(left.map(|key| (key.clone(), error.clone())));
    }
    match calls.iter().find_map(|call| call.error.as_ref()) {
        // If no key was deleted, the whole request failed.
        Some(error) if failed.len() == keys.len() => Err(request.failed(error)),
        _ => Ok(failed),
    }
}

async fn some(store: &AnyObjectStore, paths: Vec<Path>) -> DeleteResult {
    let paths = futures::stream::iter(paths.into_iter().map(Ok)).boxed();
    let mut answers = store.store.delete_stream(paths);
    let mut deleted = DeleteResult::default();
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(path) => drop(deleted.gone.insert(path.into())),
            Err(error) => match (missing_key(&error), error) {
                (true, Error::NotFound { path, .. }) => drop(deleted.gone.insert(path)),
                (_, error) => deleted.error = Some(error),
            },
        }
    }
    deleted
}
