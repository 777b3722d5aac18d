//! Items of the election for `tenure-groups`, beyond the API. They are not part of the API: a crate
//! that uses them depends on this very version (`=`).
//!
//! A group's member holds a session, which is an election on a single object with one candidate.
//! Its assignments are numbered objects, found by the search that finds the newest epoch.
//!
//! | part | items |
//! | --- | --- |
//! | keys and requests | [`Context`], [`Requests`], [`Written`] |
//! | the newest numbered object | [`Search`], [`Progress`], [`SuccessorSearch`], [`SuccessorStatus`], [`After`], [`Listing`] |
//! | one leadership on a single object | [`Record`], [`Nonce`], [`Drift`], [`SharedValues`] |
//! | telemetry | [`Meter`], [`LeaseMetrics`] |
//!
//! Besides these 15 types, this module adds hidden methods to public types: to build a [`Context`],
//! to renew with new data, and to compact numbered objects.
//!
//! # Contract
//!
//! - A [`Context`] is one key prefix of a store with the settings of one process. Each of its
//!   requests is counted, and ends after the request timeout. [`Context::create`] and
//!   [`Context::replace`] classify the answer to a write as elections do: a write is
//!   [`Written::Done`] only with an ETag, and any answer that leaves its effect open is
//!   [`Written::Unknown`]. Nothing sends a request twice.
//! - [`Requests`] is the memory of one caller. Each answer of the store goes to
//!   [`Requests::answered`], each failure to [`Requests::fails`], in the order of the answers. It
//!   then knows when to pause and when to give up.
//! - The caller of [`Context::campaign_alone`] uses a prefix that no other process knows. The
//!   leadership is renewed until it is resigned, lost or dropped.
//! - Only [`Context::learn`] makes a greater number known to later callers of the process.

mod context;
mod leadership;
mod requests;

pub use crate::driver::lead::SharedValues;
pub use crate::driver::{Context, Requests};
pub use crate::env::nonce::Nonce;
pub use crate::protocol::find::{
    After, Listing, Progress, Search, SuccessorSearch, SuccessorStatus,
};
pub use crate::protocol::lease::Drift;
pub use crate::record::Record;
pub use crate::store::Written;
pub use crate::telemetry::{LeaseMetrics, Meter};
