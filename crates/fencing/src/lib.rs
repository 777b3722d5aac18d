//! Guards for the writes of a leader. They refuse the tokens of former leaders.
//!
//! A leader may pause between its check and its write, and write after another leader was elected.
//! An election cannot prevent this late write. The resource must refuse the late write. This crate
//! has a guard for each kind of resource:
//!
//! | resource | guard |
//! | --- | --- |
//! | a service that receives tokens | [`Gate`], in memory; [`DurableGate`], across restarts |
//! | one object on a store | [`FencedObject`] |
//! | a log or a manifest on a store | [`FencedLog`] |
//! | many objects on a store | [`Generations`]: keys that contain the epoch |
//!
//! Each guard accepts any [`Epoch`](tenure::Epoch), not only the epoch of a live
//! [`Leadership`](tenure::Leadership). The writers also accept a token with its lease ([`Token`]).
//! Each call of such a writer ends before the lease ends. A guard requires the same guarantees from
//! the store as an election does. A guard reports a refused token as a [`Stale`] value. The refusal
//! is final: no later call with that token succeeds, so its sender must stop.
//!
//! ```
//! use std::sync::Arc;
//! use tenure::Election;
//! use tenure::store::MemoryStore;
//! use tenure_fencing::FencedObject;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Arc::new(MemoryStore::new());
//! let election = Election::builder(store.clone(), "orders/leader").build()?;
//! let leadership = election.campaign().await?;
//!
//! let object = FencedObject::new(store, "orders/state");
//! let mut writer = object.open(&leadership).await?; // later writes of former leaders fail
//! writer.write("a step further").await?;
//! # Ok(())
//! # }
//! ```
//!
//! An epoch belongs to one grant, and so to one process. Several tasks may write under one epoch:
//! the documentation of each type describes this case.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
// If the clock goes back between two readings, an unchecked subtraction of the two times panics.
#![cfg_attr(not(test), deny(clippy::unchecked_time_subtraction))]

mod calls;
mod durable_gate;
mod envelope;
mod error;
mod generation;
#[cfg(feature = "tower")]
pub mod http;
mod log;
mod memory_gate;
mod meter;
#[cfg(test)]
mod mock_store;
mod object;
#[cfg(feature = "internals")]
#[doc(hidden)]
#[allow(missing_docs, reason = "for the model of the log")]
pub mod protocol;
#[cfg(not(feature = "internals"))]
mod protocol;
#[cfg(test)]
mod tests;
mod token;

pub use durable_gate::{DurableGate, GateState};
pub use error::{FencingError, Stale};
pub use generation::Generations;
pub use log::{FencedLog, LogEntry, LogWriter};
pub use memory_gate::{Gate, GatePermit};
pub use object::{Contents, FencedObject, ObjectWriter};
pub use token::Token;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/fence-an-object.md")]
#[doc = include_str!("../../../docs/how-to/fence-a-log.md")]
struct FencingExamples;
#[cfg(all(doctest, feature = "tower"))]
#[doc = include_str!("../../../docs/how-to/fence-a-service.md")]
struct ServiceExamples;
