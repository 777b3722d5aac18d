//! Tests the command on each kind of store, over HTTP.

#[cfg(any(feature = "gcs", feature = "azure"))]
mod clouds;
mod credentials;
mod dynamodb;
mod permissions;
#[cfg(feature = "s3")]
pub mod s3;
