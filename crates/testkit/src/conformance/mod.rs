//! What every store must do, as one suite of small checks that ends with races.
//!
//! [`run`] is enough for a store that offers everything. [`run_with`] is for one that differs where
//! it may, which [`Capabilities`] describes. [`report`] does not stop at the first failure.
//!
//! Each check uses a folder of its own under the prefix, writes up to 1,000 small objects there and
//! leaves some of them behind. The races send 32 writes at once, for 50 rounds each.
//!
//! # Panics
//!
//! A check that fails panics with its name and with what it saw.

mod check;
mod listings;
mod races;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tenure::Process;
use tenure::store::{GetOutcome, PutOutcome, Store};

use check::{Check, expect_eq};

/// Where stores may differ.
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::store::MemoryStore;
/// use tenure_testkit::conformance::{self, Capabilities};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let store = Arc::new(MemoryStore::new());
/// let without_dates = Capabilities { dates: false, race_rounds: 5, ..Capabilities::default() };
/// conformance::run_with(store, "suite/", &without_dates).await;
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Capabilities {
    /// Sizes in listings are those of the bodies. Default: yes.
    pub exact_sizes: bool,
    /// Listings and objects say when they were written, by a clock within half an hour of this
    /// machine's. Default: yes. Without dates a compactor deletes nothing by age.
    pub dates: bool,
    /// `replace` on a missing key is refused instead of [`PutOutcome::NotFound`], as on Ceph 16.
    /// Default: no.
    pub missing_is_refused: bool,
    /// How many rounds each race has. Default: [`race_rounds`].
    pub race_rounds: usize,
}

impl Default for Capabilities {
    fn default() -> Capabilities {
        Capabilities {
            exact_sizes: true,
            dates: true,
            missing_is_refused: false,
            race_rounds: race_rounds(),
        }
    }
}

impl Capabilities {
    /// The answer to `replace` on a missing key.
    fn missing(&self) -> PutOutcome {
        if self.missing_is_refused { PutOutcome::PreconditionFailed } else { PutOutcome::NotFound }
    }
}

/// How many checks there are for a store that dates its objects.
pub const CHECKS: usize = 19;

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
/// tenure_testkit::conformance::run(Arc::new(MemoryStore::new()), "suite/").await;
/// # }
/// ```
///
/// # Panics
///
/// With the first check that fails.
pub async fn run(store: Arc<dyn Store>, prefix: &str) {
    run_with(store, prefix, &Capabilities::default()).await;
}

/// Runs the whole suite as [`run`] does, on a store that differs where it may.
///
/// # Panics
///
/// With the first check that fails.
pub async fn run_with(store: Arc<dyn Store>, prefix: &str, can: &Capabilities) {
    for (_, check) in checks(&store, prefix, can) {
        check.await;
    }
}

/// Runs every check, also after one has failed. Returns the name of each and, if it failed, the
/// reason. The panic of a check that fails is caught, but the panic hook still prints it.
pub async fn report(
    store: Arc<dyn Store>,
    prefix: &str,
    can: &Capabilities,
) -> Vec<(&'static str, Result<(), String>)> {
    let mut results = Vec::new();
    for (name, check) in checks(&store, prefix, can) {
        let result = AssertUnwindSafe(check).catch_unwind().await;
        let words = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
            Ok(words) => *words,
            Err(_) => "it panicked without words".to_owned(),
        };
        results.push((name, result.map_err(words)));
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
    let check = |name: &'static str| Check { store: Arc::clone(&store), prefix, name };
    races::one_creator_wins(check("create-race"), rounds).await;
    races::one_replacer_wins(check("replace-race"), rounds).await;
}

fn checks<'a>(
    store: &Arc<dyn Store>,
    prefix: &'a str,
    can: &'a Capabilities,
) -> Vec<(&'static str, BoxFuture<'a, ()>)> {
    let of = |name: &'static str| Check { store: Arc::clone(store), prefix, name };
    let mut checks = vec![
        ("create", creates_and_refuses(of("create")).boxed()),
        ("replace", replaces_only_the_right_etag(of("replace"), can).boxed()),
        ("etag", changes_the_etag_with_the_body(of("etag")).boxed()),
        ("not-modified", says_not_modified(of("not-modified")).boxed()),
        ("max-len", reads_no_more_than_asked(of("max-len")).boxed()),
        ("read-after-write", reads_what_was_written(of("read-after-write")).boxed()),
        ("bodies", keeps_odd_bodies(of("bodies")).boxed()),
        ("list-after-write", listings::lists_what_was_written(of("list-after-write"), can).boxed()),
        ("list-order", listings::lists_by_bytes_of_the_key(of("list-order")).boxed()),
        ("list-prefix", listings::lists_only_the_prefix(of("list-prefix")).boxed()),
        ("list-after", listings::starts_after(of("list-after")).boxed()),
        ("list-pages", listings::pages(of("list-pages")).boxed()),
        ("list-last", listings::lists_the_last(of("list-last")).boxed()),
        ("list-etags", listings::lists_the_etags(of("list-etags")).boxed()),
        ("delete", deletes(of("delete")).boxed()),
        ("delete-create", starts_anew_after_a_delete(of("delete-create"), can).boxed()),
    ];
    if can.dates {
        checks.push(("dates", dates_what_was_written(of("dates")).boxed()));
    }
    let rounds = can.race_rounds;
    checks.push(("create-race", races::one_creator_wins(of("create-race"), rounds).boxed()));
    checks.push(("replace-race", races::one_replacer_wins(of("replace-race"), rounds).boxed()));
    assert_eq!(checks.len(), CHECKS - usize::from(!can.dates));
    checks
}

async fn creates_and_refuses(check: Check<'_>) {
    expect_eq!(check, check.get("a", None, 100).await, GetOutcome::NotFound, "before");
    let etag = check.created("a", "first").await;
    expect_eq!(
        check,
        check.create("a", "second").await,
        PutOutcome::PreconditionFailed,
        "another body"
    );
    expect_eq!(
        check,
        check.create("a", "first").await,
        PutOutcome::PreconditionFailed,
        "the same body"
    );
    let object = check.found("a").await;
    expect_eq!(check, object.body, "first", "a refused create must not write");
    expect_eq!(check, object.etag, etag, "a refused create must not write");
    check.created("b", "first").await;
}

async fn replaces_only_the_right_etag(check: Check<'_>, can: &Capabilities) {
    let other = check.created("other", "another body").await;
    let outcome = check.replace("missing", "x", &other).await;
    expect_eq!(check, outcome, can.missing(), "a key that does not exist");
    expect_eq!(check, check.get("missing", None, 9).await, GetOutcome::NotFound, "not made");

    let first = check.created("a", "one").await;
    let outcome = check.replace("a", "two", &other).await;
    expect_eq!(check, outcome, PutOutcome::PreconditionFailed, "the ETag of another object");
    expect_eq!(check, check.found("a").await.body, "one", "a refused replace must not write");

    let outcome = check.replace("a", "two", &first).await;
    let second = check.done(outcome, "a replace with the right ETag");
    let object = check.found("a").await;
    expect_eq!(check, object.body, "two", "after the replace");
    expect_eq!(check, object.etag, second, "after the replace");

    let outcome = check.replace("a", "three", &first).await;
    expect_eq!(check, outcome, PutOutcome::PreconditionFailed, "the ETag before the last");
    expect_eq!(check, check.found("a").await.body, "two", "a refused replace must not write");
}

async fn changes_the_etag_with_the_body(check: Check<'_>) {
    let mut etag = check.created("a", "0").await;
    let mut seen = vec![etag.clone()];
    for round in 1..20 {
        let outcome = check.replace("a", format!("{round}"), &etag).await;
        etag = check.done(outcome, "a replace with the ETag that the last write answered");
        expect_eq!(check, check.found("a").await.etag, etag, "read and written differ");
        if seen.contains(&etag) {
            check.fail(format_args!("{etag} came back with another body"));
        }
        seen.push(etag.clone());
    }
}

async fn says_not_modified(check: Check<'_>) {
    let first = check.created("a", "one").await;
    let outcome = check.get("a", Some(&first), 100).await;
    expect_eq!(check, outcome, GetOutcome::NotModified, "the ETag it has");
    let outcome = check.get("a", Some(&first), 0).await;
    expect_eq!(check, outcome, GetOutcome::NotModified, "whatever the length");

    let outcome = check.replace("a", "two", &first).await;
    let second = check.done(outcome, "a replace with the right ETag");
    match check.get("a", Some(&first), 100).await {
        GetOutcome::Found(object) => {
            expect_eq!(check, (object.body, object.etag), ("two".into(), second), "the new one");
        }
        other => check.fail(format_args!("the old ETag of a changed object: {other:?}")),
    }
    let outcome = check.get("missing", Some(&first), 100).await;
    expect_eq!(check, outcome, GetOutcome::NotFound, "a key that does not exist");
}

async fn reads_no_more_than_asked(check: Check<'_>) {
    let etag = check.created("a", "0123456789").await;
    for max_len in [10, 11, 1_000_000] {
        match check.get("a", None, max_len).await {
            GetOutcome::Found(object) => {
                expect_eq!(check, object.body, "0123456789", "up to {max_len} bytes");
            }
            other => check.fail(format_args!("10 bytes, {max_len} allowed: {other:?}")),
        }
    }
    for max_len in [0, 1, 9] {
        let outcome = check.get("a", None, max_len).await;
        let expected = GetOutcome::TooLarge { etag: etag.clone(), len: 10 };
        expect_eq!(check, outcome, expected, "up to {max_len} bytes");
    }
}

async fn reads_what_was_written(check: Check<'_>) {
    for round in 0..30 {
        let name = format!("lock-{round:010}.json");
        let mut etag = check.created(&name, format!("{round}")).await;
        for change in 0..3 {
            let body = format!("{round} {change}");
            let outcome = check.replace(&name, body.clone(), &etag).await;
            etag = check.done(outcome, "a replace");
            expect_eq!(check, check.found(&name).await.body, body, "read after write");
        }
    }
}

async fn keeps_odd_bodies(check: Check<'_>) {
    let large = (0..40 * 1_024).map(|i| (i % 251) as u8).collect::<Vec<_>>();
    let bodies =
        [&b""[..], b"\n", b"{}\n{}\n", b"\0\xff\xfe", b"{\"tenure_dir\":1,\"writes\":2}\n", &large];
    let mut etag = check.created("changing", "first").await;
    for (i, body) in bodies.into_iter().enumerate() {
        let name = format!("{i}");
        check.created(&name, body.to_vec()).await;
        expect_eq!(check, check.found(&name).await.body, body, "body {i}, created");
        let outcome = check.replace("changing", body.to_vec(), &etag).await;
        etag = check.done(outcome, "a replace with the ETag that the last write answered");
        expect_eq!(check, check.found("changing").await.body, body, "body {i}, replaced");
    }
}

async fn deletes(check: Check<'_>) {
    for name in ["a", "b", "c", "folder/d"] {
        check.created(name, name).await;
    }
    check.delete(&["missing"]).await;
    check.delete(&["missing/too"]).await;
    check.delete(&["a", "missing", "folder/d"]).await;
    for name in ["a", "folder/d"] {
        expect_eq!(check, check.get(name, None, 9).await, GetOutcome::NotFound, "{name}");
    }
    expect_eq!(check, check.list("", "", 1_000).await, ["b", "c"], "what is left");
    expect_eq!(check, check.found("b").await.body, "b", "what is left");

    let many = (0..1_000).map(|i| format!("many/{i:04}")).collect::<Vec<_>>();
    check.created("many/0500", "x").await;
    check.delete(&many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    expect_eq!(check, check.list("many/", "", 1_000).await, [""; 0], "1,000 keys at once");
}

async fn starts_anew_after_a_delete(check: Check<'_>, can: &Capabilities) {
    let old = check.created("a", "old").await;
    check.delete(&["a"]).await;
    let outcome = check.replace("a", "x", &old).await;
    expect_eq!(check, outcome, can.missing(), "a replace of what was deleted");
    let new = check.created("a", "new").await;
    expect_eq!(
        check,
        check.create("a", "x").await,
        PutOutcome::PreconditionFailed,
        "it is there again"
    );
    let outcome = check.replace("a", "x", &old).await;
    expect_eq!(check, outcome, PutOutcome::PreconditionFailed, "the ETag before the delete");
    let outcome = check.replace("a", "newer", &new).await;
    check.done(outcome, "a replace of what was made again");
    expect_eq!(check, check.found("a").await.body, "newer", "in the end");
}

async fn dates_what_was_written(check: Check<'_>) {
    let etag = check.created("a", "one").await;
    let outcome = check.replace("a", "two", &etag).await;
    check.done(outcome, "a replace");
    let object = check.found("a").await;
    let prefix = check.key("");
    let page = match check.store.list(&prefix, "", 10).await {
        Ok(page) => page,
        Err(error) => check.fail(format_args!("list: {error:?}")),
    };
    let dates = [
        ("Last-Modified of an object", object.last_modified),
        ("Date of an object", object.served_at),
        ("LastModified in a listing", page.entries.first().and_then(|entry| entry.last_modified)),
        ("Date of a listing", page.served_at),
    ];
    let now = Process::system().now().time_of_day();
    for (what, date) in dates {
        match date {
            Some(date) if is_recent(date, now) => {}
            other => check.fail(format_args!("{what} is {other:?} at {now}")),
        }
    }
}

/// Generous: this is about time zones and units, not about how fast the machine is.
fn is_recent(date: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    let distance = now.signed_duration_since(date).abs();
    distance.to_std().is_ok_and(|distance| distance < Duration::from_secs(30 * 60))
}
