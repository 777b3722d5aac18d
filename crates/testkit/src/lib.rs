//! For authors of stores, and for tests of what is built on [`tenure`].
//!
//! - [`conformance`]: one suite that every store must pass, from plain reads to races. Run it on a
//!   store of your own before you trust it with an election.
//! - [`fault_store`]: a store around another one, with faults to order, that notes each call.
//! - [`time`]: clocks over Tokio's paused time, and seeded random numbers: an election of minutes
//!   takes no time, and the same seed gives the same run.
//! - With the features `s3`, `gcs` and `dynamodb`: servers that behave as these services do, over
//!   real HTTP on a free port of the loopback, with faults to order.
//!
//! ```
//! # use std::sync::Arc;
//! use tenure::store::MemoryStore;
//! use tenure_testkit::conformance;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! conformance::run(Arc::new(MemoryStore::new()), "suite/").await;
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod conformance;
#[cfg(feature = "dynamodb")]
pub mod dynamo_server;
#[cfg(feature = "s3")]
pub mod environment;
pub mod fault_store;
#[cfg(any(feature = "s3", feature = "gcs"))]
pub mod faults;
#[cfg(feature = "gcs")]
pub mod gcs_server;
#[cfg(all(feature = "internals", unix))]
pub mod harm;
#[cfg(feature = "internals")]
pub mod if_match;
#[cfg(feature = "internals")]
pub mod morling;
pub mod outcomes;
#[cfg(feature = "internals")]
pub mod prometheus;
#[cfg(feature = "internals")]
pub mod proxy;
#[cfg(feature = "s3")]
pub mod s3_server;
#[cfg(feature = "internals")]
pub mod svg;
pub mod time;
pub mod world;
