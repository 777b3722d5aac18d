//! Lists the epochs page by page. While a run works on a page, it already requests the next page.

use std::pin::{Pin, pin};
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::{FutureExt as _, MaybeDone, maybe_done};

use super::Compactor;
use super::requests::PAGE_KEYS;
use super::run::Run;
use crate::error::Error;
use crate::protocol::find::After;
use crate::record::listing::{EpochsOfPage, key_of};
use crate::store::{Page, StoreError, listed_within};

impl Run<'_> {
    /// Waits for a request, and returns the store's answer. During the wait, deletions and the
    /// request for the next page continue.
    pub(super) async fn while_deleting<T>(
        &mut self,
        request: impl Future<Output = T>,
    ) -> Result<T, Error> {
        let mut request = pin!(request);
        loop {
            let listing = matches!(self.ahead, MaybeDone::Future(_));
            tokio::select! {
                biased;
                Some(deletion) = self.in_flight.next() => self.count(deletion)?,
                () = &mut self.ahead, if listing => {}
                answer = &mut request => return Ok(answer),
            }
        }
    }

    /// Prepares the request for a page, and does not wait for the page.
    /// [`page_ahead`](Run::page_ahead) waits for it.
    pub(super) fn list_ahead(&mut self, after: After) {
        let Compactor { store, keys, request_timeout, .. } = self.compactor;
        let (store, limit) = (Arc::clone(store), *request_timeout);
        let (prefix, start) = (keys.epoch_prefix().to_owned(), key_of(keys, &after));
        self.report.requests += 1;
        let request = async move {
            let request = store.list(&prefix, &start, PAGE_KEYS);
            (after, listed_within(limit, request).await)
        };
        self.ahead = maybe_done(request.boxed());
    }

    pub(super) async fn page_ahead(&mut self) -> Result<EpochsOfPage, Error> {
        let (after, page) = loop {
            if let Some(page) = Pin::new(&mut self.ahead).take_output() {
                break page;
            }
            tokio::select! {
                biased;
                Some(deletion) = self.in_flight.next() => self.count(deletion)?,
                () = &mut self.ahead => {}
            }
        };
        self.epochs_of(&after, page)
    }

    /// Lists one page, and waits for its epochs. During the wait, deletions continue.
    pub(super) async fn list(&mut self, after: &After) -> Result<EpochsOfPage, Error> {
        let Compactor { store, keys, request_timeout, .. } = self.compactor;
        let start = key_of(keys, after);
        self.report.requests += 1;
        let request = store.list(keys.epoch_prefix(), &start, PAGE_KEYS);
        let page = self.while_deleting(listed_within(*request_timeout, request)).await?;
        self.epochs_of(after, page)
    }

    fn epochs_of(
        &self,
        after: &After,
        page: Result<Page, StoreError>,
    ) -> Result<EpochsOfPage, Error> {
        let keys = &self.compactor.keys;
        page.and_then(|page| EpochsOfPage::of_any(keys, after, &page)).map_err(|error| {
            let start = key_of(keys, after);
            self.failure(&format!("listing the epochs after {start:?}"), error)
        })
    }
}
