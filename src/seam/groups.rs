//! What `tenure-groups` needs of the election beyond the API. Not part of the API: a crate that uses
//! it depends on this very version (`=`).
//!
//! A group's member holds a session, which is an election on a single object with one candidate.
//! Its assignments are numbered objects, found by the search that finds the newest epoch.
//!
//! | part | items |
//! | --- | --- |
//! | keys and requests | [`Context`], [`Requests`], [`Written`] |
//! | the newest numbered object | [`Search`], [`Progress`], [`SuccessorSearch`], [`SuccessorStatus`], [`After`], [`Listing`] |
//! | one leadership on a single object | [`Record`], [`Nonce`], [`Drift`], [`SharedValues`] |
//! | telemetry | [`Meter`], [`LeaseMetrics`] |
//!
//! Beside these 15 types, this module adds hidden methods to public types: to build a [`Context`],
//! to renew with new data, and to compact numbered objects.
//!
//! # Contract
//!
//! - A [`Context`] is one key prefix of a store with the settings of one process. Each of its
//!   requests is counted, and ends after the request timeout. [`Context::create`] and
//!   [`Context::replace`] classify the answer to a write as elections do: a write is
//!   [`Written::Done`] only with an ETag, and any answer that leaves its effect open is
//!   [`Written::Unknown`]. Nothing sends a request twice.
//! - [`Requests`] is the memory of one caller. Each answer of the store goes to
//!   [`Requests::answered`], each failure to [`Requests::fails`], in the order of the answers. It
//!   then knows when to pause and when to give up.
//! - The caller of [`Context::campaign_alone`] uses a prefix that no other process knows. The
//!   leadership is renewed until it is resigned, lost or dropped.
//! - Only [`Context::learn`] makes a greater number known to later callers of the process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Span;

pub use crate::driver::lead::SharedValues;
pub use crate::driver::{Context, Requests};
pub use crate::env::nonce::Nonce;
pub use crate::protocol::find::{
    After, Listing, Progress, Search, SuccessorSearch, SuccessorStatus,
};
pub use crate::protocol::lease::Drift;
pub use crate::record::Record;
pub use crate::store::Written;
pub use crate::telemetry::{LeaseMetrics, Meter};

use crate::api::builder::ElectionBuilder;
use crate::api::leadership::{Cancellation, Leadership, Lease};
use crate::driver::config::{Config, MAX_DATA_LEVELS, nests_beyond};
use crate::driver::lead::Command;
#[cfg(feature = "internals")]
use crate::driver::lead::Lead;
use crate::driver::runtime::require_timers;
use crate::driver::store_check::check_store;
use crate::driver::{CampaignEnd, Driver, FAILURES_BEFORE_GIVING_UP, Patience};
use crate::env::moment::Moment;
use crate::env::process::Process;
use crate::env::timer::{LOOK, pause, sleep};
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::layout::Layout;
use crate::protocol::message::{Answer, EpochEnd};
use crate::record::keys::Keys;
use crate::record::listing::{EpochsOfPage, key_of};
use crate::record::{BadRecord, MAX_READ_BYTES, MAX_WRITTEN_BYTES};
use crate::store::{
    ETag, GetOutcome, Object, Page, StoreError, StoreErrorKind, answer_within, check_order,
    listing_within,
};

/// Keys asked of one LIST.
const PAGE: usize = 1_000;

/// Settings and surroundings. No method sends a request.
#[doc(hidden)]
impl ElectionBuilder {
    /// Checks the settings, and returns the context of objects that are numbered as epochs are,
    /// with this in front of their numbers.
    pub fn numbered(
        self,
        stem: &'static str,
        metrics: &'static LeaseMetrics,
    ) -> Result<Context, Error> {
        let (store, prefix, settings, process) = self.parts();
        let keys = Keys::numbered_with(&prefix, stem)?;
        let config = Arc::new(Config::new(settings)?);
        let meter = Meter::with(&*store, &keys, metrics);
        Ok(Context::new(store, keys, config, process, &meter))
    }

    /// What a seal keeps of the data of the record. Default: nothing.
    pub fn kept_in_seals(mut self, kept: fn(&Value) -> Value) -> ElectionBuilder {
        self.keep_in_seals(kept);
        self
    }
}

/// The place in the store, and the settings.
#[doc(hidden)]
impl Context {
    /// The context of a single object below this one, for one leadership of this process.
    pub fn single_object(
        &self,
        path: &str,
        kept_in_seals: fn(&Value) -> Value,
    ) -> Result<Context, Error> {
        let keys = Keys::new(&format!("{}{path}", self.keys.prefix()))?;
        let config = Config { kept_in_seals, ..self.single_object_config() };
        let (given, process) = (Arc::clone(&self.given), self.process.clone());
        let cx = Context::new(given, keys, Arc::new(config), process, &self.meter);
        Ok(cx.failing_with(self))
    }

    fn single_object_config(&self) -> Config {
        Config {
            layout: Layout::SingleObject,
            check_store: false,
            data: Value::Null,
            ..(*self.config).clone()
        }
    }

    /// Refuses data that a record of a single object cannot hold.
    pub fn check_data(&self, data: &Value) -> Result<(), Error> {
        self.single_object_config().check_data(data)
    }

    /// The prefix, empty or with a slash at its end.
    pub fn prefix(&self) -> &str {
        self.keys.prefix()
    }

    /// The key of a numbered object.
    pub fn key(&self, number: Epoch) -> String {
        self.keys.epoch(number)
    }

    /// The store, for errors and logs.
    pub fn place(&self) -> String {
        self.store.describe()
    }

    /// The longest body that the store takes, in bytes.
    pub fn max_body_bytes(&self) -> Option<usize> {
        self.given.capabilities().max_body_bytes
    }

    /// The display name of this process.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Whether no two living processes have this name.
    pub fn name_is_unique(&self) -> bool {
        self.config.name_is_unique
    }

    /// The length of a lease.
    pub fn validity(&self) -> Duration {
        self.config.validity
    }

    /// The time between two polls.
    pub fn poll_interval(&self) -> Duration {
        self.config.poll_interval
    }

    /// The time that one request may take.
    pub fn request_timeout(&self) -> Duration {
        self.config.request_timeout
    }

    /// By how much the rates of two clocks may differ.
    pub fn drift(&self) -> Drift {
        self.config.drift
    }

    /// The counters of this process.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

/// Time, chance and tasks of the process.
#[doc(hidden)]
impl Context {
    /// The process itself.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The clocks.
    pub fn now(&self) -> Moment {
        self.process.now()
    }

    /// A number that no process has drawn before.
    pub fn unique(&self) -> u128 {
        self.process.unique()
    }

    /// A nonce, remembered as one of this process.
    pub fn nonce(&self) -> Nonce {
        self.process.nonce()
    }

    /// A random part of `most`.
    pub fn jitter(&self, most: Duration) -> Duration {
        self.process.jitter(most)
    }

    /// Runs a task in the background.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.process.spawn(task);
    }

    /// Waits until this time has passed by the clock of the process.
    pub async fn sleep(&self, duration: Duration) {
        sleep(&self.process, duration).await;
    }

    /// Waits before the clock is read again, for at most `most`. It depends on no other task.
    pub async fn look_pause(&self, most: Duration) {
        pause(most.min(LOOK)).await;
    }

    /// Fails outside of a Tokio runtime with timers.
    pub fn require_timers(&self) -> Result<(), Error> {
        require_timers()
    }
}

/// Requests, each sent once.
#[doc(hidden)]
impl Context {
    /// Checks the store, once for each store value of the process. It retries until it is done, or
    /// until an error is final.
    pub async fn check_store(&self) -> Result<(), Error> {
        check_store(self, Patience::Wait).await
    }

    /// Lists numbered objects.
    pub async fn list_numbered(&self, after: &After) -> Result<Listing, StoreError> {
        let start = key_of(&self.keys, after);
        let page = self.store.list(self.keys.epoch_prefix(), &start, PAGE);
        let page = listing_within(&self.process, self.config.request_timeout, page).await;
        let page = page.and_then(|page| EpochsOfPage::of(&self.keys, after, &page));
        page.map(|page| page.listing()).map_err(StoreError::of_a_read)
    }

    /// Lists the keys below this prefix after `start`, in order. Also returns the last key.
    pub async fn list(&self, prefix: &str, start: &str) -> Result<(Page, String), StoreError> {
        let page = self.store.list(prefix, start, PAGE);
        let page = listing_within(&self.process, self.config.request_timeout, page).await;
        let checked = page.and_then(|page| {
            let last = check_order(prefix, start, &page)?.to_owned();
            Ok((page, last))
        });
        checked.map_err(StoreError::of_a_read)
    }

    /// Reads an object of at most `most` bytes, unless it still has this tag.
    pub async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        most: usize,
    ) -> Result<GetOutcome, StoreError> {
        let read = self.store.get(key, unless, most);
        let read = answer_within(&self.process, self.config.request_timeout, read).await;
        read.map_err(StoreError::of_a_read)
    }

    /// Creates an object, if there is none.
    pub async fn create(&self, key: &str, body: Bytes) -> Written {
        let write = self.store.create(key, body);
        let write = answer_within(&self.process, self.config.request_timeout, write).await;
        self.written(write)
    }

    /// Replaces an object, if it has this tag.
    pub async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Written {
        let write = self.store.replace(key, body, etag);
        let write = answer_within(&self.process, self.config.request_timeout, write).await;
        self.written(write)
    }

    fn written(&self, write: Result<crate::store::PutOutcome, StoreError>) -> Written {
        let written = self.writes.read(write);
        if let Written::Done(_) = written {
            self.wrote();
        }
        written
    }

    /// Campaigns on the single object of this context, which no other process knows, and leads.
    /// `None`: the campaign took longer than a validity, or its epoch was sealed and compacted.
    /// The denials in a row are counted in `requests`.
    pub async fn campaign_alone(
        self: &Arc<Context>,
        requests: &mut Requests,
    ) -> Result<Option<(Leadership, Nonce)>, Error> {
        let mut driver = Driver::candidate(self);
        std::mem::swap(&mut driver.denial, &mut requests.denial);
        let reached = self.campaign_in_time(&mut driver).await;
        std::mem::swap(&mut driver.denial, &mut requests.denial);
        let nonce = reached?.then(|| driver.nonce()).flatten();
        let lead = |nonce| (Leadership::new(driver.start_leading(&Span::current())), nonce);
        Ok(nonce.map(lead))
    }

    async fn campaign_in_time(&self, driver: &mut Driver) -> Result<bool, Error> {
        // Past its validity the created object may have been sealed and compacted, and a DELETE of
        // it that arrives late would find the object of the next attempt.
        let mut too_old = std::pin::pin!(sleep(&self.process, self.config.validity));
        loop {
            let reached = tokio::select! {
                biased;
                () = &mut too_old => return Ok(false),
                reached = driver.campaign(Patience::Wait) => reached,
            };
            match reached {
                Ok(CampaignEnd::Elected) => return Ok(true),
                Ok(CampaignEnd::Held(_)) => {}
                // It came so late that it was sealed as lapsed and compacted.
                Err(error) if error.kind() == ErrorKind::NewestDeleted => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The requests of one caller.
#[doc(hidden)]
impl Requests {
    /// Failures in a row before a call that does not wait gives up.
    pub const FAILURES_BEFORE_GIVING_UP: u32 = FAILURES_BEFORE_GIVING_UP;

    /// The store has answered.
    pub fn answered(&mut self) {
        self.count(&Answer::Missing);
    }

    /// A request failed. `None`: the failure may pass, or the effect is unknown.
    /// [`ErrorKind::UnsafeStore`]: the store broke a promise. Any other kind: the store denied it.
    pub fn fails(&mut self, doing: &str, error: StoreError) -> Option<ErrorKind> {
        let kind = error.kind();
        let answer = self.failed(doing, error);
        self.count(&answer);
        match answer {
            Answer::Unsafe => Some(StoreErrorKind::Unsupported.into()),
            Answer::Denied => Some(kind.into()),
            _ => None,
        }
    }

    /// Notes an object that cannot be read as the last error.
    pub fn cannot_read(&mut self, error: Error) {
        self.last_error = Some(error);
    }

    /// Returns the last error, once.
    pub fn take_error(&mut self) -> Option<Error> {
        self.last_error.take()
    }

    /// The pause before the next attempt after an error that denies access. `None`: the error is
    /// final, or the denials have lasted too long.
    pub fn outlasts(&mut self, error: &Error) -> Option<Duration> {
        let cx = self.context();
        self.denial.pause(&cx, error)
    }

    /// Denials from here on are counted from the beginning.
    pub fn forget_denials(&mut self) {
        self.denial.over();
    }
}

/// The record of a single object.
#[doc(hidden)]
impl Record {
    /// The longest body that is read, in bytes.
    pub const MAX_READ_BYTES: usize = MAX_READ_BYTES;
    /// The longest body that is written, in bytes.
    pub const MAX_WRITTEN_BYTES: usize = MAX_WRITTEN_BYTES;

    /// Reads a single object, with its epoch. `None`: it is no record.
    ///
    /// # Errors
    /// It has a later format.
    pub fn of_single_object(object: &Object) -> Result<Option<(Epoch, Record)>, String> {
        match Record::decode(None, &object.body) {
            Ok(read) => Ok(Some(read)),
            Err(later @ BadRecord::TooNew(_)) => Err(later.to_string()),
            Err(_) => Ok(None),
        }
    }

    /// How its epoch has ended, for the protocol. [`end`](Record::end) is for people.
    pub fn ended_as(&self) -> Option<EpochEnd> {
        self.seen().ended
    }

    /// The body of a single object that ends its epoch, with this data.
    pub fn seal(
        &self,
        (ended, heartbeat): (EpochEnd, u64),
        by: &str,
        at: Moment,
        (successor, data): (Option<&str>, Value),
    ) -> Bytes {
        let mut record = self.sealed(ended, heartbeat, by, at.time_of_day());
        record.successor = successor.map(str::to_owned);
        record.data = data;
        record.encode(Layout::SingleObject, Epoch::FIRST, Duration::ZERO).into()
    }

    /// Whether data nests too deep to be written again.
    pub fn nests_too_deep(data: &Value) -> bool {
        nests_beyond(data, MAX_DATA_LEVELS)
    }
}

/// A leadership that changes its data, and ends with its work.
#[doc(hidden)]
impl Leadership {
    /// Writes data soon, and returns without an answer.
    pub fn write_data(&self, data: Value) {
        let (reply, _) = oneshot::channel();
        self.command(Command::Proclaim { data, reply });
    }

    /// Writes data with the next renewal, which costs no request.
    pub fn renew_with(&self, data: Value) {
        self.command(Command::RenewWith { data });
    }

    /// As [`resign`](Leadership::resign), and asks that its possessions are kept for its name.
    pub async fn resign_reserving(self, reserve: Option<Duration>) -> Result<(), Error> {
        self.give_up(None, reserve).await
    }
}

#[doc(hidden)]
impl Lease {
    /// A token that is cancelled once the lease is at risk or lost.
    pub fn begin_work(&self) -> CancellationToken {
        self.lead.begin_work()
    }

    /// The error of the last request, if it failed.
    pub fn last_error(&self) -> Option<Error> {
        self.lead.last_error()
    }

    /// A lease for tests, without a driver that renews it.
    #[cfg(feature = "internals")]
    pub fn without_driver(cx: &Context, lasts: Duration) -> Lease {
        let (process, validity) = (cx.process.clone(), cx.config.validity);
        let (name, end) = (cx.config.name.clone(), process.now().plus(lasts));
        let leading = cx.meter.elected();
        let lead = Lead::new(Epoch::FIRST, name, validity, process, end, leading);
        Lease { lead: Arc::new(lead) }
    }

    /// Waits until somebody has ended the lease, without a look at the clocks.
    #[cfg(feature = "internals")]
    pub async fn until_ended(&self) {
        let mut status = self.lead.status.subscribe();
        while self.lead.loss().is_none() {
            // The sender lives in the lease, so the channel is open.
            let _ = status.changed().await;
        }
    }

    /// Ends the lease for this reason, unless it has ended for another.
    #[cfg(feature = "internals")]
    pub fn end_with(&self, loss: crate::Loss) {
        self.lead.lose(loss);
    }
}

#[doc(hidden)]
impl Cancellation {
    /// The signal of work under this lease that has a token of its own.
    pub fn under(lease: &Lease, token: CancellationToken) -> Cancellation {
        Cancellation::of(lease, token)
    }
}
