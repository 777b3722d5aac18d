//! Directory buckets (S3 Express One Zone): listings in no order, and requests with sessions.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue};
use md5::Digest as _;
use s3s::dto::{CommonPrefix, EncodingType, ListObjectsV2Input, ListObjectsV2Output};
use s3s::{S3Result, s3_error};

use super::storage::{S3Object, S3State, encoded, listed};
use super::{Op, S3Request, S3Shared};

/// Duration of a session, unless a test sets another.
const SESSION: Duration = Duration::from_secs(300);
/// Header with the mode of a session. S3 tries the modes in order if a request has none.
const MODE: &str = "x-amz-create-session-mode";
const TOKEN: &str = "x-amz-s3session-token";

/// Returns whether the bucket of this name is a directory bucket.
pub fn is_directory(bucket: &str) -> bool {
    bucket.ends_with("--x-s3")
}

/// The sessions by access key.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, Session>>);

struct Session {
    writes: bool,
    until: SystemTime,
}

impl Sessions {
    /// Creates a session for the user who sent the request. Returns the body of the response, or
    /// `None` if the user has no permission.
    pub fn create(&self, shared: &S3Shared, seen: &S3Request) -> Option<String> {
        let allowed = |mode: &'static str| {
            let mut seen = seen.clone();
            seen.headers.insert(MODE, HeaderValue::from_static(mode));
            !shared.users.denies(&seen)
        };
        let writes = allowed("ReadWrite");
        if !writes && !allowed("ReadOnly") {
            return None;
        }
        let (now, length) = {
            let state = shared.storage.lock();
            (state.now(), state.quirks.session_length.unwrap_or(SESSION))
        };
        let until = now + length;
        let key = format!("ASIA{:016X}", fastrand::u64(..));
        self.lock().insert(key.clone(), Session { writes, until });
        let until = chrono::DateTime::<chrono::Utc>::from(until).format("%Y-%m-%dT%H:%M:%SZ");
        Some(format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<CreateSessionResult><Credentials>\
             <SessionToken>token-{key}</SessionToken><SecretAccessKey>secret</SecretAccessKey>\
             <AccessKeyId>{key}</AccessKeyId><Expiration>{until}</Expiration></Credentials>\
             </CreateSessionResult>"
        ))
    }

    /// Returns the status and the code of the refusal if the request has no session that permits
    /// it. The server does not verify the signatures of requests with sessions.
    pub fn refuse(&self, now: SystemTime, seen: &S3Request) -> Option<(u16, &'static str)> {
        let token = seen.headers.get(TOKEN).and_then(|token| token.to_str().ok());
        let Some(key) = token.and_then(|token| token.strip_prefix("token-")) else {
            return Some((403, "AccessDenied"));
        };
        let signed = seen.headers.get("authorization").and_then(|it| it.to_str().ok());
        if !signed.is_some_and(|signed| signed.contains(&format!("Credential={key}/"))) {
            return Some((403, "InvalidAccessKeyId"));
        }
        match self.lock().get(key) {
            Some(session) if session.until <= now => Some((400, "ExpiredToken")),
            None => Some((400, "ExpiredToken")),
            Some(session) => {
                let writes = matches!(seen.op, Op::Put | Op::Delete);
                (writes && !session.writes).then_some((403, "AccessDenied"))
            }
        }
    }

    /// Ends all sessions.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

/// Removes the signature of a session, which `s3s` does not know.
pub fn without_signature(headers: &mut HeaderMap) {
    headers.remove("authorization");
    headers.remove(TOKEN);
}

/// The position of `item`, a key or a folder, in every listing. A folder appears in place of its
/// keys.
fn position(item: &str) -> [u8; 16] {
    md5::Md5::digest(item).into()
}

impl S3State {
    /// Lists a folder in the order of the hashes of its keys. With encrypted keys, a listing starts
    /// after the hash of the requested key.
    pub fn list_folder(&mut self, asked: &ListObjectsV2Input) -> S3Result<ListObjectsV2Output> {
        let prefix = asked.prefix.as_deref().unwrap_or("");
        let encrypted = self.quirks.encrypted_keys;
        if asked.start_after.is_some() && !encrypted {
            return Err(s3_error!(InvalidArgument, "StartAfter is not supported"));
        }
        if !prefix.is_empty() && !prefix.ends_with('/') {
            if encrypted {
                return Err(s3_error!(NotImplemented, "exhaustive listing is not available"));
            }
            return Err(s3_error!(InvalidArgument, "the prefix must end with a slash"));
        }
        if asked.delimiter.as_deref().is_some_and(|delimiter| delimiter != "/") {
            return Err(s3_error!(InvalidArgument, "the delimiter must be a slash"));
        }
        let encode = asked.encoding_type.as_ref().is_some_and(|e| e.as_str() == EncodingType::URL);
        let max = asked.max_keys.unwrap_or(1000).clamp(1, 1000) as usize;
        let cap = self.quirks.page_cap.unwrap_or(max).min(max);
        let mut items: BTreeMap<[u8; 16], (String, Option<&S3Object>)> = BTreeMap::new();
        for (key, stored) in self.bucket(asked.bucket.as_str())?.iter() {
            let Some(rest) = key.strip_prefix(prefix) else { continue };
            let slash = rest.find('/').filter(|_| asked.delimiter.is_some());
            let (item, stored) = match slash {
                Some(slash) => (&key[..=prefix.len() + slash], None),
                None => (key.as_str(), Some(stored)),
            };
            items.insert(position(item), (item.to_owned(), stored));
        }
        let token = asked.continuation_token.as_deref().or(asked.start_after.as_deref());
        let start = token.map(position);
        let start = start.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = items.range((start, Bound::Unbounded)).map(|(_, item)| item);
        let page: Vec<_> = rest.by_ref().take(cap).collect();
        let is_truncated = rest.next().is_some();
        let name = |key: &str| if encode { encoded(key) } else { key.to_owned() };
        let objects = page.iter().filter_map(|(key, stored)| Some(listed(name(key), (*stored)?)));
        let folders = page.iter().filter(|(_, stored)| stored.is_none());
        let folders =
            folders.map(|(folder, _)| CommonPrefix { prefix: Some(name(folder)) }).collect();
        Ok(ListObjectsV2Output {
            name: Some(asked.bucket.clone()),
            prefix: Some(name(prefix)),
            key_count: Some(page.len() as i32),
            encoding_type: asked.encoding_type.clone(),
            is_truncated: Some(is_truncated),
            next_continuation_token: page
                .last()
                .filter(|_| is_truncated)
                .map(|(item, _)| item.clone()),
            contents: Some(objects.collect()),
            common_prefixes: Some(folders),
            ..ListObjectsV2Output::default()
        })
    }
}
