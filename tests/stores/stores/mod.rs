//! Tests that every store passes the same suite, and that the suite finds broken stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::MemoryStore;
use tenure::store::{ETag, GetOutcome, Page, PutOutcome, Store, StoreError};
use tenure_testkit::conformance::{self, Capabilities};
use tenure_testkit::layer::{Layer, Layered};

/// The store of docs/how-to/add-a-store.md.
mod ledger;
mod listed_etags;

macro_rules! stores {
    ($($name:ident: $store:expr;)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $name() {
            conformance::run(Arc::new($store), "").await;
        }
    )+};
}

stores! {
    memory: MemoryStore::new();
    ledger: ledger::Ledger::default();
}

/// Elections run on a store that has passed the suite.
#[tokio::test]
async fn elections_run_on_the_added_store() {
    let store: Arc<dyn Store> = Arc::new(ledger::Ledger::default());
    for epoch in 1..=3 {
        let election = tenure::Election::builder(Arc::clone(&store), "app/leader");
        let leader = election.build().expect("settings").campaign().await.expect("elected");
        assert_eq!(leader.epoch().get(), epoch);
        leader.resign().await.expect("resigned");
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_passes_the_suite() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = tenure::store::DirStore::open(dir.path()).expect("opened");
    let can = Capabilities { exact_sizes: false, ..Capabilities::default() };
    conformance::run_with(Arc::new(store), "app/", &can).await;
}

#[cfg(feature = "s3")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s3_passes_the_suite_over_http() {
    use tenure_testkit::s3_server::{BUCKET, S3Server};
    let server = S3Server::start().await;
    conformance::run(Arc::new(server.store(BUCKET)), "app/").await;
}

/// The ETags of this store are random, like the ETags in a bucket with KMS encryption.
#[cfg(feature = "s3")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s3_with_random_etags_passes_the_suite() {
    use tenure_testkit::s3_server::{BUCKET, S3Server};
    let server = S3Server::start().await;
    server.quirks(|quirks| quirks.opaque_etags = true);
    conformance::run(Arc::new(server.store(BUCKET)), "app/").await;
}

#[cfg(feature = "dynamodb")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dynamodb_passes_the_suite_over_http() {
    let server = tenure_testkit::dynamo_server::DynamoServer::start();
    conformance::run(Arc::new(server.store()), "app/").await;
}

/// A test for third-party servers, such as ministack.
#[cfg(feature = "s3")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a server: scripts/servers/ministack.sh -- cargo test --test stores s3_server_of -- --ignored"]
async fn s3_server_of_the_environment() {
    let (store, can) = tenure_testkit::environment::server();
    let prefix = tenure_testkit::environment::prefix("conformance");
    conformance::run_with(store, &prefix, &can).await;
}

/// A fault of a store. A check of the suite must detect the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    CreateIsTwoSteps,
    ReplaceIsTwoSteps,
    CreateIgnoresTheCondition,
    ReplaceIgnoresTheCondition,
    RepeatsItsOwnCreate,
    MissingIsDone,
    MissingIsRefused,
    DoneWithoutEtag,
    EtagsWithoutQuotes,
    NeverNotModified,
    AlwaysNotModified,
    ListIgnoresAfter,
    ListIncludesAfter,
    ListForgetsToSayTruncated,
    ListIsUnordered,
    ListLagsBehind,
    ListStopsAtFolders,
    ListMissesReplacedObjects,
    DeleteDoesNothing,
    LastLagsBehind,
    LastIsFirst,
    LastIgnoresAfter,
    LastHidesTruncation,
    LastIsDescending,
}

#[derive(Debug)]
struct Broken {
    inner: MemoryStore,
    fault: Fault,
    replaces: AtomicBool,
}

impl Broken {
    fn new(fault: Fault) -> Layered<Broken> {
        Layered(Broken { inner: MemoryStore::new(), fault, replaces: AtomicBool::new(false) })
    }
}

impl Broken {
    /// Writes the object without a condition.
    async fn put(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        self.inner.delete(vec![key.to_owned()]).await?;
        self.inner.create(key, body).await
    }

    async fn current(&self, key: &str) -> Result<Option<ETag>, StoreError> {
        Ok(match self.inner.get(key, None, usize::MAX).await? {
            GetOutcome::Found(object) => Some(object.etag),
            _ => None,
        })
    }
}

#[async_trait]
impl Layer for Broken {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let mut page = match self.fault {
            Fault::ListIgnoresAfter => self.inner.list(prefix, "", limit).await?,
            Fault::ListIncludesAfter => {
                let before = after.strip_suffix(|_| true).unwrap_or("");
                self.inner.list(prefix, before, limit).await?
            }
            _ => self.inner.list(prefix, after, limit).await?,
        };
        match self.fault {
            Fault::ListForgetsToSayTruncated => page.truncated = false,
            Fault::ListIsUnordered => page.entries.reverse(),
            Fault::ListLagsBehind => drop(page.entries.pop()),
            Fault::ListMissesReplacedObjects if self.replaces.load(Ordering::SeqCst) => {
                page.entries.truncate(1);
            }
            Fault::ListStopsAtFolders => {
                page.entries.retain(|entry| !entry.key[prefix.len()..].contains('/'));
            }
            _ => {}
        }
        Ok(page)
    }

    async fn list_last(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        let mut last = match self.fault {
            Fault::LastIsFirst => Some(self.inner.list(prefix, after, limit).await?),
            Fault::LastIgnoresAfter => self.inner.list_last(prefix, "", limit).await?,
            Fault::LastLagsBehind => self.inner.list_last(prefix, after, limit + 1).await?,
            _ => self.inner.list_last(prefix, after, limit).await?,
        };
        if let Some(page) = &mut last {
            match self.fault {
                Fault::LastLagsBehind => drop(page.entries.pop()),
                Fault::LastHidesTruncation => page.truncated = false,
                Fault::LastIsDescending => page.entries.reverse(),
                _ => {}
            }
        }
        Ok(last)
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        if self.fault == Fault::AlwaysNotModified && unless.is_some() {
            return Ok(GetOutcome::NotModified);
        }
        let unless = unless.filter(|_| self.fault != Fault::NeverNotModified);
        let mut outcome = self.inner.get(key, unless, max_len).await?;
        if let (Fault::EtagsWithoutQuotes, GetOutcome::Found(object)) = (self.fault, &mut outcome) {
            object.etag = ETag::new(object.etag.as_str().replace('"', ""));
        }
        Ok(outcome)
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        match self.fault {
            Fault::CreateIsTwoSteps => {
                if self.current(key).await?.is_some() {
                    return Ok(PutOutcome::PreconditionFailed);
                }
                tokio::task::yield_now().await;
                self.put(key, body).await
            }
            Fault::CreateIgnoresTheCondition => self.put(key, body).await,
            Fault::RepeatsItsOwnCreate => {
                self.inner.create(key, body.clone()).await?;
                self.inner.create(key, body).await
            }
            _ => self.inner.create(key, body).await,
        }
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        match self.fault {
            Fault::ReplaceIsTwoSteps => match self.current(key).await? {
                None => Ok(PutOutcome::NotFound),
                Some(current) if current != etag => Ok(PutOutcome::PreconditionFailed),
                Some(_) => {
                    tokio::task::yield_now().await;
                    self.put(key, body).await
                }
            },
            Fault::ReplaceIgnoresTheCondition if self.current(key).await?.is_some() => {
                self.put(key, body).await
            }
            Fault::ListMissesReplacedObjects => {
                self.replaces.store(true, Ordering::SeqCst);
                tokio::task::yield_now().await;
                let outcome = self.inner.replace(key, body, etag).await;
                self.replaces.store(false, Ordering::SeqCst);
                outcome
            }
            _ => {
                let outcome = self.inner.replace(key, body.clone(), etag).await?;
                match (self.fault, outcome) {
                    (Fault::MissingIsDone, PutOutcome::NotFound) => self.put(key, body).await,
                    (Fault::MissingIsRefused, PutOutcome::NotFound) => {
                        Ok(PutOutcome::PreconditionFailed)
                    }
                    (Fault::DoneWithoutEtag, PutOutcome::Done { .. }) => {
                        Ok(PutOutcome::Done { etag: None })
                    }
                    (_, outcome) => Ok(outcome),
                }
            }
        }
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        match self.fault {
            Fault::DeleteDoesNothing => Ok(Vec::new()),
            _ => self.inner.delete(keys).await,
        }
    }
}

/// Runs the suite on a broken store, and asserts that the check named `check` is the first to fail.
async fn fails(store: impl Store, fault: impl std::fmt::Debug, check: &str) {
    let store = Arc::new(store);
    // A broken store may pass a race of a few rounds by chance, so each race has 200 rounds.
    let can = Capabilities { race_rounds: 200, ..Capabilities::default() };
    let suite = tokio::spawn(async move { conformance::run_with(store, "", &can).await });
    let error = suite.await.expect_err(&format!("{fault:?} must be detected"));
    assert!(error.is_panic());
    let panic = error.into_panic();
    let words = match panic.downcast_ref::<String>() {
        Some(words) => words,
        None => panic!("{fault:?}: the panic has no message"),
    };
    assert!(words.contains(&format!("[{check}]")), "{fault:?} is detected elsewhere: {words}");
}

/// If `list_last` returns a wrong page, a candidate sends additional requests, but elections remain
/// correct.
#[tokio::test]
async fn elections_survive_a_last_page_that_hides_keys() {
    for fault in [Fault::LastLagsBehind, Fault::LastIsFirst, Fault::LastHidesTruncation] {
        let store: Arc<dyn Store> = Arc::new(Broken::new(fault));
        for epoch in 1..=8 {
            let election = tenure::Election::builder(Arc::clone(&store), "app")
                .validity(std::time::Duration::from_secs(2))
                .check_store(false)
                .build()
                .expect("settings");
            let leader = election.campaign().await.expect("elected");
            assert_eq!(leader.epoch().get(), epoch, "{fault:?}");
            leader.resign().await.expect("resigned");
        }
    }
}

macro_rules! broken {
    ($($test:ident: $fault:ident is noticed by $check:literal;)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $test() {
            fails(Broken::new(Fault::$fault), Fault::$fault, $check).await;
        }
    )+};
}

broken! {
    broken_create_in_two_steps: CreateIsTwoSteps is noticed by "create-race";
    broken_replace_in_two_steps: ReplaceIsTwoSteps is noticed by "replace-race";
    broken_unconditional_create: CreateIgnoresTheCondition is noticed by "create";
    broken_unconditional_replace: ReplaceIgnoresTheCondition is noticed by "replace";
    broken_repeated_create: RepeatsItsOwnCreate is noticed by "create";
    broken_replace_that_creates: MissingIsDone is noticed by "replace";
    broken_missing_taken_for_refused: MissingIsRefused is noticed by "replace";
    broken_done_without_etag: DoneWithoutEtag is noticed by "replace";
    broken_etags_read_without_quotes: EtagsWithoutQuotes is noticed by "create";
    broken_never_not_modified: NeverNotModified is noticed by "not-modified";
    broken_always_not_modified: AlwaysNotModified is noticed by "not-modified";
    broken_list_ignores_after: ListIgnoresAfter is noticed by "list-order";
    broken_list_includes_after: ListIncludesAfter is noticed by "list-order";
    broken_list_hides_truncation: ListForgetsToSayTruncated is noticed by "list-order";
    broken_list_unordered: ListIsUnordered is noticed by "list-after-write";
    broken_list_lags_behind: ListLagsBehind is noticed by "list-after-write";
    broken_list_misses_replaced_objects: ListMissesReplacedObjects is noticed by "list-after-write";
    broken_list_stops_at_folders: ListStopsAtFolders is noticed by "list-order";
    broken_last_lags_behind: LastLagsBehind is noticed by "list-last";
    broken_last_is_first: LastIsFirst is noticed by "list-last";
    broken_last_ignores_after: LastIgnoresAfter is noticed by "list-last";
    broken_last_hides_truncation: LastHidesTruncation is noticed by "list-last";
    broken_last_is_descending: LastIsDescending is noticed by "list-last";
    broken_delete_does_nothing: DeleteDoesNothing is noticed by "list-after-write";
}
