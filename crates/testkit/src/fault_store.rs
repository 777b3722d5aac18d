//! A store around another one, with faults to order; it counts and logs what it is asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{
    DeleteOutcome, Determinacy, ETag, GetOutcome, Page, PutOutcome, Store, StoreError,
    StoreErrorKind,
};

use super::time::wait;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    List,
    Get,
    Create,
    Replace,
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A transient error; it did not happen.
    FailBefore,
    /// A transient error after it took effect; nobody knows.
    FailAfter,
    /// 409: somebody else was writing; nothing happened, but that is not said.
    Conflict,
    /// Never answers, without any effect.
    Hang,
    /// Takes effect and never answers.
    HangAfter,
    /// Answers this late; the effect comes at the end.
    Slow(Duration),
    /// Takes effect now, and is answered this late.
    AnswerLate(Duration),
    /// A transient error now; the effect comes this much later.
    Late(Duration),
    Denied,
    NoSuchStore,
    Unsupported,
    /// Written, but the answer has no ETag.
    NoEtag,
    /// Not written, and answered with success and without an ETag.
    Swallow,
    /// A read's ETag is weak (`W/"…"`), as behind a proxy that compresses.
    WeakEtag,
    /// A deletion that is answered as done, and is not.
    Claim,
    /// A condition that holds is refused.
    Refuse,
    /// Writes although the condition does not hold.
    IgnoreCondition,
    /// A listing from the start, whatever it was asked.
    IgnoreAfter,
    /// A listing in descending order.
    Reverse,
    /// Pages of at most so many keys.
    Pages(usize),
}

#[derive(Debug, Clone)]
struct Rule {
    call: Option<Call>,
    key: &'static str,
    skip: usize,
    times: usize,
    fault: Fault,
}

#[derive(Debug, Default)]
struct Shared {
    rules: Vec<Rule>,
    log: Vec<(Call, String)>,
}

/// Clones share the objects, the faults and the log.
#[derive(Debug, Clone)]
pub struct FaultStore {
    inner: Arc<dyn Store>,
    shared: Arc<Mutex<Shared>>,
}

/// A fault that is being ordered.
#[must_use]
pub struct Order<'a> {
    store: &'a FaultStore,
    rule: Rule,
}

impl FaultStore {
    pub fn new(inner: Arc<dyn Store>) -> FaultStore {
        FaultStore { inner, shared: Arc::default() }
    }

    /// The store underneath, for what the test does by its own hand.
    pub fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    /// Orders a fault for calls of this kind, until it has met [`Order::times`].
    pub fn on(&self, call: Call) -> Order<'_> {
        let fault = Fault::FailBefore;
        Order { store: self, rule: Rule { call: Some(call), key: "", skip: 0, times: 1, fault } }
    }

    /// Orders a fault for all calls, from now on.
    pub fn always(&self, fault: Fault) {
        let rule = Rule { call: None, key: "", skip: 0, times: usize::MAX, fault };
        self.shared.lock().unwrap().rules.push(rule);
    }

    /// No faults from now on.
    pub fn heal(&self) {
        self.shared.lock().unwrap().rules.clear();
    }

    /// What was asked since the last call.
    pub fn take_log(&self) -> Vec<(Call, String)> {
        std::mem::take(&mut self.shared.lock().unwrap().log)
    }

    /// The kinds of what was asked since the last call.
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
    /// Only keys that contain this.
    pub fn key(mut self, part: &'static str) -> Self {
        self.rule.key = part;
        self
    }

    /// Not the first so many.
    pub fn skip(mut self, calls: usize) -> Self {
        self.rule.skip = calls;
        self
    }

    /// So many in a row; once if not told.
    pub fn times(mut self, calls: usize) -> Self {
        self.rule.times = calls;
        self
    }

    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }

    /// Gives the order.
    pub fn fault(mut self, fault: Fault) {
        self.rule.fault = fault;
        self.store.shared.lock().unwrap().rules.push(self.rule);
    }
}

struct Put {
    key: String,
    body: Bytes,
    /// `None`: create.
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

/// A plain PUT, which the trait does not have: whatever is there.
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

    async fn delete(&self, keys: Vec<String>) -> Result<DeleteOutcome, StoreError> {
        let fault = self.next(Call::Delete, &keys.join(","));
        if fault == Some(Fault::Claim) {
            return Ok(DeleteOutcome::new(keys.len(), Vec::new()));
        }
        around(fault, self.inner.delete(keys)).await
    }

    fn describe(&self) -> String {
        "a store with faults".to_owned()
    }
}
