//! What a candidate or an observer sees of an election.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::message::EpochEnd;
use crate::record::Record;
use crate::store::escape::plain;

/// The holder of an epoch, by its record. All times of day are the writer's and for people only.
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
/// // A client, which finds the leader through the store:
/// # let election = Election::builder(store, "orders/leader").build()?;
/// let leader = election.leader().await?.expect("nobody has resigned");
/// assert_eq!((leader.name(), leader.epoch), ("worker-7", leadership.epoch()));
/// assert_eq!(leader.data["address"], "10.0.0.7:9000");
/// # Ok(())
/// # }
/// ```
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

    /// Returns the name, or a dash if the record has none.
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
    /// The holder of the epoch, also once it has ended; `None` if there is no epoch.
    pub leader: Option<Leader>,
    /// How the epoch ended; `None` while it is not sealed.
    pub end: Option<EpochEnd>,
    /// The name of the process that sealed it, from the record.
    pub sealed_by: Option<String>,
    /// The name of the operator that asserted that the holder is dead
    /// ([`depose_dead`](crate::Election::depose_dead)), from the record.
    pub forced_by: Option<String>,
    /// The reason that an operator gave for the end, from the record.
    pub reason: Option<String>,
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
    /// How the epoch ended; `None` while it is not sealed, and if this process has sealed it and not
    /// read it since.
    pub end: Option<EpochEnd>,
    /// The name of the process that sealed it, from the record.
    pub sealed_by: Option<String>,
    /// How long until the lease lapses by the clocks of this process unless the holder renews it:
    /// zero once it has lapsed, `None` if it never lapses. The holder's own lease ends earlier.
    pub lapses_in: Option<Duration>,
}

impl LastSeen {
    /// Returns whether the epoch is not sealed and its lease has not lapsed by the clocks of this
    /// process.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.sealed && self.lapses_in != Some(Duration::ZERO)
    }
}

/// The state of an election as an observer sees it. [`observe`](crate::Election::observe) yields
/// only changes.
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
/// match observations.next().await.expect("it ends after an error alone")? {
///     Observation::Leader(leader) => assert_eq!(leader.epoch.get(), 1), // send requests there
///     Observation::NoLeader => unreachable!("wait for the next leader"),
///     _ => unreachable!("the store does not answer: stay with the last leader, or give up"),
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
