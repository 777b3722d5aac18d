//! The front door: an election, its builder, campaigns and observers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use serde_json::Value;
use tokio::sync::broadcast;
use tracing::{Instrument as _, Span};

use crate::check::check_store;
use crate::config::{Config, Polling, Settings};
use crate::driver::{Context, Driver, Observer, Operator, Patience, Reached, spans};
use crate::epoch::Epoch;
use crate::error::Error;
use crate::keys::Keys;
use crate::layout::Layout;
use crate::leader::{CampaignEvent, Leader, Observation, Snapshot, SnapshotState};
use crate::leadership::Leadership;
use crate::operator::{Depose, Deposed, Restored};
use crate::process::Process;
use crate::store::Store;

/// One contest for leadership, under one prefix of one store. Clones share what they know.
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Election, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// let store = Arc::new(MemoryStore::new());
/// let election = Election::builder(store, "orders/leader").name("worker-7").build()?;
/// let leadership = election.campaign().await?;
/// assert_eq!(leadership.epoch().get(), 1);
/// leadership.resign().await?;
/// assert!(election.leader().await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Election {
    cx: Arc<Context>,
    config: Arc<Config>,
}

/// What [`Election::try_campaign`] came to.
#[derive(Debug)]
pub enum Attempt {
    /// This process leads.
    Elected(Leadership),
    /// Somebody else holds the newest epoch, or may still believe that it does.
    Held(Leader),
}

/// Settings of an [`Election`]. [`build`](ElectionBuilder::build) checks that they fit together.
#[must_use = "a builder does nothing until it is built"]
pub struct ElectionBuilder {
    store: Arc<dyn Store>,
    prefix: String,
    settings: Settings,
    process: Process,
}

impl Election {
    /// An election among all who use this prefix of this store. `app` and `app/` are the same; the
    /// empty prefix is the root of the store.
    pub fn builder(store: Arc<dyn Store>, prefix: impl Into<String>) -> ElectionBuilder {
        ElectionBuilder {
            store,
            prefix: prefix.into(),
            settings: Settings::default(),
            process: Process::system(),
        }
    }

    /// Waits until this process is elected.
    ///
    /// Cancel-safe: a campaign that is dropped leaves nothing that blocks others longer than one
    /// validity. Transient errors of the store are waited out and told by
    /// [`events`](Election::events).
    ///
    /// Cost: LIST, PUT, LIST on an empty prefix, and a GET more on a sealed epoch; while following, one
    /// GET every poll interval. On a [single object](Layout::SingleObject): GET, PUT, and a PUT to
    /// take over. The first campaign on a store adds 5 requests to check it.
    ///
    /// It runs in a span `campaign`, and the leadership in a span `leadership` beside it: both are
    /// below the span that this is first polled in, which is not over before they are.
    ///
    /// # Errors
    /// Those that waiting does not mend: [`AccessDenied`](crate::ErrorKind::AccessDenied),
    /// [`NoSuchStore`](crate::ErrorKind::NoSuchStore),
    /// [`UnsafeStore`](crate::ErrorKind::UnsafeStore),
    /// [`CorruptRecord`](crate::ErrorKind::CorruptRecord),
    /// [`RecordTooNew`](crate::ErrorKind::RecordTooNew),
    /// [`EpochsExhausted`](crate::ErrorKind::EpochsExhausted),
    /// [`NewestDeleted`](crate::ErrorKind::NewestDeleted).
    pub async fn campaign(&self) -> Result<Leadership, Error> {
        let caller = Span::current();
        let campaign = async {
            check_store(&self.cx, Patience::Wait).await.map_err(failed)?;
            let mut driver = Driver::candidate(&self.cx);
            loop {
                let reached = driver.campaign(Patience::Wait).await.map_err(failed)?;
                if let Reached::Elected = reached {
                    return Ok(self.elected(driver, &caller));
                }
            }
        };
        campaign.instrument(spans::campaign(&self.cx.keys, &self.config)).await
    }

    /// One attempt: elected, or somebody else holds the newest epoch. Costs what
    /// [`campaign`](Election::campaign) costs, without the waiting.
    ///
    /// An unsealed epoch is `Held` until this `Election` has watched it for a whole validity without a
    /// sign of life; what was seen is kept between calls, so a dead leader is not `Held` for ever.
    ///
    /// # Errors
    /// Those of [`campaign`](Election::campaign), and [`Unavailable`](crate::ErrorKind::Unavailable)
    /// after three failures in a row: an epoch object may have been created then, which lapses.
    pub async fn try_campaign(&self) -> Result<Attempt, Error> {
        let caller = Span::current();
        let campaign = async {
            check_store(&self.cx, Patience::Once).await.map_err(failed)?;
            let mut driver = Driver::candidate(&self.cx);
            match driver.campaign(Patience::Once).await.map_err(failed)? {
                Reached::Elected => Ok(Attempt::Elected(self.elected(driver, &caller))),
                Reached::Held(leader) => {
                    Span::current().record("outcome", "held");
                    Ok(Attempt::Held(leader))
                }
            }
        };
        campaign.instrument(spans::campaign(&self.cx.keys, &self.config)).await
    }

    fn elected(&self, driver: Driver, caller: &Span) -> Leadership {
        let leadership = Leadership::start(driver, Arc::clone(&self.config), caller);
        let epoch = leadership.epoch();
        Span::current().record("epoch", epoch.get()).record("outcome", "elected");
        tracing::info!(
            election = self.cx.keys.prefix(),
            candidate = self.config.name,
            epoch = epoch.get(),
            outcome = "elected",
            "elected"
        );
        self.cx.tell(CampaignEvent::Elected(epoch));
        leadership
    }

    /// Who holds the newest epoch, if it is not sealed. LIST and GET; one GET on a single object.
    ///
    /// It may not be confirmed yet, and it may have lapsed: only an observer that has watched for a
    /// whole validity can tell ([`observe`](Election::observe)).
    ///
    /// # Errors
    /// Those of [`snapshot`](Election::snapshot).
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        Ok(match self.snapshot().await?.state {
            SnapshotState::Held(leader) => Some(leader),
            _ => None,
        })
    }

    /// The newest epoch object as it stands, sealed ones included. LIST and GET; one GET on a
    /// single object.
    ///
    /// # Errors
    /// Those of [`campaign`](Election::campaign), and [`Unavailable`](crate::ErrorKind::Unavailable).
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        Driver::observer(&self.cx).snapshot().await
    }

    /// Follows who leads, without campaigning: the state now, then each change.
    ///
    /// While somebody leads: one GET every poll interval. While nobody does: one LIST and one GET. While
    /// polls fail it keeps to the last leader until its lease has lapsed, then says
    /// [`Unknown`](Observation::Unknown), which differs from [`Nobody`](Observation::Nobody). An error
    /// that waiting does not mend is the last item.
    pub fn observe(&self) -> impl Stream<Item = Result<Observation, Error>> + Send + Unpin + use<> {
        let observer = Observer::new(&self.cx);
        let stream = stream::unfold(observer, |mut observer| async {
            let next = observer.next().await?;
            Some((next, observer))
        });
        Box::pin(stream.fuse())
    }

    /// Makes whoever follows through this `Election` (or a clone) look at the store now: a campaign
    /// that waits, an observer. For an application that hears of a change by another way, such as an
    /// event of the bucket or a call of its own. Calls are joined while a look is under way.
    ///
    /// What was heard decides nothing: only what is then read does. At most one GET, or LIST and GET,
    /// for each that follows.
    pub fn refresh(&self) {
        self.cx.refresh();
    }

    /// Seals the newest epoch, so that its holder loses it: for operators.
    ///
    /// The holder learns of it with its next renewal, and may lead until then; its successor waits
    /// for the end of its lease. A renewal that comes between is not overwritten: the seal is tried
    /// again, a few times. May be repeated: an epoch that is sealed is left as it is.
    ///
    /// Cost: LIST, GET and PUT; GET and PUT on a single object. A GET and a PUT more each time that
    /// somebody else was faster, or that the fate of the seal is unknown.
    ///
    /// # Errors
    /// - [`Unavailable`](crate::ErrorKind::Unavailable): the store cannot be reached. Where
    ///   [`may_have_happened`](Error::may_have_happened) says so, the seal may take effect yet; call
    ///   it again, which tells.
    /// - [`AccessDenied`](crate::ErrorKind::AccessDenied),
    ///   [`NoSuchStore`](crate::ErrorKind::NoSuchStore),
    ///   [`UnsafeStore`](crate::ErrorKind::UnsafeStore): correct what the message names.
    /// - [`RecordTooNew`](crate::ErrorKind::RecordTooNew): upgrade. Other records that cannot be
    ///   read are sealed with [`force`](Depose::force).
    /// - [`CorruptRecord`](crate::ErrorKind::CorruptRecord), of a single object alone: with its body
    ///   its token is lost.
    pub async fn depose(&self, how: Depose) -> Result<Deposed, Error> {
        Operator::new(&self.cx).depose(how.order()).await
    }

    /// Makes the counting go on above `epoch` after the epoch objects were lost: for operators.
    ///
    /// `epoch` must be at least the greatest token that any guarded resource has seen, and the
    /// greatest that any process remembers
    /// ([`NewestDeleted`](crate::ErrorKind::NewestDeleted) names it): below, the next leaders' tokens
    /// are refused, or repeat. Whoever leads in a lower epoch is deposed, and its successor waits for
    /// the end of its lease. A leader of before the accident, whose epoch object is gone, learns of it
    /// with its next renewal; `wait`, up to 24 h, is how long successors wait for it: nothing, or its
    /// validity if it may still run. May be repeated.
    ///
    /// Cost: LIST, PUT, GET, LIST, PUT on an empty prefix, and GET, GET, PUT for each lower epoch
    /// that is left at its end; GET and PUT on a single object.
    ///
    /// # Errors
    /// Those of [`depose`](Election::depose). After one, or a crash in between, candidates may wait
    /// until it is run again.
    /// [`EpochsExhausted`](crate::ErrorKind::EpochsExhausted) for [`Epoch::MAX`],
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a longer `wait` or an epoch below one
    /// that this process has seen.
    pub async fn restore(&self, epoch: Epoch, wait: Duration) -> Result<Restored, Error> {
        Operator::new(&self.cx).restore(epoch, wait).await
    }

    /// What happens during campaigns from now on. A slow reader misses the oldest events.
    pub fn events(&self) -> impl Stream<Item = CampaignEvent> + Send + Unpin + use<> {
        let stream = stream::unfold(self.cx.events.subscribe(), |mut events| async {
            loop {
                match events.recv().await {
                    Ok(event) => return Some((event, events)),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        });
        Box::pin(stream.fuse())
    }

    /// How long ago the store last answered a request of this election, whether of a campaign, of a
    /// leadership or of an observer; `None` if it never did. No request.
    ///
    /// An answer is what something is known from, a refused condition too; a 5xx, a 409 or a timeout
    /// is none. In a campaign or a leadership that goes well the time stays below the longer of the
    /// poll and the renew interval, and the time of one request.
    #[must_use]
    pub fn since_last_answer(&self) -> Option<Duration> {
        self.cx.since_last_answer()
    }

    /// The display name of this candidate.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }
}

fn failed(error: Error) -> Error {
    Span::current().record("outcome", "failed");
    error
}

impl ElectionBuilder {
    /// The display name of this candidate, 1 to 256 bytes. For people: two processes may have the same.
    /// Default: the host's name and the process id.
    pub fn name(mut self, name: impl Into<String>) -> ElectionBuilder {
        self.settings.name = Some(name.into());
        self
    }

    /// How the election lies in the store. All who take part in one election must agree on it; the
    /// check of the store refuses a prefix that shows the other layout. Default:
    /// [`Layout::EpochFiles`].
    pub fn layout(mut self, layout: Layout) -> ElectionBuilder {
        self.settings.layout = layout;
        self
    }

    /// Vouches that no two living processes have this name. In its first campaign the process then
    /// seals the epoch of its predecessor at once instead of waiting for the lapse. It always gets a
    /// new epoch. Default: false.
    pub fn name_is_unique(mut self, unique: bool) -> ElectionBuilder {
        self.settings.name_is_unique = unique;
        self
    }

    /// How long a lease lasts without a renewal: 100 ms to 24 h, in whole milliseconds. A dead leader
    /// is followed after about this time. Default: 30 s.
    pub fn validity(mut self, validity: Duration) -> ElectionBuilder {
        self.settings.validity = validity;
        self
    }

    /// How often the leader renews: one PUT each. With two requests' timeouts it must fit into the
    /// validity. Default: validity / 3.
    pub fn renew_interval(mut self, interval: Duration) -> ElectionBuilder {
        self.settings.renew_interval = Some(interval);
        self
    }

    /// How often a follower looks: one GET each; at most the validity. Default: validity / 6.
    ///
    /// `None`: only when the lease would lapse, so about once a validity. That is the least that
    /// following can cost. But a resignation is noticed only then, unless somebody calls
    /// [`refresh`](Election::refresh), and so is the last renewal of a leader that dies: it is followed
    /// within two validities of that, and the drift, in place of one and a poll.
    pub fn poll_interval(mut self, interval: impl Into<Option<Duration>>) -> ElectionBuilder {
        self.settings.polling = interval.into().map_or(Polling::AtLapse, Polling::Every);
        self
    }

    /// How long a request may take in all, credentials and name resolution included: at most, and by
    /// default, validity / 5.
    pub fn request_timeout(mut self, timeout: Duration) -> ElectionBuilder {
        self.settings.request_timeout = Some(timeout);
        self
    }

    /// By what ratio the rates of any two machines' clocks differ at most: 0 to 0.5. An observer waits
    /// that much longer before it takes a leader for dead. Default: 0.01.
    pub fn clock_drift_max(mut self, ratio: f64) -> ElectionBuilder {
        self.settings.clock_drift_max = ratio;
        self
    }

    /// Takes over from a leader long dead without watching it first, by the store's own dates, if they
    /// say that its validity ended more than this ago; at least 2 s. That there are never two leaders
    /// then also rests on the store's clocks agreeing within the margin. Default: off.
    pub fn store_clock_margin(mut self, margin: Duration) -> ElectionBuilder {
        self.settings.store_clock_margin = Some(margin);
        self
    }

    /// A renewal counts only after a LIST has shown nothing greater, for stores behind proxies that
    /// resend PUTs. One LIST more at each renewal. On a single object it changes nothing, as no
    /// repeated PUT can succeed there. Default: false.
    pub fn verify_renewals(mut self, verify: bool) -> ElectionBuilder {
        self.settings.verify_renewals = verify;
        self
    }

    /// An extra wait between the seal (of a single object: the lapse) and the create when the epoch
    /// before did not end by resignation, for guarded resources that cannot check tokens; at most
    /// 24 h. Every candidate must agree on it. Default: 0.
    pub fn takeover_delay(mut self, delay: Duration) -> ElectionBuilder {
        self.settings.takeover_delay = delay;
        self
    }

    /// The priority of this candidate: how much longer than others it waits before it takes over,
    /// after a lapse and after a seal; at most 24 h. Those who should lead when they can have 0; for
    /// the others it should be longer than the poll interval of the first. It takes no leadership
    /// away, and an election without any epoch is open to all at once. Default: 0.
    pub fn priority_delay(mut self, delay: Duration) -> ElectionBuilder {
        self.settings.priority_delay = delay;
        self
    }

    /// What this candidate proclaims when it leads, such as its address: any JSON, at most some 47 KiB.
    /// Default: nothing.
    pub fn data(mut self, data: impl Into<Value>) -> ElectionBuilder {
        self.settings.data = data.into();
        self
    }

    /// Whether the first campaign checks that the store honours conditions and order: 5 requests on
    /// the fixed object `.tenure-check` under the prefix, without any delete. Once for each store value
    /// of the process. It cannot prove that the store decides races atomically. Default: true.
    pub fn check_store(mut self, check: bool) -> ElectionBuilder {
        self.settings.check_store = check;
        self
    }

    /// Whether a dropped [`Leadership`] resigns in the background instead of letting its lease lapse.
    /// Only for work that cannot outlive it. Default: false.
    pub fn resign_on_drop(mut self, resign: bool) -> ElectionBuilder {
        self.settings.resign_on_drop = resign;
        self
    }

    /// Whether a renewal that takes unusually long is given up for another while the lease is at
    /// stake: to measure what that is worth. Default: true.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn hedged_renewals(mut self, hedged: bool) -> ElectionBuilder {
        self.settings.hedged_renewals = hedged;
        self
    }

    /// Where time and random numbers come from: for simulations. Default: [`Process::system`].
    pub fn process(mut self, process: Process) -> ElectionBuilder {
        self.process = process;
        self
    }

    /// The election.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig), with the numbers. Nothing is sent.
    pub fn build(self) -> Result<Election, Error> {
        let keys = Keys::new(&self.prefix)?;
        let config = Arc::new(Config::new(self.settings)?);
        let cx = Context::new(self.store, keys, config.clone(), self.process);
        Ok(Election { cx: Arc::new(cx), config })
    }
}

// By hand, as what is proclaimed must not reach a log.
impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("store", &self.cx.store.describe())
            .field("prefix", &self.cx.keys.prefix())
            .field("name", &self.config.name)
            .field("validity", &self.config.validity)
            .finish_non_exhaustive()
    }
}

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
