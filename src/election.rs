//! The front door: an election, its builder, campaigns and observers.

mod builder;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use tokio::sync::broadcast;
use tracing::{Instrument as _, Span};

use crate::check::check_store;
use crate::config::Config;
use crate::driver::{Context, Driver, Observer, Operator, Patience, Reached, spans};
use crate::epoch::Epoch;
use crate::error::Error;
use crate::leader::{CampaignEvent, Leader, Observation, Snapshot};
use crate::leadership::Leadership;
use crate::operator::{Deposed, Restored};
use crate::protocol::depose::Order;
use crate::store::Store;
use crate::timer::require_timers;

pub use builder::ElectionBuilder;

/// One contest for leadership, under one prefix of one store. Clones share what they know.
///
/// # Runtime
/// Campaigns, observers and the operator's calls need a Tokio runtime with timers
/// (`#[tokio::main]`, or `enable_all` of `tokio::runtime::Builder`). They check it before their
/// first request, and return [`NoRuntime`](crate::ErrorKind::NoRuntime) outside of one. (That
/// timers are missing shows in a panic of Tokio's, which is caught; with `panic = "abort"` it ends
/// the process, before the first request, too.) The task that renews a leadership runs on the
/// runtime in which its campaign ended: keep that running as long as the leadership.
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
#[non_exhaustive]
pub enum CampaignOutcome {
    /// This process leads.
    Elected(Leadership),
    /// Somebody else holds the newest epoch, or may still believe that it does.
    Held(Leader),
}

impl Election {
    /// An election among all who use this prefix of this store. `app` and `app/` are the same; the
    /// empty prefix is the root of the store.
    pub fn builder(store: Arc<dyn Store>, prefix: impl Into<String>) -> ElectionBuilder {
        ElectionBuilder::new(store, prefix.into())
    }

    /// Waits until this process is elected.
    ///
    /// Cancel-safe: a campaign that is dropped leaves nothing that blocks others longer than one
    /// validity. Transient errors of the store are waited out and told by
    /// [`events`](Election::events).
    ///
    /// Cost: LIST, PUT, LIST on an empty prefix, and a GET more on a sealed epoch; while following,
    /// one GET every poll interval. On a [single object](crate::Layout::SingleObject): GET, PUT,
    /// and a PUT to take over. The first campaign on a store adds 5 requests to check it.
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
    /// [`NewestDeleted`](crate::ErrorKind::NewestDeleted),
    /// [`NoRuntime`](crate::ErrorKind::NoRuntime).
    pub async fn campaign(&self) -> Result<Leadership, Error> {
        let caller = Span::current();
        let campaign = async {
            require_timers().map_err(failed)?;
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
    /// An unsealed epoch is `Held` until this `Election` has watched it for a whole validity
    /// without a sign of life; what was seen is kept between calls, so a dead leader is not `Held`
    /// for ever.
    ///
    /// # Errors
    /// Those of [`campaign`](Election::campaign), and
    /// [`Unavailable`](crate::ErrorKind::Unavailable) after three failures in a row: an epoch
    /// object may have been created then, which lapses.
    pub async fn try_campaign(&self) -> Result<CampaignOutcome, Error> {
        let caller = Span::current();
        let campaign = async {
            require_timers().map_err(failed)?;
            check_store(&self.cx, Patience::Once).await.map_err(failed)?;
            let mut driver = Driver::candidate(&self.cx);
            match driver.campaign(Patience::Once).await.map_err(failed)? {
                Reached::Elected => Ok(CampaignOutcome::Elected(self.elected(driver, &caller))),
                Reached::Held(leader) => {
                    Span::current().record("outcome", "held");
                    Ok(CampaignOutcome::Held(leader))
                }
            }
        };
        campaign.instrument(spans::campaign(&self.cx.keys, &self.config)).await
    }

    fn elected(&self, driver: Driver, caller: &Span) -> Leadership {
        let leadership = driver.start_leading(caller);
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
        let snapshot = self.snapshot().await?;
        Ok(snapshot.leader.filter(|_| snapshot.end.is_none()))
    }

    /// The newest epoch object as it stands, sealed ones included. LIST and GET; one GET on a
    /// single object.
    ///
    /// # Errors
    /// Those of [`campaign`](Election::campaign), and
    /// [`Unavailable`](crate::ErrorKind::Unavailable).
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        require_timers()?;
        Driver::observer(&self.cx).snapshot().await
    }

    /// The greatest epoch that was ever created and is known of; `None` if there is none. LIST; one
    /// GET on a single object.
    ///
    /// A token above it was never granted. An epoch object exists before its epoch is granted, so
    /// this is at least the token of each leader elected before the call.
    ///
    /// # Errors
    /// Those of [`snapshot`](Election::snapshot).
    pub async fn newest_epoch(&self) -> Result<Option<Epoch>, Error> {
        require_timers()?;
        Driver::observer(&self.cx).newest_epoch().await
    }

    /// Follows who leads, without campaigning: the state now, then each change.
    ///
    /// While somebody leads: one GET every poll interval. While nobody does: one LIST and one GET.
    /// While polls fail it keeps to the last leader until its lease has lapsed, then says
    /// [`Unknown`](Observation::Unknown), which differs from [`NoLeader`](Observation::NoLeader).
    /// An error that waiting does not mend is the last item.
    pub fn observe(&self) -> impl Stream<Item = Result<Observation, Error>> + Send + Unpin + use<> {
        let observer = Observer::new(&self.cx);
        let stream = stream::unfold(observer, |mut observer| async {
            let next = observer.next().await?;
            Some((next, observer))
        });
        Box::pin(stream.fuse())
    }

    /// Makes whoever follows through this `Election` (or a clone) look at the store now: a campaign
    /// that waits, an observer. For an application that hears of a change by another way, such as
    /// an event of the bucket or a call of its own. Calls are joined while a look is under way.
    ///
    /// What was heard decides nothing: only what is then read does. At most one GET, or LIST and
    /// GET, for each that follows.
    pub fn refresh(&self) {
        self.cx.refresh();
    }

    /// Seals the newest epoch, so that its holder loses it: for operators.
    ///
    /// The holder learns of it with its next renewal, and may lead until then; its successor waits
    /// for the end of its lease. A renewal that comes between is not overwritten: the seal is tried
    /// again, a few times. May be repeated: an epoch that is sealed is left as it is.
    ///
    /// With `only` nothing happens unless this is still the newest epoch, so that nobody else is
    /// deposed who was elected meanwhile.
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
    ///   read are sealed with [`depose_dead`](Election::depose_dead).
    /// - [`CorruptRecord`](crate::ErrorKind::CorruptRecord), of a single object alone: with its
    ///   body its token is lost.
    /// - [`NoRuntime`](crate::ErrorKind::NoRuntime): call it in a Tokio runtime with timers.
    pub async fn depose(&self, only: Option<Epoch>) -> Result<Deposed, Error> {
        self.order(Order { only, force: false }).await
    }

    /// As [`depose`](Election::depose), where the caller asserts that the holder is dead: its
    /// successor does not wait for its lease. If it lives after all, two believe that they lead, for
    /// up to its validity; only the tokens tell them apart.
    ///
    /// It also seals an epoch whose record does not say for how long its holder may believe in it,
    /// and ends the wait for an epoch that was deposed before.
    ///
    /// # Errors
    /// Those of [`depose`](Election::depose).
    pub async fn depose_dead(&self, only: Option<Epoch>) -> Result<Deposed, Error> {
        self.order(Order { only, force: true }).await
    }

    async fn order(&self, order: Order) -> Result<Deposed, Error> {
        require_timers()?;
        Operator::new(&self.cx).depose(order).await
    }

    /// Makes the counting go on above `epoch` after the epoch objects were lost: for operators.
    ///
    /// `epoch` must be at least the greatest token that any guarded resource has seen, and the
    /// greatest that any process remembers
    /// ([`NewestDeleted`](crate::ErrorKind::NewestDeleted) names it): below, the next leaders'
    /// tokens are refused, or repeat. Whoever leads in a lower epoch is deposed, and its successor
    /// waits for the end of its lease. A leader of before the accident, whose epoch object is gone,
    /// learns of it with its next renewal; `wait`, up to 24 h, is how long successors wait for it:
    /// nothing, or its validity if it may still run. A single object that cannot be read does not
    /// say how long its holder may believe, so there a `wait` above 0 is required. May be repeated.
    /// Beside another operator's greater epoch the answer is about that one.
    ///
    /// Cost: LIST, PUT, GET, LIST, PUT on an empty prefix; a GET and, for each lower epoch that is
    /// left at its end, GET, GET, PUT more where there are some; GET and PUT on a single object.
    ///
    /// # Errors
    /// Those of [`depose`](Election::depose). After one, or a crash in between, candidates may wait
    /// until it is run again.
    /// [`EpochsExhausted`](crate::ErrorKind::EpochsExhausted) for [`Epoch::MAX`],
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a longer `wait` or an epoch below one
    /// that this process has seen.
    pub async fn restore(&self, epoch: Epoch, wait: Duration) -> Result<Restored, Error> {
        require_timers()?;
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
    /// An answer is what something is known from, a refused condition too; a 5xx, a 409 or a
    /// timeout is none. In a campaign or a leadership that goes well the time stays below the
    /// longer of the poll (or its back-off) and the renew interval, and the time of one request.
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
