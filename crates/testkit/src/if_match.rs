//! A node that follows the post "Leader election with S3 and If-Match" (2025) literally. The lock
//! is one object with the fields `expires_at` and `token`. The node uses GET and conditional PUT,
//! and decides by its own wall clock whether the lock has expired.
//!
//! The post does not specify the following points. The node implements them as follows:
//!
//! - The token starts at zero.
//! - A release sets `expires_at` to zero and keeps the token.
//! - A renewal is the same write as an acquisition, but it does not increment the token.
//! - The node ignores unknown fields. The dataclass in the post would refuse unknown fields.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure::Clock;
use tenure::store::{ETag, GetOutcome, PutOutcome, Store};

/// The JSON object of the lock, as in the post that the module's documentation names.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LockData {
    pub expires_at: f64,
    pub token: u64,
}

#[derive(Debug)]
pub struct IfMatchNode {
    pub store: Arc<dyn Store>,
    pub key: &'static str,
    pub expires_in: Duration,
    pub clock: Arc<dyn Clock>,
}

/// A lock that a node holds.
#[derive(Debug, Clone)]
pub struct Held {
    pub data: LockData,
    etag: ETag,
}

impl IfMatchNode {
    /// Acquires the lock, like `acquire_lock` in the post. Returns `None` if the lock is valid or a
    /// request fails.
    pub async fn acquire(&self) -> Option<Held> {
        let existing = match self.store.get(self.key, None, 1 << 16).await {
            Ok(GetOutcome::Found(object)) => {
                let data: LockData = serde_json::from_slice(&object.body).expect("both fields");
                Some((data, object.etag))
            }
            Ok(GetOutcome::NotFound) => None,
            _ => return None,
        };
        if let Some((data, _)) = &existing
            && self.timestamp() <= data.expires_at
        {
            return None;
        }
        let token = existing.as_ref().map_or(0, |(data, _)| data.token + 1);
        let data = LockData { expires_at: self.timestamp() + self.expires_in.as_secs_f64(), token };
        self.put(data, existing.map(|(_, etag)| etag)).await
    }

    /// Returns whether the node considers the lock valid, by its own clock.
    pub fn believes(&self, held: &Held) -> bool {
        self.timestamp() <= held.data.expires_at
    }

    /// Writes a new `expires_at` with the same token.
    pub async fn renew(&self, held: Held) -> Option<Held> {
        let expires_at = self.timestamp() + self.expires_in.as_secs_f64();
        self.put(LockData { expires_at, ..held.data }, Some(held.etag)).await
    }

    /// Releases the lock. The post describes this as "setting expires_at to zero without
    /// incrementing token".
    pub async fn release(&self, held: Held) -> bool {
        let data = LockData { expires_at: 0.0, ..held.data };
        self.put(data, Some(held.etag)).await.is_some()
    }

    async fn put(&self, data: LockData, condition: Option<ETag>) -> Option<Held> {
        let body = Bytes::from(serde_json::to_vec(&data).expect("two numbers"));
        let outcome = match condition {
            Some(etag) => self.store.replace(self.key, body, etag).await,
            None => self.store.create(self.key, body).await,
        };
        match outcome {
            Ok(PutOutcome::Done { etag: Some(etag) }) => Some(Held { data, etag }),
            _ => None,
        }
    }

    /// `datetime.now(UTC).timestamp()`.
    fn timestamp(&self) -> f64 {
        self.clock.now().wall.as_secs_f64()
    }
}
