//! The pages of a listing.

use std::sync::atomic::Ordering;

use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::operation::list_objects_v2::builders::ListObjectsV2FluentBuilder;
use aws_sdk_s3::types::{CommonPrefix, EncodingType};
use chrono::{DateTime, Utc};
use percent_encoding::percent_decode_str;

use super::{CallInterceptor, RequestContext, S3Store, Verb, utc};
use crate::store::aws::failure::answered;
use crate::store::unordered::{UnorderedListing, folder};
use crate::store::{EMPTY_PAGES, ETag, Entry, Page, StoreError, read_past_a_page};

/// Domain of the public gateways of Storj.
const STORJ: &str = ".storjshare.io";

/// The response to one request of a listing.
struct Response {
    entries: Vec<Entry>,
    /// The folders whose keys the response omits, if the request had a delimiter.
    folders: Vec<String>,
    truncated: bool,
    token: Option<String>,
    served_at: Option<DateTime<Utc>>,
}

impl S3Store {
    pub(super) async fn read_page(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.check_bucket()?;
        if !self.lists_without_order() {
            let page = self.read_ordered(prefix, after, limit).await;
            if !self.lists_without_order() {
                return page;
            }
        }
        self.read_folder(prefix, after, limit.max(1)).await
    }

    /// Returns true if the store lists keys in no order: a directory bucket, or Storj, which orders
    /// keys by their encrypted form. The first listing detects Storj.
    pub(super) fn lists_without_order(&self) -> bool {
        self.is_directory_bucket() || self.unordered.load(Ordering::Relaxed)
    }

    async fn read_ordered(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let request = RequestContext::new(self, Verb::List, prefix);
        let mut token = None;
        for _ in 0..EMPTY_PAGES {
            let list = |list: ListObjectsV2FluentBuilder| {
                list.prefix(prefix)
                    .set_start_after((!after.is_empty()).then(|| after.to_owned()))
                    .max_keys(limit.clamp(1, 1_000) as i32)
                    .set_continuation_token(token.take())
            };
            let Response { entries, truncated, served_at, token: next, .. } =
                self.list_once(request, list).await?;
            if !is_in_order(&entries, prefix, after) {
                self.unordered.store(true, Ordering::Relaxed);
            }
            if !entries.is_empty() || !truncated {
                return Ok(Page::new(entries, truncated).with_served_at(served_at));
            }
            if next.is_none() {
                break;
            }
            token = next;
            read_past_a_page();
        }
        Err(request.unsupported(
            "the listing has too many pages without a key (a versioned bucket needs a lifecycle \
             rule that expires old versions and delete markers)",
        ))
    }

    /// Lists a folder of a store that lists keys in no order, and sorts the keys. The keys of lower
    /// folders are read only if a lower folder may have keys with the prefix.
    async fn read_folder(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Page, StoreError> {
        if !prefix.is_empty()
            && !prefix.ends_with('/')
            && let Some(page) = self.read_whole(prefix, after, limit, Some("/")).await?
        {
            return Ok(page);
        }
        let page = self.read_whole(prefix, after, limit, None).await?;
        Ok(page.unwrap_or_default())
    }

    /// Reads all pages of the prefix's folder. Returns `None` if a lower folder has keys with the
    /// prefix.
    async fn read_whole(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
        delimiter: Option<&str>,
    ) -> Result<Option<Page>, StoreError> {
        let request = RequestContext::new(self, Verb::List, prefix);
        let mut listing = UnorderedListing::new(prefix, after, limit);
        let mut token: Option<String> = None;
        loop {
            let list = |list: ListObjectsV2FluentBuilder| {
                list.set_prefix(Some(folder(prefix).to_owned()).filter(|name| !name.is_empty()))
                    .set_delimiter(delimiter.map(str::to_owned))
                    .set_continuation_token(token.clone())
            };
            let Response { entries, folders, truncated, token: next, served_at } =
                self.list_once(request, list).await?;
            if folders.iter().any(|folder| folder.starts_with(prefix)) {
                return Ok(None);
            }
            listing.see(entries, served_at);
            if !truncated {
                return Ok(Some(listing.into_page()));
            }
            if next.is_none() || next == token {
                return Err(request.unsupported("the listing does not end"));
            }
            token = next;
            read_past_a_page();
        }
    }

    async fn list_once(
        &self,
        request: RequestContext<'_, S3Store>,
        list: impl FnOnce(ListObjectsV2FluentBuilder) -> ListObjectsV2FluentBuilder,
    ) -> Result<Response, StoreError> {
        let seen = CallInterceptor::default();
        let call = list(self.client(request).await?.list_objects_v2())
            .bucket(&self.bucket)
            .encoding_type(EncodingType::Url)
            .set_expected_bucket_owner(self.owner.clone())
            .customize()
            .interceptor(seen.clone());
        let response = call.send().await;
        // A gateway of Storj refuses a prefix that is not a folder, because it knows only the
        // encrypted names. Projects from before December 2025 list such a prefix in order.
        let refused = response.as_ref().is_err_and(|error| {
            answered(error).is_some_and(|(_, code)| code == Some("NotImplemented"))
        });
        if refused || seen.went_to(STORJ) {
            self.unordered.store(true, Ordering::Relaxed);
        }
        let mut output = response.map_err(|error| request.failed(&error, &seen))?;
        // A response without the element `IsTruncated` is not from S3, and does not prove that the
        // bucket is empty.
        let Some(truncated) = output.is_truncated else {
            return Err(request.unsupported("the response to a listing has no IsTruncated"));
        };
        self.heard(Verb::List);
        let token = output.next_continuation_token.take();
        let folders = output.common_prefixes.take().unwrap_or_default().into_iter();
        let encoded = output.encoding_type == Some(EncodingType::Url);
        let folder = |CommonPrefix { prefix, .. }| prefix.map(|name: String| key(&name, encoded));
        let folders = folders.filter_map(folder).collect();
        let entries = entries(output, encoded);
        Ok(Response { entries, folders, truncated, token, served_at: seen.served_at() })
    }
}

fn entries(output: ListObjectsV2Output, encoded: bool) -> Vec<Entry> {
    let contents = output.contents.unwrap_or_default().into_iter();
    let with_key = contents.filter_map(|object| object.key.clone().map(|key| (key, object)));
    with_key
        .map(|(name, object)| Entry {
            key: key(&name, encoded),
            size: object.size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
            last_modified: object.last_modified.and_then(utc),
            etag: object.e_tag.filter(|tag| !tag.trim_matches('"').is_empty()).map(ETag::new),
        })
        .collect()
}

/// Returns true if the keys directly in the prefix's folder are in order. A hierarchical namespace
/// lists the keys of lower folders at other positions.
fn is_in_order(entries: &[Entry], prefix: &str, after: &str) -> bool {
    let folder = folder(prefix).len();
    let keys = entries.iter().map(|entry| entry.key.as_str());
    let mut keys = keys.filter(|key| key.get(folder..).is_some_and(|name| !name.contains('/')));
    keys.try_fold(after, |last, key| (last < key).then_some(key)).is_some()
}

/// Returns a listed key. In a form-encoded key, a plus is a space.
fn key(listed: &str, encoded: bool) -> String {
    if !encoded {
        return listed.to_owned();
    }
    let spaced = listed.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_lower_folders_may_be_out_of_order() {
        for (keys, expected) in [
            (&["app/lock-3", "app/lock-4"][..], true),
            (&["app/lock-3", "app/lock-1/x", "app/lock-4"], true),
            (&["app/lock-4", "app/lock-3"], false),
            (&["app/lock-1", "app/lock-3"], false),
        ] {
            let entry = |key: &&str| Entry {
                key: (*key).to_owned(),
                size: 0,
                last_modified: None,
                etag: None,
            };
            let entries: Vec<Entry> = keys.iter().map(entry).collect();
            assert_eq!(is_in_order(&entries, "app/lock-", "app/lock-2"), expected, "{keys:?}");
        }
    }
}
