//! What the baselines ask of a store: requests with the conditions that their posts use, sent by
//! the SDK alone or to a simulated bucket.

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::error::ProvideErrorMetadata as _;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use tenure::store::{ETag, Entry, GetOutcome, Object, Page, PutOutcome};

/// On what a PUT depends.
#[derive(Debug, Clone)]
pub enum Condition {
    Nothing,
    /// `If-None-Match: *`.
    Absent,
    /// `If-Match`.
    Match(ETag),
}

/// Nobody knows whether the request took effect.
#[derive(Debug)]
pub struct Failed;

#[async_trait]
pub trait Requests: Send + Sync {
    /// One page of up to 1,000 keys.
    async fn list(&self, prefix: &str, after: &str) -> Result<Page, Failed>;
    async fn get(&self, key: &str, unless: Option<ETag>) -> Result<GetOutcome, Failed>;
    async fn put(&self, key: &str, body: Bytes, on: Condition) -> Result<PutOutcome, Failed>;
}

/// aws-sdk-s3 and nothing else.
#[derive(Debug, Clone)]
pub struct Raw {
    pub client: Client,
    pub bucket: String,
}

#[async_trait]
impl Requests for Raw {
    async fn list(&self, prefix: &str, after: &str) -> Result<Page, Failed> {
        let call = self.client.list_objects_v2().bucket(&self.bucket).prefix(prefix);
        let call = if after.is_empty() { call } else { call.start_after(after) };
        let output = call.send().await.map_err(|_| Failed)?;
        let entries = output.contents.unwrap_or_default().into_iter().map(|object| {
            let entry = Entry::new(object.key.unwrap_or_default(), 0);
            entry.with_last_modified(object.last_modified.and_then(utc))
        });
        let truncated = output.is_truncated.unwrap_or(false);
        Ok(Page::new(entries.collect(), truncated))
    }

    async fn get(&self, key: &str, unless: Option<ETag>) -> Result<GetOutcome, Failed> {
        let unless = unless.map(|etag| etag.as_str().to_owned());
        let call = self.client.get_object().bucket(&self.bucket).key(key);
        match call.set_if_none_match(unless).send().await {
            Ok(output) => {
                let etag = ETag::new(output.e_tag.ok_or(Failed)?);
                let last_modified = output.last_modified.and_then(utc);
                let body = output.body.collect().await.map_err(|_| Failed)?.into_bytes();
                Ok(GetOutcome::Found(Object::new(body, etag).with_last_modified(last_modified)))
            }
            Err(error) => match error.raw_response().map(|raw| raw.status().as_u16()) {
                Some(304) => Ok(GetOutcome::NotModified),
                Some(404) => Ok(GetOutcome::NotFound),
                _ => Err(Failed),
            },
        }
    }

    async fn put(&self, key: &str, body: Bytes, on: Condition) -> Result<PutOutcome, Failed> {
        let call = self.client.put_object().bucket(&self.bucket).key(key).body(body.into());
        let call = match &on {
            Condition::Nothing => call,
            Condition::Absent => call.if_none_match("*"),
            Condition::Match(etag) => call.if_match(etag.as_str()),
        };
        // As a repeated conditional write would turn a success into a refusal.
        let once = aws_sdk_s3::config::Builder::new().retry_config(RetryConfig::disabled());
        match call.customize().config_override(once).send().await {
            Ok(output) => Ok(PutOutcome::Done { etag: output.e_tag.map(ETag::new) }),
            Err(error) => match error.code() {
                Some("PreconditionFailed") => Ok(PutOutcome::PreconditionFailed),
                Some("NoSuchKey") => Ok(PutOutcome::NotFound),
                _ => Err(Failed),
            },
        }
    }
}

fn utc(date: aws_sdk_s3::primitives::DateTime) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(date.secs(), date.subsec_nanos())
}
