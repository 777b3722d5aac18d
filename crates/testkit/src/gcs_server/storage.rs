//! A bucket in memory, protected by one lock. It follows the documentation of Cloud Storage's XML
//! API on generations, preconditions and listings.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ETAG, IF_MATCH, IF_NONE_MATCH, LAST_MODIFIED};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Response};
use md5::Digest as _;
use tenure::Process;

/// A stored object.
#[derive(Clone, Debug)]
pub struct GcsObject {
    /// Body of the object.
    pub body: Bytes,
    /// Generation of the object. Every write in the bucket gets a greater generation.
    pub generation: u64,
    /// MD5 of the body, in quotes. Objects with equal bodies have equal tags, even if their
    /// generations differ.
    pub etag: String,
    /// Time of the last write.
    pub last_modified: SystemTime,
}

/// Differences between the bucket and Cloud Storage.
#[derive(Clone, Debug, Default)]
pub struct GcsQuirks {
    /// Unsafe: preconditions are ignored.
    pub ignore_preconditions: bool,
    /// Maximum number of keys in a page.
    pub page_cap: Option<usize>,
}

#[derive(Debug, Default)]
pub struct GcsState {
    pub objects: BTreeMap<String, GcsObject>,
    pub quirks: GcsQuirks,
    generation: u64,
}

/// An error response: its status, its code and its message.
pub type GcsRefusal = (u16, &'static str, &'static str);
pub type Outcome = Result<Response<Bytes>, GcsRefusal>;

const REFUSED: GcsRefusal =
    (412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.");
const MISSING: GcsRefusal = (404, "NoSuchKey", "The specified key does not exist.");
const NOT_MODIFIED: GcsRefusal = (304, "", "");
const GENERATION_MATCH: &str = "x-goog-if-generation-match";
/// Preconditions that the server does not implement, because no client of the tests uses them. The
/// server refuses them, because a precondition must not be ignored.
const OTHERS: [&str; 3] = [
    "x-goog-if-metageneration-match",
    "x-goog-if-generation-not-match",
    "x-goog-if-metageneration-not-match",
];

impl GcsState {
    pub fn put(&mut self, key: &str, body: Bytes, headers: &HeaderMap) -> Outcome {
        self.check(key, headers)?;
        let stored = self.write(key, body);
        Ok(described(&stored, Bytes::new()))
    }

    /// Writes an object without a precondition.
    pub fn write(&mut self, key: &str, body: Bytes) -> GcsObject {
        let now = Process::system().now().wall;
        let micros =
            u64::try_from(now.as_micros()).expect("the time in microseconds fits into 64 bits");
        // Clients of Cloud Storage may rely only on the order of generations, so any increasing
        // number is correct.
        self.generation = micros.max(self.generation + 1);
        let stored = GcsObject {
            etag: etag(&body),
            body,
            generation: self.generation,
            last_modified: SystemTime::UNIX_EPOCH + now,
        };
        self.objects.insert(key.to_owned(), stored.clone());
        stored
    }

    pub fn get(&self, key: &str, headers: &HeaderMap) -> Outcome {
        let stored = self.objects.get(key).ok_or(MISSING)?;
        self.check(key, headers)?;
        if header(headers, IF_MATCH).is_some_and(|tag| tag != stored.etag) {
            return Err(REFUSED);
        }
        if header(headers, IF_NONE_MATCH).is_some_and(|tag| tag == stored.etag || tag == "*") {
            return Err(NOT_MODIFIED);
        }
        let body = stored.body.clone();
        Ok(described(stored, body))
    }

    pub fn delete(&mut self, key: &str, headers: &HeaderMap) -> Outcome {
        self.check(key, headers)?;
        self.objects.remove(key).ok_or(MISSING)?;
        let mut answer = Response::new(Bytes::new());
        *answer.status_mut() = http::StatusCode::NO_CONTENT;
        Ok(answer)
    }

    /// Checks the precondition of a request, if any. Generation 0 means that the object must not
    /// exist.
    fn check(&self, key: &str, headers: &HeaderMap) -> Result<(), GcsRefusal> {
        if OTHERS.iter().any(|name| headers.contains_key(*name)) {
            return Err((501, "NotImplemented", "this server does not support the precondition"));
        }
        let Some(wanted) = header(headers, HeaderName::from_static(GENERATION_MATCH)) else {
            return Ok(());
        };
        let Ok(wanted) = wanted.parse::<u64>() else {
            return Err((400, "InvalidArgument", "Invalid argument."));
        };
        let current = self.objects.get(key).map_or(0, |stored| stored.generation);
        match wanted == current || self.quirks.ignore_preconditions {
            true => Ok(()),
            false => Err(REFUSED),
        }
    }

    pub fn list(&self, bucket: &str, parts: &Parts) -> Outcome {
        let asked = |name: &str| query(parts, name).filter(|value| !value.is_empty());
        let prefix = asked("prefix").unwrap_or_default();
        let start = asked("continuation-token").or_else(|| asked("start-after"));
        let start = start.unwrap_or_default();
        let max = asked("max-keys").map_or(Ok(1_000), |max| max.parse::<usize>());
        let Ok(max) = max else { return Err((400, "InvalidArgument", "max-keys")) };
        let cap = self.quirks.page_cap.unwrap_or(1_000).min(max).min(1_000);
        let range = (Bound::Excluded(&*start), Bound::Unbounded);
        let found = self.objects.range::<str, _>(range).filter(|(key, _)| key.starts_with(&prefix));
        let mut page: Vec<_> = found.take(cap + 1).collect();
        let truncated = page.len() > cap;
        page.truncate(cap);
        let mut xml = format!(
            "<?xml version='1.0' encoding='UTF-8'?><ListBucketResult \
             xmlns='http://doc.s3.amazonaws.com/2006-03-01'><Name>{bucket}</Name>\
             <Prefix>{}</Prefix>\
             <KeyCount>{}</KeyCount><IsTruncated>{truncated}</IsTruncated>",
            escaped(&prefix),
            page.len(),
        );
        for (key, stored) in &page {
            let date = chrono::DateTime::<chrono::Utc>::from(stored.last_modified);
            let _ = write!(
                xml,
                "<Contents><Key>{}</Key><Generation>{}</Generation>\
                 <MetaGeneration>1</MetaGeneration><LastModified>{}</LastModified>\
                 <ETag>{}</ETag><Size>{}</Size></Contents>",
                escaped(key),
                stored.generation,
                date.format("%Y-%m-%dT%H:%M:%S%.3fZ"),
                escaped(&stored.etag),
                stored.body.len(),
            );
        }
        if let Some((last, _)) = page.last().filter(|_| truncated) {
            let _ = write!(xml, "<NextContinuationToken>{}</NextContinuationToken>", escaped(last));
        }
        xml.push_str("</ListBucketResult>");
        Ok(Response::new(xml.into()))
    }
}

/// Returns a response with the headers of an object.
fn described(stored: &GcsObject, body: Bytes) -> Response<Bytes> {
    let whole = stored.last_modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let whole = SystemTime::UNIX_EPOCH + Duration::from_secs(whole.as_secs());
    let answer = Response::builder()
        .header(ETAG, &stored.etag)
        .header("x-goog-generation", stored.generation)
        .header("x-goog-metageneration", 1)
        .header(LAST_MODIFIED, http_date(whole));
    answer.body(body).expect("the headers are valid")
}

pub fn http_date(time: SystemTime) -> String {
    let date = chrono::DateTime::<chrono::Utc>::from(time);
    date.format("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Returns the decoded value of this parameter of the query.
pub fn query(parts: &Parts, name: &str) -> Option<String> {
    let query = parts.uri.query().unwrap_or_default();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(key, _)| *key == name).map(|(_, value)| decoded(value));
    values.next()
}

/// Decodes a form-encoded text, in which a plus is a space.
fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn etag(body: &[u8]) -> String {
    let hex: String = md5::Md5::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
