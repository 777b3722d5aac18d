//! A wrapper that makes a store fail on demand and records each call.
//!
//! ```
//! use std::sync::Arc;
//! use tenure::store::{MemoryStore, Store as _};
//! use tenure_testkit::fault_store::{Call, Fault, FaultStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let store = FaultStore::new(Arc::new(MemoryStore::new()));
//! store.on(Call::Create).key("lock-").fault(Fault::FailAfter);
//!
//! // The write takes effect, but the caller receives an error.
//! store.create("app/lock-0000000001.json", "{}".into()).await.unwrap_err();
//! assert_eq!(store.inner().list("app/", "", 10).await.unwrap().entries.len(), 1);
//! assert_eq!(store.take_calls(), [Call::Create]);
//! # }
//! ```

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{
    Determinacy, ETag, GetOutcome, Page, PutOutcome, Store, StoreError, StoreErrorKind,
};

use super::time::wait;

/// A kind of call of a [`Store`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// [`Store::list`]
    List,
    /// [`Store::get`]
    Get,
    /// [`Store::create`]
    Create,
    /// [`Store::replace`]
    Replace,
    /// [`Store::delete`]
    Delete,
}

/// A fault of a call. Delays are measured by Tokio's clock, which a test can pause.
///
/// A fault that cannot occur in a call, such as a weak ETag in a listing, does not change the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call has no effect, and fails with a transient error that is determinate.
    FailBefore,
    /// The call takes effect, and fails with a transient error that is indeterminate.
    FailAfter,
    /// The call has no effect, and fails like a response with status 409 (a concurrent write). The
    /// error is indeterminate.
    Conflict,
    /// The call has no effect and never returns.
    Hang,
    /// The call takes effect and never returns.
    HangAfter,
    /// The call takes effect after this delay, and then returns.
    Slow(Duration),
    /// The call takes effect immediately, and returns after this delay.
    AnswerLate(Duration),
    /// A write fails immediately with an indeterminate error, and takes effect after this delay.
    Late(Duration),
    /// The call fails with [`StoreErrorKind::AccessDenied`].
    Denied,
    /// The call fails with [`StoreErrorKind::NoSuchStore`].
    NoSuchStore,
    /// The call fails with [`StoreErrorKind::Unsupported`].
    Unsupported,
    /// The call fails with [`StoreErrorKind::Invalid`], like a response with status 400.
    Invalid,
    /// A write takes effect, but returns no ETag.
    NoEtag,
    /// A write has no effect, and returns success without an ETag.
    Swallow,
    /// A read returns a weak ETag (`W/"…"`), as it does through a proxy that compresses responses.
    WeakEtag,
    /// A read reports an existing object as missing.
    Hidden,
    /// A deletion has no effect, and returns success.
    Claim,
    /// A write is refused although its condition is true. The write has no effect.
    Refuse,
    /// A write takes effect, although its condition is false.
    IgnoreCondition,
    /// A listing ignores `after` and starts from the beginning.
    IgnoreAfter,
    /// The keys of a listing's page are in descending order.
    Reverse,
    /// A page of a listing has at most this number of keys.
    Pages(usize),
}

#[derive(Debug, Clone)]
struct OrderedFault {
    call: Option<Call>,
    key: &'static str,
    skip: usize,
    times: usize,
    fault: Fault,
}

#[derive(Debug, Default)]
struct Orders {
    rules: Vec<OrderedFault>,
    log: Vec<(Call, String)>,
}

/// A [`Store`] that passes each call to another store, unless a fault is ordered for the call. The
/// [module](self) has an example. Clones share the objects, the faults and the log of calls.
#[derive(Debug, Clone)]
pub struct FaultStore {
    inner: Arc<dyn Store>,
    shared: Arc<Mutex<Orders>>,
}

/// The description of a fault. The fault has no effect until [`fault`](Order::fault) adds it to the
/// store.
#[must_use = "call `fault` to order the fault"]
pub struct Order<'a> {
    store: &'a FaultStore,
    rule: OrderedFault,
}

impl FaultStore {
    /// Wraps a store, without faults.
    pub fn new(inner: Arc<dyn Store>) -> FaultStore {
        FaultStore { inner, shared: Arc::default() }
    }

    /// Returns the wrapped store. Calls to the wrapped store meet no fault and are not recorded.
    pub fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    /// Begins the description of a fault for calls of this kind. By default the fault applies only
    /// to the first matching call. [`times`](Order::times) and [`always`](Order::always) apply it
    /// to more calls. If several faults match a call, the fault that was ordered first applies.
    pub fn on(&self, call: Call) -> Order<'_> {
        let fault = Fault::FailBefore;
        Order {
            store: self,
            rule: OrderedFault { call: Some(call), key: "", skip: 0, times: 1, fault },
        }
    }

    /// Orders a fault for all calls of all kinds, until [`heal`](FaultStore::heal).
    pub fn always(&self, fault: Fault) {
        let rule = OrderedFault { call: None, key: "", skip: 0, times: usize::MAX, fault };
        self.shared.lock().unwrap().rules.push(rule);
    }

    /// Removes all faults. Calls in progress are not affected.
    pub fn heal(&self) {
        self.shared.lock().unwrap().rules.clear();
    }

    /// Returns and clears the log of calls: the kind and the key of each call. The key of a listing
    /// is the key after which it starts. The key of a deletion is the list of its keys, separated
    /// by commas.
    pub fn take_log(&self) -> Vec<(Call, String)> {
        std::mem::take(&mut self.shared.lock().unwrap().log)
    }

    /// Returns the kinds of the logged calls, and clears the log.
    pub fn take_calls(&self) -> Vec<Call> {
        self.take_log().into_iter().map(|(call, _)| call).collect()
    }

    fn next(&self, call: Call, key: &str) -> Option<Fault> {
        let mut shared = self.shared.lock().unwrap();
        shared.log.push((call, key.to_owned()));
        for rule in &mut shared.rules {
            if rule.call.is_some_and(|wanted| wanted != call) || !key.contains(rule.key) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
            } else if rule.times > 0 {
                rule.times -= 1;
                return Some(rule.fault);
            }
        }
        None
    }

    async fn put(&self, put: Put, fault: Option<Fault>) -> Result<PutOutcome, StoreError> {
        match fault {
            Some(Fault::Late(delay)) => {
                let inner = Arc::clone(&self.inner);
                tokio::spawn(async move {
                    wait(delay).await;
                    put.send(&*inner).await
                });
                Err(maybe("the connection broke"))
            }
            Some(Fault::Refuse) => Ok(PutOutcome::PreconditionFailed),
            Some(Fault::Swallow) => Ok(PutOutcome::Done { etag: None }),
            Some(Fault::IgnoreCondition) => put.overwrite(&*self.inner).await,
            Some(Fault::NoEtag) => Ok(match put.send(&*self.inner).await? {
                PutOutcome::Done { .. } => PutOutcome::Done { etag: None },
                other => other,
            }),
            fault => around(fault, put.send(&*self.inner)).await,
        }
    }
}

impl Order<'_> {
    /// Limits the fault to calls with this text in their key.
    pub fn key(mut self, part: &'static str) -> Self {
        self.rule.key = part;
        self
    }

    /// Skips this number of matching calls.
    pub fn skip(mut self, calls: usize) -> Self {
        self.rule.skip = calls;
        self
    }

    /// Sets the number of matching calls that meet the fault. The default is 1.
    pub fn times(mut self, calls: usize) -> Self {
        self.rule.times = calls;
        self
    }

    /// Applies the fault to all matching calls, until [`heal`](FaultStore::heal).
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }

    /// Orders this fault.
    pub fn fault(mut self, fault: Fault) {
        self.rule.fault = fault;
        self.store.shared.lock().unwrap().rules.push(self.rule);
    }
}

struct Put {
    key: String,
    body: Bytes,
    /// ETag of the object to replace. `None` creates an object.
    etag: Option<ETag>,
}

impl Put {
    async fn send(self, store: &dyn Store) -> Result<PutOutcome, StoreError> {
        match self.etag {
            Some(etag) => store.replace(&self.key, self.body, etag).await,
            None => store.create(&self.key, self.body).await,
        }
    }

    async fn overwrite(self, store: &dyn Store) -> Result<PutOutcome, StoreError> {
        Ok(PutOutcome::Done { etag: Some(overwrite(store, &self.key, self.body).await) })
    }
}

/// Writes an object unconditionally. [`Store`] has no method for such a write. Repeats the write
/// until the store accepts it with an ETag. Returns this ETag.
///
/// # Panics
///
/// Panics if the store fails.
pub async fn overwrite(store: &dyn Store, key: &str, body: Bytes) -> ETag {
    loop {
        let outcome = match store.get(key, None, usize::MAX).await.expect("read") {
            GetOutcome::Found(object) => store.replace(key, body.clone(), object.etag).await,
            _ => store.create(key, body.clone()).await,
        };
        if let PutOutcome::Done { etag: Some(etag) } = outcome.expect("written") {
            return etag;
        }
    }
}

async fn around<T>(
    fault: Option<Fault>,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let failed = |kind, why: &str| Err(StoreError::new(kind, Determinacy::Determinate, why));
    match fault {
        Some(Fault::FailBefore) => failed(StoreErrorKind::Transient, "503 SlowDown"),
        Some(Fault::FailAfter) => {
            call.await?;
            Err(maybe("500 InternalError"))
        }
        Some(Fault::Conflict) => Err(maybe("409 ConditionalRequestConflict")),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::HangAfter) => {
            call.await?;
            std::future::pending().await
        }
        Some(Fault::Slow(delay)) => {
            wait(delay).await;
            call.await
        }
        Some(Fault::AnswerLate(delay)) => {
            let answer = call.await;
            wait(delay).await;
            answer
        }
        Some(Fault::Denied) => failed(StoreErrorKind::AccessDenied, "403 AccessDenied"),
        Some(Fault::NoSuchStore) => failed(StoreErrorKind::NoSuchStore, "404 NoSuchBucket"),
        Some(Fault::Unsupported) => failed(StoreErrorKind::Unsupported, "501 NotImplemented"),
        Some(Fault::Invalid) => failed(StoreErrorKind::Invalid, "400 Bad Request"),
        _ => call.await,
    }
}

fn maybe(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Transient, Determinacy::Indeterminate, why)
}

#[async_trait]
impl Store for FaultStore {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let fault = self.next(Call::List, after);
        let (after, limit) = match fault {
            Some(Fault::IgnoreAfter) => ("", limit),
            Some(Fault::Pages(keys)) => (after, limit.min(keys)),
            _ => (after, limit),
        };
        let mut page = around(fault, self.inner.list(prefix, after, limit)).await?;
        if fault == Some(Fault::Reverse) {
            page.entries.reverse();
        }
        Ok(page)
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let fault = self.next(Call::Get, key);
        if fault == Some(Fault::Hidden) {
            return Ok(GetOutcome::NotFound);
        }
        let mut outcome = around(fault, self.inner.get(key, unless, max_len)).await?;
        if let (Some(Fault::WeakEtag), GetOutcome::Found(object)) = (fault, &mut outcome) {
            object.etag = ETag::new(format!("W/{}", object.etag));
        }
        Ok(outcome)
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        let fault = self.next(Call::Create, key);
        self.put(Put { key: key.to_owned(), body, etag: None }, fault).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let fault = self.next(Call::Replace, key);
        self.put(Put { key: key.to_owned(), body, etag: Some(etag) }, fault).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        let fault = self.next(Call::Delete, &keys.join(","));
        if fault == Some(Fault::Claim) {
            return Ok(Vec::new());
        }
        around(fault, self.inner.delete(keys)).await
    }

    fn describe(&self) -> String {
        "a store with faults".to_owned()
    }
}
