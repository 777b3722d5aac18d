//! Deletions of up to 25 keys in a request.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::{DeleteRequest, WriteRequest};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::DynamoStore;
use super::date::StoreDate;
use super::item;
use super::key::ItemKey;
use crate::store::aws::CallInterceptor;
use crate::store::request_context::{RequestContext, Verb};
use crate::store::{Determinacy, StoreError, StoreErrorKind};

/// Maximum number of deletions in a `BatchWriteItem`.
const BATCH: usize = 25;
/// Maximum number of concurrent batches.
const AT_ONCE: usize = 4;
/// Maximum number of attempts for the keys that DynamoDB did not process.
const ATTEMPTS: usize = 3;

impl DynamoStore {
    /// Deletes these keys. Returns each key that was not deleted, with the reason.
    pub(super) async fn delete_all(
        &self,
        keys: Vec<String>,
    ) -> Result<Vec<(String, StoreError)>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        // A request must not contain a key twice.
        let unique: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
        let places: Vec<ItemKey<'_>> =
            unique.into_iter().map(ItemKey::of_key).collect::<Result<_, _>>()?;
        self.look_at_table().await?;
        let batches: Vec<_> = places.chunks(BATCH).map(|batch| self.delete_batch(batch)).collect();
        let left: Vec<Vec<String>> =
            stream::iter(batches).buffer_unordered(AT_ONCE).try_collect().await?;
        let busy = StoreError::new(
            StoreErrorKind::Transient,
            Determinacy::Determinate,
            "DynamoDB did not process the deletion: too many concurrent requests",
        );
        Ok(left.into_iter().flatten().map(|key| (key, busy.clone())).collect())
    }

    /// Deletes a batch, and returns the keys that DynamoDB did not process.
    async fn delete_batch(&self, batch: &[ItemKey<'_>]) -> Result<Vec<String>, StoreError> {
        let request = RequestContext::new(self, Verb::Delete, "");
        let deletion = |place: &ItemKey<'_>| {
            let delete = DeleteRequest::builder().set_key(Some(item::key(*place))).build()?;
            Ok(WriteRequest::builder().delete_request(delete).build())
        };
        let requests: Result<Vec<_>, aws_sdk_dynamodb::error::BuildError> =
            batch.iter().map(deletion).collect();
        let mut requests = requests.map_err(|error| request.invalid(&error.to_string()))?;
        for _ in 0..ATTEMPTS {
            let seen = CallInterceptor::default();
            let client = request.client(&self.client).await?;
            let call = client
                .batch_write_item()
                .request_items(&self.table, requests)
                .customize()
                .interceptor(seen.clone());
            let sent = StoreDate::sending();
            let output = request.output(call.send().await, &seen)?;
            self.date.heard(seen.served_at(), sent);
            requests =
                output.unprocessed_items.unwrap_or_default().into_values().flatten().collect();
            if requests.is_empty() {
                break;
            }
        }
        left(&requests).ok_or_else(|| {
            request.transient(
                "the response names unprocessed keys that the \
                                              request did not contain",
            )
        })
    }
}

/// Returns the keys of these unprocessed requests. Returns `None` if a request has no key, because
/// it is then unknown which keys DynamoDB deleted.
fn left(requests: &[WriteRequest]) -> Option<Vec<String>> {
    requests.iter().map(key_of).collect()
}

fn key_of(request: &WriteRequest) -> Option<String> {
    let key = &request.delete_request()?.key;
    let text = |name| key.get(name)?.as_s().ok();
    let (partition, sort) = (text(item::PREFIX)?, text(item::NAME)?);
    Some(format!("{partition}/{sort}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before the fix, the store ignored an unprocessed request without a key, and reported the
    /// object of this request as deleted.
    #[test]
    fn regression_an_unprocessed_request_without_a_key_is_not_a_deletion() {
        let place = ItemKey::of_key("app/lock-0000000001.json").unwrap();
        let delete = DeleteRequest::builder().set_key(Some(item::key(place))).build().unwrap();
        let named = WriteRequest::builder().delete_request(delete).build();
        let nameless = WriteRequest::builder().build();
        assert_eq!(
            left(std::slice::from_ref(&named)),
            Some(vec!["app/lock-0000000001.json".to_owned()])
        );
        assert_eq!(left(&[named, nameless]), None);
    }
}
