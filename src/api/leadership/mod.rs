//! Leadership: the lease and its renewal, the token, and the loss.

mod lease;
mod run;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc, oneshot};

pub use lease::Lease;
pub use run::{Cancellation, RunOutcome};

use crate::driver::across::StoreHold;
use crate::driver::config::Config;
use crate::driver::lead::StartedLead;
pub(crate) use crate::driver::lead::{Command, Lead, LeadershipEvent, Loss, ResignKey};
use crate::driver::runtime::require_timers;
use crate::env::timer::sleep;
use crate::error::{Error, ErrorKind};

/// An epoch that was granted to this process. A background task renews the lease until the
/// leadership is lost or dropped.
///
/// A leadership owns its [`Lease`] and dereferences to it. Call [`check`](Lease::check) right
/// before each write, and send the token with the write. The lease may end between the check and
/// the write, so the guarded resource must refuse lower tokens.
///
/// Dropping a leadership stops the renewals and lets the lease lapse. A dropped leadership does not
/// resign, because the work may still be running. With
/// [`resign_on_drop`](crate::ElectionBuilder::resign_on_drop) the leadership resigns in the
/// background instead. Dropping never blocks and never panics.
///
/// Cost while leading: one PUT every renew interval, and one GET every validity.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Election, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = Arc::new(MemoryStore::new());
/// # let candidate = |name| Election::builder(store.clone(), "orders/leader").name(name).build();
/// let leadership = candidate("worker-7")?.campaign().await?;
/// let token = leadership.check()?; // right before each write, and sent with it
///
/// leadership.resign().await?; // once the work has ended
/// let successor = candidate("worker-8")?.campaign().await?; // without a wait for a lapse
/// assert!(successor.check()? > token); // the resource refuses lower tokens from now on
/// # Ok(())
/// # }
/// ```
#[must_use = "a leadership that is dropped is no longer renewed"]
pub struct Leadership {
    lease: Lease,
    key: ResignKey,
    config: Arc<Config>,
    commands: mpsc::UnboundedSender<Command>,
}

impl Leadership {
    pub(crate) fn new(started: StartedLead) -> Leadership {
        let StartedLead { lead, key, config, commands } = started;
        Leadership { lease: Lease { lead }, key, config, commands }
    }

    /// Passes a command to the driver, and does not wait for the outcome.
    pub(crate) fn command(&self, command: Command) {
        // A closed channel means that the driver has stopped, so the lease ends.
        let _ = self.commands.send(command);
    }

    /// Returns a handle to the lease, for tasks that only check it. Sends no request.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Returns the key with which another process can resign this leadership once this process is
    /// dead ([`resign_dead`](crate::Election::resign_dead)). The key is for a supervisor that runs
    /// the work in separate processes, and knows when all of them have ended. Sends no request.
    #[must_use]
    pub fn resign_key(&self) -> ResignKey {
        self.key
    }

    /// Returns the state of each store, in the order of the markers, for a leadership [across
    /// stores](crate::Election::across). Returns an empty vector for a leadership in one store.
    /// Sends no request.
    #[must_use]
    pub fn stores(&self) -> Vec<StoreHold> {
        self.lead.stores()
    }

    /// Waits until the leadership has ended, and returns the reason. Cancel-safe.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime with timers.
    pub async fn lost(&self) -> Loss {
        self.lead.lost().await
    }

    /// Returns the events after this call. The loss is the last event. A reader with more than 64
    /// unread events misses the oldest events. Sends no request.
    pub fn events(&self) -> impl Stream<Item = LeadershipEvent> + Send + Unpin + use<> {
        let events = self.lead.events.subscribe();
        // Subscribe before the check for a loss. In the opposite order, the stream would miss a
        // loss between the check and the subscription.
        let next = match self.lead.loss() {
            Some(loss) => EventsState::Loss(loss),
            None => EventsState::Of(events),
        };
        // A `select!` may poll the stream after its end, so the stream is fused.
        Box::pin(stream::unfold(next, next_event).fuse())
    }

    /// Writes `data` into the record for observers, and renews the lease. Cost: one PUT.
    ///
    /// # Errors
    /// - [`InvalidInput`](ErrorKind::InvalidInput) if the record would become too long. Nothing was
    ///   sent.
    /// - [`LeadershipLost`](ErrorKind::LeadershipLost) if the leadership ended before the answer to
    ///   the write. The write may have taken effect.
    /// - [`NoRuntime`](ErrorKind::NoRuntime) outside of a Tokio runtime with timers. Nothing was
    ///   sent.
    pub async fn proclaim(&self, data: impl Into<Value>) -> Result<(), Error> {
        require_timers()?;
        let data = data.into();
        self.config.check_data(&data)?;
        self.check().map_err(|loss| over("proclaiming", &loss))?;
        let (reply, answer) = oneshot::channel();
        // A closed channel means that the driver has stopped, so no answer comes.
        let _ = self.commands.send(Command::Proclaim { data, reply });
        self.answer("proclaiming", answer).await
    }

    /// Seals the epoch. Another candidate can then be elected without a wait for the lapse. Call
    /// this method after the end of the work, because [`check`](Lease::check) fails after the call.
    /// Cost: one PUT.
    ///
    /// Other candidates see the seal at their next poll. A process that campaigns again immediately
    /// is elected before the other candidates.
    ///
    /// # Errors
    /// - [`LeadershipLost`](ErrorKind::LeadershipLost) if the leadership was lost before the
    ///   resignation.
    /// - The store's error if the seal could not be written before the end of the lease. In this
    ///   case other candidates wait for the lapse.
    /// - [`NoRuntime`](ErrorKind::NoRuntime) outside of a Tokio runtime with timers. The leadership
    ///   is dropped.
    pub async fn resign(self) -> Result<(), Error> {
        self.give_up(None, None).await
    }

    /// Resigns as [`resign`](Leadership::resign) does, but gives precedence to the candidate with
    /// this name. After it has seen the seal, each other candidate waits for its longest poll
    /// interval, or for its priority delay if this delay is longer. So a handover takes one poll of
    /// the successor, and then two requests: a create and a LIST. With
    /// [`Layout::SingleObject`](crate::Layout::SingleObject), only one request follows the poll.
    ///
    /// The name is a preference: if no candidate has the name, the other candidates campaign after
    /// their waits. Candidates with `poll_interval(None)` wait for a sixth of their validity
    /// instead. A successor with `poll_interval(None)` takes over only at its next poll. So in the
    /// successor's process, call [`refresh`](crate::Election::refresh).
    ///
    /// # Errors
    /// The errors of [`resign`](Leadership::resign), and [`InvalidInput`](ErrorKind::InvalidInput)
    /// for a name that no candidate can have. In this case nothing was sent, and the leadership is
    /// dropped.
    pub async fn resign_to(self, successor: impl Into<String>) -> Result<(), Error> {
        let successor = successor.into();
        Config::check_name(&successor)?;
        self.give_up(Some(successor), None).await
    }

    pub(crate) async fn give_up(
        self,
        successor: Option<String>,
        reserve: Option<Duration>,
    ) -> Result<(), Error> {
        require_timers()?;
        self.check().map_err(|loss| over("resigning", &loss))?;
        self.lead.lose(Loss::Resigned);
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Resign { successor, reserve, reply });
        self.answer("resigning", answer).await
    }

    /// Waits for the driver's answer, at most until one request timeout after the end of the lease.
    /// The limit is necessary because the driver's runtime may have ended or may be blocked.
    async fn answer(
        &self,
        doing: &str,
        answer: oneshot::Receiver<Result<(), Error>>,
    ) -> Result<(), Error> {
        let too_late = async {
            self.lead.watch().await;
            sleep(&self.lead.process, self.config.request_timeout).await;
        };
        let answer = tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = too_late => None,
        };
        match answer {
            Some(answer) => answer,
            None => Err(over(doing, &self.lost().await).maybe()),
        }
    }
}

impl Deref for Leadership {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for Leadership {
    /// Ends the lease immediately for all handles, even while the driver waits for an answer of the
    /// store.
    fn drop(&mut self) {
        self.lead.lose(Loss::Resigned);
    }
}

/// State of a stream of events.
enum EventsState {
    Of(broadcast::Receiver<LeadershipEvent>),
    Loss(Loss),
    End,
}

async fn next_event(next: EventsState) -> Option<(LeadershipEvent, EventsState)> {
    let mut events = match next {
        EventsState::Of(events) => events,
        EventsState::Loss(loss) => return Some((LeadershipEvent::Lost(loss), EventsState::End)),
        EventsState::End => return None,
    };
    loop {
        match events.recv().await {
            Ok(event @ LeadershipEvent::Lost(_)) => return Some((event, EventsState::End)),
            Ok(event) => return Some((event, EventsState::Of(events))),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}

fn over(doing: &str, loss: &Loss) -> Error {
    let message = format!("{doing}: the leadership has ended: {loss}");
    Error::new(ErrorKind::LeadershipLost, message)
}

// `Debug` is not derived, because a log must not contain the leader's data.
impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("epoch", &self.lead.epoch)
            .field("candidate", &self.lead.candidate)
            .field("status", &*self.lead.status.borrow())
            .finish_non_exhaustive()
    }
}
