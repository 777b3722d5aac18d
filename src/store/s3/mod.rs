//! Objects in a bucket of Amazon S3, or of a store with the S3 API.

use std::fmt;
use std::sync::Mutex;
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
    Capabilities, Determinacy, ETag, GetOutcome, Object, Page, PutOutcome, Store, StoreError,
    StoreErrorKind, StoreOptions,
};

mod bucket_settings;
mod delete;
mod directory_bucket;
mod encryption;
mod failure;
mod from_env;
mod listing;

#[doc(hidden)]
pub use bucket_settings::{BucketSettings, LifecycleRule, Versioning};

use self::directory_bucket::SessionClient;
use self::encryption::Encryption;

/// A bucket of Amazon S3, or of a store with the S3 API.
///
/// Each call is one request, with four exceptions:
///
/// - A listing skips pages without keys.
/// - The client's retry configuration applies to failed reads, listings and deletions, but never to
///   conditional writes.
/// - Until a replace has succeeded, a refused replace costs one more read. A server that compares
///   ETags only without their quotes (Ceph up to 16) refuses a matching tag. In this case, the
///   store sends the write again without the quotes.
/// - Some servers refuse to delete several keys in one request, or to accept a write without a
///   checksum. The store then deletes the keys one by one, or sends a write with a checksum.
///
/// A call has no timeout: the caller must bound it. Clients from [`from_env`](S3Store::from_env)
/// abandon an attempt to connect after 3.1 s.
///
/// The credentials need `s3:GetObject`, `s3:PutObject` and `s3:ListBucket`. A compactor also needs
/// `s3:DeleteObject` (docs/reference/policies.md has a policy for each role). This store refuses
/// multi-region access points, because they are only eventually consistent between regions.
///
/// **Directory buckets** (S3 Express One Zone, names end in `--x-s3`) need
/// `s3express:CreateSession` instead. Their listings have no order, so this store reads a whole
/// folder for each listing, and sorts its keys. Elections, groups and generations accept such a
/// listing only if it fits one page: keep at most 1,000 objects in a folder.
///
/// # Examples
///
/// ```no_run
/// # use std::sync::Arc;
/// # use tenure::{Election, store::S3Store};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// // Requests fail if the bucket belongs to another account:
/// let store = S3Store::from_env("my-bucket").await.with_expected_bucket_owner("111122223333");
/// let election = Election::builder(Arc::new(store), "orders/leader").build()?;
/// // The first campaign checks that the bucket supports conditions, and waits until elected.
/// let leadership = election.campaign().await?;
/// assert!(leadership.token().is_some());
/// leadership.resign().await?;
/// # Ok(())
/// # }
/// ```
pub struct S3Store {
    client: RegionalClient<Client>,
    session_client: Mutex<SessionClient>,
    bucket: String,
    session: Session,
    owner: Option<String>,
    encryption: Encryption,
    etag_form: ETagForm,
    /// True if the server refuses a request that deletes several keys.
    deletes_singly: AtomicBool,
    /// True if the server refuses writes without a checksum.
    wants_checksums: AtomicBool,
    /// True if a listing has shown that the store lists keys in no order.
    unordered: AtomicBool,
    /// One bit for each [`Verb`] that has succeeded. The server certainly supports these verbs.
    done: AtomicU8,
}

impl S3Store {
    /// Creates a store with this client. `bucket` is the name of a bucket, or the alias or ARN of
    /// an access point. Sends no request.
    ///
    /// The client's settings apply, including its addressing style and checksums. The client's
    /// retries are disabled for conditional writes. The SDK's own connector offers HTTP/2, on which
    /// all requests share one connection. If a NAT drops this connection, the leader can lose its
    /// lease. Clients of [`from_env`](S3Store::from_env) use HTTP/1.1. An endpoint with a path must
    /// end in a slash, because the SDK appends the bucket's name directly.
    pub fn new(client: Client, bucket: impl Into<String>) -> S3Store {
        S3Store::of(RegionalClient::Ready(client), bucket)
    }

    fn of(client: RegionalClient<Client>, bucket: impl Into<String>) -> S3Store {
        S3Store {
            client,
            session_client: Mutex::default(),
            bucket: bucket.into(),
            session: Session::default(),
            owner: None,
            encryption: Encryption::default(),
            etag_form: ETagForm::default(),
            deletes_singly: AtomicBool::new(false),
            wants_checksums: AtomicBool::new(false),
            unordered: AtomicBool::new(false),
            done: AtomicU8::new(0),
        }
    }

    /// Creates a store for the bucket of this name, with settings from the AWS files and the
    /// environment, such as `AWS_REGION`, `AWS_PROFILE`, `HTTPS_PROXY`, and `AWS_ENDPOINT_URL` or
    /// `AWS_ENDPOINT_URL_S3`. The credentials come from `AWS_ACCESS_KEY_ID` and its companions, the
    /// role of the container or instance, `credential_process`, or single sign-on. `AWS_CA_BUNDLE`,
    /// or `ca_bundle` in the profile, names root certificates that replace the machine's
    /// certificates.
    ///
    /// A custom endpoint may have a path. With a custom endpoint, the URL's path contains the
    /// bucket's name, and the default region is `us-east-1`. Requests to a custom endpoint omit the
    /// checksums that S3 does not require. To send them, set `AWS_REQUEST_CHECKSUM_CALCULATION` or
    /// `AWS_RESPONSE_CHECKSUM_VALIDATION`.
    ///
    /// Sends no request to the bucket. The first call returns an error if the region or the
    /// credentials are missing. All stores that this method creates in a process share one
    /// connection pool. A background task refreshes credentials before they expire. It also
    /// refreshes credentials after S3 reports them as expired.
    pub async fn from_env(bucket: impl Into<String>) -> S3Store {
        S3Store::with_options(bucket, &StoreOptions::default()).await
    }

    pub(super) async fn with_options(bucket: impl Into<String>, options: &StoreOptions) -> S3Store {
        let (client, session) = from_env::load(options).await;
        S3Store { session, ..S3Store::of(client, bucket) }
    }

    /// Makes S3 refuse every request unless the bucket belongs to this account (12 digits). The
    /// check protects against a deleted bucket that another account has created again. If the
    /// bucket belongs to another account, requests fail with `AccessDenied`, and the message names
    /// the expected account.
    #[must_use]
    pub fn with_expected_bucket_owner(mut self, account: impl Into<String>) -> S3Store {
        self.owner = Some(account.into());
        self
    }

    /// Sends all ETags without quotes, for servers that compare tags only without quotes (Ceph up
    /// to 16). If this method is not called, the store detects such a server at the first refused
    /// replace. The detection costs two more requests, a read and a write.
    #[must_use]
    pub fn with_unquoted_etags(self) -> S3Store {
        self.etag_form.set_unquoted();
        self
    }

    /// Refuses unsupported kinds of buckets. Sends no request.
    fn check_bucket(&self) -> Result<(), StoreError> {
        let why =
            if self.bucket.ends_with("--xa-s3") || self.bucket.starts_with("arn:aws:s3express") {
                "it is an access point of a directory bucket"
            } else if self.bucket.ends_with(".mrap") {
                "a multi-region access point is not strongly consistent between regions"
            } else {
                return Ok(());
            };
        let message = format!("{} cannot be used: {why}; use the name of a bucket", self.at());
        Err(StoreError::new(StoreErrorKind::Unsupported, Determinacy::Determinate, message))
    }

    /// Records that a request with this verb has succeeded.
    fn heard(&self, verb: Verb) {
        self.session.heard();
        self.done.fetch_or(1 << verb as u8, Ordering::Relaxed);
    }

    fn has_done(&self, verb: Verb) -> bool {
        self.done.load(Ordering::Relaxed) & (1 << verb as u8) != 0
    }

    /// Returns the URL of the bucket, followed by the custom endpoint if one is set.
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
            // A server with Object Lock refused the write, because the write had no checksum. So
            // nothing was written.
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
        let client = self.client(request).await?;
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
        // The SDK must send each write only once. If the first request took effect, S3 would refuse
        // the second request.
        let mut once = aws_sdk_s3::config::Builder::new().retry_config(RetryConfig::disabled());
        if self.wants_checksums.load(Ordering::Relaxed) {
            once = once.request_checksum_calculation(RequestChecksumCalculation::WhenSupported);
        }
        let seen = CallInterceptor::default();
        let call = condition(put).customize().config_override(once).interceptor(seen.clone());
        match call.send().await {
            // The test server moto marks even the empty response to a write as HTML. But a response
            // with an ETag is not a web page.
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
                false => request.unsupported("the response has no ETag"),
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
                request.transient(&format!("the response broke off: {}", causes(&error)))
            })?);
            if body.len() > max_len {
                return Ok(GetOutcome::TooLarge { etag, len: body.len() as u64 });
            }
        }
        if announced.is_some_and(|len| len != body.len() as u64) {
            return Err(
                request.transient("the length of the response differs from the announced length")
            );
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
    /// Sends one request. As long as a page has no key and more pages follow, sends another
    /// request, up to 100 requests in all. If the store lists keys in no order, sends a request for
    /// each page of the prefix's folder. Elections, groups, compactors and guards apply their
    /// request timeout to each of these requests.
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
        let client = self.client(request).await?;
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

    /// Sends one request, or one request for each key if the server refuses `DeleteObjects`.
    /// Returns each key that S3 did not delete, with the reason that S3 gave.
    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.delete_all(keys).await
    }

    fn describe(&self) -> String {
        self.at()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_lists_without_order(self.lists_without_order())
    }
}

impl fmt::Debug for S3Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3Store({})", self.at())
    }
}

/// Returns true if the error comes from a server with Object Lock that requires a checksum:
/// "Content-MD5 OR x-amz-checksum- HTTP header is required …". The first write to a custom endpoint
/// has no checksum, because the SDK then omits checksums.
fn wants_a_checksum(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Invalid
        && error.determinacy() == Determinacy::Determinate
        && ["Content-MD5", "x-amz-checksum"].iter().any(|name| error.to_string().contains(name))
}

fn utc(date: aws_sdk_s3::primitives::DateTime) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(date.secs(), date.subsec_nanos())
}
