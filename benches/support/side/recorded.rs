//! A store that remembers when each request was sent.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tenure::store::{S3Store, Store};
use tenure_testkit::fault_store::Call;
use tenure_testkit::layer::Layer;
use tokio::time::Instant;

/// Clones share what is remembered.
#[derive(Debug, Clone)]
pub struct Recorded {
    store: Arc<S3Store>,
    sent: Arc<Mutex<Vec<(Call, Instant)>>>,
}

impl Recorded {
    pub fn new(store: S3Store) -> Recorded {
        Recorded { store: Arc::new(store), sent: Arc::default() }
    }

    /// Another candidate's, through the same client.
    pub fn another(&self) -> Recorded {
        Recorded { store: self.store.clone(), sent: Arc::default() }
    }

    /// What was sent since the last call.
    pub fn sent(&self) -> Vec<(Call, Instant)> {
        std::mem::take(&mut self.sent.lock().expect("no step under the lock panics"))
    }
}

#[async_trait]
impl Layer for Recorded {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn before(&self, call: Call) {
        let now = Instant::now();
        self.sent.lock().expect("no step under the lock panics").push((call, now));
    }
}
