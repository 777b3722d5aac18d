//! Leader election on object storage: one writer, a bucket, and nothing else.
//!
//! Each leadership is an *epoch*: a new object under one key prefix, created on the condition that
//! its key is free. The newest epoch object names the leader. The number of its epoch, an
//! [`Epoch`], is the *fencing token* that the leader sends with every write. There is no server to
//! run.
//!
//! **For** stream processors, compactors, indexers and other single writers on a store with
//! conditional writes: S3, Cloud Storage, Azure, DynamoDB, a directory. After a crash another
//! candidate leads within about the [validity](ElectionBuilder::validity) of the lease, 30 s by
//! default. After a resignation a follower takes over at its next poll.
//!
//! **Not for** locks around single operations, and not for takeovers in much less than a second. With
//! a validity of 1 s on S3 Express, a takeover takes about a second.
//!
//! # Limits
//!
//! A leader that is paused between a check and a write may write after its lease has ended. No lock
//! service can prevent this late write. So the guarded resource must remember the greatest token
//! that it has seen, and refuse lower tokens. The package `tenure-fencing` has guards for objects,
//! logs, folders and services.
//!
//! # Use
//!
//! ```
//! use std::sync::Arc;
//! use tenure::{Election, RunOutcome, store::MemoryStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tenure::Error> {
//! let store = Arc::new(MemoryStore::new()); // S3Store::from_env("my-bucket").await
//! let election = Election::builder(store, "orders/leader").name("worker-7").build()?;
//!
//! let leadership = election.campaign().await?; // waits until elected
//! let outcome = leadership
//!     .run(|token, cancelled| async move {
//!         // Renewed in the background. Send `token` with each write; stop when cancelled.
//!         assert!(!cancelled.is_cancelled());
//!         token
//!     })
//!     .await; // resigns once the work has returned
//! let RunOutcome::Completed(token) = outcome else { panic!("campaign again") };
//! assert_eq!(token.get(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! A lost race is a value, not an error. The [kind](ErrorKind) of an [`Error`] determines the
//! remedy. A lost leadership has a [reason](Loss).
//!
//! # Promises
//!
//! - Each epoch is granted to at most one campaign, and granted epochs only increase, under any
//!   clocks, pauses, crashes, and lost, delayed or repeated requests.
//! - At any moment at most one process believes that it leads, as long as the rates of any two
//!   machines' clocks differ by less than [`clock_drift_max`](ElectionBuilder::clock_drift_max),
//!   1 % by default. No machine compares its clock with another's.
//! - A lease ends on time, even if the machine was suspended. No check returns a token at or after
//!   the end of the lease.
//!
//! The store must have strong consistency and atomic conditional writes, and the newest epoch
//! object must never be deleted. The first campaign checks that the store honours conditions and
//! lists keys in order. The protocol and its invariants are in `docs/design/protocol.md`. The idea
//! is from Gunnar Morling (*Leader Election With S3 Conditional Writes*, 2024).
//!
//! # Cost
//!
//! | step | requests |
//! | --- | --- |
//! | leading | a PUT every third of the validity, a GET every validity |
//! | following | a GET every sixth of the validity |
//! | taking over from a dead leader that was followed | PUT, PUT, LIST |
//! | the first campaign of a process | up to 4, and 5 to check the store |
//!
//! At the default validity and S3's list prices, a leader costs $1.33 a month, and a follower costs
//! $0.21. On a [single object](Layout::SingleObject) a takeover is one PUT.
//!
//! # Tests with paused time
//!
//! Leases use the machine's clocks, which `start_paused` does not control. So in such a test a
//! lease takes real time. Tokio's paused timers end immediately, so a wait for the lease keeps a
//! core busy. With a [`Clock`] that reads Tokio's time, waits take no time, and
//! `tokio::time::advance` can end a lease:
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use tenure::store::MemoryStore;
//! use tenure::{CampaignOutcome, Clock, Election, Moment, Process};
//!
//! #[derive(Debug)]
//! struct PausedClock(tokio::time::Instant);
//!
//! impl Clock for PausedClock {
//!     fn now(&self) -> Moment {
//!         // The start must be above the longest lease.
//!         let now = Duration::from_secs(1_000_000) + self.0.elapsed();
//!         Moment::new(now, now, now)
//!     }
//! }
//!
//! # /*
//! #[tokio::test(start_paused = true)]
//! # */
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn a_candidate_takes_over_from_a_dead_leader() -> Result<(), tenure::Error> {
//!     let store = Arc::new(MemoryStore::new());
//!     let clock = Arc::new(PausedClock(tokio::time::Instant::now()));
//!     let node = |name: &str| {
//!         let process = Process::system().with_clock(clock.clone());
//!         Election::builder(store.clone(), "test").name(name).process(process).build()
//!     };
//!     let first = node("a")?.campaign().await?;
//!     assert!(matches!(node("b")?.try_campaign().await?, CampaignOutcome::Held(_)));
//!     drop(first); // like the death of its process: the lease lapses
//!     let second = node("b")?.campaign().await?; // 30 s of paused time
//!     assert_eq!(second.epoch().get(), 2);
//!     Ok(())
//! }
//! # a_candidate_takes_over_from_a_dead_leader().unwrap();
//! ```
//!
//! The package `tenure-testkit` has a clock that reads Tokio's time (`time::TestClock`) and a store
//! with faults (`fault_store`). Pass the same [`Process`] to groups and to the guards of
//! `tenure-fencing`, with their method `process`.
//!
//! # Where next
//!
//! - With an [`Election`], a process campaigns ([`campaign`](Election::campaign),
//!   [`try_campaign`](Election::try_campaign)) or follows ([`observe`](Election::observe),
//!   [`leader`](Election::leader)). [`ElectionBuilder`] has every setting, with its bounds. An
//!   operator can seal the epoch of a leader ([`depose`](Election::depose)), or continue the epochs
//!   after their objects were lost ([`restore`](Election::restore)). Some candidates can have
//!   precedence ([`priority_delay`](ElectionBuilder::priority_delay),
//!   [`resign_to`](Leadership::resign_to)).
//! - The package `tenure-groups` shares many partitions among some members, at the cost of one
//!   lease per member.
//! - [`Leadership`] returns the token while the lease runs, reports the reason of its end
//!   ([`Loss`]), and resigns.
//! - The package `tenure-fencing` has guards that refuse the tokens of former leaders.
//! - [`Compactor`] deletes superseded epoch objects. The command `tenure history` and the package
//!   `tenure-history` show past leaders, from the remaining epoch objects.
//! - [`store`] has the stores, and the trait for other stores.
//! - The package `tenure-paths` has locks on pseudo-folders for the tasks of the leader's process.
//!
//! The book (`docs/README.md`) covers the first leader, the choice of the validity, failures and
//! their remedies, permissions, logs and metrics, and comparisons.
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `s3` (default) | `store::S3Store`, on the AWS SDK |
//! | `dynamodb` | `store::DynamoStore` |
//! | `object-store` | `store::AnyObjectStore`: any store of the crate `object_store` 0.14 |
//! | `gcs`, `azure` | `AnyObjectStore` for Google Cloud Storage and Azure Blob Storage |
//!
//! Without these features, the stores are memory, a local directory, and your own implementations
//! of the trait.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
// A later reading of a clock may be lower, so the difference of two readings may be negative.
#![cfg_attr(not(test), deny(clippy::unchecked_time_subtraction))]

mod api;
mod compactor;
mod driver;
mod env;
mod epoch;
mod error;
#[doc(hidden)]
pub mod internals;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod protocol;
#[cfg(not(feature = "internals"))]
mod protocol;
#[cfg(feature = "internals")]
#[doc(hidden)]
#[allow(missing_docs, reason = "docs/design/protocol.md describes the fields")]
pub mod record;
#[cfg(not(feature = "internals"))]
mod record;
pub mod store;
mod telemetry;

pub use api::builder::ElectionBuilder;
pub use api::campaign::CampaignOutcome;
pub use api::election::Election;
pub use api::leadership::{Cancellation, Leadership, Lease, RunOutcome};
pub use api::term::Term;
pub use compactor::{Compactor, CompactorBuilder, Report};
pub use driver::across::operator::outcomes::{
    ReplacedStore, SetState, StoreMarker, StoreSet, StoreStatus,
};
pub use driver::across::{HoldState, StoreHold};
pub use driver::lead::{LeadershipEvent, Loss, ResignKey};
pub use driver::leader::{CampaignEvent, LastSeen, Leader, Observation, Snapshot};
pub use driver::operator::outcomes::{Deposed, Resigned, Restored};
pub use env::clock::Clock;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use env::entropy::Entropy;
pub use env::moment::Moment;
pub use env::process::Process;
pub use epoch::Epoch;
pub use error::{Error, ErrorKind};
pub use protocol::layout::Layout;
pub use protocol::message::EpochEnd;
pub use store::Store;

#[cfg(all(doctest, feature = "s3"))]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
#[cfg(all(doctest, feature = "s3"))]
#[doc = include_str!("../docs/start/first-leader-in-rust.md")]
struct QuickStartExamples;
#[cfg(all(doctest, feature = "s3"))]
#[doc = include_str!("../docs/how-to/kubernetes.md")]
struct KubernetesExamples;
#[cfg(all(doctest, feature = "s3"))]
#[doc = include_str!("../docs/how-to/monitor.md")]
struct MonitorExamples;
