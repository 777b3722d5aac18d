//! Items of `tenure` for the package `tenure-groups`. They are not part of the API. Therefore
//! `tenure-groups` depends on exactly this version (`=`).
//!
//! A group's member holds a session, which is an election with `Layout::SingleObject` and one
//! candidate. The assignments of a group are numbered objects. The search for the newest epoch also
//! finds the newest assignment.
//!
//! | part | items |
//! | --- | --- |
//! | keys and requests | [`Context`], [`Requests`], [`Written`] |
//! | the newest numbered object | [`Search`], [`Progress`], [`SuccessorSearch`], [`SuccessorStatus`], [`After`], [`Listing`] |
//! | one leadership on a single object | [`Record`], [`Nonce`], [`Drift`], [`SharedValues`] |
//! | telemetry | [`Meter`], [`LeaseMetrics`] |
//!
//! In addition to these 15 types, this module adds hidden methods to public types: to build a
//! [`Context`], to renew with new data, and to compact numbered objects.
//!
//! # Contract
//!
//! - A [`Context`] combines one key prefix of a store and the settings of one process. Each request
//!   of a context is counted, and ends after the request timeout. [`Context::create`] and
//!   [`Context::replace`] classify the answer to a write in the same way as elections. A write is
//!   [`Written::Done`] only if the answer has an ETag. If the answer does not show the effect, the
//!   write is [`Written::Unknown`]. No request is sent twice.
//! - [`Requests`] remembers the failures and denials of one caller. The caller passes each answer
//!   of the store to [`Requests::answered`] and each failure to [`Requests::fails`], in the order
//!   of the answers. Other methods return the pause before the next attempt, or report that the
//!   caller must give up.
//! - The caller of [`Context::campaign_alone`] uses a prefix that no other process knows. The
//!   leadership is renewed until it is resigned, lost or dropped.
//! - Later callers in the process start their search at the greatest number that any caller has
//!   passed to [`Context::learn`].

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
