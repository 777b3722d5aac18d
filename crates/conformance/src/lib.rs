//! A conformance suite for stores: a check for each guarantee that elections rely on, and races of
//! concurrent writers.
//!
//! - [`run`] checks a store with the default [`Capabilities`].
//! - [`run_with`] checks a store with other [`Capabilities`].
//! - [`report`] runs all checks, even after a failure.
//! - [`essential`] returns the checks of the guarantees that keep elections safe. `tenure probe`
//!   runs the checks of `essential`.
//!
//! ```
//! use std::sync::Arc;
//! use tenure::store::MemoryStore as MyStore;
//!
//! # /*
//! #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
//! # */
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! #     is_a_store().await;
//! # }
//! async fn is_a_store() {
//!     tenure_conformance::run(Arc::new(MyStore::new()), "suite/").await;
//! }
//! ```
//!
//! Each check writes up to 1,000 small objects in its folder under the prefix, and leaves some of
//! them there. Each race has 50 rounds of 32 concurrent writes.
//!
//! # Panics
//!
//! If a check fails, the suite panics with the name of the check and a description of the failure.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod check_scope;
mod listings;
mod objects;
pub mod race;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tenure::store::Store;

pub use check_scope::CheckFailure;
use check_scope::{CheckScope, Checked};

/// The permitted differences between stores, and the number and size of the objects in the checks.
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::store::MemoryStore;
/// use tenure_conformance::Capabilities;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let store = Arc::new(MemoryStore::new());
/// let without_dates = Capabilities { dates: false, race_rounds: 5, ..Capabilities::default() };
/// tenure_conformance::run_with(store, "suite/", &without_dates).await;
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Capabilities {
    /// Listings have the exact size of each body. Default: true.
    pub exact_sizes: bool,
    /// Listings and objects have the time of the write. The clock of the store differs from the
    /// clock of this machine by less than half an hour. Default: true. Without dates, compactors
    /// delete no object by age.
    pub dates: bool,
    /// A `replace` of a missing key returns `PutOutcome::PreconditionFailed` instead of
    /// `PutOutcome::NotFound`, as on Ceph 16. Default: false.
    pub missing_is_refused: bool,
    /// If true, the checks accept the following outcomes, because elections accept them too.
    /// Default: false.
    ///
    /// - a successful write without an ETag
    /// - a whole object instead of `GetOutcome::NotModified`
    /// - either `PutOutcome::NotFound` or `PutOutcome::PreconditionFailed` for a replace of a
    ///   missing key
    pub lenient: bool,
    /// Number of objects in each check that detects stale caches. Default: 30.
    pub rounds: usize,
    /// Number of rounds of each race. Default: [`race_rounds`].
    pub race_rounds: usize,
    /// Length of the longest body of a race, in bytes. A long body increases the time between a
    /// store's check of the condition and its commit, so races with long bodies detect more faults.
    /// Default: 200 KiB.
    pub race_bytes: usize,
}

impl Default for Capabilities {
    fn default() -> Capabilities {
        Capabilities {
            exact_sizes: true,
            dates: true,
            missing_is_refused: false,
            lenient: false,
            rounds: 30,
            race_rounds: race_rounds(),
            race_bytes: 200 << 10,
        }
    }
}

/// Number of checks that the suite runs on a store with [`Capabilities::dates`].
pub const CHECKS: usize = 20;

/// Returns the default number of rounds of a race: 50, or the value of the environment variable
/// `TENURE_RACE_ROUNDS`.
///
/// # Panics
///
/// Panics if the variable is not a number.
pub fn race_rounds() -> usize {
    let rounds = std::env::var("TENURE_RACE_ROUNDS").ok();
    rounds.map_or(50, |rounds| rounds.parse().expect("TENURE_RACE_ROUNDS must be a number"))
}

/// Runs the suite on a store with the default [`Capabilities`].
///
/// The prefix must be empty or end in a slash. There must be no object under the prefix, and no
/// other process may use it. Use a runtime with several threads, so that the writers of a race run
/// in parallel.
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::store::MemoryStore;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// tenure_conformance::run(Arc::new(MemoryStore::new()), "suite/").await;
/// # }
/// ```
///
/// # Panics
///
/// Panics on the first failed check.
pub async fn run(store: Arc<dyn Store>, prefix: &str) {
    run_with(store, prefix, &Capabilities::default()).await;
}

/// Runs the suite as [`run`] does, on a store with these capabilities.
///
/// # Panics
///
/// Panics on the first failed check.
pub async fn run_with(store: Arc<dyn Store>, prefix: &str, can: &Capabilities) {
    for check in checks(can) {
        if let Err(failure) = check.run(&store, prefix, can).await {
            panic!("[{}] {failure}", check.name);
        }
    }
}

/// Runs all checks, even after a failure. Returns the name and the result of each check.
pub async fn report(
    store: Arc<dyn Store>,
    prefix: &str,
    can: &Capabilities,
) -> Vec<(&'static str, Result<(), String>)> {
    let mut results = Vec::new();
    for check in checks(can) {
        let result = check.run(&store, prefix, can).await;
        results.push((check.name, result.map_err(|failure| failure.to_string())));
    }
    results
}

/// Runs only the races, with this number of rounds each. A race can detect a store that checks the
/// condition of a write in one step and writes in another. A store with this fault may pass all
/// other checks.
///
/// # Panics
///
/// Panics if a race has no winner, if a race has several winners, or if the winner is unknown in
/// every round.
pub async fn races(store: Arc<dyn Store>, prefix: &str, rounds: usize) {
    let can = Capabilities { race_rounds: rounds, ..Capabilities::default() };
    for check in &ALL[ALL.len() - 2..] {
        if let Err(failure) = check.run(&store, prefix, &can).await {
            panic!("[{}] {failure}", check.name);
        }
    }
}

/// Returns the checks of the guarantees that keep elections safe, without the races.
pub fn essential() -> impl Iterator<Item = &'static Check> {
    ALL.iter().filter(|check| check.essential)
}

/// A guarantee of a store, and its check.
#[derive(Debug)]
pub struct Check {
    /// Name of the check in reports and in the keys of its objects.
    pub name: &'static str,
    /// Description of the guarantee, such as "lists only the prefix". Most descriptions continue a
    /// sentence that begins with "the store".
    pub promise: &'static str,
    /// True if only elections with [`Layout::EpochFiles`](tenure::Layout::EpochFiles) need this
    /// guarantee.
    pub of_listings: bool,
    essential: bool,
    test: for<'a> fn(CheckScope<'a>) -> BoxFuture<'a, Checked>,
}

impl Check {
    /// Runs the check on keys that start with `prefix`, followed by the check's name and a slash.
    ///
    /// # Errors
    ///
    /// Returns an error if the store violates the guarantee, or if a request fails.
    pub async fn run(
        &self,
        store: &Arc<dyn Store>,
        prefix: &str,
        can: &Capabilities,
    ) -> Result<(), CheckFailure> {
        self.run_at(store, format!("{prefix}{}/", self.name), can).await
    }

    /// Runs the check on keys that start with `start`.
    ///
    /// # Errors
    ///
    /// Returns an error if the store violates the guarantee, or if a request fails.
    pub async fn run_at(
        &self,
        store: &Arc<dyn Store>,
        start: String,
        can: &Capabilities,
    ) -> Result<(), CheckFailure> {
        (self.test)(CheckScope { store: Arc::clone(store), start, can }).await
    }
}

fn checks(can: &Capabilities) -> impl Iterator<Item = &'static Check> {
    let dates = can.dates;
    ALL.iter().filter(move |check| dates || check.name != "dates")
}

macro_rules! checks {
    ($($name:literal: $promise:literal, $listings:ident $essential:ident, $test:expr;)+) => {
        &[$(Check {
            name: $name,
            promise: $promise,
            of_listings: checks!(@ $listings),
            essential: checks!(@ $essential),
            test: |scope| $test(scope).boxed(),
        }),+]
    };
    (@ lists) => { true };
    (@ needed) => { true };
    (@ $no:ident) => { false };
}

static ALL: &[Check] = checks! {
    "create": "creates only missing objects", always needed, objects::creates_once;
    "replace": "replaces an object only if its ETag is the given one", always needed,
        objects::replaces_only_the_current_etag;
    "etag": "changes the ETag with the body", always extra,
        objects::changes_the_etag_with_the_body;
    "not-modified": "a poll shows a change", always needed, objects::shows_changes_to_a_poll;
    "max-len": "reads at most the requested length", always extra,
        objects::reads_no_more_than_asked;
    "read-after-write": "a read shows the last write", always needed,
        objects::reads_what_was_written;
    "bodies": "keeps each body unchanged", always extra, objects::keeps_odd_bodies;
    "list-after-write": "a listing shows all earlier writes, in order", lists needed,
        listings::lists_what_was_written;
    "list-order": "lists by the bytes of the key", lists extra,
        listings::lists_by_bytes_of_the_key;
    "list-prefix": "lists only the prefix", lists extra, listings::lists_only_the_prefix;
    "list-after": "a listing starts after the requested key", lists needed, listings::starts_after;
    "list-pages": "the pages of a listing contain all keys", lists needed, listings::pages;
    "list-last": "lists the last keys", lists extra, listings::lists_the_last;
    "list-etags": "lists the same ETags as reads", lists extra, listings::lists_the_etags;
    "delete": "reads and listings omit a deleted object", lists needed,
        objects::forgets_what_was_deleted;
    "delete-many": "deletes 1,000 keys in one call", lists extra, objects::deletes_many;
    "delete-create": "a deleted object can be created again", lists needed,
        objects::starts_anew_after_a_delete;
    "dates": "gives objects and listed keys a date", lists extra, objects::dates_what_was_written;
    "create-race": "one of 32 racing creators wins", always extra,
        race::one_creator_wins;
    "replace-race": "one of 32 racing replacers wins", always extra,
        race::one_replacer_wins;
};
