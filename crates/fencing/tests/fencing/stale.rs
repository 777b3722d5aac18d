//! A store that refuses each create as if the object existed, but reports the object as missing to
//! each read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{ETag, GetOutcome, MemoryStore, PutOutcome, Store, StoreError};
use tenure::{Epoch, ErrorKind};
use tenure_fencing::FencingError;

use tenure_testkit::fault_store::Call;
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{millis, secs, timed, within};

#[derive(Debug)]
struct Stale {
    inner: MemoryStore,
    calls: AtomicUsize,
}

const ENOUGH: usize = 10_000;

#[async_trait]
impl Layer for Stale {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn before(&self, _: Call) {
        if self.calls.fetch_add(1, Ordering::SeqCst) >= ENOUGH {
            std::future::pending::<()>().await;
        }
    }

    async fn get(&self, _: &str, _: Option<ETag>, _: usize) -> Result<GetOutcome, StoreError> {
        Ok(GetOutcome::NotFound)
    }

    async fn create(&self, _: &str, _: Bytes) -> Result<PutOutcome, StoreError> {
        Ok(PutOutcome::PreconditionFailed)
    }
}

/// Before the fix, if the reads of a store lagged behind, `open` sent 10,000 requests without a
/// pause, and did not end.
#[tokio::test(start_paused = true)]
async fn regression_an_opening_fails_if_reads_lag_behind() {
    let store = Arc::new(Layered(Stale { inner: MemoryStore::new(), calls: AtomicUsize::new(0) }));
    let log = super::log_of(&(store.clone() as Arc<dyn Store>));
    let (took, opened) = timed(within(secs(60), log.open(Epoch::FIRST))).await;
    let opened = opened.expect("the opening must end");
    // The five pauses between the six attempts are 50 to 800 ms. Half of each pause is random.
    assert!(took >= millis(775) && took < millis(1_550 + 5), "{took:?}");
    let Err(FencingError::Failed(error)) = opened else { panic!("the opening must fail") };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("lag behind"), "{error}");
    let calls = store.0.calls.load(Ordering::SeqCst);
    assert!(calls < 50, "{calls} requests");
}
