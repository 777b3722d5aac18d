//! The promises that a store makes to elections, as one suite of small checks that ends with races.
//!
//! [`run`] is enough for a store that offers everything. [`run_with`] is for one that differs where
//! it may, which [`Capabilities`] describes. [`report`] does not stop at the first failure.
//! [`essential`] has the checks without which no election is safe; `tenure probe` runs them.
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
//! Each check uses a folder of its own under the prefix, writes up to 1,000 small objects there and
//! leaves some of them behind. The races send 32 concurrent writes, for 50 rounds each.
//!
//! # Panics
//!
//! A failed check panics with its name and its observation.

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

/// Where stores may differ.
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
    /// A listing has the exact size of each body. Default: yes.
    pub exact_sizes: bool,
    /// Listings and objects say when they were written, by a clock within half an hour of this
    /// machine's. Default: yes. Without dates a compactor deletes nothing by age.
    pub dates: bool,
    /// `replace` on a missing key is refused instead of `PutOutcome::NotFound`, as on Ceph 16.
    /// Default: no.
    pub missing_is_refused: bool,
    /// Accepts answers that elections accept, too: a write without an ETag, a whole object where
    /// it has not changed, and either refusal of a replace on a missing key. Default: no.
    pub lenient: bool,
    /// How many objects are written, read and listed where a cache may break a promise.
    /// Default: 30.
    pub rounds: usize,
    /// How many rounds each race has. Default: [`race_rounds`].
    pub race_rounds: usize,
    /// The longest body of a race, in bytes. A long write takes longer between the check of its
    /// condition and its commit. Default: 200 KiB.
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

/// How many checks there are for a store that dates its objects.
pub const CHECKS: usize = 20;

/// How many rounds a race has by default: 50, or the number in the environment variable
/// `TENURE_RACE_ROUNDS`.
///
/// # Panics
///
/// If the variable is no number.
pub fn race_rounds() -> usize {
    let rounds = std::env::var("TENURE_RACE_ROUNDS").ok();
    rounds.map_or(50, |rounds| rounds.parse().expect("TENURE_RACE_ROUNDS is a number"))
}

/// Runs the whole suite on a store that offers everything.
///
/// The prefix must be empty or end in a slash. Nothing else may use it, and no object may exist
/// under it. Use a runtime with several threads, so that the races are real.
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
/// The first failed check panics.
pub async fn run(store: Arc<dyn Store>, prefix: &str) {
    run_with(store, prefix, &Capabilities::default()).await;
}

/// Runs the whole suite as [`run`] does, on a store that differs where it may.
///
/// # Panics
///
/// The first failed check panics.
pub async fn run_with(store: Arc<dyn Store>, prefix: &str, can: &Capabilities) {
    for check in checks(can) {
        if let Err(failure) = check.run(&store, prefix, can).await {
            panic!("[{}] {failure}", check.name);
        }
    }
}

/// Runs every check, also after one has failed. Returns the name of each and, if it failed, the
/// reason.
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

/// Runs only the races, for this many rounds each. A store that checks a condition and writes in
/// two steps may pass all other checks.
///
/// # Panics
///
/// If a race has no winner or several, or if no round has a winner.
pub async fn races(store: Arc<dyn Store>, prefix: &str, rounds: usize) {
    let can = Capabilities { race_rounds: rounds, ..Capabilities::default() };
    for check in &ALL[ALL.len() - 2..] {
        if let Err(failure) = check.run(&store, prefix, &can).await {
            panic!("[{}] {failure}", check.name);
        }
    }
}

/// The checks without which no election is safe, except for the races.
pub fn essential() -> impl Iterator<Item = &'static Check> {
    ALL.iter().filter(|check| check.essential)
}

/// One promise of a store, and its check.
#[derive(Debug)]
pub struct Check {
    /// The name in reports and in keys.
    pub name: &'static str,
    /// The promise, in words that follow "the store".
    pub promise: &'static str,
    /// True if only elections with epoch files need it.
    pub of_listings: bool,
    essential: bool,
    test: for<'a> fn(CheckScope<'a>) -> BoxFuture<'a, Checked>,
}

impl Check {
    /// Runs the check on keys that start with `prefix`, the name and a slash.
    ///
    /// # Errors
    ///
    /// A broken promise, or the first request that fails.
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
    /// A broken promise, or the first request that fails.
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
    "create": "creates a missing object, and no other", always needed, objects::creates_once;
    "replace": "replaces by the current ETag alone", always needed,
        objects::replaces_only_the_current_etag;
    "etag": "changes the ETag with the body", always extra,
        objects::changes_the_etag_with_the_body;
    "not-modified": "a poll shows a change", always needed, objects::shows_changes_to_a_poll;
    "max-len": "reads no more than asked", always extra, objects::reads_no_more_than_asked;
    "read-after-write": "a read shows the last write", always needed,
        objects::reads_what_was_written;
    "bodies": "keeps any body", always extra, objects::keeps_odd_bodies;
    "list-after-write": "a listing shows all earlier writes, in order", lists needed,
        listings::lists_what_was_written;
    "list-order": "lists by the bytes of the key", lists extra,
        listings::lists_by_bytes_of_the_key;
    "list-prefix": "lists only the prefix", lists extra, listings::lists_only_the_prefix;
    "list-after": "a listing starts where asked", lists needed, listings::starts_after;
    "list-pages": "pages of a listing are whole", lists needed, listings::pages;
    "list-last": "lists the last keys", lists extra, listings::lists_the_last;
    "list-etags": "lists the ETags of reads", lists extra, listings::lists_the_etags;
    "delete": "a deleted object is gone, also from a listing", lists needed,
        objects::forgets_what_was_deleted;
    "delete-many": "deletes 1,000 keys in one call", lists extra, objects::deletes_many;
    "delete-create": "a deleted object can be created again", lists needed,
        objects::starts_anew_after_a_delete;
    "dates": "dates objects and listings", lists extra, objects::dates_what_was_written;
    "create-race": "one of 32 racing creators wins", always extra,
        race::one_creator_wins;
    "replace-race": "one of 32 racing replacers wins", always extra,
        race::one_replacer_wins;
};
