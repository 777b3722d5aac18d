//! Numbered lock files again, but careful: before each renewal the leader lists them, to see that
//! it was not superseded, and renews with `If-Match`; a follower lists at each poll, reads only
//! what has changed since, and judges a lapse by its own clock alone. The cheapest form of what a
//! library does that has no seal to prove by one write that it still leads.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use tenure::store::{ETag, GetOutcome, PutOutcome};

use super::{Candidate, Renew, wait};
use crate::side::requests::{Condition, Failed};

const PREFIX: &str = "listing/lock-";

/// What a follower knows of the newest file.
struct Known {
    epoch: u64,
    last_modified: Option<DateTime<Utc>>,
    /// When that was first seen, and how long it is good for.
    since: Duration,
    validity: Duration,
}

pub async fn run(me: Candidate) {
    let mut known = None;
    loop {
        if let Ok(Some((lock, sent))) = step(&me, &mut known).await {
            me.lead(sent, lock).await;
            known = None;
        } else {
            wait(me.settings.poll).await;
        }
    }
}

async fn step(
    me: &Candidate,
    known: &mut Option<Known>,
) -> Result<Option<(Lock, Duration)>, Failed> {
    let epoch = match newest(me).await? {
        None => 1,
        Some((epoch, last_modified)) => {
            let same = |it: &Known| it.epoch == epoch && it.last_modified == last_modified;
            if !known.as_ref().is_some_and(same) {
                let GetOutcome::Found(file) = me.ask(me.requests.get(&key(epoch), None)).await?
                else {
                    return Ok(None);
                };
                let json: Value = serde_json::from_slice(&file.body).expect("a lock file");
                let validity = json["validity_ms"].as_u64().expect("a number");
                let (since, validity) = (me.now(), Duration::from_millis(validity));
                *known = Some(Known { epoch, last_modified, since, validity });
                return Ok(None);
            }
            let lapsed = |it: &Known| me.now() - it.since > it.validity + it.validity / 100;
            if !known.as_ref().is_some_and(lapsed) {
                return Ok(None);
            }
            epoch + 1
        }
    };
    let (sent, key) = (me.now(), key(epoch));
    let put = me.requests.put(&key, body(me, 1), Condition::Absent);
    Ok(match me.ask(put).await? {
        PutOutcome::Done { etag: Some(etag) } => Some((Lock { epoch, etag, heartbeat: 1 }, sent)),
        _ => None,
    })
}

async fn newest(me: &Candidate) -> Result<Option<(u64, Option<DateTime<Utc>>)>, Failed> {
    let (mut after, mut newest) = (String::new(), None);
    loop {
        let page = me.ask(me.requests.list(PREFIX, &after)).await?;
        if let Some(entry) = page.entries.into_iter().next_back() {
            let number = entry.key[PREFIX.len()..].strip_suffix(".json");
            newest = number.and_then(|it| it.parse().ok()).map(|it| (it, entry.last_modified));
            after = entry.key;
        }
        if !page.truncated {
            return Ok(newest);
        }
    }
}

struct Lock {
    epoch: u64,
    etag: ETag,
    heartbeat: u64,
}

impl Lock {
    /// False if it is lost.
    async fn list_and_put(&mut self, me: &Candidate) -> Result<bool, Failed> {
        if newest(me).await?.is_some_and(|(newest, _)| newest > self.epoch) {
            return Ok(false);
        }
        self.heartbeat += 1;
        let (key, on) = (key(self.epoch), Condition::Match(self.etag.clone()));
        match me.requests.put(&key, body(me, self.heartbeat), on).await? {
            PutOutcome::Done { etag: Some(etag) } => self.etag = etag,
            PutOutcome::Done { etag: None } => return Err(Failed),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[async_trait]
impl Renew for Lock {
    async fn renew(&mut self, me: &Candidate, limit: Duration) -> Option<Result<(), Failed>> {
        match me.ask_for(limit, self.list_and_put(me)).await {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(failed) => Some(Err(failed)),
        }
    }
}

fn key(epoch: u64) -> String {
    format!("{PREFIX}{epoch:010}.json")
}

fn body(me: &Candidate, heartbeat: u64) -> Bytes {
    let validity = me.settings.validity.as_millis() as u64;
    json!({ "validity_ms": validity, "heartbeat": heartbeat }).to_string().into()
}
