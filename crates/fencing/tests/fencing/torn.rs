//! Tests of a log on a store that lists keys in no order.

use async_trait::async_trait;
use tenure::store::{Capabilities, Page, StoreError};

use super::*;
use tenure_testkit::layer::{Layer, Layered};

/// A store that lists keys without order. Each listing is *torn*: it takes several requests, and
/// other processes may write between them.
#[derive(Debug, Default)]
struct Torn {
    inner: Arc<MemoryStore>,
    lists: AtomicU64,
    /// True if a trim of the log runs during the second listing.
    trims: bool,
    /// Number that the first two listings omit, because its object is created meanwhile.
    omits: Option<u64>,
}

#[async_trait]
impl Layer for Torn {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let mut page = self.inner.list(prefix, after, limit).await?;
        let lists = self.lists.fetch_add(1, Ordering::Relaxed);
        let omitted = self.omits.filter(|_| lists < 2).map(|number| format!("log/{number:020}"));
        page.entries.retain(|entry| Some(&entry.key) != omitted.as_ref());
        if lists == 1 && self.trims {
            let store: Arc<dyn Store> = self.inner.clone();
            log_of(&store).trim(4).await.unwrap();
        }
        page.torn = true;
        Ok(page)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities().with_lists_without_order(true)
    }
}

/// Writes three entries to a log, and returns a log that reads them through the torn listings.
async fn torn(layer: Torn) -> (Arc<Layered<Torn>>, FencedLog) {
    let layer = Arc::new(Layered(layer));
    let inner: Arc<dyn Store> = layer.0.inner.clone();
    let mut writer = log_of(&inner).open(e(1)).await.unwrap();
    for body in ["a", "b", "c"] {
        writer.append(body).await.unwrap();
    }
    let store: Arc<dyn Store> = layer.clone();
    (layer, log_of(&store))
}

#[tokio::test(start_paused = true)]
async fn a_torn_listing_may_omit_an_entry_that_is_created_meanwhile() {
    let (layer, log) = torn(Torn { omits: Some(3), ..Torn::default() }).await;
    let bodies: Vec<_> = all(&log, 1).await.into_iter().map(|entry| entry.2).collect();
    assert_eq!(bodies, ["a", "b", "c"]);
    assert_eq!(layer.0.lists.load(Ordering::Relaxed), 4);
}

/// A trim raises the floor, so the log does not use the listing during the trim.
#[tokio::test(start_paused = true)]
async fn a_torn_listing_is_repeated_if_the_floor_was_raised_meanwhile() {
    let (layer, log) = torn(Torn { trims: true, ..Torn::default() }).await;
    for lists in [4, 6] {
        assert_eq!(log.latest().await.unwrap().unwrap().body, "c");
        assert_eq!(layer.0.lists.load(Ordering::Relaxed), lists);
    }
}
