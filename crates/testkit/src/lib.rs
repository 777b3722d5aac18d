//! Test tools for authors of stores, and for programs that use [`tenure`].
//!
//! - [`conformance`]: a suite that every [`Store`](tenure::Store) must pass, from plain reads to
//!   races. Run the suite on a new store before an election relies on the store.
//! - [`fault_store`]: a wrapper that makes a store fail on demand and records each call.
//! - [`layer`]: a wrapper that changes some calls of a store.
//! - [`time`]: clocks over Tokio's paused time, and seeded random numbers. A test that simulates
//!   minutes takes no real time, and the same seed gives the same run.
//! - With the features `s3`, `gcs` and `dynamodb`, the modules `s3_server`, `gcs_server` and
//!   `dynamo_server`: servers that behave as these services do and that fail on demand. They serve
//!   HTTP on a free port of the loopback interface.
//!
//! **Not for production:** all parts of this crate panic when a test's expectation fails.
//!
//! # Test a new store
//!
//! Add the dev-dependency `tenure-testkit` and one test:
//!
//! ```
//! use std::sync::Arc;
//! use tenure::store::MemoryStore as MyStore;
//! use tenure_testkit::conformance;
//!
//! # /*
//! #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
//! # */
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # is_a_store().await
//! # }
//! async fn is_a_store() {
//!     conformance::run(Arc::new(MyStore::new()), "suite/").await;
//! }
//! ```
//!
//! # Test a program with a failing store
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tenure::{Election, store::MemoryStore};
//! use tenure_testkit::fault_store::{Call, Fault, FaultStore};
//! use tenure_testkit::time::{TestClock, process, wait};
//!
//! # /*
//! #[tokio::test(start_paused = true)]
//! # */
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! # a_leader_survives_a_failure().await
//! # }
//! async fn a_leader_survives_a_failure() {
//!     let store = FaultStore::new(Arc::new(MemoryStore::new()));
//!     let clock = TestClock::new();
//!     let election = Election::builder(Arc::new(store.clone()), "app").process(process(&clock, 1));
//!     let leadership = election.build().unwrap().campaign().await.unwrap();
//!     store.on(Call::Replace).times(2).fault(Fault::FailAfter); // two responses are lost
//!     wait(Duration::from_secs(60)).await; // two validities, without real time
//!     assert!(leadership.check().is_ok());
//! }
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// The conformance suite.
pub use tenure_conformance as conformance;

#[cfg(feature = "dynamodb")]
pub mod dynamo_server;
pub mod fault_store;
#[cfg(any(feature = "s3", feature = "gcs", feature = "dynamodb"))]
pub mod faults;
#[cfg(feature = "gcs")]
pub mod gcs_server;
#[cfg(any(feature = "s3", feature = "gcs", feature = "dynamodb"))]
mod http_shell;
pub mod layer;
pub mod one_write_a_second;
#[cfg(feature = "s3")]
pub mod s3_server;
pub mod time;
#[cfg(test)]
pub mod type_names;

/// Declares modules that only tenure's own tests use. The API of these modules is not stable, and
/// its docs are not complete.
macro_rules! internal {
    ($($(#[$condition:meta])* $module:ident),* $(,)?) => {$(
        $(#[$condition])*
        #[doc(hidden)]
        #[allow(missing_docs, reason = "for tenure's own tests")]
        pub mod $module;
    )*};
}

internal! {
    #[cfg(any(feature = "s3", feature = "gcs", feature = "dynamodb"))]
    closed_port,
    #[cfg(all(feature = "processes", unix))]
    command,
    #[cfg(all(feature = "internals", feature = "s3"))]
    environment,
    #[cfg(all(feature = "internals", unix))]
    harm,
    #[cfg(feature = "internals")]
    if_match,
    #[cfg(feature = "properties")]
    interleavings,
    #[cfg(feature = "properties")]
    logged,
    #[cfg(feature = "internals")]
    morling_lock,
    outcomes,
    #[cfg(feature = "internals")]
    prometheus,
    #[cfg(feature = "properties")]
    properties,
    #[cfg(feature = "internals")]
    proxy,
    #[cfg(feature = "internals")]
    svg,
    #[cfg(feature = "internals")]
    world,
    write_faults,
}
