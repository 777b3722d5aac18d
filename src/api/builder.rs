//! The settings of an election.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::api::election::Election;
use crate::driver::Context;
use crate::driver::across::AcrossContext;
use crate::driver::config::{Config, Polling, Settings};
use crate::env::process::Process;
use crate::error::Error;
use crate::protocol::layout::Layout;
use crate::record::keys::Keys;
use crate::store::{MemoryStore, Store};
use crate::telemetry::Meter;

/// Settings of an [`Election`]. [`build`](ElectionBuilder::build) checks that no settings
/// contradict each other. No method sends a request.
///
/// # Examples
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use tenure::{Election, ErrorKind, store::MemoryStore};
/// # let store = Arc::new(MemoryStore::new());
/// let builder = || {
///     Election::builder(store.clone(), "orders/leader")
///         .name("worker-7")
///         .validity(Duration::from_secs(10)) // another leads about 10 s after a crash
///         .poll_interval(Duration::from_secs(1)) // and about 1 s after a resignation
/// };
/// assert!(builder().build().is_ok());
/// // The renew interval and two request timeouts must fit into the validity:
/// let error = builder().renew_interval(Duration::from_secs(9)).build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct ElectionBuilder {
    store: Arc<dyn Store>,
    /// The other stores of an election across stores.
    others: Vec<Arc<dyn Store>>,
    prefix: String,
    settings: Settings,
    process: Process,
}

impl Election {
    /// Returns a builder for the election under this prefix of the store. All candidates with the
    /// same prefix and store compete in one election. `app` and `app/` are the same prefix, and the
    /// empty prefix is the root of the store. Sends no request.
    pub fn builder(store: Arc<dyn Store>, prefix: impl Into<String>) -> ElectionBuilder {
        ElectionBuilder::new(store, prefix.into())
    }

    /// Returns a builder for the election across these 3 or 5 stores, under the same prefix in each
    /// store. The election continues while a majority of the stores answers, so the stores can be
    /// buckets of several regions or clouds. Sends no request.
    ///
    /// An operator creates the set once with [`init_stores`](Election::init_stores). All processes
    /// name the stores in the same order. The epoch is the fencing token, as in one store. The
    /// settings [`layout`](ElectionBuilder::layout), [`name_is_unique`] and [`verify_renewals`]
    /// must keep their defaults.
    ///
    /// [`name_is_unique`]: ElectionBuilder::name_is_unique
    /// [`verify_renewals`]: ElectionBuilder::verify_renewals
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tenure::{Election, Store, store::MemoryStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tenure::Error> {
    /// # let [a, b, c] = std::array::from_fn(|_| Arc::new(MemoryStore::new()) as Arc<dyn Store>);
    /// let election = Election::across([a, b, c], "orders/leader").name("worker-7").build()?;
    /// election.init_stores().await?; // once, by an operator
    /// let leadership = election.campaign().await?;
    /// assert_eq!(leadership.stores().len(), 3);
    /// leadership.resign().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`build`](ElectionBuilder::build) returns [`InvalidInput`](crate::ErrorKind::InvalidInput)
    /// for another number of stores.
    pub fn across(
        stores: impl IntoIterator<Item = Arc<dyn Store>>,
        prefix: impl Into<String>,
    ) -> ElectionBuilder {
        let mut stores = stores.into_iter();
        // If `stores` is empty, this store is the only one, and `build` refuses an election across
        // one store.
        let first = stores.next().unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let mut builder = ElectionBuilder::new(first, prefix.into());
        builder.others = stores.collect();
        builder.settings.across = true;
        builder
    }
}

impl ElectionBuilder {
    pub(crate) fn parts(self) -> (Arc<dyn Store>, String, Settings, Process) {
        (self.store, self.prefix, self.settings, self.process)
    }

    pub(crate) fn keep_in_seals(&mut self, kept: fn(&Value) -> Value) {
        self.settings.kept_in_seals = kept;
    }

    pub(super) fn new(store: Arc<dyn Store>, prefix: String) -> ElectionBuilder {
        let (settings, process) = (Settings::default(), Process::system());
        ElectionBuilder { store, others: Vec::new(), prefix, settings, process }
    }

    /// Sets the display name of this candidate, from 1 to 256 bytes. The name identifies the
    /// candidate to people. Two processes may have the same name. Default: the host's name and the
    /// process id.
    pub fn name(mut self, name: impl Into<String>) -> ElectionBuilder {
        self.settings.name = Some(name.into());
        self
    }

    /// Sets the reason that [`depose`](Election::depose) and [`depose_dead`](Election::depose_dead)
    /// write into the record for people to read. The maximum is 1,000 bytes. Default: none.
    pub fn reason(mut self, reason: impl Into<String>) -> ElectionBuilder {
        self.settings.reason = Some(reason.into());
        self
    }

    /// Sets the layout of the election on the store. All candidates and observers of one election
    /// must use the same layout. The check of the store
    /// ([`check_store`](ElectionBuilder::check_store)) refuses a prefix that contains an election
    /// in the other layout. Default: [`Layout::EpochFiles`].
    pub fn layout(mut self, layout: Layout) -> ElectionBuilder {
        self.settings.layout = layout;
        self
    }

    /// Sets whether the caller asserts that no two living processes have this candidate's name.
    /// With `true`, the first campaign of a process does not wait for a lapse if the record of the
    /// newest epoch has this name. The campaign seals this epoch immediately. The process always
    /// gets a new epoch. Default: false.
    pub fn name_is_unique(mut self, unique: bool) -> ElectionBuilder {
        self.settings.name_is_unique = unique;
        self
    }

    /// Sets whether the caller asserts that nothing outside the machine ever pauses the machine.
    /// For example, a live migration or a snapshot pauses a virtual machine. With `true`, no step
    /// of the wall clock ends a lease. Default: false.
    ///
    /// After a pause of the machine, the wall clock may be the only clock that shows the passed
    /// time. So with `false`, the lease also ends if the wall clock moves ahead of the other clocks
    /// by the remaining time of the lease ([`Loss::WallClockAhead`](crate::Loss::WallClockAhead)).
    /// If a person or a daemon sets the wall clock forward by this time, the lease ends too. On
    /// systems other than Linux, use `true` only if the machine also never sleeps, because the
    /// other clocks stop during sleep.
    pub fn machine_is_never_paused(mut self, never: bool) -> ElectionBuilder {
        self.settings.never_paused = never;
        self
    }

    /// Sets how long a lease lasts without a renewal, from 100 ms to 24 h in whole milliseconds. If
    /// a leader dies, another candidate leads after about this time. Default: 30 s.
    pub fn validity(mut self, validity: Duration) -> ElectionBuilder {
        self.settings.validity = validity;
        self
    }

    /// Sets the time between two renewals of the leader, at least 10 ms. Each renewal is one PUT.
    /// The sum of this interval and two request timeouts must not exceed the validity. Default:
    /// validity / 3.
    pub fn renew_interval(mut self, interval: Duration) -> ElectionBuilder {
        self.settings.renew_interval = Some(interval);
        self
    }

    /// Sets the time between two polls of a follower, from 10 ms to the validity. Each poll is one
    /// GET. Default: validity / 6.
    ///
    /// With `None`, a follower polls only when the lease would lapse, about once per validity. This
    /// setting has the lowest cost. The follower then detects a resignation only at its next poll,
    /// unless the application calls [`refresh`](Election::refresh). The follower also detects the
    /// last renewal of a dead leader only at its next poll. So the follower takes over within 2.2
    /// validities (plus the drift) after this renewal. With a poll interval, the follower takes
    /// over within one validity (plus the drift), plus the longer of one poll interval and a tenth
    /// of the validity.
    pub fn poll_interval(mut self, interval: impl Into<Option<Duration>>) -> ElectionBuilder {
        self.settings.polling = interval.into().map_or(Polling::AtLapse, Polling::Every);
        self
    }

    /// Makes a waiting candidate poll less often while the leader stays the same. The interval
    /// doubles with each poll, from `poll_interval` up to `longest`. The value of `longest` must
    /// not exceed the validity. This setting cannot be combined with `poll_interval(None)`.
    /// Default: off.
    ///
    /// The candidate detects a resignation, or the last renewal of a dead leader, up to `longest`
    /// after the event, unless the application calls [`refresh`](Election::refresh). So the next
    /// leader is elected later. Observers are not affected.
    pub fn poll_backoff(mut self, longest: Duration) -> ElectionBuilder {
        self.settings.poll_backoff = Some(longest);
        self
    }

    /// Sets the longest duration of a request, from 10 ms to validity / 5. This duration includes
    /// the time for credentials and name resolution. If a listing skips pages that have no key,
    /// this limit applies to each page. If a leader lists to verify a renewal (`verify_renewals`),
    /// the limit applies to all pages together. Default: validity / 5.
    pub fn request_timeout(mut self, timeout: Duration) -> ElectionBuilder {
        self.settings.request_timeout = Some(timeout);
        self
    }

    /// Sets the greatest relative difference between the rates of any two machines' clocks, from 0
    /// to 0.5. Before an observer considers a leader dead, it waits for the validity, lengthened by
    /// this ratio. Default: 0.01.
    pub fn clock_drift_max(mut self, ratio: f64) -> ElectionBuilder {
        self.settings.clock_drift_max = ratio;
        self
    }

    /// Lets a candidate take over without following the leader first, if the store's dates show
    /// that the lease ended more than `margin` ago. The margin is at least 2 s. Default: off.
    ///
    /// The promise that at most one process leads (P2) then also depends on the store's clocks. The
    /// margin must exceed the difference between the clocks of the store's servers, plus 1 s for
    /// dates in whole seconds. The margin need not include the latency of answers. DynamoDB keeps
    /// no date for an item. So the writer computes a date from the last date that the store sent,
    /// and stores this date in the item (E6).
    pub fn store_clock_margin(mut self, margin: Duration) -> ElectionBuilder {
        self.settings.store_clock_margin = Some(margin);
        self
    }

    /// Sets whether the leader lists after each renewal, and counts the renewal only if the LIST
    /// shows no greater epoch. Use this setting for a store behind a proxy that resends PUTs. Cost:
    /// one more LIST at each renewal. With [`Layout::SingleObject`] this setting changes nothing,
    /// because no repeated PUT can succeed. Default: false.
    pub fn verify_renewals(mut self, verify: bool) -> ElectionBuilder {
        self.settings.verify_renewals = verify;
        self
    }

    /// Adds a wait of at most 24 h before the creation of an epoch, unless the previous epoch ended
    /// by a resignation. Use this setting for guarded resources that cannot check tokens. The wait
    /// starts when the candidate first sees the seal of the previous epoch. With
    /// [`Layout::SingleObject`], a lapsed epoch gets no seal, and the wait starts at the lapse.
    /// After a deposition or a restore, the wait starts at the later of two moments: the candidate
    /// first sees the seal, and the lease of the deposed leader ends. Every candidate must use the
    /// same value. Default: 0.
    pub fn takeover_delay(mut self, delay: Duration) -> ElectionBuilder {
        self.settings.takeover_delay = delay;
        self
    }

    /// Sets an additional wait of at most 24 h before this candidate takes over. The wait applies
    /// after a lapse and after a seal. Use 0 for the preferred candidates. For other candidates,
    /// use more than the poll interval of the preferred candidates. A preferred candidate does not
    /// displace a living leader. The delay does not apply to an election without an epoch. Default:
    /// 0.
    pub fn priority_delay(mut self, delay: Duration) -> ElectionBuilder {
        self.settings.priority_delay = delay;
        self
    }

    /// Sets the data that this candidate publishes in its record while it leads, such as its
    /// address. The data is any JSON value of at most about 47 KiB. Default: none.
    pub fn data(mut self, data: impl Into<Value>) -> ElectionBuilder {
        self.settings.data = data.into();
        self
    }

    /// Sets whether the first campaign checks that the store honours conditions and returns
    /// listings in order. For each [`Store`] that the process creates, the check sends 4 requests
    /// to one of 256 objects (`.tenure-check-00` to `.tenure-check-ff` under the prefix). For each
    /// election, the check also sends 1 LIST. The check deletes no object, and cannot prove that
    /// the store's conditional writes are atomic. Default: true.
    pub fn check_store(mut self, check: bool) -> ElectionBuilder {
        self.settings.check_store = check;
        self
    }

    /// Sets how long campaigns and observers retry while the store denies access or does not exist
    /// ([`AccessDenied`](crate::ErrorKind::AccessDenied),
    /// [`NoSuchStore`](crate::ErrorKind::NoSuchStore)), for example during a rotation of keys. The
    /// time starts at the first such refusal. Default: 10 s.
    ///
    /// - With `None`, the time has no limit. Use `None` for services.
    /// - With zero, the first refusal ends the campaign or the observer with an error.
    /// - The limit is at least 60 s while the machine's metadata service has no credentials.
    /// - A store that has answered before may reject a request as
    ///   [invalid](crate::ErrorKind::InvalidInput) or [unsupported](crate::ErrorKind::UnsafeStore).
    ///   Another server may have sent this answer, so the request is retried under the same limit.
    ///
    /// The attempts are up to 5 s apart. Each failure appears in [`events`](Election::events).
    /// Single attempts, such as [`try_campaign`](Election::try_campaign), and the calls of
    /// operators do not retry after such a refusal. The setting does not prolong a lease.
    pub fn retry_denied(mut self, during: impl Into<Option<Duration>>) -> ElectionBuilder {
        self.settings.retry_denied = during.into();
        self
    }

    /// Sets whether a dropped [`Leadership`](crate::Leadership) resigns in the background instead
    /// of letting its lease lapse. Use this setting only if the work cannot outlive the leadership.
    /// Default: false.
    pub fn resign_on_drop(mut self, resign: bool) -> ElectionBuilder {
        self.settings.resign_on_drop = resign;
        self
    }

    /// Sets the source of time and random numbers, for simulations and for [tests with paused
    /// time](crate#tests-with-paused-time). Default: [`Process::system`].
    pub fn process(mut self, process: Process) -> ElectionBuilder {
        self.process = process;
        self
    }

    /// Checks the settings and returns the election.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput), with the values, if a setting is
    /// out of bounds or settings contradict each other. Sends no request.
    pub fn build(self) -> Result<Election, Error> {
        let ElectionBuilder { store, others, prefix, settings, process } = self;
        let keys = Keys::new(&prefix)?;
        let config = Arc::new(Config::new(settings)?);
        if config.across {
            config.check_across(1 + others.len())?;
        }
        let context = |store: Arc<dyn Store>| {
            let meter = Meter::new(&*store, &keys);
            Arc::new(Context::new(store, keys.clone(), config.clone(), process.clone(), &meter))
        };
        let cx = context(store);
        let across = config.across.then(|| {
            let others = others.into_iter().map(context);
            Arc::new(AcrossContext::new(std::iter::once(cx.clone()).chain(others).collect()))
        });
        Ok(Election { cx, config: config.clone(), across })
    }
}

// `Debug` is not derived, because a log must not contain the candidate's data.
impl fmt::Debug for ElectionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElectionBuilder")
            .field("store", &self.store.describe())
            .field("prefix", &self.prefix)
            .field("name", &self.settings.name)
            .field("validity", &self.settings.validity)
            .finish_non_exhaustive()
    }
}
