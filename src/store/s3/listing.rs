//! The pages of a listing.

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::EncodingType;
use percent_encoding::percent_decode_str;

use super::{CallInterceptor, RequestContext, S3Store, Verb, utc};
use crate::store::{EMPTY_PAGES, ETag, Entry, Page, StoreError, read_past_a_page};

impl S3Store {
    pub(super) async fn read_page(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.check_bucket()?;
        let request = RequestContext::new(self, Verb::List, prefix);
        let mut token = None;
        for _ in 0..EMPTY_PAGES {
            let seen = CallInterceptor::default();
            let client = request.client(&self.client).await?;
            let call = client
                .list_objects_v2()
                .bucket(&self.bucket)
                .prefix(prefix)
                .set_start_after((!after.is_empty()).then(|| after.to_owned()))
                .max_keys(limit.clamp(1, 1_000) as i32)
                .encoding_type(EncodingType::Url)
                .set_continuation_token(token.take())
                .set_expected_bucket_owner(self.owner.clone())
                .customize()
                .interceptor(seen.clone());
            let output = call.send().await.map_err(|error| request.failed(&error, &seen))?;
            // A response without the element `IsTruncated` is not from S3, and does not prove that
            // the bucket is empty.
            let Some(truncated) = output.is_truncated else {
                return Err(request.unsupported("the response to a listing has no IsTruncated"));
            };
            self.heard(Verb::List);
            token = output.next_continuation_token.clone();
            let entries = entries(output);
            if !entries.is_empty() || !truncated {
                return Ok(Page { entries, truncated, served_at: seen.served_at() });
            }
            if token.is_none() {
                break;
            }
            read_past_a_page();
        }
        Err(request.unsupported(
            "the listing has too many pages without a key (a versioned bucket needs a lifecycle \
             rule that expires old versions and delete markers)",
        ))
    }
}

fn entries(output: ListObjectsV2Output) -> Vec<Entry> {
    let encoded = output.encoding_type == Some(EncodingType::Url);
    let contents = output.contents.unwrap_or_default().into_iter();
    let with_key = contents.filter_map(|object| object.key.clone().map(|key| (key, object)));
    with_key
        .map(|(key, object)| Entry {
            key: if encoded { decode(&key) } else { key },
            size: object.size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
            last_modified: object.last_modified.and_then(utc),
            etag: object.e_tag.filter(|tag| !tag.trim_matches('"').is_empty()).map(ETag::new),
        })
        .collect()
}

/// Decodes a form-encoded key, in which a plus is a space.
fn decode(key: &str) -> String {
    let spaced = key.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}
