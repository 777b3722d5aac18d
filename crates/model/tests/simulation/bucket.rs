//! The objects of the simulated store. A request takes effect in one step, when it is applied.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use tenure::store::{ETag, Entry, GetOutcome, Object, Page, PutOutcome};
use tenure_model::sim::connection::{Reply, Request};

use super::plan::Broken;

pub const PREFIX: &str = "app/lock-";
/// Key of the single object.
pub const LOCK: &str = "app/lock.json";

/// The fields of a record that the simulation interprets, independently of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// Token in the record of the layout `SingleObject`. `None` in an epoch object.
    pub token: Option<u64>,
    pub nonce: Option<String>,
    pub heartbeat: u64,
    pub sealed: bool,
    pub ended: Option<String>,
    pub validity: Duration,
}

/// The fields of the JSON.
#[derive(Deserialize)]
struct Fields {
    nonce: Option<String>,
    #[serde(default)]
    heartbeat: u64,
    expired: Option<bool>,
    ended: Option<String>,
    validity_ms: Option<u64>,
    expires_at: Option<f64>,
    token: Option<u64>,
}

#[derive(Debug, Clone)]
pub struct Stored {
    pub bytes: Bytes,
    pub etag: ETag,
    pub modified: Duration,
    pub body: Option<Body>,
}

#[derive(Debug, Clone, Default)]
pub struct Bucket {
    objects: BTreeMap<String, Stored>,
}

impl Bucket {
    pub fn object(&self, key: &str) -> Option<&Stored> {
        self.objects.get(key)
    }

    pub fn epoch(&self, epoch: u64) -> Option<&Stored> {
        self.object(&key_of(epoch))
    }

    /// Returns all epoch objects in order, or the single object.
    pub fn epochs(&self) -> impl DoubleEndedIterator<Item = (u64, &Stored)> {
        self.objects
            .iter()
            .filter_map(|(key, stored)| Some((epoch_in(key, stored.body.as_ref())?, stored)))
    }

    pub fn newest(&self) -> Option<u64> {
        self.epochs().next_back().map(|(epoch, _)| epoch)
    }

    /// Applies a request. `page_limit` is the maximum number of keys in the answer.
    pub fn apply(
        &mut self,
        request: &Request,
        at: Duration,
        page_limit: usize,
        broken: Broken,
    ) -> Reply {
        match request {
            Request::List { prefix, after, limit } => {
                Reply::Page(self.list(prefix, after, page_limit.min(*limit), at))
            }
            Request::Get { key, unless, max_len } => {
                Reply::Got(self.get(key, unless.as_ref(), *max_len, at))
            }
            Request::Create { key, bytes } => {
                let refuses = broken != Broken::StoreCreatesAgain;
                Reply::Put(if refuses && self.objects.contains_key(key) {
                    PutOutcome::PreconditionFailed
                } else {
                    self.put(key, bytes.clone(), at)
                })
            }
            Request::Replace { key, bytes, etag } => {
                let refuses = broken != Broken::StoreReplacesBlindly;
                Reply::Put(match self.objects.get(key) {
                    None => PutOutcome::NotFound,
                    Some(stored) if refuses && stored.etag != *etag => {
                        PutOutcome::PreconditionFailed
                    }
                    Some(_) if broken == Broken::SealsRefused && is_seal(bytes) => {
                        PutOutcome::PreconditionFailed
                    }
                    Some(_) => self.put(key, bytes.clone(), at),
                })
            }
            Request::Delete { keys } => {
                for key in keys {
                    self.objects.remove(key);
                }
                Reply::Deleted(keys.len())
            }
        }
    }

    /// Writes an object unconditionally.
    pub fn put(&mut self, key: &str, bytes: Bytes, at: Duration) -> PutOutcome {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let etag = ETag::new(format!("\"{:016x}\"", hasher.finish()));
        let body = parse(&bytes);
        let stored = Stored { bytes, etag: etag.clone(), modified: at, body };
        self.objects.insert(key.to_owned(), stored);
        PutOutcome::Done { etag: Some(etag) }
    }

    fn list(&self, prefix: &str, after: &str, limit: usize, at: Duration) -> Page {
        let start = if after >= prefix { Bound::Excluded(after) } else { Bound::Included(prefix) };
        let mut found = self
            .objects
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, stored)| {
                let size = stored.bytes.len() as u64;
                let entry = Entry::new(key, size).with_last_modified(date(stored.modified));
                entry.with_etag(stored.etag.clone())
            });
        let entries = found.by_ref().take(limit).collect();
        Page::new(entries, found.next().is_some()).with_served_at(date(at))
    }

    fn get(&self, key: &str, unless: Option<&ETag>, max_len: usize, at: Duration) -> GetOutcome {
        match self.objects.get(key) {
            None => GetOutcome::NotFound,
            Some(stored) if Some(&stored.etag) == unless => GetOutcome::NotModified,
            Some(stored) if stored.bytes.len() > max_len => {
                GetOutcome::TooLarge { etag: stored.etag.clone(), len: stored.bytes.len() as u64 }
            }
            Some(stored) => GetOutcome::Found(
                Object::new(stored.bytes.clone(), stored.etag.clone())
                    .with_last_modified(date(stored.modified))
                    .with_served_at(date(at)),
            ),
        }
    }
}

/// Returns the date in whole seconds, as in HTTP headers.
fn date(at: Duration) -> DateTime<Utc> {
    let seconds = 1_800_000_000 + i64::try_from(at.as_secs()).expect("a short simulation");
    DateTime::from_timestamp(seconds, 0).expect("the date is within the range of dates")
}

pub fn key_of(epoch: u64) -> String {
    format!("{PREFIX}{epoch:010}.json")
}

pub fn epoch_of(key: &str) -> Option<u64> {
    let digits = key.strip_prefix(PREFIX)?.strip_suffix(".json")?;
    if digits.len() != 10 { None } else { digits.parse().ok() }
}

/// Returns the epoch of an object, from its body or from its key.
pub fn epoch_in(key: &str, body: Option<&Body>) -> Option<u64> {
    if key == LOCK { body?.token } else { epoch_of(key) }
}

fn is_seal(bytes: &[u8]) -> bool {
    parse(bytes).is_some_and(|body| body.ended.as_deref() == Some("lapsed"))
}

pub fn parse(bytes: &[u8]) -> Option<Body> {
    let fields: Fields = serde_json::from_slice(bytes).ok()?;
    // Peers that follow the If-Match post (docs/how-to/upgrade.md) write no validity. The record of
    // an unfinished restore has no validity either.
    let nameless = fields.token.is_some() || fields.ended.as_deref() == Some("restored");
    Some(Body {
        token: fields.token,
        nonce: fields.nonce,
        heartbeat: fields.heartbeat,
        sealed: fields.expired.or(fields.expires_at.map(|at| at == 0.0))?,
        ended: fields.ended,
        validity: Duration::from_millis(fields.validity_ms.or(nameless.then_some(0))?),
    })
}
