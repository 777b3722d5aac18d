//! A store with responses that the test chooses.

use async_trait::async_trait;
use bytes::Bytes;
use tenure::Store;
use tenure::store::{ETag, GetOutcome, Page, PutOutcome, StoreError};

mockall::mock! {
    #[derive(Debug)]
    pub(crate) Store {}

    #[async_trait]
    impl Store for Store {
        async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError>;
        async fn get(
            &self,
            key: &str,
            unless: Option<ETag>,
            max_len: usize,
        ) -> Result<GetOutcome, StoreError>;
        async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError>;
        async fn replace(
            &self,
            key: &str,
            body: Bytes,
            etag: ETag,
        ) -> Result<PutOutcome, StoreError>;
        async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError>;
        fn describe(&self) -> String;
    }
}
