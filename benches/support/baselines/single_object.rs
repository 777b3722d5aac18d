//! *Leader election with S3 and If-Match* (2025): one object with `expires_at` and a `token`, read
//! at each look, overwritten with `If-Match`; a lock has expired by the reader's own wall clock.
//!
//! What the post leaves to its readers: a lock is extended as it is acquired, without raising the
//! token.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use tenure::store::{ETag, GetOutcome, PutOutcome};

use super::{Candidate, Renew, wait};
use crate::side::requests::{Condition, Failed};

const KEY: &str = "single/lock";

pub async fn run(me: Candidate) {
    loop {
        if let Ok(Some((lock, sent))) = acquire(&me).await {
            me.lead(sent, lock).await;
        } else {
            wait(me.settings.poll).await;
        }
    }
}

/// `acquire_lock` of the post.
async fn acquire(me: &Candidate) -> Result<Option<(Lock, Duration)>, Failed> {
    let (token, on) = match me.ask(me.requests.get(KEY, None)).await? {
        GetOutcome::Found(object) => {
            let data: Value = serde_json::from_slice(&object.body).expect("both fields");
            if timestamp(me) <= data["expires_at"].as_f64().expect("a number") {
                return Ok(None);
            }
            (data["token"].as_u64().expect("a number") + 1, Condition::Match(object.etag))
        }
        _ => (0, Condition::Absent),
    };
    let sent = me.now();
    let put = me.requests.put(KEY, body(me, token), on);
    Ok(match me.ask(put).await? {
        PutOutcome::Done { etag: Some(etag) } => Some((Lock { token, etag }, sent)),
        _ => None,
    })
}

struct Lock {
    token: u64,
    etag: ETag,
}

#[async_trait]
impl Renew for Lock {
    async fn renew(&mut self, me: &Candidate, limit: Duration) -> Option<Result<(), Failed>> {
        let on = Condition::Match(self.etag.clone());
        match me.ask_for(limit, me.requests.put(KEY, body(me, self.token), on)).await {
            Ok(PutOutcome::Done { etag: Some(etag) }) => {
                self.etag = etag;
                Some(Ok(()))
            }
            Ok(PutOutcome::Done { etag: None }) | Err(Failed) => Some(Err(Failed)),
            Ok(_) => None,
        }
    }
}

fn timestamp(me: &Candidate) -> f64 {
    me.clock.now().wall.as_secs_f64()
}

fn body(me: &Candidate, token: u64) -> Bytes {
    let expires_at = timestamp(me) + me.settings.validity.as_secs_f64();
    json!({ "expires_at": expires_at, "token": token }).to_string().into()
}
