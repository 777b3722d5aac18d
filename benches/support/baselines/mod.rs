//! The alternatives, written from their posts: each candidate campaigns, follows, and renews while
//! it leads, until its task is aborted. All have tenure's settings: validity, renewals, polls,
//! timeouts, pauses before a request is tried again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure::Clock;
use tokio::sync::mpsc::UnboundedSender;

use crate::side::requests::{Failed, Requests};

pub mod list_on_renewal;
pub mod morling;
pub mod single_object;

/// What the schemes have in common.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub validity: Duration,
    pub renew: Duration,
    pub poll: Duration,
    pub timeout: Duration,
}

impl Settings {
    /// tenure's defaults at this validity.
    pub fn of(validity: Duration) -> Settings {
        let (renew, poll, timeout) = (validity / 3, validity / 6, validity / 5);
        Settings { validity, renew, poll, timeout }
    }
}

/// One candidate.
#[derive(Clone)]
pub struct Candidate {
    pub id: usize,
    pub requests: Arc<dyn Requests>,
    pub clock: Arc<dyn Clock>,
    pub settings: Settings,
    /// Told when this candidate starts to lead.
    pub elected: UnboundedSender<usize>,
}

/// What a leader holds.
#[async_trait]
trait Renew: Send {
    /// One renewal, for so long at most; `None` if the lock is known to be lost.
    async fn renew(&mut self, me: &Candidate, limit: Duration) -> Option<Result<(), Failed>>;
}

impl Candidate {
    fn now(&self) -> Duration {
        self.clock.now().boot
    }

    fn tell(&self) {
        // Nobody need be listening.
        let _ = self.elected.send(self.id);
    }

    /// The answer to a request, which may take so long at most.
    async fn ask<T>(&self, call: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
        self.ask_for(self.settings.timeout, call).await
    }

    async fn ask_for<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, Failed>>,
    ) -> Result<T, Failed> {
        tokio::time::timeout(limit, call).await.unwrap_or(Err(Failed))
    }

    /// Renews until the lease, which began at `sent`, has ended or was lost.
    async fn lead(&self, mut sent: Duration, mut lock: impl Renew) {
        let Settings { validity, renew: interval, timeout, .. } = self.settings;
        self.tell();
        let mut due = sent + interval;
        let mut failures = 0;
        loop {
            wait(due.saturating_sub(self.now())).await;
            let now = self.now();
            let left = (sent + validity).saturating_sub(now);
            if left.is_zero() {
                return;
            }
            match lock.renew(self, timeout.min(left)).await {
                None => return,
                Some(Ok(())) => (sent, due, failures) = (now, now + interval, 0),
                Some(Err(Failed)) => {
                    failures += 1;
                    due = self.now() + self.again_in(failures, timeout / 2);
                }
            }
        }
    }

    /// The pause before a request is tried again.
    fn again_in(&self, failures: u32, most: Duration) -> Duration {
        let first = (self.settings.validity / 100).max(Duration::from_millis(5));
        first.saturating_mul(1 << failures.min(10)).min(most)
    }
}

async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}
