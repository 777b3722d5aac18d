//! The common parts of the elections and the groups of a sidecar: the role of this process, the
//! orders of clients, and the task that runs until the process ends.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::{Error, ErrorKind, Lease, Process};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};

use super::lease::ServeLeaseArgs;
use crate::http::refusal::Refusal;
use crate::output::logs::Throttle;
use crate::output::print::{in_ms, plain};
use crate::process::lock::lock;
use crate::process::timer::pause;
use crate::store::patience::{AFTER_A_FAILURE, caught};

/// The longest time between two readings of the clocks by the task. One long timer would not
/// suffice, because a timer stops while the machine sleeps.
pub const LOOK: Duration = Duration::from_millis(500);
/// Maximum number of orders from clients that may wait for the task. A further order is refused.
const MOST_ORDERS: usize = 64;

/// The reason for giving up a leadership or a session that was not renewed in time.
pub const NOT_RENEWED: &str = "not_renewed";
/// The explanation of the reason [`NOT_RENEWED`] for people.
pub const TOO_LATE: &str = "its lease is about to end without a renewal";

pub type OrderReply<T> = oneshot::Sender<Result<T, Refusal>>;

/// The role of this process in one election or group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedRole {
    Starting,
    /// This process does not campaign and does not join the group. The field is the reason.
    Standby(&'static str),
    /// This process campaigns or joins the group.
    Seeking,
    /// The campaign or the join failed and is retried. The field is the kind of the error.
    Failed(&'static str),
    /// This process leads the election, or is a member of the group.
    Holding,
    /// This process takes no more partitions, and ends its session as soon as it owns no partition.
    Leaving,
    /// The leadership or the session has ended, although its lease may still run. This is also the
    /// role while the process ends.
    Ending,
}

impl ServedRole {
    /// Returns the role and its reason for the API.
    pub fn words(
        self,
        at_risk: bool,
        seeking: &'static str,
        holding: &'static str,
    ) -> (&'static str, Option<&'static str>) {
        match self {
            ServedRole::Starting => ("starting", None),
            ServedRole::Standby(why) => ("standby", Some(why)),
            ServedRole::Seeking => (seeking, None),
            ServedRole::Failed(why) => ("failed", Some(why)),
            ServedRole::Holding if at_risk => ("at_risk", None),
            ServedRole::Holding => (holding, None),
            ServedRole::Leaving => ("leaving", None),
            ServedRole::Ending => ("ending", None),
        }
    }
}

/// Counts the changes of one election or group. Each change wakes its streams and its task.
#[derive(Debug)]
pub struct Changes(watch::Sender<u64>);

impl Changes {
    pub fn notify(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Returns the number of changes so far.
    pub fn count(&self) -> u64 {
        *self.0.borrow()
    }

    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// The durations that all elections and groups of a sidecar have in common.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub validity: Duration,
    /// A leadership or a session is reported as ended this long before the end of its lease.
    pub margin: Duration,
    /// If the store's last answer is older than this time, the election or group is not ready.
    pub recent: Duration,
}

/// The state that elections and groups have in common.
#[derive(Debug)]
pub struct Common<O> {
    /// The name of the election or group in the API.
    pub name: String,
    pub times: Times,
    process: Process,
    /// The error of the role [`ServedRole::Failed`], as text for people.
    pub failure: Mutex<String>,
    /// The changes that this process makes. Changes that another process or the passage of time
    /// causes are not counted.
    pub changes: Changes,
    orders: mpsc::Sender<O>,
}

impl<O> Common<O> {
    pub fn new(name: &str, times: Times, process: Process) -> (Common<O>, mpsc::Receiver<O>) {
        let (orders, received) = mpsc::channel(MOST_ORDERS);
        let common = Common {
            name: name.to_owned(),
            times,
            process,
            failure: Mutex::default(),
            changes: Changes(watch::Sender::new(0)),
            orders,
        };
        (common, received)
    }

    /// Returns the current time on the boot clock.
    pub fn boot(&self) -> Duration {
        self.process.now().boot
    }

    /// Returns the wall-clock time, for people and for comparisons of the logs of several
    /// processes.
    pub fn time_of_day(&self) -> String {
        self.process.now().time_of_day().format("%FT%T%.3fZ").to_string()
    }

    /// Checks the lease. Returns the time left minus the margin, or the reason why the leadership
    /// or the session has ended.
    pub fn left(&self, lease: &Lease) -> Result<Duration, &'static str> {
        lease.check().map_err(|loss| loss.outcome())?;
        let left = lease.remaining().saturating_sub(self.times.margin);
        if left.is_zero() { Err(NOT_RENEWED) } else { Ok(left) }
    }

    /// Returns whether less than a quarter of the validity is left. `left` is the time left minus
    /// the margin.
    pub fn is_at_risk(&self, left: Duration) -> bool {
        left + self.times.margin <= self.times.validity / 4
    }

    /// Passes an order of a client to the task of the election or group.
    pub fn order(&self, order: O) -> Result<(), Refusal> {
        self.orders.try_send(order).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::BUSY,
            // The task of this election or group has ended. The tasks of other elections and groups
            // may still run.
            TrySendError::Closed(_) => Refusal::ENDING,
        })
    }
}

/// An election or a group of a sidecar. The task of the election or group sets the role of this
/// process in it. A reply combines the role and the current lease.
pub trait Machine: Sized + Send + Sync + 'static {
    /// An order of a client to the task.
    type Order: Send;

    /// The first words of the log line about a failed campaign or join.
    const SEEKING: &str;
    /// The first words of the log line about the role `Standby`.
    const NO_SEEKING: &str;
    /// The reason for the role `Standby` after the application has ordered this process to resign
    /// the leadership or to leave the group.
    const GIVEN_UP: &str;

    fn common(&self) -> &Common<Self::Order>;

    fn enter(&self, role: ServedRole);

    /// Observes the election or the group while this process is a standby. So a reply can contain
    /// the current state of the election or group.
    fn follow(&self) -> impl Future<Output = ()> + Send;

    /// Refuses an order that only a leader or a member can carry out.
    fn refuse(order: Self::Order);

    /// Campaigns and leads until the leadership ends, or joins the group and takes part until the
    /// membership ends. Returns the pause before the next campaign or join.
    fn seek_and_hold(task: &mut ServedTask<Self>) -> impl Future<Output = Option<Duration>> + Send;
}

/// The settings that the tasks of all elections and groups of a sidecar share.
pub struct Shared<'a> {
    pub lease: &'a ServeLeaseArgs,
    pub times: Times,
    pub name: &'a str,
    pub healthy: watch::Receiver<bool>,
    pub ending: watch::Receiver<bool>,
}

/// The task that campaigns in one election, or that joins one group.
pub struct ServedTask<M: Machine> {
    pub machine: Arc<M>,
    pub orders: mpsc::Receiver<M::Order>,
    /// True while the application is healthy.
    pub healthy: watch::Receiver<bool>,
    /// True if this process must end.
    pub ending: watch::Receiver<bool>,
    /// Time in which the application can end its work after a signal has asked this process to end.
    pub grace: Duration,
    /// Pause before the next campaign or join, after the application has ordered this process to
    /// resign the leadership or to leave the group.
    pub defer_for: Duration,
    pub throttle: Throttle,
}

impl<M: Machine> ServedTask<M> {
    pub fn new(
        machine: &Arc<M>,
        orders: mpsc::Receiver<M::Order>,
        shared: &Shared<'_>,
    ) -> ServedTask<M> {
        ServedTask {
            machine: Arc::clone(machine),
            orders,
            healthy: shared.healthy.clone(),
            ending: shared.ending.clone(),
            grace: shared.lease.grace(),
            defer_for: shared.lease.defer_for(),
            throttle: Throttle::default(),
        }
    }

    pub async fn run(mut self) {
        let mut defer_for = None;
        while !*self.ending.borrow() {
            if !caught(self.turn(&mut defer_for)).await {
                self.wait_after("panicked", String::new()).await;
            }
        }
        self.machine.enter(ServedRole::Ending);
    }

    async fn turn(&mut self, defer_for: &mut Option<Duration>) {
        if !*self.healthy.borrow() {
            self.stand_by("app_unhealthy", None).await;
        } else if let Some(time) = defer_for.take() {
            self.stand_by(M::GIVEN_UP, Some(time)).await;
        } else {
            *defer_for = M::seek_and_hold(self).await;
        }
    }

    /// Takes the role `Standby` with the reason `why`, and keeps it for `time`. If `time` is
    /// `None`, keeps the role until the application is healthy.
    async fn stand_by(&mut self, why: &'static str, time: Option<Duration>) {
        self.machine.enter(ServedRole::Standby(why));
        let no = M::NO_SEEKING;
        match time {
            Some(time) => info!(outcome = "standby", "{no} for {}: {why}", in_ms(time)),
            None => info!(outcome = "standby", "{no}: {why}"),
        }
        let over = async {
            match time {
                Some(time) => pause(time).await,
                None => until(&mut self.healthy, true).await,
            }
        };
        let following = async {
            loop {
                self.machine.follow().await;
                // `follow` ends only after an error that an operator must fix. The loop calls it
                // again after the pause that also follows a failed campaign.
                pause(AFTER_A_FAILURE).await;
            }
        };
        tokio::select! {
            biased;
            () = until(&mut self.ending, true) => {}
            () = over => {}
            never = refuse_all::<M>(&mut self.orders) => match never {},
            () = following => {}
        }
    }

    /// Reports an error that only an operator can fix, and waits before the next attempt. All other
    /// tasks continue.
    pub async fn failed(&mut self, error: &Error) {
        let why = plain(&error.to_string());
        if self.throttle.is_due(error) {
            let (seeking, again) = (M::SEEKING, in_ms(AFTER_A_FAILURE));
            warn!(outcome = "failed", "{seeking} failed, and is retried in {again}: {why}");
        }
        self.wait_after(code_of(error.kind()), why).await;
    }

    async fn wait_after(&mut self, failure: &'static str, why: String) {
        *lock(&self.machine.common().failure) = why;
        self.machine.enter(ServedRole::Failed(failure));
        tokio::select! {
            biased;
            () = until(&mut self.ending, true) => {}
            () = pause(AFTER_A_FAILURE) => {}
            never = refuse_all::<M>(&mut self.orders) => match never {},
        }
    }
}

/// Refuses each order of a client. Used while this process does not lead or is not a member.
pub async fn refuse_all<M: Machine>(orders: &mut mpsc::Receiver<M::Order>) -> Infallible {
    while let Some(order) = orders.recv().await {
        M::refuse(order);
    }
    // This line is never reached: the election or group holds a sender of orders, so the channel
    // stays open.
    std::future::pending().await
}

pub async fn until(flag: &mut watch::Receiver<bool>, value: bool) {
    // The wait fails only after the drop of the sender, and the sender outlives this task.
    let _ = flag.wait_for(|now| *now == value).await;
}

/// Returns the stable word for the field `reason` of a failed election or group.
fn code_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AccessDenied => "access_denied",
        ErrorKind::NoSuchStore => "no_such_store",
        ErrorKind::UnsafeStore => "unsafe_store",
        ErrorKind::CorruptRecord => "corrupt_record",
        ErrorKind::RecordTooNew => "record_too_new",
        ErrorKind::EpochsExhausted => "epochs_exhausted",
        ErrorKind::NewestDeleted => "newest_deleted",
        _ => "unavailable",
    }
}
