//! The driver: the only place that waits. It carries out what the state machine asks for, keeps the
//! time, draws the jitter and tries again.

mod campaign;
mod exchange;
mod lead;
mod observe;
mod operator;
mod recent;
mod refresh;
mod restore;
pub(crate) mod spans;
mod stand_back;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

pub(crate) use campaign::{FAILURES_BEFORE_GIVING_UP, Patience, Reached};
pub(crate) use observe::Observer;
pub(crate) use operator::Operator;
use recent::Recent;
use refresh::Refresh;

use crate::config::Config;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::keys::Keys;
use crate::layout::Layout;
use crate::leader::{CampaignEvent, Leader};
use crate::leadership::Listeners;
use crate::moment::Moment;
use crate::process::Process;
use crate::protocol::candidate::Rules;
use crate::protocol::lease::{LapseTimer, Lease};
use crate::protocol::machine::Machine;
use crate::protocol::message::Failure;
use crate::record::{BadRecord, Record};
use crate::store::Store;
use crate::telemetry::{Counted, Meter};

/// What all campaigns and observers of one `Election` share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) store: Arc<Counted>,
    /// The store as it was given: the same for all elections that were given it.
    pub(crate) given: Arc<dyn Store>,
    pub(crate) meter: Meter,
    pub(crate) keys: Keys,
    pub(crate) config: Arc<Config>,
    pub(crate) process: Process,
    pub(crate) events: Listeners<CampaignEvent>,
    refresh: Refresh,
    knowledge: Mutex<Knowledge>,
}

/// What an `Election` knows between calls, so that a dead leader is not held to be alive for ever.
#[derive(Debug, Default)]
struct Knowledge {
    greatest: Option<Epoch>,
    /// The timer that a call started last, for calls to come and for those that read the same
    /// record. A timer that runs is never changed by another call.
    timer: Option<Arc<LapseTimer>>,
    /// When the store last gave an answer from which something is known, on the boot clock.
    answered: Option<Duration>,
}

impl Knowledge {
    fn learn(&mut self, seen: Option<Epoch>, meter: &Meter) {
        if seen > self.greatest {
            self.greatest = seen;
            meter.knows(seen);
        }
    }

    /// Keeps a call's timer, unless another call has followed a greater epoch.
    fn keep(&mut self, timer: Option<&Arc<LapseTimer>>) {
        let epoch = |timer: Option<&Arc<LapseTimer>>| timer.map(|timer| timer.epoch());
        if epoch(timer) >= epoch(self.timer.as_ref()) {
            self.timer = timer.cloned();
        }
    }
}

impl Context {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        keys: Keys,
        config: Arc<Config>,
        process: Process,
    ) -> Context {
        let meter = Meter::new(&*store, &keys);
        Context {
            store: meter.counted(&store, &process),
            given: store,
            meter,
            keys,
            config,
            process,
            events: Listeners::default(),
            refresh: Refresh::default(),
            knowledge: Mutex::default(),
        }
    }

    fn knowledge(&self) -> MutexGuard<'_, Knowledge> {
        // Every critical section leaves the knowledge whole.
        self.knowledge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long ago the store last gave an answer; `None` if it never did.
    pub(crate) fn since_last_answer(&self) -> Option<Duration> {
        let answered = self.knowledge().answered?;
        Some(self.process.now().boot.saturating_sub(answered))
    }

    fn answered(&self, now: Duration) {
        self.knowledge().answered = Some(now);
    }

    /// The greatest epoch that this process has seen.
    fn greatest(&self) -> Option<Epoch> {
        self.knowledge().greatest
    }

    pub(crate) fn tell(&self, event: CampaignEvent) {
        self.events.tell(event);
    }

    /// All who follow look now.
    pub(crate) fn refresh(&self) {
        self.refresh.ring();
    }

    /// A pause before a request is tried again after so many failures: doubling up to `cap`, with
    /// jitter.
    pub(crate) fn retry_delay(&self, failures: u32, cap: Duration) -> Duration {
        let first = (self.config.validity / 100).max(Duration::from_millis(5));
        let delay = first.saturating_mul(1 << failures.min(10)).min(cap);
        delay / 2 + self.process.jitter(delay / 2)
    }
}

/// Drives one state machine: a campaign and the leadership that comes of it, or an observer.
#[derive(Debug)]
pub(crate) struct Driver {
    cx: Arc<Context>,
    machine: Machine,
    lease: Lease,
    /// The last record read, and what cannot be read of it.
    record: Option<(Epoch, Record)>,
    unreadable: Option<BadRecord>,
    /// How long ago that record was written, by the store's clock.
    age: Option<Duration>,
    /// Since when the followed record stands as it was read: of this call alone.
    timer: Option<Arc<LapseTimer>>,
    data: Value,
    elected_at: Option<DateTime<Utc>>,
    /// The greatest heartbeat sent for the epoch that is being created or led.
    heartbeat: u64,
    last_error: Option<Error>,
    /// Requests that failed in a row.
    failures: u32,
    /// Writes in a row that were answered with success and without an ETag.
    without_etag: u32,
    /// When the followed epoch was last looked at, on the boot clock.
    polled: Duration,
    /// Polls since this leader is followed.
    polls: u32,
    /// When the store last gave an answer.
    answered: Option<Moment>,
    /// How long after the lapse this candidate seals, so that not all do at once.
    lapse_jitter: Duration,
    /// When the renewal that is on its way was first sent, on the boot clock.
    renewing_since: Option<Duration>,
    /// Not before this moment on the boot clock is it tried again.
    seal_again: Duration,
    /// Whether a predecessor's epoch may be sealed at once.
    reclaim: bool,
    /// Whom to name as the successor when resigning.
    successor: Option<String>,
    /// The epoch after which nobody else is to be let go first any more.
    stood_back: Option<Epoch>,
    /// How long the last renewals took.
    recent: Recent,
    /// The refreshes it has heard of.
    refreshed: u64,
    /// From the grant on: what is read then is no observation of somebody else's lease.
    leading: bool,
}

impl Driver {
    pub(crate) fn candidate(cx: &Arc<Context>) -> Driver {
        let first = cx.process.first_campaign(&cx.store.describe(), cx.keys.prefix());
        cx.meter.candidate(&cx.config.name, cx.config.validity);
        let mut driver = Driver::new(cx, false);
        driver.reclaim = cx.config.name_is_unique && first;
        driver
    }

    pub(crate) fn observer(cx: &Arc<Context>) -> Driver {
        Driver::new(cx, true)
    }

    /// An observer to whom what this process has seen is nothing.
    fn without_memory(cx: &Arc<Context>) -> Driver {
        let mut driver = Driver::new(cx, true);
        let rules = Rules { observer: true, verify_renewals: false, takeover_delay: false };
        driver.machine = Machine::new(cx.config.layout, rules, None);
        driver
    }

    fn new(cx: &Arc<Context>, observer: bool) -> Driver {
        cx.meter.knows(cx.knowledge().greatest);
        let config = &cx.config;
        let rules = Rules {
            observer,
            verify_renewals: config.verify_renewals,
            takeover_delay: !config.takeover_delay.is_zero(),
        };
        let now = cx.process.now();
        let lease = Lease::new(config.validity);
        Driver {
            machine: Machine::new(config.layout, rules, cx.knowledge().greatest),
            lease: if config.never_paused { lease.without_wall_clock() } else { lease },
            record: None,
            unreadable: None,
            age: None,
            timer: None,
            data: config.data.clone(),
            elected_at: None,
            heartbeat: 0,
            last_error: None,
            failures: 0,
            without_etag: 0,
            polled: now.boot,
            polls: 0,
            answered: None,
            lapse_jitter: Duration::ZERO,
            renewing_since: None,
            seal_again: Duration::ZERO,
            reclaim: false,
            successor: None,
            stood_back: None,
            recent: Recent::default(),
            refreshed: cx.refresh.rung(),
            leading: false,
            cx: Arc::clone(cx),
        }
    }

    /// The leader that the last record tells of.
    fn leader(&self) -> Option<Leader> {
        self.record.as_ref().map(|(epoch, record)| Leader::new(*epoch, record))
    }

    fn retry_delay(&self, cap: Duration) -> Duration {
        self.cx.retry_delay(self.failures, cap)
    }

    /// A renewal has succeeded.
    fn renewed(&mut self, heartbeat: u64) {
        let now = self.now();
        let since = self.renewing_since.take().unwrap_or(now.boot);
        let (took, left) = (now.boot.saturating_sub(since), self.lease.remaining(now));
        self.cx.meter.renewed(took, left, self.cx.config.validity);
        self.recent.extended();
        self.lease.extended(heartbeat);
    }

    /// Why the machine gave up, in words that say what to do.
    fn explain(&self, failure: Failure) -> Error {
        let store = self.cx.store.describe();
        let layout = self.cx.config.layout;
        let key = |epoch| self.cx.keys.of(layout, epoch);
        match failure {
            Failure::Denied | Failure::Unsafe => self.last_error.clone().unwrap_or_else(|| {
                Error::new(ErrorKind::UnsafeStore, format!("{store} refused a request"))
            }),
            Failure::Unreadable(epoch) => {
                let key = key(epoch);
                let why = self.unreadable.as_ref();
                let kind = match why {
                    Some(BadRecord::TooNew(_)) => ErrorKind::RecordTooNew,
                    _ => ErrorKind::CorruptRecord,
                };
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                let remedy = match kind {
                    ErrorKind::CorruptRecord => format!("; {}", layout.repair()),
                    _ => String::new(),
                };
                Error::new(kind, format!("{key} in {store} cannot be read{why}{remedy}"))
            }
            Failure::NewestDeleted(epoch) => {
                let (key, why) = (key(epoch), Self::what_is_gone(layout, epoch));
                let then = format!("counting must go on above {epoch}");
                Error::new(ErrorKind::NewestDeleted, format!("{key} in {store} {why}: {then}"))
            }
            Failure::Exhausted => {
                let (key, last) = (key(Epoch::MAX), Epoch::MAX);
                let why = format!("{key} in {store} has ended, and {last} is the last epoch");
                Error::new(ErrorKind::EpochsExhausted, why)
            }
        }
    }
    fn what_is_gone(layout: Layout, epoch: Epoch) -> String {
        match layout {
            Layout::EpochFiles => {
                "was the newest epoch object and is gone, and no greater one exists".to_owned()
            }
            Layout::SingleObject => {
                format!("had the token {epoch} and is gone, or has a lower one")
            }
        }
    }
}
