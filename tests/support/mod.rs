//! What the integration tests share.
#![allow(dead_code, unused_imports, reason = "each test crate uses only a part of it")]

#[cfg(feature = "s3")]
pub mod s3_server;
