//! Items of `tenure` for the package `tenure-fencing`. They are not part of the API. Therefore
//! `tenure-fencing` depends on exactly this version (`=`).
//!
//! | part | items |
//! | --- | --- |
//! | requests | [`read`], [`list`], [`write`], [`delete`], [`Written`] |
//! | the newest numbered object | [`Search`], [`Progress`], [`SuccessorSearch`], [`SuccessorStatus`], [`After`], [`Listing`], [`check_order`] |
//! | values | [`Nonce`], [`nonce`], [`folder`], [`place`] |
//! | time | [`back_off`], [`require_timers`] |
//!
//! # Contract
//!
//! - Each request is sent once, and fails if it exceeds its limit by the clock of the process. If
//!   the store panics, the request fails.
//! - [`write`] classifies the answer in the same way as elections. A write is [`Written::Done`]
//!   only if the answer has an ETag. If the answer does not show the effect, the write is
//!   [`Written::Unknown`].
//! - A failed [`read`] or [`list`] has no effect. A failed [`delete`] may have an effect.
//! - A page is used only after [`check_order`].
//! - Each wait panics outside of a Tokio runtime with timers. So each public call begins with
//!   [`require_timers`].

use std::time::Duration;

pub use crate::driver::runtime::require_timers;
pub use crate::env::nonce::Nonce;
pub use crate::protocol::find::{
    After, Listing, Progress, Search, SuccessorSearch, SuccessorStatus,
};
pub use crate::store::{Written, check_order};
pub use crate::telemetry::place;

use crate::driver::backoff::Backoff;
use crate::env::process::Process;
use crate::env::timer::sleep;
use crate::error::Error;
use crate::record::keys::Keys;
use crate::store::{Page, PutOutcome, StoreError, WriteAnswers, answer_within, listing_within};

/// Sends a GET, and returns its answer.
pub async fn read<T>(
    process: &Process,
    limit: Duration,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    answer_within(process, limit, request).await.map_err(StoreError::of_a_read)
}

/// Sends a LIST, and returns its page. Skips pages without keys, which some stores return. The
/// limit applies to each page.
pub async fn list(
    process: &Process,
    limit: Duration,
    request: impl Future<Output = Result<Page, StoreError>>,
) -> Result<Page, StoreError> {
    listing_within(process, limit, request).await.map_err(StoreError::of_a_read)
}

/// Sends a conditional write, and classifies its answer. Any number of answers without an ETag is
/// allowed, because the caller reads the object back after each such answer.
pub async fn write(
    process: &Process,
    limit: Duration,
    request: impl Future<Output = Result<PutOutcome, StoreError>>,
) -> Written {
    WriteAnswers::new(u32::MAX).read(answer_within(process, limit, request).await)
}

/// Sends a deletion, and returns its answer.
pub async fn delete<T>(
    process: &Process,
    limit: Duration,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    answer_within(process, limit, request).await
}

/// Draws 128 random bits from the process's source of random numbers.
pub fn nonce(process: &Process) -> Nonce {
    Nonce::from_bits(process.unique())
}

/// Returns a key prefix in the form that elections use: empty, or with one slash at its end.
///
/// # Errors
/// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the prefix is invalid.
pub fn folder(prefix: &str) -> Result<String, Error> {
    Ok(Keys::new(prefix)?.prefix().to_owned())
}

/// Waits for a random time, from half of a delay to the whole delay. The delay is `first`, doubled
/// `doublings` times, and at most `longest`.
pub async fn back_off(process: &Process, first: Duration, longest: Duration, doublings: u32) {
    sleep(process, Backoff { first, longest }.jittered(doublings, process)).await;
}
