//! What the integration tests share.
#![allow(dead_code, unused_imports, reason = "every test program uses its own part of this")]

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
pub mod if_match;
pub mod morling;
pub mod outcomes;
#[cfg(feature = "metrics")]
pub mod prometheus;
pub mod proxy;
#[cfg(feature = "s3")]
pub mod s3_server;
pub mod time;
pub mod world;
