//! Checks that no two public types of this crate have the same name. A type's name must be clear
//! without its module. This module re-exports all public types, and the compiler refuses two
//! re-exports of the same name.

#![deny(ambiguous_glob_reexports)]

#[cfg(any(feature = "s3", feature = "gcs", feature = "dynamodb"))]
pub use crate::closed_port::*;
pub use crate::conformance::*;
#[cfg(feature = "dynamodb")]
pub use crate::dynamo_server::*;
#[cfg(all(feature = "internals", feature = "s3"))]
pub use crate::environment::*;
pub use crate::fault_store::*;
#[cfg(any(feature = "s3", feature = "gcs", feature = "dynamodb"))]
pub use crate::faults::*;
#[cfg(feature = "gcs")]
pub use crate::gcs_server::*;
#[cfg(all(feature = "internals", unix))]
pub use crate::harm::*;
#[cfg(feature = "internals")]
pub use crate::if_match::*;
pub use crate::layer::*;
#[cfg(feature = "internals")]
pub use crate::morling_lock::*;
pub use crate::outcomes::*;
#[cfg(feature = "internals")]
pub use crate::prometheus::*;
#[cfg(feature = "internals")]
pub use crate::proxy::*;
#[cfg(feature = "s3")]
pub use crate::s3_server::*;
#[cfg(feature = "internals")]
pub use crate::svg::*;
pub use crate::time::*;
#[cfg(feature = "internals")]
pub use crate::world::*;
pub use crate::write_faults::*;

// Several servers have constants and functions with equal names. Users write the module before
// these names.
#[cfg(feature = "s3")]
pub use crate::s3_server::{ACCESS_KEY, BUCKET, config};
