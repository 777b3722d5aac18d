//! One run of the compactor: it lists the epochs, and deletes superseded epochs concurrently (C1 to
//! C5).

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _, MaybeDone};
use futures::stream::FuturesUnordered;

use super::requests::PAGE_KEYS;
use super::{Compactor, Report};
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::compaction::{Compaction, Listed, NewestBody, OutOfOrder};
use crate::protocol::find::After;
use crate::store::escape::plain;
use crate::store::{Determinacy, GetOutcome, Page, StoreError, out_of_order, within};

/// Maximum number of concurrent deletions. A run has at most 6,000 epochs in memory: 1,000 for each
/// deletion, 1,000 for the next batch, and 1,000 for the next page.
const MAX_IN_FLIGHT: usize = 4;

pub(super) struct Run<'a> {
    pub(super) compactor: &'a Compactor,
    pub(super) plan: Compaction,
    pub(super) report: Report,
    batch: Vec<Listed>,
    /// The request for the next page, which runs during the work on the current page.
    pub(super) ahead: MaybeDone<BoxFuture<'static, (After, Result<Page, StoreError>)>>,
    pub(super) in_flight: FuturesUnordered<BoxFuture<'static, Deletion>>,
    progress: Box<dyn FnMut(&Report) + Send + 'a>,
}

/// An answered deletion.
pub(super) struct Deletion {
    of: Vec<Listed>,
    outcome: Result<Vec<(String, StoreError)>, StoreError>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        compactor: &'a Compactor,
        progress: impl FnMut(&Report) + Send + 'a,
    ) -> Run<'a> {
        Run {
            compactor,
            plan: Compaction::new(compactor.keep_epochs, compactor.min_age),
            report: Report { dry_run: compactor.dry_run, ..Report::default() },
            batch: Vec::new(),
            ahead: MaybeDone::Gone,
            in_flight: FuturesUnordered::new(),
            progress: Box::new(progress),
        }
    }

    pub(super) async fn run(mut self, stop: impl Future<Output = ()>) -> Result<Report, Error> {
        let outcome = tokio::select! {
            biased;
            outcome = self.compact_all() => Some(outcome),
            () = stop => None,
        };
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => {
                self.settle().await;
                Ok(())
            }
        };
        self.tell();
        let word = self.outcome(outcome.as_ref().err());
        self.log(word, outcome.as_ref().err());
        self.compactor.meter.compacted(word, self.backlog(word));
        outcome.map(|()| self.report)
    }

    /// After an interruption, waits for the deletions in flight, so the report counts all deleted
    /// epochs (C6).
    async fn settle(&mut self) {
        self.report.interrupted = true;
        while let Some(deletion) = self.in_flight.next().await {
            let epochs = deletion.of.len();
            if let Err(error) = self.count(deletion) {
                self.report.failed += epochs as u64;
                self.note_failure(error.kind(), || error.to_string());
            }
        }
    }

    pub(super) fn tell(&mut self) {
        self.report.newest = self.plan.newest();
        self.report.held = self.plan.is_held();
        self.report.min_age_ms = self.plan.min_age().as_millis().try_into().unwrap_or(u64::MAX);
        self.report.kept = self.report.listed - self.report.deleted - self.report.failed;
        (self.progress)(&self.report);
    }

    async fn compact_all(&mut self) -> Result<(), Error> {
        self.compact().await?;
        while let Some(deletion) = self.in_flight.next().await {
            self.count(deletion)?;
        }
        Ok(())
    }

    async fn compact(&mut self) -> Result<(), Error> {
        // List the last possible epoch first, because the main listing would show it only after the
        // deletion of lower epochs (C2).
        self.read_the_last_epoch().await?;
        if self.plan.stopped() {
            return Ok(());
        }
        self.list_ahead(After::Number(0));
        loop {
            let page = self.page_ahead().await?;
            let last = page.rest.is_none();
            // Request the next page now. Before each deletion the run reads the newest epoch, and
            // the request overlaps with this read.
            page.rest.into_iter().for_each(|after| self.list_ahead(after));
            for listed in page.epochs {
                self.see(listed)?;
                if self.batch.len() == PAGE_KEYS {
                    self.delete_batch().await?;
                }
            }
            self.tell();
            if last {
                break;
            }
        }
        // If no epoch remains to delete, the run does not read the newest epoch here.
        if !self.batch.is_empty() || self.plan.has_held_back() {
            self.read_newest().await?;
        }
        self.batch.extend(self.plan.handle_end());
        self.delete_batch().await?;
        while let Some(deletion) = self.in_flight.next().await {
            self.count(deletion)?;
        }
        self.count_epochs_below_min_age();
        Ok(())
    }

    /// Counts the superseded epochs that the run kept only because of their age.
    fn count_epochs_below_min_age(&mut self) {
        if self.plan.stopped() {
            return;
        }
        let Report { listed, deleted, failed, .. } = self.report;
        let keep = self.compactor.keep_epochs.get() as u64;
        self.report.too_young = (listed - deleted - failed).saturating_sub(keep);
    }

    async fn read_the_last_epoch(&mut self) -> Result<(), Error> {
        let mut next = Some(After::Number(Epoch::MAX.get() - 1));
        while let Some(after) = next {
            let page = self.list(&after).await?;
            for listed in page.epochs {
                self.see(listed)?;
            }
            next = page.rest;
        }
        Ok(())
    }

    fn see(&mut self, listed: Listed) -> Result<(), Error> {
        self.report.listed += 1;
        let deletable =
            self.plan.handle_listed(listed).map_err(|OutOfOrder { before, then }| {
                let keys = &self.compactor.keys;
                let error = out_of_order(&keys.epoch(before), &keys.epoch(then));
                self.failure("listing the epochs", error)
            })?;
        self.batch.extend(deletable);
        Ok(())
    }

    /// Reads the newest listed epoch unless it was read before (C3). During the wait, deletions
    /// continue.
    async fn read_newest(&mut self) -> Result<(), Error> {
        let Some(newest) = self.plan.newest_unread() else { return Ok(()) };
        let Compactor { store, keys, request_timeout, newest: reader, .. } = self.compactor;
        let key = keys.epoch(newest);
        self.report.requests += 1;
        let request = store.get(&key, None, reader.most());
        let outcome = self
            .while_deleting(within(*request_timeout, Determinacy::Determinate, request))
            .await?;
        let outcome = outcome.map_err(|error| self.failure("reading the newest epoch", error))?;
        let body = match &outcome {
            GetOutcome::Found(object) => Ok(&object.body[..]),
            GetOutcome::TooLarge { len, .. } => Err(*len),
            // The request has no ETag to compare, so the store cannot return `NotModified`.
            GetOutcome::NotFound | GetOutcome::NotModified => {
                self.plan.handle_read(newest, NewestBody::Gone);
                return Ok(());
            }
        };
        let body = reader.read(newest, body).map_err(|(kind, bad)| {
            let at = store.describe();
            Error::new(kind, format!("{key} in {at}: {bad}; the epochs below it are not deleted"))
        })?;
        self.plan.handle_read(newest, body);
        Ok(())
    }

    /// Deletes the current batch, except the epochs that the newest record protects.
    async fn delete_batch(&mut self) -> Result<(), Error> {
        // An unfinished restore may hold any listed epoch. Lower epochs may be deleted only if the
        // newest listed epoch is not held, so read the newest listed epoch before each deletion
        // (C3, C4).
        if !self.batch.is_empty() {
            self.read_newest().await?;
        }
        let plan = &self.plan;
        self.batch.retain(|listed| plan.may_go(*listed));
        let batch = std::mem::take(&mut self.batch);
        let Some(greatest) = batch.last() else { return Ok(()) };
        assert!(Some(greatest.epoch) < self.plan.newest(), "I3: the newest epoch is never deleted");
        if self.compactor.dry_run {
            self.report.deleted += batch.len() as u64;
            self.report.bytes += batch.iter().map(|listed| listed.size).sum::<u64>();
            return Ok(());
        }
        let keys = batch.iter().map(|listed| self.compactor.keys.epoch(listed.epoch)).collect();
        self.delete(keys, batch).await
    }

    /// Sends a deletion. If the maximum number of deletions is in flight, first waits until a
    /// deletion has ended.
    pub(super) async fn delete(&mut self, keys: Vec<String>, of: Vec<Listed>) -> Result<(), Error> {
        while self.in_flight.len() >= MAX_IN_FLIGHT {
            let Some(deletion) = self.in_flight.next().await else { break };
            self.count(deletion)?;
        }
        self.report.requests += 1;
        let store = Arc::clone(&self.compactor.store);
        let limit = self.compactor.request_timeout;
        let request = async move {
            let outcome = within(limit, Determinacy::Indeterminate, store.delete(keys)).await;
            Deletion { of, outcome }
        };
        self.in_flight.push(request.boxed());
        Ok(())
    }

    pub(super) fn count(&mut self, Deletion { of, outcome }: Deletion) -> Result<(), Error> {
        let failed = outcome.map_err(|error| {
            self.failure(&format!("deleting {} superseded epochs", of.len()), error)
        })?;
        self.count_epochs(of, &failed);
        if let Some((key, error)) = failed.first() {
            self.note_failure(error.kind().into(), || plain(&format!("{key}: {error}")));
        }
        self.tell();
        Ok(())
    }

    /// Keeps the first failure for the report.
    fn note_failure(&mut self, kind: ErrorKind, why: impl FnOnce() -> String) {
        if self.report.first_failure.is_none() {
            self.report.first_failure = Some(why());
            self.report.first_failure_kind = Some(kind);
        }
    }

    fn count_epochs(&mut self, batch: Vec<Listed>, failed: &[(String, StoreError)]) {
        let keys = &self.compactor.keys;
        let left: BTreeSet<Epoch> = failed.iter().filter_map(|(key, _)| keys.parse(key)).collect();
        let size = batch.len();
        let mut gone = batch;
        gone.retain(|listed| !left.contains(&listed.epoch));
        // The store may report a failed key in another form, which matches no epoch of the batch.
        // Such a failure still counts, so at most `size - failed.len()` epochs count as deleted.
        gone.truncate(size.saturating_sub(failed.len()));
        self.compactor.meter.deleted(gone.len());
        self.report.deleted += gone.len() as u64;
        self.report.bytes += gone.iter().map(|listed| listed.size).sum::<u64>();
        self.report.failed += (size - gone.len()) as u64;
    }

    pub(super) fn failure(&self, doing: &str, error: StoreError) -> Error {
        self.compactor.failure(doing, error)
    }

    /// Returns the outcome of the run as one word, for logs and metrics. The words never change.
    pub(super) fn outcome(&self, error: Option<&Error>) -> &'static str {
        match error {
            Some(_) => "error",
            None if self.report.interrupted => "interrupted",
            None if self.report.failed > 0 => "incomplete",
            None if self.plan.is_held() => "held",
            None if self.plan.stopped() => "last_epoch",
            None if self.report.deleted > 0 => "compacted",
            None => "nothing",
        }
    }

    /// Returns the number of remaining epochs minus the number to keep, and at least 0. Returns
    /// `None` if the run is incomplete, or if a held epoch or the last possible epoch stopped it.
    fn backlog(&self, outcome: &'static str) -> Option<u64> {
        let Report { listed, deleted, dry_run, .. } = self.report;
        let gone = if dry_run { 0 } else { deleted };
        let keep = self.compactor.keep_epochs.get() as u64;
        let known = !matches!(outcome, "error" | "interrupted" | "held" | "last_epoch");
        known.then(|| (listed - gone).saturating_sub(keep))
    }

    fn log(&self, outcome: &'static str, error: Option<&Error>) {
        let Report { listed, deleted, kept, failed, bytes, requests, dry_run, .. } = self.report;
        let newest = self.report.newest.map(Epoch::get);
        let (error, reason) = (error.map(tracing::field::display), &self.report.first_failure);
        macro_rules! event {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    election = self.compactor.keys.prefix(),
                    outcome,
                    error,
                    reason,
                    listed,
                    deleted,
                    kept,
                    failed,
                    bytes,
                    requests,
                    newest,
                    dry_run,
                    $message
                )
            };
        }
        match outcome {
            "error" => event!(warn, "compaction ended early"),
            "incomplete" => event!(warn, "some objects could not be deleted"),
            "held" => {
                event!(warn, "stopped: an unfinished restore holds the newest epoch")
            }
            "last_epoch" => event!(warn, "stopped: the newest is the last epoch"),
            "interrupted" => event!(info, "compaction interrupted"),
            "compacted" => event!(info, "compacted"),
            _ => event!(debug, "nothing to compact"),
        }
    }
}
