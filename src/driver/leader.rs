//! The state of an election as a candidate or an observer sees it.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::message::EpochEnd;
use crate::record::Record;
use crate::store::escape::plain;

/// The holder of an epoch, from its record. All dates come from the wall clock of the process that
/// wrote the record. The protocol uses none of these dates, except the `expires_at` of a peer that
/// does not use tenure.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use serde_json::json;
/// # use tenure::{Election, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// let builder = Election::builder(store.clone(), "orders/leader").name("worker-7");
/// let election = builder.data(json!({"address": "10.0.0.7:9000"})).build()?;
/// let leadership = election.campaign().await?;
///
/// // A client finds the leader through the store:
/// # let election = Election::builder(store, "orders/leader").build()?;
/// let leader = election.leader().await?.expect("the election is held");
/// assert_eq!((leader.name(), leader.epoch), ("worker-7", leadership.epoch()));
/// assert_eq!(leader.data["address"], "10.0.0.7:9000");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Leader {
    /// Epoch of the leader.
    pub epoch: Epoch,
    /// Display name of the leader. `None` in a record of a peer that does not use tenure.
    pub candidate: Option<String>,
    /// Duration of the lease without a renewal. `None` if the lease never lapses, or if the record
    /// contains only `expires_at`.
    pub validity: Option<Duration>,
    /// End of the lease by the leader's wall clock. `None` unless the record is in a [single
    /// object](crate::Layout::SingleObject).
    pub expires_at: Option<DateTime<Utc>>,
    /// Counter that every write of the record raises.
    pub heartbeat: u64,
    /// Time at which the leader created the epoch.
    pub elected_at: Option<DateTime<Utc>>,
    /// Time of the last renewal.
    pub renewed_at: Option<DateTime<Utc>>,
    /// Data that the leader publishes, such as its address. `Null` if the leader publishes no data.
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

    /// Returns the display name of the leader, or a dash if the record has no name.
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

/// The content of the newest epoch object at the time of the call. A previous leader may still
/// believe that it leads.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Election, EpochEnd, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// # let process = |name| Election::builder(store.clone(), "orders/leader").name(name).build();
/// let leadership = process("worker-7")?.campaign().await?;
/// let operator = process("operator")?;
/// operator.depose(Some(leadership.epoch())).await?;
///
/// let snapshot = operator.snapshot().await?; // sealed: `leader` would return `None`
/// assert_eq!(snapshot.leader.unwrap().name(), "worker-7");
/// assert_eq!(snapshot.end, Some(EpochEnd::Deposed));
/// assert_eq!(snapshot.sealed_by.as_deref(), Some("operator"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Holder of the epoch, even after the end of the epoch. `None` if no epoch exists.
    pub leader: Option<Leader>,
    /// End of the epoch. `None` until the epoch is sealed.
    pub end: Option<EpochEnd>,
    /// Name of the process that sealed the epoch, from the record.
    pub sealed_by: Option<String>,
    /// Name of the operator that asserted the death of the holder
    /// ([`depose_dead`](crate::Election::depose_dead)), from the record.
    pub forced_by: Option<String>,
    /// The operator's reason for the end, from the record.
    pub reason: Option<String>,
    /// Time since the last write of the record, by the store's clock. `None` if the store gives no
    /// dates.
    pub age: Option<Duration>,
    /// True if the epoch is unsealed and `age` exceeds the validity of its lease. Across stores: if
    /// no majority of the stores can have an unsealed and younger object of one holder. This field is
    /// only a hint, because the clocks of the store and the leader may differ. An observer must
    /// watch the record for a whole validity to know that the lease has lapsed.
    pub lapsed: bool,
}

/// The last reading of the newest known epoch; no request is sent for this value.
///
/// The record may have changed since the reading.
/// [`since_last_answer`](crate::Election::since_last_answer) returns the time since the store's
/// last answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LastSeen {
    /// Holder of the epoch, even after the epoch is sealed or the lease has lapsed.
    pub leader: Leader,
    /// True if the epoch is sealed.
    pub sealed: bool,
    /// End of the epoch. `None` if the epoch is unsealed, or if this process has sealed the epoch
    /// and has not read the sealed record since.
    pub end: Option<EpochEnd>,
    /// Name of the process that sealed the epoch, from the record.
    pub sealed_by: Option<String>,
    /// Time until the lease lapses by the clocks of this process, unless the holder renews the
    /// lease. Zero after the lapse. `None` if the lease never lapses. By the holder's own clocks
    /// the lease ends earlier.
    pub lapses_in: Option<Duration>,
}

impl LastSeen {
    /// Returns true if the epoch is unsealed and its lease has not lapsed by the clocks of this
    /// process.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.sealed && self.lapses_in != Some(Duration::ZERO)
    }
}

/// The state of an election as an observer sees it: held, vacant or unknown.
/// [`observe`](crate::Election::observe) yields only changes.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// use futures::StreamExt as _;
/// # use tenure::{Election, Observation, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// # let leadership = Election::builder(store.clone(), "orders/leader").build()?.campaign().await?;
/// let observer = Election::builder(store, "orders/leader").build()?;
/// let mut observations = observer.observe();
/// match observations.next().await.expect("the stream ends only after an error")? {
///     Observation::Leader(leader) => assert_eq!(leader.epoch.get(), 1), // send requests there
///     Observation::NoLeader => unreachable!("wait for the next leader"),
///     _ => unreachable!("the store does not answer: keep the last leader, or stop"),
/// }
/// leadership.resign().await?;
/// observer.refresh(); // polls now, not only at the next poll interval
/// assert_eq!(observations.next().await.unwrap()?, Observation::NoLeader);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Observation {
    /// The election is held: the given leader holds the newest epoch. This leader may not have
    /// completed its campaign.
    Leader(Leader),
    /// The election is vacant: no epoch exists, the newest epoch is sealed, or its lease has
    /// lapsed.
    NoLeader,
    /// The state is unknown: the last leader's lease has lapsed while the store did not answer. If
    /// the last known state has no leader, the state becomes unknown once the store has not
    /// answered for the validity of this observer.
    Unknown,
}

/// An event of a campaign, for logs and metrics.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CampaignEvent {
    /// Another candidate holds the newest epoch, and this candidate follows it.
    Following(Leader),
    /// A request failed. The campaign continues.
    StoreFailed(Error),
    /// The campaign won this epoch.
    Elected(Epoch),
}

/// Returns true if both values describe the same leader with the same data. Renewals are not
/// changes.
pub(crate) fn same_leader(one: &Leader, other: &Leader) -> bool {
    one.epoch == other.epoch
        && one.candidate == other.candidate
        && one.elected_at == other.elected_at
        && one.data == other.data
}
