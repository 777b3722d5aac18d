//! The driver executes the steps of the state machine, reads the clocks, draws the jitter and
//! retries requests. No other part of the library waits.

pub(crate) mod across;
pub(crate) mod backoff;
mod campaign;
pub(crate) mod config;
mod denial;
pub(crate) mod epoch_objects;
mod followed_record;
pub(crate) mod intervals;
pub(crate) mod lead;
pub(crate) mod leader;
mod link;
mod observe;
pub(crate) mod operator;
mod own_epoch;
mod refresh;
mod requests;
pub(crate) mod runtime;
pub(crate) mod spans;
mod store_calls;
pub(crate) mod store_check;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::OnceCell;

pub(crate) use campaign::{CampaignEnd, FAILURES_BEFORE_GIVING_UP, Patience};
pub(crate) use denial::Denial;
use link::Link;
pub(crate) use observe::Observer;
pub(crate) use operator::Operator;
pub(crate) use refresh::Refresh;
pub use requests::Requests;

use crate::driver::backoff::Backoff;
use crate::driver::config::Config;
use crate::driver::lead::Listeners;
use crate::driver::leader::{CampaignEvent, LastSeen, Leader};
use crate::env::moment::Moment;
use crate::env::mutex::unpoisoned;
use crate::env::process::Process;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::layout::Layout;
use crate::protocol::lease::LapseTimer;
use crate::protocol::machine::Machine;
use crate::protocol::message::Rules;
use crate::protocol::message::{EpochEnd, Failure, Nonce};
use crate::record::Record;
use crate::record::keys::Keys;
use crate::store::{Store, WriteAnswers};
use crate::telemetry::{Counted, Meter};

/// After this number of consecutive successful writes without an ETag, a store counts as unfit for
/// elections. A leader in an unfit store keeps its lease if its reads show that its renewals took
/// effect.
const WRITES_WITHOUT_ETAG: u32 = 5;

/// The state shared by all campaigns and observers of one `Election`.
#[derive(Debug)]
pub struct Context {
    // The store, and the election's keys in the store.
    pub(crate) store: Arc<Counted>,
    /// The caller's store itself, and not the wrapper that counts requests. Several elections may
    /// share this store.
    pub(crate) given: Arc<dyn Store>,
    pub(crate) keys: Keys,

    // These fields are the settings and the environment.
    pub(crate) config: Arc<Config>,
    pub(crate) process: Process,

    // These fields carry signals to and from the application.
    pub(crate) meter: Meter,
    pub(crate) events: Listeners<CampaignEvent>,
    pub(crate) refresh: Refresh,

    // These fields hold the knowledge about the store and about the election.
    pub(crate) writes: WriteAnswers,
    /// This cell is set after this process has checked that the store lists the keys under the
    /// prefix correctly.
    pub(crate) prefix_checked: OnceCell<()>,
    knowledge: Mutex<Knowledge>,
    health: Arc<Mutex<StoreHealth>>,
}

/// The knowledge that an `Election` keeps between calls. With this knowledge, repeated short calls
/// can detect a dead leader.
#[derive(Debug, Default)]
struct Knowledge {
    greatest: Option<Epoch>,
    /// The lapse timer that a call of this `Election` started last. If another call reads the same
    /// record, its own timer has the same start. No call changes the running timer of another call.
    timer: Option<Arc<LapseTimer>>,
    /// In an election across stores, the greatest epoch that a call did not find in this store, and
    /// the time of the first read that did not find it.
    absent: Option<(Epoch, Moment)>,
    /// Last record of another process, for `last_seen`.
    read: Option<Arc<(Epoch, Record)>>,
    /// Time of the store's last valid answer, on the boot clock.
    answered: Option<Duration>,
}

/// The state of the store, as far as the last requests show it.
#[derive(Debug, Default)]
struct StoreHealth {
    has_worked: bool,
    /// True if a write has returned an ETag. Such a store is fit for elections, even if a proxy
    /// later sends a response without an ETag.
    has_written: bool,
    /// Error of the last failed request. `None` if the store has answered a later request.
    failure: Option<Error>,
}

impl Knowledge {
    fn learn(&mut self, seen: Option<Epoch>, meter: &Meter) {
        if seen > self.greatest {
            self.greatest = seen;
            meter.knows(seen);
        }
    }

    /// Stores a call's timer, unless another call follows a greater epoch.
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
        meter: &Meter,
    ) -> Context {
        Context {
            store: meter.counted(&store, &process),
            given: store,
            meter: meter.clone(),
            keys,
            config,
            process,
            events: Listeners::default(),
            refresh: Refresh::default(),
            writes: WriteAnswers::new(WRITES_WITHOUT_ETAG),
            prefix_checked: OnceCell::new(),
            knowledge: Mutex::default(),
            health: Arc::default(),
        }
    }

    fn knowledge(&self) -> MutexGuard<'_, Knowledge> {
        unpoisoned(self.knowledge.lock())
    }

    /// Returns the time since the store's last answer, or `None` if it never answered.
    pub fn since_last_answer(&self) -> Option<Duration> {
        let answered = self.knowledge().answered?;
        Some(self.process.now().boot.saturating_sub(answered))
    }

    fn answered(&self, now: Duration) {
        self.knowledge().answered = Some(now);
        self.works();
    }

    /// Notes that the store has answered, which proves that the settings are valid.
    pub(crate) fn works(&self) {
        let mut health = unpoisoned(self.health.lock());
        (health.has_worked, health.failure) = (true, None);
    }

    /// Notes that this epoch's object is absent. Returns the time at which a call of this
    /// `Election` first found the object absent.
    fn absent_since(&self, epoch: Epoch) -> Moment {
        let now = self.process.now();
        let mut knowledge = self.knowledge();
        match knowledge.absent {
            Some((absent, since)) if absent == epoch => since,
            Some((absent, _)) if absent > epoch => now,
            _ => {
                knowledge.absent = Some((epoch, now));
                now
            }
        }
    }

    /// Notes that a write has returned an ETag.
    pub(crate) fn wrote(&self) {
        unpoisoned(self.health.lock()).has_written = true;
    }

    pub(crate) fn has_written(&self) -> bool {
        unpoisoned(self.health.lock()).has_written
    }

    /// Returns true if the store has ever answered.
    fn has_worked(&self) -> bool {
        unpoisoned(self.health.lock()).has_worked
    }

    /// Notes a failed request.
    pub(crate) fn failing(&self, error: &Error) {
        unpoisoned(self.health.lock()).failure = Some(error.clone());
    }

    /// Returns the error of the last failed request, or `None` if the store has answered a later
    /// request.
    pub fn last_failure(&self) -> Option<Error> {
        unpoisoned(self.health.lock()).failure.clone()
    }

    /// Returns this context with the store health of `other`, so both contexts share it.
    pub(crate) fn failing_with(mut self, other: &Context) -> Context {
        self.health = Arc::clone(&other.health);
        self
    }

    /// Returns the last reading of the newest known epoch, if another process holds it.
    pub(crate) fn last_seen(&self) -> Option<LastSeen> {
        let knowledge = self.knowledge();
        let read = knowledge.read.as_deref();
        let (epoch, record) = read.filter(|(epoch, _)| Some(*epoch) == knowledge.greatest)?;
        // Each answer of the store sets the record and its timer together. If the timer belongs to
        // another epoch, the state of the lease in the record is unknown.
        let timer = knowledge.timer.as_ref().filter(|timer| timer.epoch() == *epoch)?;
        Some(LastSeen {
            leader: Leader::new(*epoch, record),
            sealed: record.expired || timer.is_sealed(),
            end: record.end(),
            sealed_by: record.sealed_by.clone().filter(|_| record.expired),
            lapses_in: timer.lapses_in(Duration::ZERO, self.config.drift, self.process.now()),
        })
    }

    /// Notes that this epoch has existed.
    pub fn learn(&self, seen: Option<Epoch>) {
        self.knowledge().learn(seen, &self.meter);
    }

    /// Returns the record that seals an epoch. This record keeps only the part of `data` that
    /// `kept_in_seals` selects.
    pub(crate) fn sealed(&self, record: &Record, ended: EpochEnd, heartbeat: u64) -> Record {
        let at = self.process.now().time_of_day();
        let mut sealed = record.sealed(ended, heartbeat, &self.config.name, at);
        sealed.data = (self.config.kept_in_seals)(&record.data);
        sealed
    }

    /// Returns the greatest epoch that this process has seen.
    pub fn greatest(&self) -> Option<Epoch> {
        self.knowledge().greatest
    }

    pub(crate) fn tell(&self, event: CampaignEvent) {
        self.events.tell(event);
    }

    /// Notifies all followers to poll now.
    pub(crate) fn refresh(&self) {
        self.refresh.notify();
    }

    /// Returns the pause before the next attempt, after `failures` failed attempts. The pause
    /// doubles with each failure up to `cap`, and has jitter.
    pub(crate) fn retry_delay(&self, failures: u32, cap: Duration) -> Duration {
        let first = (self.config.validity / 100).max(Duration::from_millis(5));
        Backoff { first, longest: cap }.jittered(failures, &self.process)
    }
}

/// Drives one state machine: a campaign and its leadership, or an observer.
#[derive(Debug)]
pub(crate) struct Driver {
    cx: Arc<Context>,
    machine: Machine,
    link: Link,
    /// Consecutive denials of a campaign or an observer. A caller may pass these denials to its
    /// next driver.
    pub(crate) denial: Denial,
}

impl Driver {
    pub(crate) fn candidate(cx: &Arc<Context>) -> Driver {
        let first = cx.process.first_campaign(&cx.store.describe(), cx.keys.prefix());
        cx.meter.candidate(&cx.config.name, cx.config.validity);
        let mut driver = Driver::new(cx, false);
        driver.link.followed.reclaim = cx.config.name_is_unique && first;
        driver
    }

    /// Returns the nonce of the leadership.
    pub(crate) fn nonce(&self) -> Option<Nonce> {
        self.machine.nonce()
    }

    pub(crate) fn observer(cx: &Arc<Context>) -> Driver {
        Driver::new(cx, true)
    }

    /// Returns an observer that ignores the epochs that this process has seen before.
    fn without_memory(cx: &Arc<Context>) -> Driver {
        let mut driver = Driver::new(cx, true);
        let rules = Rules { observer: true, verify_renewals: false, takeover_delay: false };
        driver.machine = Machine::new(cx.config.layout, rules, None);
        driver
    }

    fn new(cx: &Arc<Context>, observer: bool) -> Driver {
        cx.meter.knows(cx.greatest());
        let config = &cx.config;
        let rules = Rules {
            observer,
            verify_renewals: config.verify_renewals,
            takeover_delay: !config.takeover_delay.is_zero(),
        };
        Driver {
            machine: Machine::new(config.layout, rules, cx.greatest()),
            link: Link::new(cx, observer),
            denial: Denial::default(),
            cx: Arc::clone(cx),
        }
    }

    /// Converts a failure of the machine into an error with the remedy.
    fn explain(&self, failure: Failure) -> Error {
        let store = self.cx.store.describe();
        let layout = self.cx.config.layout;
        let key = |epoch| self.cx.keys.of(layout, epoch);
        match failure {
            Failure::Denied | Failure::Unsafe => {
                self.link.requests.last_error.clone().unwrap_or_else(|| {
                    Error::new(ErrorKind::UnsafeStore, format!("{store} refused a request"))
                })
            }
            Failure::Unreadable(epoch) => {
                let key = key(epoch);
                let why = self.link.followed.unreadable.as_ref();
                let kind = self.link.followed.unreadable_kind();
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                let remedy = match kind {
                    ErrorKind::CorruptRecord => format!("; {}", layout.repair()),
                    _ => String::new(),
                };
                Error::new(kind, format!("{key} in {store} cannot be read{why}{remedy}"))
            }
            Failure::NewestDeleted(epoch) => {
                let (key, why) = (key(epoch), Self::what_is_gone(layout, epoch));
                let then = format!("the next epoch must be above {epoch}");
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
                "was the newest epoch object and is missing, and no greater epoch exists".to_owned()
            }
            Layout::SingleObject => {
                format!("had the token {epoch}, and is missing or has a lower token")
            }
        }
    }
}
