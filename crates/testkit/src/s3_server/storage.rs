//! Buckets in memory, protected by one lock, with S3's semantics of conditions, ETags and listings.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use md5::Digest as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::*;
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use tenure::Process;

use super::directory_bucket::is_directory;

/// The account that owns every bucket.
pub const OWNER: &str = "111122223333";

/// A stored object.
#[derive(Clone, Debug)]
pub struct S3Object {
    /// Body of the object.
    pub body: Bytes,
    /// ETag of the object, with its quotes.
    pub etag: String,
    /// Time of the last write, in whole seconds as on S3.
    pub last_modified: SystemTime,
}

/// Differences between the server and S3.
#[derive(Clone, Debug, Default)]
pub struct S3Quirks {
    /// ETags match only without their quotes, and `If-Match` on a missing key gives 412. Ceph 16
    /// behaves in this way.
    pub unquoted_etags: bool,
    /// Unsafe: `If-None-Match: *` of a PUT is ignored.
    pub ignore_if_none_match: bool,
    /// Unsafe: `If-Match` of a PUT is ignored.
    pub ignore_if_match: bool,
    /// Listings are in the order of encrypted keys, and each prefix must end with a slash. New
    /// projects of Storj behave in this way.
    pub encrypted_keys: bool,
    /// Maximum number of keys in a page, even if the request allows more.
    pub page_cap: Option<usize>,
    /// Number of pages without keys before the first real page of each listing.
    pub empty_pages: usize,
    /// Keys that contain this text are not deleted. The response reports `AccessDenied` for each of
    /// them.
    pub undeletable: Option<String>,
    /// Error code for keys that match `undeletable`, in place of `AccessDenied`.
    pub undeletable_because: Option<&'static str>,
    /// Deletions of several keys are refused without `Content-MD5`. Current versions of the SDK do
    /// not send this header.
    pub deletes_want_md5: bool,
    /// The bucket has Object Lock with a default retention. Writes without a checksum are refused.
    pub writes_want_checksums: bool,
    /// The bucket encrypts with a key in KMS. An ETag is random, not a hash of the body.
    pub opaque_etags: bool,
    /// KMS denies the use of the bucket's key.
    pub key_denied: bool,
    /// Difference between the server's clock and the machine's clock, in seconds. With a positive
    /// value, the server's clock is ahead.
    pub clock_skew: i64,
    /// Unsafe: a PUT checks its conditions, and writes the object after this delay. The PUT ignores
    /// other writes during the delay.
    pub two_steps: Option<Duration>,
    /// Duration of a session of a directory bucket, if it is not 5 minutes.
    pub session_length: Option<Duration>,
    /// Unsafe: listings omit this number of the most recently written keys.
    pub stale_listings: usize,
    /// Responses to `?versioning` and `?lifecycle`, as XML.
    pub settings: BTreeMap<&'static str, String>,
}

#[derive(Debug, Default)]
pub struct S3State {
    pub buckets: BTreeMap<String, BTreeMap<String, S3Object>>,
    pub quirks: S3Quirks,
    /// Keys in the order of their writes.
    written: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Storage(Arc<Mutex<S3State>>);

/// Characters that S3 escapes in keys with `encoding-type=url`: all except letters, digits, and the
/// characters `-_.*/`. The set omits the space, because a space becomes a plus.
const KEY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*').remove(b'/').remove(b' ');

impl Storage {
    pub fn lock(&self) -> MutexGuard<'_, S3State> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

impl S3State {
    /// Returns the server's time, in whole seconds.
    pub fn now(&self) -> SystemTime {
        let now =
            Process::system().now().wall.as_secs().saturating_add_signed(self.quirks.clock_skew);
        SystemTime::UNIX_EPOCH + Duration::from_secs(now)
    }

    pub fn write(&mut self, bucket: &str, key: &str, body: Bytes) -> S3Result<String> {
        let random = self.quirks.opaque_etags || is_directory(bucket);
        let etag = if random { opaque_etag() } else { etag(&body) };
        let stored = S3Object { etag, body, last_modified: self.now() };
        let etag = stored.etag.clone();
        self.written.push(key.to_owned());
        self.bucket(bucket)?.insert(key.to_owned(), stored);
        Ok(etag)
    }

    pub fn bucket(&mut self, name: &str) -> S3Result<&mut BTreeMap<String, S3Object>> {
        let missing = || s3_error!(NoSuchBucket, "The specified bucket does not exist");
        self.buckets.get_mut(name).ok_or_else(missing)
    }

    fn object(&mut self, bucket: &str, key: &str) -> S3Result<S3Object> {
        let missing = || s3_error!(NoSuchKey, "The specified key does not exist.");
        self.bucket(bucket)?.get(key).cloned().ok_or_else(missing)
    }

    /// Returns whether a tag from a request header matches this object.
    fn matches(&self, stored: &S3Object, tag: &str) -> bool {
        let current =
            if self.quirks.unquoted_etags { stored.etag.trim_matches('"') } else { &stored.etag };
        tag == current || tag == "*"
    }

    fn check_key(&self, action: &str) -> S3Result<()> {
        if !self.quirks.key_denied {
            return Ok(());
        }
        let why =
            format!("User: arn:aws:iam::{OWNER}:user/a is not authorized to perform: {action}");
        Err(S3Error::with_message(S3ErrorCode::AccessDenied, why))
    }

    fn check_put(
        &mut self,
        bucket: &str,
        key: &str,
        if_match: Option<&str>,
        if_none_match: Option<&str>,
    ) -> S3Result<()> {
        let refused =
            || s3_error!(PreconditionFailed, "At least one of the pre-conditions did not hold");
        let current = self.bucket(bucket)?.get(key).cloned();
        let quirks = self.quirks.clone();
        if let Some(tag) = if_none_match.filter(|_| !quirks.ignore_if_none_match) {
            if tag != "*" {
                return Err(s3_error!(NotImplemented, "only If-None-Match: * is implemented"));
            }
            if current.is_some() {
                return Err(refused());
            }
        }
        let Some(tag) = if_match.filter(|_| !quirks.ignore_if_match) else { return Ok(()) };
        match current {
            None if quirks.unquoted_etags => Err(refused()),
            None => Err(s3_error!(NoSuchKey, "The specified key does not exist.")),
            Some(stored) if !self.matches(&stored, tag) => Err(refused()),
            Some(_) => Ok(()),
        }
    }

    fn list(&mut self, asked: &ListObjectsV2Input) -> S3Result<ListObjectsV2Output> {
        let quirks = self.quirks.clone();
        let encode = asked.encoding_type.as_ref().is_some_and(|e| e.as_str() == EncodingType::URL);
        let (blank, token) = match asked.continuation_token.as_deref().map(|t| t.split_once(':')) {
            Some(Some((pages, key))) => (pages.parse().unwrap_or(0), Some(key)),
            Some(None) => return Err(s3_error!(InvalidArgument, "no such continuation token")),
            None => (quirks.empty_pages, None),
        };
        let start = asked.start_after.as_deref();
        let start = token.filter(|token| !token.is_empty()).or(start).unwrap_or("");
        let prefix = asked.prefix.as_deref().unwrap_or("");
        let max = asked.max_keys.unwrap_or(1000).clamp(0, 1000) as usize;
        let cap = if blank > 0 { 0 } else { quirks.page_cap.unwrap_or(max).min(max) };
        let range = (Bound::Excluded(start), Bound::Unbounded);
        let seen = self.written.len().saturating_sub(quirks.stale_listings);
        let unseen = self.written[seen..].to_vec();
        let bucket = self.bucket(asked.bucket.as_str())?;
        let found = bucket.range::<str, _>(range).filter(|(key, _)| key.starts_with(prefix));
        let found = found.filter(|(key, _)| !unseen.contains(key));
        let mut page: Vec<_> = found.take(cap + 1).collect();
        let is_truncated = page.len() > cap && max > 0;
        page.truncate(cap);
        let last = page.last().map_or(start, |(key, _)| key);
        let next = is_truncated.then(|| format!("{}:{last}", blank.saturating_sub(1)));
        let name = |key: &str| if encode { encoded(key) } else { key.to_owned() };
        let entry = |(key, stored): &(&String, &S3Object)| listed(name(key), stored);
        let contents: Vec<_> = page.iter().map(entry).collect();
        Ok(ListObjectsV2Output {
            name: Some(asked.bucket.clone()),
            prefix: Some(name(prefix)),
            max_keys: Some(max as i32),
            key_count: Some(contents.len() as i32),
            start_after: asked.start_after.as_deref().map(name),
            continuation_token: asked.continuation_token.clone(),
            encoding_type: asked.encoding_type.clone(),
            is_truncated: Some(is_truncated),
            next_continuation_token: next,
            contents: Some(contents),
            ..ListObjectsV2Output::default()
        })
    }
}

#[async_trait::async_trait]
impl S3 for Storage {
    async fn create_bucket(
        &self,
        req: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        self.lock().buckets.entry(req.input.bucket.to_string()).or_default();
        Ok(S3Response::new(CreateBucketOutput::default()))
    }

    async fn head_bucket(
        &self,
        req: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.lock().bucket(req.input.bucket.as_str())?;
        Ok(S3Response::new(HeadBucketOutput::default()))
    }

    async fn put_object(
        &self,
        req: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        check_owner(req.input.expected_bucket_owner.as_deref())?;
        let (if_match, if_none_match) =
            (header(&req.headers, "if-match"), header(&req.headers, "if-none-match"));
        let mut body = BytesMut::new();
        if let Some(mut stream) = req.input.body {
            while let Some(chunk) = stream.next().await {
                let broken = |error| S3Error::with_source(S3ErrorCode::IncompleteBody, error);
                body.extend_from_slice(&chunk.map_err(broken)?);
            }
        }
        let (bucket, key) = (req.input.bucket.as_str(), req.input.key.as_str());
        let gap = self.lock().quirks.two_steps;
        if let Some(gap) = gap {
            let (if_match, if_none_match) = (if_match.as_deref(), if_none_match.as_deref());
            self.lock().check_put(bucket, key, if_match, if_none_match)?;
            crate::http_shell::pause(gap).await;
        }
        let mut state = self.lock();
        state.check_key("kms:GenerateDataKey")?;
        if gap.is_none() {
            state.check_put(bucket, key, if_match.as_deref(), if_none_match.as_deref())?;
        }
        if header(&req.headers, "x-amz-server-side-encryption").as_deref() == Some("aws:kms") {
            state.quirks.opaque_etags = true;
        }
        let etag = state.write(bucket, key, body.freeze())?;
        let e_tag = Some(ETag::Strong(etag.trim_matches('"').to_owned()));
        Ok(S3Response::new(PutObjectOutput { e_tag, ..PutObjectOutput::default() }))
    }

    async fn get_object(
        &self,
        req: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        check_owner(req.input.expected_bucket_owner.as_deref())?;
        let mut state = self.lock();
        let stored = state.object(req.input.bucket.as_str(), &req.input.key)?;
        state.check_key("kms:Decrypt")?;
        let unless = header(&req.headers, "if-none-match");
        if unless.is_some_and(|tag| state.matches(&stored, &tag)) {
            return Err(S3Error::new(S3ErrorCode::NotModified));
        }
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some(stored.body.len() as i64),
            body: Some(s3s::Body::from(stored.body).into()),
            e_tag: Some(ETag::Strong(stored.etag.trim_matches('"').to_owned())),
            last_modified: Some(stored.last_modified.into()),
            ..GetObjectOutput::default()
        }))
    }

    async fn head_object(
        &self,
        req: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let stored = self.lock().object(req.input.bucket.as_str(), &req.input.key)?;
        Ok(S3Response::new(HeadObjectOutput {
            content_length: Some(stored.body.len() as i64),
            e_tag: Some(ETag::Strong(stored.etag.trim_matches('"').to_owned())),
            last_modified: Some(stored.last_modified.into()),
            ..HeadObjectOutput::default()
        }))
    }

    async fn list_objects_v2(
        &self,
        req: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        check_owner(req.input.expected_bucket_owner.as_deref())?;
        let mut state = self.lock();
        let directory = is_directory(req.input.bucket.as_str());
        Ok(S3Response::new(match directory || state.quirks.encrypted_keys {
            true => state.list_folder(&req.input)?,
            false => state.list(&req.input)?,
        }))
    }

    async fn delete_object(
        &self,
        req: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.lock().bucket(req.input.bucket.as_str())?.remove(&req.input.key);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn delete_objects(
        &self,
        req: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        check_owner(req.input.expected_bucket_owner.as_deref())?;
        let mut state = self.lock();
        let undeletable = state.quirks.undeletable.clone();
        let because = state.quirks.undeletable_because.unwrap_or("AccessDenied");
        let bucket = state.bucket(req.input.bucket.as_str())?;
        let asked = req.input.delete;
        if asked.objects.len() > 1_000 {
            return Err(s3_error!(MalformedXML, "more than 1000 keys"));
        }
        let kept = |key: &str| undeletable.as_ref().is_some_and(|part| key.contains(part));
        let quiet = asked.quiet.unwrap_or(false);
        let (mut deleted, mut errors) = (Vec::new(), Vec::new());
        for object in asked.objects {
            let key = Some(object.key.clone());
            if kept(&object.key) {
                let code = Some(because.to_owned());
                let message = Some("Access Denied".to_owned());
                errors.push(Error { key, code, message, version_id: None });
            } else {
                bucket.remove(&object.key);
                deleted.push(DeletedObject { key, ..DeletedObject::default() });
            }
        }
        let errors = Some(errors);
        let deleted = (!quiet).then_some(deleted);
        Ok(S3Response::new(DeleteObjectsOutput {
            deleted,
            errors,
            ..DeleteObjectsOutput::default()
        }))
    }
}

/// Returns the entry of a listing for this object.
pub fn listed(name: String, stored: &S3Object) -> Object {
    Object {
        key: Some(name),
        size: Some(stored.body.len() as i64),
        e_tag: Some(ETag::Strong(stored.etag.trim_matches('"').to_owned())),
        last_modified: Some(stored.last_modified.into()),
        ..Object::default()
    }
}

fn check_owner(expected: Option<&str>) -> S3Result<()> {
    match expected {
        Some(owner) if owner != OWNER => Err(s3_error!(AccessDenied, "Access Denied")),
        _ => Ok(()),
    }
}

/// Returns the raw header. The parsed headers of `s3s` do not show whether a tag was quoted.
fn header(headers: &http::HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn etag(body: &[u8]) -> String {
    let digest = md5::Md5::digest(body);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

fn opaque_etag() -> String {
    format!("\"{:032x}\"", fastrand::u128(..))
}

pub fn encoded(key: &str) -> String {
    utf8_percent_encode(key, KEY).to_string().replace(' ', "+")
}
