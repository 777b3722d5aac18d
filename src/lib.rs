//! Leader election on object storage: one writer, a bucket, and nothing else.
//!
//! # What it does not promise
//!
//! A leader that is paused between a check and a write may write after its lease has ended: no lock
//! service can prevent that. So the guarded resource must refuse old tokens. The token is the
//! [`Epoch`]: send it with each write, and let the resource remember the greatest it has seen.
//!
//! # What it promises
//!
//! Each epoch is granted to at most one campaign, and grants only grow, under any clocks, pauses,
//! crashes, and lost, delayed or repeated requests. And at any moment at most one process believes
//! that it leads, as long as the rates of any two machines' clocks differ by less than
//! [`clock_drift_max`](ElectionBuilder::clock_drift_max). No machine compares its clock with
//! another's. It asks strong consistency and atomic conditional writes of the store, as S3 has
//! them, and that nobody deletes the newest epoch object. The protocol, its invariants and the
//! reasons are in `docs/protocol.md`; the idea is Gunnar Morling's (*Leader Election With S3
//! Conditional Writes*, 2024).
//!
//! # Use
//!
//! ```
//! # use std::sync::Arc;
//! use tenure::{Election, store::MemoryStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tenure::Error> {
//! let store = Arc::new(MemoryStore::new()); // S3Store::from_env("my-bucket").await
//! let election = Election::builder(store, "orders/leader").name("worker-7").build()?;
//!
//! let leadership = election.campaign().await?; // waits until elected
//! let ran = leadership
//!     .run(|token, cancelled| async move {
//!         // Renewed in the background. Send `token` with each write; stop when cancelled.
//!         assert!(!cancelled.is_cancelled());
//!         token
//!     })
//!     .await; // resigns once the work has returned
//! assert_eq!(ran.value.get(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! - [`Election`] campaigns ([`campaign`](Election::campaign),
//!   [`try_campaign`](Election::try_campaign)) and watches ([`leader`](Election::leader),
//!   [`observe`](Election::observe)).
//!   An operator seals the epoch of a leader that must go ([`depose`](Election::depose)), or has the
//!   counting go on after an accident ([`restore`](Election::restore)).
//! - [`Leadership`] gives the token as long as the lease runs, says why it ended ([`Loss`]), and
//!   resigns.
//! - [`fencing`] has guards for what the leader writes: they refuse the tokens of leaders of the
//!   past.
//! - [`Compactor`] deletes the epoch objects of the past.
//! - [`paths`] has locks on pseudo-folders for the tasks of the leader's process.
//! - [`store`] has the stores: S3 (feature `s3`, default), Cloud Storage (`gcs`), Azure (`azure`),
//!   any `object_store` (`object-store`), DynamoDB (`dynamodb`), a local directory, memory; and the
//!   trait for others.
//!
//! A lost race is a value; an [`Error`] has a [kind](ErrorKind) that says what to do.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

// The support of the integration tests serves the unit tests, too.
#[cfg(test)]
extern crate self as tenure;

#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod bad_bytes;
mod check;
mod clock;
mod compactor;
mod config;
mod driver;
mod election;
mod entropy;
mod epoch;
mod error;
pub mod fencing;
mod keys;
mod layout;
mod leader;
mod leadership;
mod listing;
mod operator;
pub mod paths;
mod process;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod protocol;
#[cfg(not(feature = "internals"))]
mod protocol;
mod record;
pub mod store;

pub use clock::{Clock, Moment, SystemClock};
pub use compactor::{Compactor, CompactorBuilder, Report};
pub use election::{Attempt, Election, ElectionBuilder};
pub use entropy::{Entropy, SystemEntropy};
pub use epoch::{Epoch, ParseEpochError};
pub use error::{Error, ErrorKind};
pub use layout::Layout;
pub use leader::{CampaignEvent, Leader, Observation, Snapshot, SnapshotState};
pub use leadership::{Leadership, LeadershipEvent, Loss, Ran};
pub use operator::{Depose, Deposed, Restored};
pub use process::Process;
pub use protocol::message::Ended;
pub use store::Store;
pub use tokio_util::sync::CancellationToken;

#[cfg(all(doctest, feature = "s3"))]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
