//! A node that follows Gunnar Morling's post "Leader Election With S3 Conditional Writes"
//! literally. The node uses LIST, GET and conditional PUT, and a lock file with two fields. The
//! node extends its lease with an unconditional PUT, and never seals an epoch. To judge another
//! node's lease, the node compares the date of the lock file with its own clock.
//!
//! The post does not mention that the store rounds its dates to whole seconds. So the node waits
//! one second longer than the validity. The post assumes that the clocks of the node and the store
//! agree.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tenure::store::{GetOutcome, PutOutcome, Store};
use tenure::{Clock, Moment};

use super::fault_store::overwrite;

/// Maximum error of the store's dates.
const ROUNDING: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct MorlingNode {
    pub store: Arc<dyn Store>,
    pub prefix: &'static str,
    pub validity: Duration,
    pub clock: Arc<dyn Clock>,
}

/// A lock that a node holds.
#[derive(Debug)]
pub struct Lock {
    pub epoch: u64,
    key: String,
    /// Time immediately before the last write was sent.
    written: Moment,
}

impl MorlingNode {
    /// Tries to acquire the lock once, by steps 1 to 7 of Morling's post.
    pub async fn try_lock(&self) -> Option<Lock> {
        let epoch = match self.latest().await {
            None => 1,
            Some(latest) if self.is_over(latest).await => latest + 1,
            Some(_) => return None,
        };
        let key = self.key(epoch);
        let written = self.clock.now();
        match self.store.create(&key, self.body(false)).await {
            Ok(PutOutcome::Done { .. }) => Some(Lock { epoch, key, written }),
            _ => None,
        }
    }

    /// Returns the greatest epoch. The post describes this as "List all lock files".
    async fn latest(&self) -> Option<u64> {
        let (lock, mut after, mut latest) = (format!("{}lock-", self.prefix), String::new(), None);
        loop {
            let page = self.store.list(&lock, &after, 1_000).await.expect("listed");
            for entry in &page.entries {
                let number = entry.key[lock.len()..].strip_suffix(".json");
                latest = latest.max(number.and_then(|digits| digits.parse().ok()));
                after.clone_from(&entry.key);
            }
            if !page.truncated {
                return latest;
            }
        }
    }

    async fn is_over(&self, epoch: u64) -> bool {
        let found = self.store.get(&self.key(epoch), None, usize::MAX).await.expect("read");
        let GetOutcome::Found(file) = found else { return false };
        let json: Value = serde_json::from_slice(&file.body).expect("a lock file");
        let validity = json["validity_ms"].as_u64().map(Duration::from_millis);
        let modified = file.last_modified.expect("S3 returns a date").timestamp_millis();
        let age = i128::from(self.clock.now().wall.as_millis() as u64) - i128::from(modified);
        let valid_for = validity.map(|validity| (validity + ROUNDING).as_millis() as i128);
        json["expired"] == true || valid_for.is_some_and(|valid_for| age > valid_for)
    }

    /// Returns whether the lock is still valid, by this node's clock.
    pub fn is_valid(&self, lock: &Lock) -> bool {
        self.clock.now().boot < lock.written.boot + self.validity
    }

    /// If the lock is still valid, extends the lease by an unconditional write of the same body.
    /// The post describes this as "Touching the file in order to extend the lease".
    pub async fn touch(&self, lock: &mut Lock) -> bool {
        if !self.is_valid(lock) {
            return false;
        }
        let now = self.clock.now();
        overwrite(&*self.store, &lock.key, self.body(false)).await;
        lock.written = now;
        true
    }

    /// Steps down. The post describes this as "setting the `expired` attribute to `true`".
    pub async fn release(&self, lock: Lock) {
        if self.is_valid(&lock) {
            overwrite(&*self.store, &lock.key, self.body(true)).await;
        }
    }

    fn key(&self, epoch: u64) -> String {
        format!("{}lock-{epoch:010}.json", self.prefix)
    }

    fn body(&self, expired: bool) -> Bytes {
        let validity = self.validity.as_millis();
        format!("{{\n  \"validity_ms\" : {validity},\n  \"expired\" : {expired}\n}}\n").into()
    }
}
