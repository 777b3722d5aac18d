//! What a candidate or an observer sees of an election.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::epoch::Epoch;
use crate::error::Error;
use crate::escape::plain;
use crate::protocol::message::EpochEnd;
use crate::record::Record;

/// The holder of an epoch, by its record. All times of day are the writer's and for people only.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Leader {
    /// The epoch.
    pub epoch: Epoch,
    /// The display name of the leader; `None` in a record of a foreign peer.
    pub candidate: Option<String>,
    /// How long its lease lasts without a renewal; `None` if it never lapses, or if the record has
    /// only `expires_at`.
    pub validity: Option<Duration>,
    /// When its lease ends by its own wall clock, where the record has it: in a [single
    /// object](crate::Layout::SingleObject).
    pub expires_at: Option<DateTime<Utc>>,
    /// The counter that every write of the record raises.
    pub heartbeat: u64,
    /// When it created the epoch.
    pub elected_at: Option<DateTime<Utc>>,
    /// When it last renewed its lease.
    pub renewed_at: Option<DateTime<Utc>>,
    /// What the leader publishes, such as its address; null if nothing.
    pub data: Value,
}

impl Leader {
    pub(crate) fn new(epoch: Epoch, record: &Record) -> Leader {
        Leader {
            epoch,
            candidate: record.candidate.clone(),
            validity: record.validity(),
            expires_at: record.lasts_until(),
            heartbeat: record.heartbeat,
            elected_at: record.elected_at,
            renewed_at: record.renewed_at,
            data: record.data.clone(),
        }
    }

    /// The name, or a dash.
    #[must_use]
    pub fn name(&self) -> &str {
        self.candidate.as_deref().unwrap_or("-")
    }
}

impl fmt::Display for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {} held by {}", self.epoch, plain(self.name()))
    }
}

/// The newest epoch object as read. A former leader may still believe that it leads.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The holder of the epoch, also once it has ended; `None` if there is no epoch.
    pub leader: Option<Leader>,
    /// How the epoch ended; `None` while it is not sealed.
    pub end: Option<EpochEnd>,
    /// The name of the process that sealed it, from the record.
    pub sealed_by: Option<String>,
    /// How long ago the record was last written, by the store's clock; `None` where the store gives
    /// no dates.
    pub age: Option<Duration>,
    /// Whether the epoch is not sealed and `age` exceeds its validity. The store's clock is not the
    /// leader's: only an observer that has watched for the whole validity knows.
    pub lapsed: bool,
}

/// What an election last read of the newest epoch that it knows of, without another request.
///
/// The record may have changed since: [`since_last_answer`](crate::Election::since_last_answer)
/// says how old this knowledge is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LastSeen {
    /// The holder of the epoch, also once that is sealed or its lease has lapsed.
    pub leader: Leader,
    /// Whether the epoch is sealed, by any process.
    pub sealed: bool,
    /// How long until the lease lapses by the clocks of this process unless the holder renews it:
    /// zero once it has lapsed, `None` if it never lapses. The holder's own lease ends earlier.
    pub lapses_in: Option<Duration>,
}

impl LastSeen {
    /// Whether the epoch is not sealed and its lease has not lapsed by the clocks of this process.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.sealed && self.lapses_in != Some(Duration::ZERO)
    }
}

/// The state of an election as an observer sees it. [`observe`](crate::Election::observe) yields
/// only changes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Observation {
    /// This candidate holds the newest epoch. It may not be confirmed yet.
    Leader(Leader),
    /// There is no epoch, or the newest is sealed, or its lease ran out without a renewal.
    NoLeader,
    /// The store has not answered for longer than the last leader's lease.
    Unknown,
}

/// An event of a campaign, for logs and metrics.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CampaignEvent {
    /// Another candidate holds the newest epoch; this one follows it.
    Following(Leader),
    /// A request failed. The campaign goes on.
    StoreFailed(Error),
    /// The campaign was won.
    Elected(Epoch),
}
