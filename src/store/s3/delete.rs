//! Deletes several keys in one request, or one key in each request.

use std::sync::atomic::Ordering;

use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use futures::StreamExt as _;

use super::{CallInterceptor, RequestContext, S3Store, Verb, answered, failure};
use crate::store::{Determinacy, StoreError, StoreErrorKind};

/// Maximum number of concurrent requests that delete one key each.
const AT_ONCE: usize = 10;

impl S3Store {
    pub(super) async fn delete_all(
        &self,
        keys: Vec<String>,
    ) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.check_bucket()?;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        if !self.deletes_singly.load(Ordering::Relaxed) {
            match self.delete_together(&keys).await {
                // Some servers require the header Content-MD5, which the SDK does not send. Other
                // servers do not support `DeleteObjects`. On both kinds of servers, only requests
                // that delete a single key succeed.
                Err(error) if is_unsupported_request(&error) => {
                    tracing::warn!(%error, "all further deletions use one request for each key");
                    self.deletes_singly.store(true, Ordering::Relaxed);
                }
                outcome => return outcome,
            }
        }
        self.delete_each(keys).await
    }

    async fn delete_together(
        &self,
        keys: &[String],
    ) -> Result<Vec<(String, StoreError)>, StoreError> {
        let request = RequestContext::new(self, Verb::Delete, "");
        let objects = keys.iter().map(|key| ObjectIdentifier::builder().key(key).build());
        let objects: Result<Vec<_>, _> = objects.collect();
        let delete = objects
            .and_then(|objects| Delete::builder().set_objects(Some(objects)).quiet(true).build())
            .map_err(|error| request.invalid(&error.to_string()))?;
        let seen = CallInterceptor::default();
        let client = self.client(request).await?;
        let call = client
            .delete_objects()
            .bucket(&self.bucket)
            .delete(delete)
            .set_expected_bucket_owner(self.owner.clone())
            .customize()
            .interceptor(seen.clone());
        let output = call.send().await.map_err(|error| request.failed(&error, &seen))?;
        self.session.heard();
        Ok(output.errors.unwrap_or_default().iter().map(failure::of_key).collect())
    }

    /// Deletes each key with a separate request. Returns an error if all of these requests failed.
    async fn delete_each(
        &self,
        keys: Vec<String>,
    ) -> Result<Vec<(String, StoreError)>, StoreError> {
        let count = keys.len();
        let calls = keys.into_iter().map(|key| async move {
            let outcome = self.delete_one(&key).await;
            (key, outcome)
        });
        let outcomes: Vec<_> =
            futures::stream::iter(calls).buffer_unordered(AT_ONCE).collect().await;
        let failed: Vec<_> = outcomes
            .into_iter()
            .filter_map(|(key, outcome)| outcome.err().map(|error| (key, error)))
            .collect();
        match failed.first() {
            Some((_, error)) if failed.len() == count => Err(error.clone()),
            _ => Ok(failed),
        }
    }

    async fn delete_one(&self, key: &str) -> Result<(), StoreError> {
        let (request, seen) =
            (RequestContext::new(self, Verb::Delete, key), CallInterceptor::default());
        let client = self.client(request).await?;
        let call = client
            .delete_object()
            .bucket(&self.bucket)
            .key(key)
            .set_expected_bucket_owner(self.owner.clone())
            .customize()
            .interceptor(seen.clone());
        match call.send().await {
            Ok(_) => {
                self.session.heard();
                Ok(())
            }
            Err(error) => match answered(&error) {
                Some((404, Some("NoSuchKey"))) => Ok(()),
                _ => Err(request.failed(&error, &seen)),
            },
        }
    }
}

/// Returns true if the server refuses this kind of request for all keys and credentials.
fn is_unsupported_request(error: &StoreError) -> bool {
    let refused = matches!(error.kind(), StoreErrorKind::Invalid | StoreErrorKind::Unsupported);
    refused && error.determinacy() == Determinacy::Determinate
}
