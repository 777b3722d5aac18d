//! The epoch that a driver creates and then leads: its lease, and the bodies of its writes.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::Context;
use crate::protocol::lease::OwnLease;
use crate::protocol::message::{Answer, Request, Write};
use crate::record::Record;

/// Maximum number of requests that a leader abandons early between two extensions of its lease.
/// Without this maximum, a leader with a long lease could send thousands of short attempts to a
/// slow store, and abandon each one before its answer.
const SHORT_ATTEMPTS: u32 = 3;

/// The epoch that this driver creates or leads.
#[derive(Debug)]
pub(super) struct OwnEpoch {
    cx: Arc<Context>,
    pub(super) lease: OwnLease,
    pub(super) data: Value,
    elected_at: Option<DateTime<Utc>>,
    /// The greatest heartbeat sent.
    pub(super) heartbeat: u64,
    /// Time of the first request of the current renewal, on the boot clock.
    renewing_since: Option<Duration>,
    /// Name of the successor for the resignation.
    pub(super) successor: Option<String>,
    /// Time for which a resignation reserves the owned partitions for this candidate's name.
    pub(super) reserve: Option<Duration>,
    /// Number of requests that were abandoned early since the last extension of the lease.
    given_up: u32,
    /// True if the store's last answer took longer than a short attempt may take.
    is_slow: bool,
    /// True if the epoch has been granted. After the grant, readings do not start a lapse timer.
    pub(super) leading: bool,
}

impl OwnEpoch {
    pub(super) fn new(cx: &Arc<Context>) -> OwnEpoch {
        let lease = OwnLease::new(cx.config.validity);
        OwnEpoch {
            cx: Arc::clone(cx),
            lease: if cx.config.never_paused { lease.without_wall_clock() } else { lease },
            data: cx.config.data.clone(),
            elected_at: None,
            heartbeat: 0,
            renewing_since: None,
            successor: None,
            reserve: None,
            given_up: 0,
            is_slow: false,
            leading: false,
        }
    }

    /// Sets the time of this attempt, which the records of the next epoch contain.
    pub(super) fn elects_at(&mut self, at: DateTime<Utc>) {
        self.elected_at = Some(at);
    }

    /// Returns the remaining time of the lease.
    pub(super) fn remaining(&self) -> Duration {
        self.lease.remaining(self.cx.process.now())
    }

    /// Resets the state after a failed attempt to be elected.
    pub(super) fn forget(&mut self) {
        self.lease.reset();
        self.renewing_since = None;
        self.elected_at = None;
    }

    /// Returns the record for an attempt to be elected. A heartbeat of 1 marks the first attempt
    /// for an epoch. At the first attempt, this function discards the state of the attempts for
    /// other epochs.
    pub(super) fn first_record(&mut self, write: &Write) -> Record {
        // Across stores, each attempt begins with `forget` and `elects_at`.
        if write.heartbeat == 1 && !self.cx.config.across {
            self.lease.reset();
            self.elected_at = None;
        }
        self.sending(write.heartbeat);
        self.record(write)
    }

    /// Returns the record of a renewal.
    pub(super) fn renewed_record(&mut self, write: &Write) -> Record {
        self.sending(write.heartbeat);
        self.renewing_since.get_or_insert(self.cx.process.now().boot);
        self.record(write)
    }

    pub(super) fn record(&mut self, write: &Write) -> Record {
        let now = self.cx.process.now().time_of_day();
        let mut record = self.cx.config.record(write.nonce, write.heartbeat, self.data.clone());
        record.elected_at = Some(*self.elected_at.get_or_insert(now));
        record.renewed_at = Some(now);
        record
    }

    /// Notes the present time. The caller sends the write after this call, so the lease starts
    /// before the write (L1).
    fn sending(&mut self, heartbeat: u64) {
        self.heartbeat = heartbeat;
        self.lease.sending(heartbeat, self.cx.process.now());
    }

    /// Notes a successful renewal.
    pub(super) fn renewed(&mut self, heartbeat: u64) {
        let now = self.cx.process.now();
        let since = self.renewing_since.take().unwrap_or(now.boot);
        let (took, left) = (now.boot.saturating_sub(since), self.lease.remaining(now));
        self.cx.meter.renewed(took, left, self.cx.config.validity);
        self.given_up = 0;
        self.lease.extended(heartbeat);
    }

    /// Returns the time limit of a leader's request. `left` is the remaining time of the lease.
    ///
    /// A short attempt has a third of the request timeout. Renewals and reads are short attempts,
    /// unless the last answer took longer than a short attempt (PR5). A request that exceeds a
    /// short limit is abandoned, and the leader sends another renewal with the next heartbeat. At
    /// most three requests are abandoned before the lease is extended. After a short attempt, the
    /// rest of the lease suffices for three requests: a renewal, the read of its result, and one
    /// page of the listing that `verify_renewals` requires. So the leader keeps the lease if the
    /// store answers each of these requests within the request timeout.
    pub(super) fn attempt_limit(&self, request: &Request, left: Duration) -> Duration {
        let config = &self.cx.config;
        let (most, short) = (config.request_timeout.min(left), self.short_attempt());
        let needed = config.request_timeout * if config.verify_renewals { 3 } else { 2 };
        let is_repeated = matches!(request, Request::Renew { .. } | Request::Get { .. });
        let may_be_short = is_repeated && !self.is_slow && self.given_up < SHORT_ATTEMPTS;
        match may_be_short && left.saturating_sub(short) >= needed {
            true => short.min(most),
            false => most,
        }
    }

    fn short_attempt(&self) -> Duration {
        self.cx.config.request_timeout / 3
    }

    /// Notes the duration of a request that was sent at `sent`, on the boot clock. If the request
    /// was abandoned early, this function returns the time of the next attempt.
    pub(super) fn given_up(
        &mut self,
        answer: &Answer,
        limit: Duration,
        sent: Duration,
    ) -> Option<Duration> {
        let now = self.cx.process.now().boot;
        let took = now.saturating_sub(sent);
        if limit < self.cx.config.request_timeout && took >= limit {
            self.given_up += 1;
            return Some(now);
        }
        if !matches!(answer, Answer::Unknown) {
            self.is_slow = took >= self.short_attempt();
        }
        None
    }
}
