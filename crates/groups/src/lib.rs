//! Partition groups: the members of a group share many partitions, with one lease for each member.
//!
//! A *group* shares N partitions among M members through the store alone. Each partition has at
//! most one owner. Each ownership has a fencing token, and the tokens of a partition only grow. By
//! default, an [election](tenure::Election) per partition costs a PUT every 10 s for each
//! partition. A group costs a PUT every 10 s for each *member*, for any number of partitions.
//!
//! ```
//! # use std::sync::Arc;
//! use tenure::store::MemoryStore;
//! use tenure_groups::Group;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tenure::Error> {
//! let store = Arc::new(MemoryStore::new()); // S3Store::from_env("my-bucket").await
//! let group = Group::builder(store, "orders")
//!     .name("worker-7")
//!     .partitions(0..4)
//! #   .poll_interval(std::time::Duration::from_millis(100))
//!     .build()?;
//! # let stop = group.clone();
//!
//! group
//!     .run(async |partition| {
//!         // Called for each partition that this member is granted. Send the token with each
//!         // write. Return when the partition is revoked.
//!         assert!(partition.token().get() > 1);
//!         # stop.leave();
//!         partition.revoked().cancelled().await;
//!         Ok(())
//!     })
//!     .await?; // returns after `leave`, once all work has returned and the session is resigned
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! Each member keeps a *session*: one object with a lease, which only the member renews. The
//! *assignment* is an object `assignment-%010d.json` that names the owner of each partition. Each
//! change is a PUT with `If-None-Match: *` that creates the assignment with the next number. One of
//! the members, the coordinator, reads the sessions and writes assignments. Two coordinators at the
//! same time are safe. A partition leaves a member only if the member has released it or the
//! member's session has ended. `docs/design/groups.md` has the protocol, its invariants and its
//! reasons.
//! # Guarantees
//!
//! - Each (partition, token) is granted to at most one session, and the tokens of a partition only
//!   grow. Both statements hold under any clocks, pauses and crashes, and for lost, delayed and
//!   repeated requests.
//! - At any moment at most one member believes that it owns a partition, if the rates of any two
//!   machines' clocks differ by less than
//!   [`clock_drift_max`](GroupBuilder::clock_drift_max).
//! - A live member keeps its partitions until it releases them, however slow the store is.
//!
//! A member that is paused between a check and a write may write after its lease has ended. The
//! same is true of the leader of an election. The guarded resource must refuse lower tokens
//! (package `tenure-fencing`).
//! # Cost
//!
//! | step | requests |
//! | --- | --- |
//! | each member | a PUT every third of the validity, a GET every sixth |
//! | the coordinator, also | a LIST every sixth; every validity a LIST, and a GET of each session |
//! | its three deputies, also | a conditional GET every sixth of the validity |
//! | all other members, also | a conditional GET about every third of the validity |
//! | the death of a member | 4 requests, then at most 2 for each other member |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
// A later reading of a clock may be smaller, so a difference of two readings may be negative.
#![cfg_attr(not(test), deny(clippy::unchecked_time_subtraction))]

mod compactor;
mod config;
mod ended_sessions;
mod events;
#[cfg(any(test, feature = "internals"))]
#[doc(hidden)]
pub mod fuzzing;
mod grant;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod history;
mod join;
mod member;
mod member_sessions;
mod membership;
mod objects;
mod operate;
mod overdue_work;
mod ownership;
mod partition;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod protocol;
#[cfg(not(feature = "internals"))]
mod protocol;
mod restore;
mod run;
mod session_record;
mod telemetry;
#[cfg(test)]
mod test_values;
mod view;

#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod assignment_record;
#[cfg(not(feature = "internals"))]
mod assignment_record;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod session_data;
#[cfg(not(feature = "internals"))]
mod session_data;

use std::fmt;
use std::sync::{Arc, LockResult, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;

pub use compactor::{GroupCompactor, GroupReport, SessionsReport};
pub use config::GroupBuilder;
pub use events::MembershipEvent;
pub use grant::PartitionLoss;
pub use member_sessions::SessionState;
pub use membership::Membership;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use objects::LIST_EVERY;
pub use partition::Partition;
pub use restore::GroupRestored;
pub use session_record::{is_session, session_election};
pub use view::{GroupSnapshot, MemberSnapshot, PartitionSnapshot};

use tenure::internals::groups::Context;
use tenure::{Error, Store};

use config::GroupConfig;
use ended_sessions::EndedSessions;
use ownership::Ownership;
use run::Leave;
use telemetry::Followers;

pub use protocol::assignment::{Marks, PartitionNumber};
pub use protocol::assignor::{Assignor, Seat, Share, StickyAssignor};

/// The part of an assignment's key between the group's prefix and the number.
const ASSIGNMENT: &str = "assignment-";

/// A group of members that share partitions.
///
/// A process uses a `Group` as a member, as an observer or as an operator. All clones are the same
/// member. [`build`](GroupBuilder::build) sends no request.
///
/// # Examples
/// A router finds the owner of a partition. The router is not a member.
/// ```
/// # use std::sync::Arc;
/// # use tenure::store::MemoryStore;
/// # use tenure_groups::Group;
/// # use tenure_testkit::time::{TestClock, process};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// # let process = process(&TestClock::new(), 1);
/// # let group = Group::builder(store.clone(), "orders").name("worker-7").partitions(0..4);
/// # let group = group.data("10.0.0.7:9000").process(process.clone()).build()?;
/// # let member = group.join().await?;
/// let router = Group::builder(store, "orders").name("router");
/// # let router = router.process(process);
/// let router = router.build()?;
/// # while router.snapshot().await?.owner("3").is_none() {
/// #     tokio::time::sleep(std::time::Duration::from_secs(1)).await;
/// # }
/// let snapshot = router.snapshot().await?; // or each change, from `observe`
/// let owner = snapshot.owner("3").expect("a member has joined");
/// assert_eq!((owner.name.as_str(), &owner.data), ("worker-7", &"10.0.0.7:9000".into()));
/// // The partition may move meanwhile: send the token, so that its owner can refuse the request.
/// assert!(snapshot.partition("3").unwrap().token.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Group {
    cx: Arc<Context>,
    config: Arc<GroupConfig>,
    /// `Some` after a call of [`Group::leave`] or [`Group::leave_for`]. The value shows the calls
    /// of [`Group::run`] how to leave the group.
    leave: Arc<watch::Sender<Option<Leave>>>,
    /// The membership that the newest call of [`Group::run`] has.
    current: Arc<Mutex<Weak<Ownership>>>,
    ended: Arc<EndedSessions>,
    followers: Followers,
}

impl Group {
    /// Returns the settings of the group at this prefix of this store. `app` and `app/` are the
    /// same prefix. The empty prefix is the root of the store. An election may have the same
    /// prefix. This method sends no request.
    pub fn builder(store: Arc<dyn Store>, prefix: impl Into<String>) -> GroupBuilder {
        GroupBuilder::new(store, prefix.into())
    }

    /// Returns the display name of this member.
    #[must_use]
    pub fn name(&self) -> &str {
        self.cx.name()
    }

    /// Returns the time since the store last answered a read of the assignment, by a member, an
    /// observer or an operator. Returns `None` before the first answer. While the requests of a
    /// member succeed, this time stays below the poll interval plus the time of one request. This
    /// method sends no request.
    #[must_use]
    pub fn since_last_answer(&self) -> Option<Duration> {
        self.cx.since_last_answer()
    }

    /// Returns the failure of the last request of this group. Returns `None` once the store has
    /// answered a later request. If the [kind](Error::kind) is not
    /// [`Unavailable`](tenure::ErrorKind::Unavailable), an operator must act, so a health check
    /// should report the failure. This method sends no request.
    #[must_use]
    pub fn last_failure(&self) -> Option<Error> {
        self.cx.last_failure()
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("store", &self.cx.place())
            .field("prefix", &self.cx.prefix())
            .field("name", &self.cx.name())
            .finish_non_exhaustive()
    }
}

/// Returns the guarded value, even if another holder of the lock panicked: no critical section
/// leaves the value inconsistent when it panics.
fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// Doubles the first delay `times` times, up to the longest delay.
fn doubled(first: Duration, longest: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(20)).min(longest)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
#[cfg(all(doctest, feature = "s3"))]
#[doc = include_str!("../../../docs/how-to/share-partitions.md")]
struct PartitionsExamples;
