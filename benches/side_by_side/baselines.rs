//! Election schemes of other authors, implemented from their blog posts. They use tenure's settings
//! for validity, renewals, polls and timeouts. Each candidate campaigns, follows the leader, and
//! renews its lease while it leads. The measurement stops a candidate by aborting its task.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::Clock as _;
use tenure::store::{ETag, GetOutcome, PutOutcome, Store as _, StoreError};
use tenure_testkit::time::TestClock;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{sleep, timeout};

use super::bucket::Bucket;
use super::{POLL, VALIDITY};

const RENEW: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(6);

/// One candidate.
#[derive(Clone)]
pub struct Candidate {
    pub id: usize,
    pub bucket: Bucket,
    pub clock: TestClock,
    /// The candidate sends its id here when it begins to lead.
    pub elected: UnboundedSender<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Post {
    /// Gunnar Morling, *Leader Election With S3 Conditional Writes* (2024). A poll lists all lock
    /// files and reads the latest. A candidate creates the next file with `If-None-Match`, and
    /// extends its lease with an unconditional PUT. A follower computes the end of a lease from
    /// `LastModified` and its own clock. A leader does not poll.
    Morling {
        /// Time that a follower adds to the validity. Without this time, two candidates could lead
        /// at the same time for up to a second, because the store's dates have whole seconds. The
        /// scheme of the blog post adds no time.
        rounding: Duration,
    },
    /// *Leader election with S3 and If-Match* (2025). The scheme has one object with `expires_at`
    /// and a `token`. A poll reads the object, and a candidate overwrites it with `If-Match`. A
    /// reader compares `expires_at` with its wall clock. In the blog post, a leader does not renew
    /// its lease. In this implementation, a leader renews its lease and keeps the token.
    SingleObject,
}

/// The lock object that a leader has written.
struct Lock {
    key: String,
    token: u64,
    etag: Option<ETag>,
}

/// A request that failed or took too long.
struct Failed;

impl From<StoreError> for Failed {
    fn from(_: StoreError) -> Failed {
        Failed
    }
}

impl Candidate {
    pub async fn run(self, post: Post) {
        loop {
            let sent = match post {
                Post::Morling { rounding } => self.create_next(rounding).await,
                Post::SingleObject => self.overwrite_expired().await,
            };
            match sent {
                Ok(Some((lock, sent))) => self.lead(post, lock, sent).await,
                _ => sleep(POLL).await,
            }
        }
    }

    fn boot(&self) -> Duration {
        self.clock.now().boot
    }

    fn wall(&self) -> Duration {
        self.clock.now().wall
    }

    async fn ask<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Failed> {
        Ok(timeout(limit, call).await.map_err(|_| Failed)??)
    }

    /// Creates the next lock file if the lease of the newest file has ended. These are steps 1 to 7
    /// of Morling's blog post. Returns the new lock and the time at which the candidate sent its
    /// PUT.
    async fn create_next(&self, rounding: Duration) -> Result<Option<(Lock, Duration)>, Failed> {
        loop {
            let epoch = match latest_epoch(&self.bucket).await? {
                None => 1,
                Some(latest) if self.is_over(latest, rounding).await? => latest + 1,
                Some(_) => return Ok(None),
            };
            let (sent, key) = (self.boot(), epoch_key(epoch));
            let put = self.bucket.create(&key, lock_file());
            if let PutOutcome::Done { etag } = self.ask(TIMEOUT, put).await? {
                return Ok(Some((Lock { key, token: epoch, etag }, sent)));
            }
        }
    }

    async fn is_over(&self, epoch: u64, rounding: Duration) -> Result<bool, Failed> {
        let key = epoch_key(epoch);
        let get = self.bucket.get(&key, None, usize::MAX);
        let GetOutcome::Found(file) = self.ask(TIMEOUT, get).await? else { return Ok(false) };
        let modified = file.last_modified.ok_or(Failed)?.timestamp_millis();
        let age = self.wall().as_millis() as i64 - modified;
        Ok(age > (VALIDITY + rounding).as_millis() as i64)
    }

    /// Overwrites the object if its lease has expired. This is the function `acquire_lock` in the
    /// blog post about If-Match.
    async fn overwrite_expired(&self) -> Result<Option<(Lock, Duration)>, Failed> {
        let key = "single/lock".to_owned();
        let found = self.ask(TIMEOUT, self.bucket.get(&key, None, usize::MAX)).await?;
        let sent = self.boot();
        let (token, put) = match found {
            GetOutcome::Found(object) => {
                let data: Value =
                    serde_json::from_slice(&object.body).expect("candidates write JSON");
                if self.wall().as_secs_f64() <= data["expires_at"].as_f64().expect("a number") {
                    return Ok(None);
                }
                let token = data["token"].as_u64().expect("a number") + 1;
                let put = self.bucket.replace(&key, self.single(token), object.etag);
                (token, self.ask(TIMEOUT, put).await?)
            }
            _ => (0, self.ask(TIMEOUT, self.bucket.create(&key, self.single(0))).await?),
        };
        Ok(match put {
            PutOutcome::Done { etag } => Some((Lock { key, token, etag }, sent)),
            _ => None,
        })
    }

    /// Returns a body with this token, in the format of the blog post about If-Match.
    fn single(&self, token: u64) -> bytes::Bytes {
        let expires_at = (self.wall() + VALIDITY).as_secs_f64();
        json!({ "expires_at": expires_at, "token": token }).to_string().into()
    }

    /// Renews the lease until it ends or the store refuses a renewal.
    async fn lead(&self, post: Post, mut lock: Lock, mut sent: Duration) {
        // The send fails only after the measurement has dropped the receiver, so the error is
        // ignored.
        let _ = self.elected.send(self.id);
        let mut due = sent + RENEW;
        loop {
            sleep(due.saturating_sub(self.boot())).await;
            let now = self.boot();
            let left = (sent + VALIDITY).saturating_sub(now);
            if left.is_zero() {
                return;
            }
            let put = async {
                match (post, lock.etag.clone()) {
                    (Post::SingleObject, Some(etag)) => {
                        self.bucket.replace(&lock.key, self.single(lock.token), etag).await
                    }
                    _ => self.bucket.overwrite(&lock.key, lock_file()).await,
                }
            };
            match self.ask(TIMEOUT.min(left), put).await {
                Ok(PutOutcome::Done { etag }) => {
                    (lock.etag, sent, due) = (etag, now, now + RENEW);
                }
                Ok(_) => return,
                Err(Failed) => due = self.boot() + VALIDITY / 100,
            }
        }
    }
}

/// Lists all lock files in the scheme of Morling's blog post. Returns the highest epoch.
pub async fn latest_epoch(bucket: &Bucket) -> Result<Option<u64>, StoreError> {
    let (mut after, mut latest) = (String::new(), None);
    loop {
        let page = bucket.list("morling/lock-", &after, 1_000).await?;
        for entry in page.entries {
            let number = entry.key["morling/lock-".len()..].strip_suffix(".json");
            latest = latest.max(number.and_then(|digits| digits.parse().ok()));
            after = entry.key;
        }
        if !page.truncated {
            return Ok(latest);
        }
    }
}

fn epoch_key(epoch: u64) -> String {
    format!("morling/lock-{epoch:010}.json")
}

fn lock_file() -> bytes::Bytes {
    let validity = VALIDITY.as_millis();
    format!("{{\n  \"validity_ms\" : {validity},\n  \"expired\" : false\n}}\n").into()
}
