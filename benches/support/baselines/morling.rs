//! Gunnar Morling, *Leader Election With S3 Conditional Writes* (2024), as posted: all lock files
//! are listed and the latest is read at each look; the next is created with `If-None-Match`; the
//! lease is extended by touching the file; a lock is over by its `LastModified` and the follower's
//! own clock.
//!
//! A leader does not look, as in the post: so it learns from nobody that it was superseded. Where
//! the post leaves a choice: a follower waits for one second more than the validity, as the store's
//! dates have whole seconds; without that, two would lead even on perfect clocks.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use tenure::store::{GetOutcome, PutOutcome};

use super::{Candidate, Renew, wait};
use crate::side::requests::{Condition, Failed};

const PREFIX: &str = "morling/lock-";
/// What makes it safe while all clocks agree.
pub const ROUNDING: Duration = Duration::from_secs(1);

/// Steps 1 to 7 of the post; a follower waits for so much more than the validity.
pub async fn run(me: Candidate, rounding: Duration) {
    loop {
        if let Ok(Some((lock, sent))) = step(&me, rounding).await {
            me.lead(sent, lock).await;
        } else {
            wait(me.settings.poll).await;
        }
    }
}

/// The lock file, if one could be created.
async fn step(me: &Candidate, rounding: Duration) -> Result<Option<(Lock, Duration)>, Failed> {
    loop {
        let epoch = match latest(me, PREFIX).await? {
            None => 1,
            Some(latest) if is_over(me, latest, rounding).await? => latest + 1,
            Some(_) => return Ok(None),
        };
        let (sent, key) = (me.now(), key(epoch));
        let put = me.requests.put(&key, body(me), Condition::Absent);
        if let PutOutcome::Done { .. } = me.ask(put).await? {
            return Ok(Some((Lock(key), sent)));
        }
        // "Otherwise, go back to 1."
    }
}

/// "List all lock files", page by page, and take the one with the highest epoch.
pub async fn latest(me: &Candidate, prefix: &str) -> Result<Option<u64>, Failed> {
    let (mut after, mut latest) = (String::new(), None);
    loop {
        let page = me.ask(me.requests.list(prefix, &after)).await?;
        for entry in page.entries {
            let number = entry.key[prefix.len()..].strip_suffix(".json");
            latest = latest.max(number.and_then(|digits| digits.parse().ok()));
            after = entry.key;
        }
        if !page.truncated {
            return Ok(latest);
        }
    }
}

async fn is_over(me: &Candidate, epoch: u64, rounding: Duration) -> Result<bool, Failed> {
    let GetOutcome::Found(file) = me.ask(me.requests.get(&key(epoch), None)).await? else {
        return Ok(false);
    };
    let json: Value = serde_json::from_slice(&file.body).expect("a lock file");
    let validity = Duration::from_millis(json["validity_ms"].as_u64().expect("a number"));
    let modified = file.last_modified.ok_or(Failed)?.timestamp_millis();
    let age = i128::from(me.clock.now().wall.as_millis() as u64) - i128::from(modified);
    Ok(json["expired"] == true || age > (validity + rounding).as_millis() as i128)
}

/// Its key.
struct Lock(String);

#[async_trait]
impl Renew for Lock {
    /// "Touching the file in order to extend the lease": unconditionally.
    async fn renew(&mut self, me: &Candidate, limit: Duration) -> Option<Result<(), Failed>> {
        let put = me.requests.put(&self.0, body(me), Condition::Nothing);
        Some(me.ask_for(limit, put).await.map(|_| ()))
    }
}

fn key(epoch: u64) -> String {
    format!("{PREFIX}{epoch:010}.json")
}

fn body(me: &Candidate) -> Bytes {
    let validity = me.settings.validity.as_millis();
    format!("{{\n  \"validity_ms\" : {validity},\n  \"expired\" : false\n}}\n").into()
}
