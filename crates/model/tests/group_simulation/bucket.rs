//! The simulated bucket of a run. It behaves correctly, unless the plan of the run breaks it on
//! purpose.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use tenure::Epoch;
use tenure::store::{ETag, Entry, GetOutcome, Object, Page, PutOutcome};
use tenure_model::sim::connection::{Reply, Request};

use super::checks::epoch_of;
use super::plan::Broken;

#[derive(Debug, Default)]
pub struct Bucket {
    pub objects: BTreeMap<String, (Bytes, ETag)>,
    writes: u64,
}

impl Bucket {
    /// Returns the epoch of the newest existing assignment.
    pub fn newest(&self) -> Option<Epoch> {
        self.objects.keys().filter_map(|key| epoch_of(key)).max()
    }

    pub fn apply(&mut self, request: &Request, tagless: bool, broken: Broken) -> Reply {
        match request {
            Request::List { prefix, after, limit } => {
                let after = after.max(prefix);
                let bounds = (Bound::Excluded(after.clone()), Bound::Unbounded);
                let found = self.objects.range(bounds);
                let mut found = found.take_while(|(key, _)| key.starts_with(prefix.as_str()));
                let mut entries = Vec::new();
                for (key, (body, etag)) in found.by_ref().take(*limit) {
                    let entry = Entry::new(key.clone(), body.len() as u64);
                    entries.push(if tagless { entry } else { entry.with_etag(etag.clone()) });
                }
                let truncated = found.next().is_some();
                Reply::Page(Page::new(entries, truncated))
            }
            Request::Get { key, unless, .. } => Reply::Got(match self.objects.get(key) {
                None => GetOutcome::NotFound,
                Some((_, etag)) if Some(etag) == unless.as_ref() => GetOutcome::NotModified,
                Some((body, etag)) => GetOutcome::Found(Object::new(body.clone(), etag.clone())),
            }),
            Request::Create { key, bytes } => Reply::Put({
                if self.objects.contains_key(key) && broken != Broken::CreatesAgain {
                    PutOutcome::PreconditionFailed
                } else {
                    self.put(key, bytes.clone())
                }
            }),
            Request::Replace { key, bytes, etag } => Reply::Put(match self.objects.get(key) {
                None => PutOutcome::NotFound,
                Some((_, now)) if now != etag && broken != Broken::ReplacesBlindly => {
                    PutOutcome::PreconditionFailed
                }
                Some(_) => self.put(key, bytes.clone()),
            }),
            Request::Delete { keys } => {
                keys.iter().for_each(|key| drop(self.objects.remove(key)));
                Reply::Deleted(keys.len())
            }
        }
    }

    pub fn put(&mut self, key: &str, body: Bytes) -> PutOutcome {
        self.writes += 1;
        let etag = ETag::new(format!("\"{}\"", self.writes));
        self.objects.insert(key.to_owned(), (body, etag.clone()));
        PutOutcome::Done { etag: Some(etag) }
    }
}
