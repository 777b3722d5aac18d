//! A store that answers at once and allocates nothing beyond the box of the call's future.

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{ETag, Entry, GetOutcome, Object, Page, PutOutcome, Store, StoreError};

#[derive(Debug)]
pub struct Still {
    /// Who leads, if anybody does.
    pub led: Option<(String, Bytes)>,
    pub etag: ETag,
}

#[async_trait]
impl Store for Still {
    async fn list(&self, _: &str, after: &str, _: usize) -> Result<Page, StoreError> {
        let led = self.led.iter().filter(|(key, _)| key.as_str() > after);
        let entries = led.map(|(key, _)| Entry::new(key, 0));
        Ok(Page::new(entries.collect(), false))
    }

    async fn get(&self, _: &str, unless: Option<ETag>, _: usize) -> Result<GetOutcome, StoreError> {
        let Some((_, body)) = &self.led else { return Ok(GetOutcome::NotFound) };
        if unless.is_some() {
            return Ok(GetOutcome::NotModified);
        }
        let (body, etag) = (body.clone(), self.etag.clone());
        Ok(GetOutcome::Found(Object::new(body, etag)))
    }

    async fn create(&self, _: &str, _: Bytes) -> Result<PutOutcome, StoreError> {
        Ok(PutOutcome::Done { etag: Some(self.etag.clone()) })
    }

    async fn replace(&self, _: &str, _: Bytes, _: ETag) -> Result<PutOutcome, StoreError> {
        Ok(PutOutcome::Done { etag: Some(self.etag.clone()) })
    }

    async fn delete(&self, _: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        Ok(Vec::new())
    }

    fn describe(&self) -> String {
        "nowhere".to_owned()
    }
}
