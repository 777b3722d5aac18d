//! Objects in a bucket of Amazon S3, or of a store that speaks its API.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::RequestChecksumCalculation;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::primitives::ByteStream;
use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};

use super::aws::failure::answered;
use super::aws::{CallInterceptor, RegionalClient, Session, causes};
use super::etag_form::ETagForm;
use super::request_context::{RequestContext, Verb};
use super::{
    Determinacy, ETag, GetOutcome, Object, Page, PutOutcome, Store, StoreError, StoreErrorKind,
};

mod bucket_settings;
mod delete;
mod encryption;
mod failure;
mod from_env;
mod listing;

#[doc(hidden)]
pub use bucket_settings::{BucketSettings, LifecycleRule, Versioning};

use self::encryption::Encryption;

/// A bucket of Amazon S3, or of a store that speaks its API.
///
/// Each call is one request, but for two: a listing reads past pages without keys, and reads,
/// listings and deletions that fail are sent again as the client's retry configuration says.
/// Conditional writes are never sent again, under any such configuration. A replace that the
/// server refuses before one has succeeded costs a read more: a server that compares ETags only
/// without their quotes (Ceph up to 16) refuses a tag that matches, and gets the write again
/// without them.
///
/// There is no timeout on a whole call: the caller bounds it. Clients from
/// [`from_env`](S3Store::from_env) give up connecting after 3.1 s.
///
/// The credentials need `s3:GetObject`, `s3:PutObject` and `s3:ListBucket`, and a compactor
/// `s3:DeleteObject` (docs/reference/policies.md has a policy for each role). Directory buckets (S3
/// Express One Zone) are refused, as their listings have no order, and so are multi-region access
/// points, as their regions agree only after a while.
///
/// # Examples
///
/// ```no_run
/// # use std::sync::Arc;
/// # use tenure::{Election, store::S3Store};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// // No bucket of the same name that another account has created since:
/// let store = S3Store::from_env("my-bucket").await.with_expected_bucket_owner("111122223333");
/// let election = Election::builder(Arc::new(store), "orders/leader").build()?;
/// // The first campaign checks that the bucket honours conditions, and waits until elected.
/// let leadership = election.campaign().await?;
/// assert!(leadership.token().is_some());
/// leadership.resign().await?;
/// # Ok(())
/// # }
/// ```
pub struct S3Store {
    client: RegionalClient<Client>,
    bucket: String,
    session: Session,
    owner: Option<String>,
    encryption: Encryption,
    etag_form: ETagForm,
    /// The server refuses requests that delete several keys.
    deletes_singly: AtomicBool,
    /// The server refuses writes without a checksum.
    wants_checksums: AtomicBool,
    /// A bit for each [`Verb`] that has succeeded: the store supports those.
    done: AtomicU8,
}

impl S3Store {
    /// Creates the store of the bucket of this name, or access point of this alias or ARN, through
    /// a ready client. No request.
    ///
    /// The client's settings apply, addressing style and checksums included, except that its
    /// retries are off for conditional writes. The SDK's own connector offers HTTP/2, on which all
    /// requests share one connection: one that a NAT has forgotten can cost the lease. Clients of
    /// [`from_env`](S3Store::from_env) speak HTTP/1.1. An endpoint with a path must end in a slash: the SDK
    /// appends the bucket's name directly.
    pub fn new(client: Client, bucket: impl Into<String>) -> S3Store {
        S3Store::of(RegionalClient::Ready(client), bucket)
    }

    fn of(client: RegionalClient<Client>, bucket: impl Into<String>) -> S3Store {
        S3Store {
            client,
            bucket: bucket.into(),
            session: Session::default(),
            owner: None,
            encryption: Encryption::default(),
            etag_form: ETagForm::default(),
            deletes_singly: AtomicBool::new(false),
            wants_checksums: AtomicBool::new(false),
            done: AtomicU8::new(0),
        }
    }

    /// Creates the store of the bucket of this name, with settings from the usual variables and
    /// files: `AWS_REGION`, `AWS_PROFILE`, `AWS_ACCESS_KEY_ID` …, `AWS_ENDPOINT_URL` or
    /// `AWS_ENDPOINT_URL_S3`, roles of containers and instances, `credential_process`, single
    /// sign-on, `HTTPS_PROXY`, `AWS_CA_BUNDLE` or `ca_bundle` in the profile (root certificates in
    /// place of the machine's).
    ///
    /// With a custom endpoint, which may have a path, the bucket's name goes into the path, the
    /// region is `us-east-1` unless set, and checksums are left out where S3 does not require them,
    /// unless `AWS_REQUEST_CHECKSUM_CALCULATION` or `AWS_RESPONSE_CHECKSUM_VALIDATION` say
    /// otherwise.
    ///
    /// No request to the bucket. A missing region or missing credentials show in the first call.
    /// All stores of a process that this method created share one pool of connections. A background
    /// task refreshes credentials before they expire; they are also refreshed once S3 reports them
    /// as expired.
    pub async fn from_env(bucket: impl Into<String>) -> S3Store {
        let (client, session) = from_env::from_env().await;
        S3Store { session, ..S3Store::of(client, bucket) }
    }

    /// Makes S3 refuse every request unless the bucket belongs to this account (12 digits), in case
    /// the bucket was deleted and another account created it again. Another owner is
    /// `AccessDenied`, with this account in the message.
    #[must_use]
    pub fn with_expected_bucket_owner(mut self, account: impl Into<String>) -> S3Store {
        self.owner = Some(account.into());
        self
    }

    /// Sends ETags without their quotes from the start, for a server that compares them only without
    /// quotes (Ceph up to 16). Without this the store detects such a server at its first replace,
    /// by two more requests.
    #[must_use]
    pub fn with_unquoted_etags(self) -> S3Store {
        self.etag_form.set_unquoted();
        self
    }

    /// Refuses what cannot work, before anything is sent.
    fn check_bucket(&self) -> Result<(), StoreError> {
        let why = if self.bucket.ends_with("--x-s3")
            || self.bucket.ends_with("--xa-s3")
            || self.bucket.starts_with("arn:aws:s3express")
        {
            "it is a directory bucket (S3 Express One Zone), whose listings have no order"
        } else if self.bucket.ends_with(".mrap") {
            "it is a multi-region access point, whose regions agree only after a while"
        } else {
            return Ok(());
        };
        let message = format!("{} cannot be used: {why}; use a general purpose bucket", self.at());
        Err(StoreError::new(StoreErrorKind::Unsupported, Determinacy::Determinate, message))
    }

    /// The store has answered such a request.
    fn heard(&self, verb: Verb) {
        self.session.heard();
        self.done.fetch_or(1 << verb as u8, Ordering::Relaxed);
    }

    fn has_done(&self, verb: Verb) -> bool {
        self.done.load(Ordering::Relaxed) & (1 << verb as u8) != 0
    }

    /// The bucket and, if custom, its endpoint.
    fn at(&self) -> String {
        self.session.at(format!("s3://{}", self.bucket))
    }

    async fn put(
        &self,
        request: RequestContext<'_, S3Store>,
        body: Bytes,
        condition: impl Fn(PutObjectFluentBuilder) -> PutObjectFluentBuilder,
    ) -> Result<PutOutcome, StoreError> {
        self.check_bucket()?;
        let checked = self.wants_checksums.load(Ordering::Relaxed);
        match self.put_once(request, body.clone(), &condition).await {
            // A server with Object Lock has refused it for this reason alone, and written nothing.
            Err(error) if !checked && wants_a_checksum(&error) => {
                self.wants_checksums.store(true, Ordering::Relaxed);
                self.put_once(request, body, &condition).await
            }
            outcome => outcome,
        }
    }

    async fn put_once(
        &self,
        request: RequestContext<'_, S3Store>,
        body: Bytes,
        condition: impl Fn(PutObjectFluentBuilder) -> PutObjectFluentBuilder,
    ) -> Result<PutOutcome, StoreError> {
        let client = request.client(&self.client).await?;
        let mut put = client
            .put_object()
            .bucket(&self.bucket)
            .key(request.key)
            .body(ByteStream::from(body))
            .set_expected_bucket_owner(self.owner.clone());
        if request.key.ends_with(".json") {
            put = put.content_type("application/json");
        }
        put = self.encryption.on(put);
        // Sent again by the SDK, a write that took effect would be answered by a refusal.
        let mut once = aws_sdk_s3::config::Builder::new().retry_config(RetryConfig::disabled());
        if self.wants_checksums.load(Ordering::Relaxed) {
            once = once.request_checksum_calculation(RequestChecksumCalculation::WhenSupported);
        }
        let seen = CallInterceptor::default();
        let call = condition(put).customize().config_override(once).interceptor(seen.clone());
        match call.send().await {
            // Moto calls the empty answer to a write HTML, too, but with an ETag.
            Ok(output) if seen.html() && output.e_tag.is_none() => Err(request.web_page()),
            Ok(output) => {
                self.heard(request.verb);
                Ok(PutOutcome::Done { etag: output.e_tag.map(ETag::new) })
            }
            Err(error) => match answered(&error) {
                Some((412, _)) => Ok(PutOutcome::PreconditionFailed),
                Some((404, Some("NoSuchKey"))) if request.verb == Verb::Replace => {
                    Ok(PutOutcome::NotFound)
                }
                _ => Err(request.failed(&error, &seen)),
            },
        }
    }

    async fn read(
        &self,
        request: RequestContext<'_, S3Store>,
        output: GetObjectOutput,
        seen: &CallInterceptor,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let Some(etag) = output.e_tag.map(ETag::new) else {
            return Err(match seen.html() {
                true => request.web_page(),
                false => request.unsupported("it answered without an ETag"),
            });
        };
        let announced = output.content_length.and_then(|len| u64::try_from(len).ok());
        if let Some(len) = announced.filter(|len| *len > max_len as u64) {
            return Ok(GetOutcome::TooLarge { etag, len });
        }
        let mut stream = output.body;
        let mut body = BytesMut::new();
        while let Some(chunk) = stream.next().await {
            body.extend_from_slice(&chunk.map_err(|error| {
                request.transient(&format!("its answer broke off: {}", causes(&error)))
            })?);
            if body.len() > max_len {
                return Ok(GetOutcome::TooLarge { etag, len: body.len() as u64 });
            }
        }
        if announced.is_some_and(|len| len != body.len() as u64) {
            return Err(request.transient("its answer is shorter or longer than it said"));
        }
        if seen.html() && body.trim_ascii_start().starts_with(b"<") {
            return Err(request.web_page());
        }
        self.heard(Verb::Get);
        Ok(GetOutcome::Found(Object {
            body: body.freeze(),
            etag,
            last_modified: output.last_modified.and_then(utc),
            served_at: seen.served_at(),
        }))
    }
}

#[async_trait]
impl Store for S3Store {
    /// One request, and one more for each page without a key that is not the last, up to 100 in
    /// all. Elections, groups, compactors and guards have their request timeout for each of them.
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        self.read_page(prefix, after, limit).await
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        self.check_bucket()?;
        let request = RequestContext::new(self, Verb::Get, key);
        let seen = CallInterceptor::default();
        let client = request.client(&self.client).await?;
        let call = client
            .get_object()
            .bucket(&self.bucket)
            .key(key)
            .set_if_none_match(
                unless.as_ref().map(|etag| self.etag_form.of(etag.as_str()).to_owned()),
            )
            .set_expected_bucket_owner(self.owner.clone())
            .customize()
            .interceptor(seen.clone());
        match call.send().await {
            Ok(output) => self.read(request, output, &seen, max_len).await,
            Err(error) => match answered(&error) {
                Some((304, _)) if unless.is_some() => Ok(GetOutcome::NotModified),
                Some((404, Some("NoSuchKey"))) => Ok(GetOutcome::NotFound),
                _ => Err(request.failed(&error, &seen)),
            },
        }
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        self.put(RequestContext::new(self, Verb::Create, key), body, |put| put.if_none_match("*"))
            .await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let request = RequestContext::new(self, Verb::Replace, key);
        let put =
            |tag: String| self.put(request, body.clone(), move |put| put.if_match(tag.as_str()));
        self.etag_form.replace(self, key, &etag, etag.as_str(), put).await
    }

    /// One request, or one for each key where the server refuses `DeleteObjects`. A key that
    /// could not be deleted comes back with S3's reason.
    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.delete_all(keys).await
    }

    fn describe(&self) -> String {
        self.at()
    }
}

impl fmt::Debug for S3Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3Store({})", self.at())
    }
}

/// Whether a server with Object Lock asks for a checksum, which the SDK leaves out at a custom
/// endpoint: "Content-MD5 OR x-amz-checksum- HTTP header is required …".
fn wants_a_checksum(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Invalid
        && error.determinacy() == Determinacy::Determinate
        && ["Content-MD5", "x-amz-checksum"].iter().any(|name| error.to_string().contains(name))
}

fn utc(date: aws_sdk_s3::primitives::DateTime) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(date.secs(), date.subsec_nanos())
}
