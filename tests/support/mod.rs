//! What the integration tests share.
#![allow(dead_code, unused_imports, reason = "every test program uses its own part of this")]

pub mod conformance;
#[cfg(feature = "dynamodb")]
pub mod dynamo_server;
#[cfg(feature = "s3")]
pub mod environment;
pub mod fault_store;
pub mod if_match;
pub mod morling;
#[cfg(feature = "s3")]
pub mod s3_server;
pub mod time;
pub mod world;
