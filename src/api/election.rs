//! The entry point: an election, with its campaigns and observers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use tokio::sync::broadcast;

use crate::driver::across::{AcrossContext, AcrossDriver, AcrossObserver, operator};
use crate::driver::config::Config;
use crate::driver::lead::ResignKey;
use crate::driver::leader::{CampaignEvent, LastSeen, Leader, Observation, Snapshot};
use crate::driver::operator::outcomes::{Deposed, Resigned, Restored};
use crate::driver::runtime::require_timers;
use crate::driver::{Context, Driver, Observer, Operator};
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::depose::DeposeOrder;

/// One contest for leadership, under one prefix of one store. Clones share their state.
///
/// # Runtime
/// Campaigns, observers and the operator's calls need a Tokio runtime with timers
/// (`#[tokio::main]`, or `enable_all` of `tokio::runtime::Builder`). Without such a runtime, they
/// return [`NoRuntime`](crate::ErrorKind::NoRuntime) before their first request. (If timers are
/// missing, Tokio panics, and tenure catches the panic. With `panic = "abort"` the panic ends the
/// process before the first request.) The task that renews a leadership runs on the runtime in
/// which its campaign ended: keep that runtime running until the leadership ends.
///
/// # Examples
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
    pub(super) cx: Arc<Context>,
    pub(super) config: Arc<Config>,
    /// The stores of an election across stores. The first of them is `cx`.
    pub(super) across: Option<Arc<AcrossContext>>,
}

impl Election {
    /// Returns the holder of the newest epoch, or `None` if that epoch is sealed. Cost: LIST and
    /// GET, or one GET with [`Layout::SingleObject`](crate::Layout::SingleObject).
    ///
    /// The holder may still be waiting for the grant of the epoch, or its lease may have lapsed.
    /// Only an observer that has followed the epoch for a whole validity knows whether the lease
    /// has lapsed ([`observe`](Election::observe)).
    ///
    /// # Errors
    /// The errors of [`snapshot`](Election::snapshot).
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        let snapshot = self.snapshot().await?;
        Ok(snapshot.leader.filter(|_| snapshot.end.is_none()))
    }

    /// Reads the newest epoch object, sealed or not. Cost: LIST and GET, or one GET with
    /// [`Layout::SingleObject`](crate::Layout::SingleObject).
    ///
    /// # Errors
    /// The errors of [`campaign`](Election::campaign), and
    /// [`Unavailable`](crate::ErrorKind::Unavailable).
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        require_timers()?;
        if let Some(across) = &self.across {
            return Box::pin(AcrossDriver::observer(across).snapshot()).await;
        }
        Driver::observer(&self.cx).snapshot().await
    }

    /// Returns the greatest epoch that was created, or `None` before the first epoch. Cost: LIST,
    /// or one GET with [`Layout::SingleObject`](crate::Layout::SingleObject).
    ///
    /// No token greater than the result was granted before the call. An epoch object exists before
    /// its epoch is granted, so the result is at least the token of each leader elected before the
    /// call.
    ///
    /// # Errors
    /// The errors of [`snapshot`](Election::snapshot).
    pub async fn newest_epoch(&self) -> Result<Option<Epoch>, Error> {
        require_timers()?;
        if let Some(across) = &self.across {
            return Box::pin(AcrossDriver::observer(across).newest_epoch()).await;
        }
        Driver::observer(&self.cx).newest_epoch().await
    }

    /// Follows the leadership without campaigning. The stream yields the current state, then each
    /// change.
    ///
    /// Cost of each poll: one GET while there is a leader, or one LIST and one GET while there is
    /// no leader. Across stores, each store has this cost.
    ///
    /// Unless [`poll_interval`](crate::ElectionBuilder::poll_interval) is set, the interval is a
    /// sixth of the validity in the newest record, but at least 1 s and at most 60 s. A sixth of
    /// this election's own validity replaces the lower bound if it is less than 1 s, and the upper
    /// bound if it is more than 60 s.
    ///
    /// While polls fail, the stream yields nothing until the last leader's lease has lapsed. Then
    /// it yields [`Unknown`](Observation::Unknown), which differs from
    /// [`NoLeader`](Observation::NoLeader). An error that a retry cannot fix is the last item.
    pub fn observe(&self) -> impl Stream<Item = Result<Observation, Error>> + Send + Unpin + use<> {
        if let Some(across) = &self.across {
            let observer = AcrossObserver::new(across);
            let stream = stream::unfold(observer, |mut observer| async {
                let next = observer.next().await?;
                Some((next, observer))
            });
            return stream.fuse().boxed();
        }
        let observer = Observer::new(&self.cx);
        let stream = stream::unfold(observer, |mut observer| async {
            let next = observer.next().await?;
            Some((next, observer))
        });
        stream.fuse().boxed()
    }

    /// Makes the pending campaigns and observers of this `Election` and its clones poll now. Use
    /// this method if another source, such as a bucket notification, tells the application of a
    /// change. Several calls during one poll have the effect of one call.
    ///
    /// The call is only a hint: a campaign or an observer acts on the store's answer. Cost: at most
    /// one GET, or LIST and GET, for each campaign or observer.
    pub fn refresh(&self) {
        self.cx.refresh();
    }

    /// Seals the newest epoch. Its holder loses the leadership. This method is for operators.
    ///
    /// The holder learns of the seal at its next renewal, and may lead until then. The successor
    /// waits for the end of the holder's lease. If the holder renews between the call's GET and
    /// PUT, the call repeats both requests a few times. The caller may repeat the call, because the
    /// call leaves a sealed epoch unchanged.
    ///
    /// With an epoch in `only`, the call seals only this epoch. So the call does not depose a
    /// leader that was elected meanwhile.
    ///
    /// Across stores, the call seals the epoch at all stores that answer, and is done once the
    /// epoch is sealed at a majority.
    ///
    /// Cost: LIST, GET and PUT, or GET and PUT with
    /// [`Layout::SingleObject`](crate::Layout::SingleObject). Whenever another write comes first or
    /// the outcome of the seal is unknown, the call sends one more GET and PUT. Across stores, each
    /// store has this cost.
    ///
    /// # Errors
    /// - [`Unavailable`](crate::ErrorKind::Unavailable): the store cannot be reached. If
    ///   [`may_have_happened`](Error::may_have_happened) returns true, the seal may have taken
    ///   effect, or may still take effect. Repeat the call to learn the outcome. Across stores, the
    ///   message gives the number of stores at which the epoch is sealed.
    /// - [`AccessDenied`](crate::ErrorKind::AccessDenied),
    ///   [`NoSuchStore`](crate::ErrorKind::NoSuchStore),
    ///   [`UnsafeStore`](crate::ErrorKind::UnsafeStore): correct the fault that the message names.
    /// - [`RecordTooNew`](crate::ErrorKind::RecordTooNew): upgrade.
    ///   [`depose_dead`](Election::depose_dead) seals other unreadable records.
    /// - [`CorruptRecord`](crate::ErrorKind::CorruptRecord), only with `Layout::SingleObject`: the
    ///   token cannot be read.
    /// - [`NoRuntime`](crate::ErrorKind::NoRuntime): call it in a Tokio runtime with timers.
    pub async fn depose(&self, only: Option<Epoch>) -> Result<Deposed, Error> {
        self.order(DeposeOrder { only, force: false }).await
    }

    /// Deposes as [`depose`](Election::depose) does, but the caller asserts that the holder is
    /// dead. So no successor waits for the end of the lease. If the holder is alive after all, two
    /// processes believe that they lead, for up to one validity. Only the tokens distinguish these
    /// processes.
    ///
    /// The call also seals an epoch whose record has no readable validity. If the epoch was already
    /// deposed, successors may be waiting for the end of its lease. The call then ends this wait.
    ///
    /// # Errors
    /// The errors of [`depose`](Election::depose).
    pub async fn depose_dead(&self, only: Option<Epoch>) -> Result<Deposed, Error> {
        self.order(DeposeOrder { only, force: true }).await
    }

    /// Resigns the leadership of a dead process, with the [`ResignKey`] that the process provided
    /// before ([`resign_key`](crate::Leadership::resign_key)). Another candidate can then be
    /// elected without a wait. Use this method in a supervisor that started the leader's processes
    /// and has seen all of them end.
    ///
    /// The caller asserts that the elected process and all processes that it started have ended. A
    /// process that still runs would act during the next leadership, and a guarded resource could
    /// detect the process only by its lower token. The candidate named by `successor` has
    /// precedence, as with [`resign_to`](crate::Leadership::resign_to).
    ///
    /// If a renewal of the dead process arrives late, the store refuses either the seal or that
    /// renewal. The call may be dropped at any time, and repeated.
    ///
    /// Cost: GET and PUT. Whenever a renewal comes first or the outcome of the seal is unknown, the
    /// call sends one more GET and PUT. Across stores, each store has this cost, and the call is
    /// done once the epoch is sealed at a majority.
    ///
    /// # Errors
    /// The errors of [`depose`](Election::depose), and
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if no candidate can have the successor's
    /// name. In this case nothing was sent.
    pub async fn resign_dead(
        &self,
        key: ResignKey,
        successor: Option<&str>,
    ) -> Result<Resigned, Error> {
        require_timers()?;
        successor.map_or(Ok(()), Config::check_name)?;
        if let Some(across) = &self.across {
            return operator::resign_dead(across, key, successor.map(str::to_owned)).await;
        }
        Operator::new(&self.cx).resign_dead(key, successor.map(str::to_owned)).await
    }

    async fn order(&self, order: DeposeOrder) -> Result<Deposed, Error> {
        require_timers()?;
        match &self.across {
            Some(across) => operator::depose(across, order).await,
            None => Operator::new(&self.cx).depose(order).await,
        }
    }

    /// Raises the epoch floor: the next leaders get epochs above `epoch`. This method is for
    /// operators, after the loss of the epoch objects. The call may be repeated.
    ///
    /// `epoch` must be at least the greatest token that any guarded resource has seen, and at least
    /// the greatest epoch that any process remembers. The error
    /// [`NewestDeleted`](crate::ErrorKind::NewestDeleted) names the epoch that a process remembers.
    /// With a lower `epoch`, resources refuse the next leaders' tokens, or tokens are granted
    /// twice.
    ///
    /// The call deposes the leader of a lower epoch, and the successor waits for the end of this
    /// leader's lease. A leader whose epoch object was deleted loses its leadership only at its
    /// next renewal. The call cannot read this leader's lease, so successors wait for the duration
    /// `wait`, at most 24 h. Pass the validity of such a leader, or 0 if no such leader exists.
    /// With `Layout::SingleObject`, an unreadable object has no readable validity and requires a
    /// `wait` above 0.
    ///
    /// If another operator restores a greater epoch, the outcome describes that epoch.
    ///
    /// Cost: LIST, PUT, GET, LIST and PUT on an empty prefix, or GET and PUT with
    /// `Layout::SingleObject`. If lower epochs exist, the cost rises by one GET. Each lower epoch
    /// in the second LIST costs two GETs and one PUT.
    ///
    /// # Errors
    /// - The errors of [`depose`](Election::depose). After an error or a crash, candidates may wait
    ///   until the call is repeated.
    /// - [`EpochsExhausted`](crate::ErrorKind::EpochsExhausted) for [`Epoch::MAX`].
    /// - [`InvalidInput`](crate::ErrorKind::InvalidInput) for a `wait` above 24 h, for an epoch below
    ///   the greatest epoch that this process has seen, or for an election across stores.
    pub async fn restore(&self, epoch: Epoch, wait: Duration) -> Result<Restored, Error> {
        require_timers()?;
        if self.across.is_some() {
            let why = "an election across stores cannot be restored, because a restore would not \
                       close the lower epochs. Use `replace_store` (`tenure across replace`) for a \
                       store that lost its contents";
            return Err(Error::new(ErrorKind::InvalidInput, why));
        }
        Operator::new(&self.cx).restore(epoch, wait).await
    }

    /// Returns the events of campaigns after this call. A slow reader misses the oldest events.
    /// Sends no request.
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

    /// Returns the time since the store last answered a campaign, a leadership or an observer of
    /// this election. Returns `None` before the first answer. Sends no request.
    ///
    /// A refused condition counts as an answer; a denial, a 5xx, a 409 and a timeout do not. While
    /// requests succeed, the time stays below one interval plus the duration of one request. The
    /// interval is the poll interval (or its back-off) or the renew interval, whichever is longer.
    #[must_use]
    pub fn since_last_answer(&self) -> Option<Duration> {
        match &self.across {
            Some(across) => across.since_last_answer(),
            None => self.cx.since_last_answer(),
        }
    }

    /// Returns the failure of the last request of this election, or `None` if the store has
    /// answered that request. In a health check, a [kind](Error::kind) other than
    /// [`Unavailable`](crate::ErrorKind::Unavailable) requires an operator. Sends no request.
    #[must_use]
    pub fn last_failure(&self) -> Option<Error> {
        match &self.across {
            Some(across) => across.last_failure(),
            None => self.cx.last_failure(),
        }
    }

    /// Returns the newest epoch as a campaign or an observer of this election last read it. Returns
    /// `None` before the first reading. Also returns `None` while the election knows an epoch that
    /// is newer than the last reading, such as an epoch that this process led. Sends no request.
    #[must_use]
    pub fn last_seen(&self) -> Option<LastSeen> {
        match &self.across {
            Some(across) => across.last_seen(),
            None => self.cx.last_seen(),
        }
    }

    /// Returns the display name of this candidate.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }
}

// `Debug` is not derived, because a log must not contain the candidate's data.
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
