//! The keys, settings, process and requests of a group's member.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tracing::Span;

use super::{After, Context, Drift, LeaseMetrics, Listing, Meter, Nonce, Requests, Written};
use crate::api::builder::ElectionBuilder;
use crate::api::leadership::Leadership;
use crate::driver::config::Config;
use crate::driver::runtime::require_timers;
use crate::driver::store_check::check_store;
use crate::driver::{CampaignEnd, Driver, Patience};
use crate::env::moment::Moment;
use crate::env::process::Process;
use crate::env::timer::{LOOK, pause, sleep};
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::layout::Layout;
use crate::record::keys::Keys;
use crate::record::listing::{EpochsOfPage, key_of};
use crate::store::{
    ETag, GetOutcome, Page, PutOutcome, StoreError, answer_within, check_any_page, listing_within,
};

/// Number of keys requested in one LIST.
const PAGE: usize = 1_000;

/// Methods that set or check settings. These methods send no request.
#[doc(hidden)]
impl ElectionBuilder {
    /// Checks the settings, and returns the context of numbered objects. Their keys are like the
    /// keys of epochs, but have `stem` before the number.
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

    /// Sets the function that selects data for a seal. The function gets the data of a record, and
    /// returns the part that the seal of the epoch keeps. By default a seal keeps no data.
    pub fn kept_in_seals(mut self, kept: fn(&Value) -> Value) -> ElectionBuilder {
        self.keep_in_seals(kept);
        self
    }
}

/// Getters of the keys and the settings, and the context of a session.
#[doc(hidden)]
impl Context {
    /// Returns the context of an election with [`Layout::SingleObject`] at `path` under this
    /// prefix, for one leadership of this process.
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

    /// Returns an error if this data is too large or too deeply nested for the record of a session.
    pub fn check_data(&self, data: &Value) -> Result<(), Error> {
        self.single_object_config().check_data(data)
    }

    /// Returns the prefix, which is empty or ends with a slash.
    pub fn prefix(&self) -> &str {
        self.keys.prefix()
    }

    /// Returns the key of a numbered object.
    pub fn key(&self, number: Epoch) -> String {
        self.keys.epoch(number)
    }

    /// Returns the description of the store for errors and logs.
    pub fn place(&self) -> String {
        self.store.describe()
    }

    /// Returns the length of the longest body that the store accepts, in bytes.
    pub fn max_body_bytes(&self) -> Option<usize> {
        self.given.capabilities().max_body_bytes
    }

    /// Returns the display name of this process.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns whether the name is unique among living processes.
    pub fn name_is_unique(&self) -> bool {
        self.config.name_is_unique
    }

    /// Returns the validity of a lease.
    pub fn validity(&self) -> Duration {
        self.config.validity
    }

    /// Returns the time between two polls.
    pub fn poll_interval(&self) -> Duration {
        self.config.poll_interval
    }

    /// Returns the time between two polls of an observer that follows members with this validity.
    pub fn poll_interval_for(&self, validity: Option<Duration>) -> Duration {
        self.config.poll_interval_for(validity)
    }

    /// Returns the maximum duration of a request.
    pub fn request_timeout(&self) -> Duration {
        self.config.request_timeout
    }

    /// Returns the greatest difference between the rates of two clocks.
    pub fn drift(&self) -> Drift {
        self.config.drift
    }

    /// Returns the counters of this process.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

/// Methods for the time, the random numbers and the background tasks of the process.
#[doc(hidden)]
impl Context {
    /// Returns the process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns the current time on all clocks.
    pub fn now(&self) -> Moment {
        self.process.now()
    }

    /// Returns a random number that no other call returns.
    pub fn unique(&self) -> u128 {
        self.process.unique()
    }

    /// Returns a nonce, and remembers it as a nonce of this process.
    pub fn nonce(&self) -> Nonce {
        self.process.nonce()
    }

    /// Returns a random duration of up to `most`.
    pub fn jitter(&self, most: Duration) -> Duration {
        self.process.jitter(most)
    }

    /// Runs a task in the background.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.process.spawn(task);
    }

    /// Waits for this duration, by the clock of the process.
    pub async fn sleep(&self, duration: Duration) {
        sleep(&self.process, duration).await;
    }

    /// Waits for `most`, but at most 1 s (`LOOK`). The wait depends on no other task.
    pub async fn look_pause(&self, most: Duration) {
        pause(most.min(LOOK)).await;
    }

    /// Returns an error outside of a Tokio runtime with timers.
    pub fn require_timers(&self) -> Result<(), Error> {
        require_timers()
    }
}

/// Requests to the store. Each method sends its requests only once, unless its doc mentions
/// retries.
#[doc(hidden)]
impl Context {
    /// Checks the store, unless this process has already checked it. Retries until the check
    /// succeeds or an error is final.
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

    /// Lists the keys under this prefix after `start`, in order. Returns the page and its last key.
    pub async fn list(&self, prefix: &str, start: &str) -> Result<(Page, String), StoreError> {
        let page = self.store.list(prefix, start, PAGE);
        let page = listing_within(&self.process, self.config.request_timeout, page).await;
        let checked = page.and_then(|page| {
            let last = check_any_page(prefix, start, &page)?.to_owned();
            Ok((page, last))
        });
        checked.map_err(StoreError::of_a_read)
    }

    /// Reads an object of at most `most` bytes. If the object has the ETag in `unless`, the store
    /// may omit the body.
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

    /// Creates an object, unless an object with this key exists.
    pub async fn create(&self, key: &str, body: Bytes) -> Written {
        let write = self.store.create(key, body);
        let write = answer_within(&self.process, self.config.request_timeout, write).await;
        self.written(write)
    }

    /// Replaces an object if it has this ETag.
    pub async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Written {
        let write = self.store.replace(key, body, etag);
        let write = answer_within(&self.process, self.config.request_timeout, write).await;
        self.written(write)
    }

    fn written(&self, write: Result<PutOutcome, StoreError>) -> Written {
        let written = self.writes.read(write);
        if let Written::Done(_) = written {
            self.wrote();
        }
        written
    }

    /// Campaigns in the election of this context, and returns the leadership. No other process
    /// knows this election. Returns `None` if the campaign took longer than a validity, or if
    /// another process sealed and compacted its epoch. `requests` counts the consecutive denials.
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
        // Once a validity has passed, another process may have sealed and compacted the created
        // object. If the campaign created the object again, a late DELETE could delete the new
        // object. So the campaign stops after a validity.
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
                // The campaign took so long that another process sealed the epoch as lapsed and
                // compacted it.
                Err(error) if error.kind() == ErrorKind::NewestDeleted => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}
