//! Tests every store with the conformance suite, with failures, and on third-party servers.

mod azure;
mod dir_store;
mod directory_bucket;
mod disk;
mod dynamodb_servers;
mod dynamodb_store;
mod empty_pages;
mod gcs;
mod groups;
mod morling_lock_interop_s3;
mod object_store;
mod s3_store;
mod servers;
mod stores;
mod tls;
mod urls;
