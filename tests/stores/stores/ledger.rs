//! The ledger store of `docs/how-to/add-a-store.md`. Each write appends a line.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use tenure::Process;
use tenure::store::{ETag, Entry, GetOutcome, Object, Page, PutOutcome, Store, StoreError};

/// A store that keeps its writes as lines. Each line has a key and the new body of its object. A
/// line for a deletion has no body.
#[derive(Debug, Default)]
pub struct Ledger {
    lines: Mutex<Vec<Line>>,
}

#[derive(Debug, Clone)]
struct Line {
    key: String,
    body: Option<Bytes>,
    written: DateTime<Utc>,
}

fn now() -> DateTime<Utc> {
    Process::system().now().time_of_day()
}

impl Ledger {
    fn lines(&self) -> MutexGuard<'_, Vec<Line>> {
        // A panic cannot leave the ledger inconsistent, so a poisoned lock is usable.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a line if the last line of this key has the ETag `expected`. This function holds the
    /// lock from the check to the write, so both happen in one atomic step.
    fn write_if(&self, key: &str, body: Bytes, expected: Option<ETag>) -> PutOutcome {
        let mut lines = self.lines();
        match (last(&lines, key), &expected) {
            (None, Some(_)) => return PutOutcome::NotFound,
            (found, _) if found.as_ref().map(|(etag, _)| etag) != expected.as_ref() => {
                return PutOutcome::PreconditionFailed;
            }
            _ => {}
        }
        lines.push(Line { key: key.to_owned(), body: Some(body), written: now() });
        PutOutcome::Done { etag: Some(number(lines.len() - 1)) }
    }
}

/// Returns the number of a line as an ETag. Each write appends a line, so its ETag is unique.
fn number(line: usize) -> ETag {
    ETag::new(format!("\"{line}\""))
}

fn last(lines: &[Line], key: &str) -> Option<(ETag, Line)> {
    let at = lines.iter().rposition(|line| line.key == key)?;
    lines[at].body.is_some().then(|| (number(at), lines[at].clone()))
}

#[async_trait]
impl Store for Ledger {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let lines = self.lines();
        let latest: BTreeMap<_, _> =
            lines.iter().enumerate().map(|(at, line)| (line.key.as_str(), (at, line))).collect();
        let mut found = latest
            .into_iter()
            .filter(|(key, _)| key.starts_with(prefix) && *key > after)
            .filter_map(|(key, (at, line))| {
                let entry = Entry::new(key, line.body.as_ref()?.len() as u64);
                Some(entry.with_last_modified(line.written).with_etag(number(at)))
            });
        let entries = found.by_ref().take(limit).collect();
        let truncated = found.next().is_some();
        Ok(Page::new(entries, truncated).with_served_at(now()))
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let Some((etag, line)) = last(&self.lines(), key) else { return Ok(GetOutcome::NotFound) };
        let body = line.body.unwrap_or_default();
        Ok(match unless {
            Some(unless) if unless == etag => GetOutcome::NotModified,
            _ if body.len() > max_len => GetOutcome::TooLarge { etag, len: body.len() as u64 },
            _ => {
                let object = Object::new(body, etag).with_last_modified(line.written);
                GetOutcome::Found(object.with_served_at(now()))
            }
        })
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        Ok(self.write_if(key, body, None))
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        Ok(self.write_if(key, body, Some(etag)))
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        let lines = keys.into_iter().map(|key| Line { key, body: None, written: now() });
        self.lines().extend(lines);
        Ok(Vec::new())
    }

    fn describe(&self) -> String {
        "ledger".to_owned()
    }
}
