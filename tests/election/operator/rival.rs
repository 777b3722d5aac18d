//! A store on which another process acts just before a certain request.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tenure::Store;
use tenure_testkit::fault_store::Call;
use tenure_testkit::layer::{Layer, Layered};

type Deed = Pin<Box<dyn Future<Output = ()> + Send>>;

pub struct Interposed {
    inner: Arc<dyn Store>,
    /// The action of the other process, and the number of requests before the action. `None` after
    /// the action has begun.
    deed: Mutex<Option<(usize, Deed)>>,
}

impl Interposed {
    pub fn over(inner: Arc<dyn Store>, before: usize, deed: Deed) -> Layered<Interposed> {
        Layered(Interposed { inner, deed: Mutex::new(Some((before, deed))) })
    }

    /// Returns whether the action is still pending.
    pub fn is_left(&self) -> bool {
        self.deed.lock().unwrap().is_some()
    }
}

impl fmt::Debug for Interposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interposed")
    }
}

#[async_trait]
impl Layer for Interposed {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn before(&self, _: Call) {
        let due = {
            let mut deed = self.deed.lock().unwrap();
            match deed.as_mut() {
                Some((0, _)) => deed.take().map(|(_, deed)| deed),
                Some((left, _)) => {
                    *left -= 1;
                    None
                }
                None => None,
            }
        };
        if let Some(deed) = due {
            deed.await;
        }
    }
}
