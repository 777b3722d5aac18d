//! The connection of a process to a simulated store.

use async_trait::async_trait;
use bytes::Bytes;
use tenure::Store;
use tenure::store::{Determinacy, ETag, GetOutcome, Page, PutOutcome, StoreError, StoreErrorKind};

#[derive(Debug, Clone)]
pub enum Request {
    List { prefix: String, after: String, limit: usize },
    Get { key: String, unless: Option<ETag>, max_len: usize },
    Create { key: String, bytes: Bytes },
    Replace { key: String, bytes: Bytes, etag: ETag },
    Delete { keys: Vec<String> },
}

#[derive(Debug, Clone)]
pub enum Reply {
    Page(Page),
    Got(GetOutcome),
    Put(PutOutcome),
    /// Number of deleted keys. The store deletes the keys in the order of the request.
    Deleted(usize),
}

pub type Answer = Result<Reply, StoreError>;

impl Request {
    /// Returns whether the request is a create or a replacement.
    pub fn is_write(&self) -> bool {
        matches!(self, Request::Create { .. } | Request::Replace { .. })
    }
}

/// Sends the requests of a process to a simulated store.
#[async_trait]
pub trait Calls: std::fmt::Debug + Send + Sync + 'static {
    async fn call(&self, request: Request) -> Answer;
}

/// A [`Store`] over simulated requests.
#[derive(Debug)]
pub struct Connection<C>(pub C);

fn wrong(reply: &Reply) -> ! {
    unreachable!("the reply does not match the request: {reply:?}")
}

impl<C: Calls> Connection<C> {
    async fn put(&self, request: Request) -> Result<PutOutcome, StoreError> {
        match self.0.call(request).await? {
            Reply::Put(outcome) => Ok(outcome),
            reply => wrong(&reply),
        }
    }
}

#[async_trait]
impl<C: Calls> Store for Connection<C> {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        match self.0.call(Request::List { prefix, after, limit }).await? {
            Reply::Page(page) => Ok(page),
            reply => wrong(&reply),
        }
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        match self.0.call(Request::Get { key: key.to_owned(), unless, max_len }).await? {
            Reply::Got(outcome) => Ok(outcome),
            reply => wrong(&reply),
        }
    }

    async fn create(&self, key: &str, bytes: Bytes) -> Result<PutOutcome, StoreError> {
        self.put(Request::Create { key: key.to_owned(), bytes }).await
    }

    async fn replace(&self, key: &str, bytes: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        self.put(Request::Replace { key: key.to_owned(), bytes, etag }).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        match self.0.call(Request::Delete { keys: keys.clone() }).await? {
            Reply::Deleted(deleted) => {
                let busy =
                    StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, "busy");
                Ok(keys.into_iter().skip(deleted).map(|key| (key, busy.clone())).collect())
            }
            reply => wrong(&reply),
        }
    }

    fn describe(&self) -> String {
        "the simulated store".to_owned()
    }
}
