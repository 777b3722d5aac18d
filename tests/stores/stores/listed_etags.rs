//! Tests that stores list ETags, and that the suite finds wrong ETags in listings. The suite allows
//! some differences between the ETags of listings and of reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{ETag, Entry, GetOutcome, MemoryStore, Page, PutOutcome, Store, StoreError};
use tenure_testkit::conformance;
use tenure_testkit::layer::{Layer, Layered};

use super::{fails, ledger};

/// Form of the tags in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    None,
    WithoutQuotes,
    Weak,
    /// Each version has two tags, and listings show the first tag.
    OneNameOfTwo,
    /// Wrong: listings show the tag of the version before the last replacement.
    OfTheVersionBefore,
    /// Wrong: listings show the tag of the next key.
    OfTheNextKey,
    /// Wrong: listings show a tag that depends on the key, and never changes.
    OfTheKey,
    /// Wrong: each version has two tags, and listings show a tag that never changes.
    OneNameThatStays,
    /// Wrong: only the first page has tags.
    OnTheFirstPage,
    /// Wrong: the last keys of a listing have no tags.
    NotForTheLast,
    /// Wrong: the tags of the last keys are in descending order.
    LastAreReversed,
}

#[derive(Debug)]
struct Lists {
    inner: MemoryStore,
    way: Way,
    before: Mutex<BTreeMap<String, ETag>>,
}

impl Lists {
    fn in_this_way(way: Way) -> Layered<Lists> {
        Layered(Lists { inner: MemoryStore::new(), way, before: Mutex::default() })
    }

    /// Returns the tag that reads and writes of this store return for a tag of the inner store.
    fn shown(&self, etag: ETag) -> ETag {
        match self.way {
            Way::OneNameOfTwo => ETag::new(format!("{etag}|17")),
            Way::OneNameThatStays => ETag::new(format!("\"17\"|{etag}")),
            _ => etag,
        }
    }

    /// Returns the inner store's tag for a tag that a read or a write of this store has returned.
    fn of_shown(&self, etag: &ETag) -> ETag {
        let (tag, version) = etag.as_str().split_once('|').unwrap_or((etag.as_str(), ""));
        ETag::new(if self.way == Way::OneNameThatStays { version } else { tag })
    }

    fn listed(&self, Entry { key, etag, .. }: &Entry) -> Option<ETag> {
        let etag = etag.as_ref()?;
        match self.way {
            Way::None => None,
            Way::WithoutQuotes => Some(ETag::new(etag.as_str().replace('"', ""))),
            Way::Weak => Some(ETag::new(format!("W/{etag}"))),
            Way::OfTheVersionBefore => {
                let before = self.before.lock().unwrap().get(key).cloned();
                Some(before.unwrap_or_else(|| etag.clone()))
            }
            Way::OfTheKey => Some(ETag::new(format!("\"{key}\""))),
            Way::OneNameThatStays => Some(ETag::new("\"17\"")),
            _ => Some(etag.clone()),
        }
    }

    fn page(&self, mut page: Page) -> Page {
        for entry in &mut page.entries {
            entry.etag = self.listed(entry);
        }
        page
    }

    fn outcome(&self, outcome: PutOutcome) -> PutOutcome {
        match outcome {
            PutOutcome::Done { etag } => {
                PutOutcome::Done { etag: etag.map(|etag| self.shown(etag)) }
            }
            refused => refused,
        }
    }
}

/// Exchanges the tags of entries. The entry at index `i` gets the tag of the entry at index
/// `place(i)`.
fn swap(entries: &mut [Entry], place: impl Fn(usize) -> usize) {
    let etags = entries.iter().map(|entry| entry.etag.clone()).collect::<Vec<_>>();
    for (at, entry) in entries.iter_mut().enumerate() {
        entry.etag.clone_from(&etags[place(at)]);
    }
}

#[async_trait]
impl Layer for Lists {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let mut page = self.page(self.inner.list(prefix, after, limit).await?);
        let len = page.entries.len();
        match self.way {
            Way::OfTheNextKey => swap(&mut page.entries, |at| (at + 1) % len),
            Way::OnTheFirstPage if after > prefix => {
                page.entries.iter_mut().for_each(|entry| entry.etag = None);
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
        let Some(page) = self.inner.list_last(prefix, after, limit).await? else { return Ok(None) };
        let mut page = self.page(page);
        let len = page.entries.len();
        match self.way {
            Way::LastAreReversed => swap(&mut page.entries, |at| len - 1 - at),
            Way::NotForTheLast => page.entries.iter_mut().for_each(|entry| entry.etag = None),
            _ => {}
        }
        Ok(Some(page))
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let unless = unless.map(|etag| self.of_shown(&etag));
        let mut outcome = self.inner.get(key, unless, max_len).await?;
        match &mut outcome {
            GetOutcome::Found(object) => object.etag = self.shown(object.etag.clone()),
            GetOutcome::TooLarge { etag, .. } => *etag = self.shown(etag.clone()),
            _ => {}
        }
        Ok(outcome)
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        Ok(self.outcome(self.inner.create(key, body).await?))
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let etag = self.of_shown(&etag);
        let outcome = self.inner.replace(key, body, etag.clone()).await?;
        if let PutOutcome::Done { .. } = outcome {
            self.before.lock().unwrap().insert(key.to_owned(), etag);
        }
        Ok(self.outcome(outcome))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn listed_etags_may_be_missing_or_have_another_form() {
    for way in [Way::None, Way::WithoutQuotes, Way::Weak, Way::OneNameOfTwo] {
        conformance::run(Arc::new(Lists::in_this_way(way)), "").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn broken_listed_etags_are_caught() {
    for way in [
        Way::OfTheVersionBefore,
        Way::OfTheNextKey,
        Way::OfTheKey,
        Way::OneNameThatStays,
        Way::OnTheFirstPage,
        Way::NotForTheLast,
        Way::LastAreReversed,
    ] {
        fails(Lists::in_this_way(way), way, "list-etags").await;
    }
}

/// Creates an object, and returns the tag that a listing shows for it, or `None` if the listing
/// shows no tag.
async fn listed(store: &impl Store) -> Option<String> {
    store.create("app/a", "{}".into()).await.expect("created");
    let page = store.list("app/", "", 9).await.expect("listed");
    page.entries[0].etag.as_ref().map(ETag::to_string)
}

/// The suite allows listings without ETags, so this test fails if a store no longer lists ETags.
#[tokio::test]
async fn stores_with_etags_in_listings_still_list_them() {
    let read = async |store: &dyn Store| match store.get("app/a", None, 9).await {
        Ok(GetOutcome::Found(object)) => Some(object.etag.to_string()),
        other => panic!("not found: {other:?}"),
    };
    let store = MemoryStore::new();
    assert_eq!(listed(&store).await, read(&store).await);
    let store = ledger::Ledger::default();
    assert_eq!(listed(&store).await, read(&store).await);
    #[cfg(unix)]
    {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = tenure::store::DirStore::open(dir.path()).expect("opened");
        assert_eq!(listed(&store).await, None);
    }
    #[cfg(feature = "s3")]
    {
        use tenure_testkit::s3_server::{BUCKET, S3Server};
        let server = S3Server::start().await;
        let store = server.store(BUCKET);
        assert_eq!(listed(&store).await, read(&store).await);
    }
    #[cfg(feature = "dynamodb")]
    {
        let server = tenure_testkit::dynamo_server::DynamoServer::start();
        let store = server.store();
        assert_eq!(listed(&store).await, read(&store).await);
    }
    #[cfg(feature = "object-store")]
    {
        let store = Arc::new(object_store::memory::InMemory::new());
        let store = tenure::store::AnyObjectStore::new(store).await.expect("the store is accepted");
        assert_eq!(listed(&store).await, read(&store).await);
    }
    #[cfg(feature = "gcs")]
    {
        let server = tenure_testkit::gcs_server::GcsServer::start();
        let store = server.store();
        let (listed, read) = (listed(&store).await.expect("listed"), read(&store).await.unwrap());
        let generation = server.object("app/a").unwrap().generation;
        assert_eq!(read, format!("{listed}|{generation}"));
    }
}
