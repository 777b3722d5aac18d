//! Running work for each partition that this member owns.

use std::any::Any;
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::watch;

use super::events::MembershipEvent;
use super::membership::Membership;
use super::overdue_work::Watchdog;
use super::ownership::Ownership;
use super::partition::Partition;
use super::telemetry::Overdue;
use super::{Group, GroupSnapshot, PartitionNumber};
use crate::doubled;
use crate::unpoisoned;
use tenure::store::plain;
use tenure::{Error, Lease};

/// Before a partition whose work has failed here is given to this member again.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

/// How a member leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leave {
    /// How long its partitions are reserved for its name.
    park: Option<Duration>,
}

/// Former sessions that a member resigns. Each of them lapses in time, too.
const MOST_FORMER: usize = 2;

/// How the work on one partition ended.
enum Ended {
    /// It had been told to stop.
    Stopped,
    /// By itself.
    Returned,
    /// With an error; `None`: its text could not be formatted.
    Failed(Option<String>),
    Panicked,
}

type WorkResult = Result<(), Box<dyn StdError + Send + Sync>>;

impl Group {
    /// Joins the group and calls `work` for each partition that this member is granted, until
    /// [`leave`](Group::leave) is called.
    ///
    /// The work is to return once [`revoked`](Partition::revoked) says so: the partition is to
    /// move, or the session is at risk. A partition is released only once its work has returned;
    /// work that takes longer than the
    /// [`revocation_deadline`](super::GroupBuilder::revocation_deadline) is reported. Work that
    /// returns by itself, fails or panics before that releases its partition, too. The partition
    /// goes to members where this has not happened within ten minutes. If there are none, it goes
    /// to one again after 1 s, which doubles with each failure up to 60 s. No other partition moves
    /// for it, but for one at most when it fails at a member for the first time in ten minutes.
    ///
    /// When the session is lost, all work is signalled to stop; once it has returned, the process
    /// joins anew. After [`leave`](Group::leave) no partition is taken any more, and once all work
    /// has returned the session is resigned, so that nobody waits for its lapse.
    ///
    /// `work` is a closure such as `async |partition| …` or `async move |partition| …`, or a
    /// function. Each call consumes a clone of it, so that the future is `Send` also where the
    /// closure owns its captures: share state between calls by an `Arc`. The bound is not
    /// `AsyncFn`, as no bound can name the futures of one as `Send` yet: a generic function could
    /// not spawn this call, and a task could not use a closure that borrows.
    ///
    /// ```no_run
    /// # use std::sync::{Arc, Mutex};
    /// # async fn spawned(group: tenure_groups::Group) {
    /// let names = Arc::new(Mutex::new(Vec::new()));
    /// tokio::spawn(async move {
    ///     let work = async move |partition: tenure_groups::Partition| {
    ///         names.lock().unwrap().push(partition.name().to_owned()); // owned by the closure
    ///         partition.revoked().cancelled().await;
    ///         Ok(())
    ///     };
    ///     group.run(work).await
    /// });
    /// # }
    /// ```
    ///
    /// All work runs in the task that calls this: spawn tasks for what is to run in parallel.
    /// Dropping the future drops the work, and lets the session lapse. Meanwhile
    /// [`is_member`](Group::is_member), [`lease`](Group::lease) and [`last_seen`](Group::last_seen)
    /// of this `Group` and its clones describe the membership.
    ///
    /// Cost: that of [`join`](Group::join), and one PUT for all partitions that are released within
    /// a second.
    ///
    /// # Errors
    /// Those of [`join`](Group::join).
    pub async fn run<F, W>(&self, work: F) -> Result<(), Error>
    where
        F: FnOnce(Partition) -> W + Clone,
        W: Future<Output = Result<(), Box<dyn StdError + Send + Sync>>>,
    {
        let (mut failures, mut former) = (BTreeMap::new(), Vec::new());
        loop {
            let joined = self.join_unless_leaving(&former).await?;
            let Some(membership) = joined else { return Ok(()) };
            let session = membership.ownership.session;
            *unpoisoned(self.current.lock()) = Arc::downgrade(&membership.ownership);
            self.run_as(membership, &work, &mut failures).await;
            if self.leave.borrow().is_some() {
                return Ok(());
            }
            former.insert(0, session);
            former.truncate(MOST_FORMER);
        }
    }

    /// Runs the work of one membership until its end. Returns once all work has returned.
    async fn run_as<F, W>(
        &self,
        membership: Membership,
        work: &F,
        failures: &mut BTreeMap<PartitionNumber, u32>,
    ) where
        F: FnOnce(Partition) -> W + Clone,
        W: Future<Output = WorkResult>,
    {
        let mut works = FuturesUnordered::new();
        let mut watchdog =
            Watchdog::new(self.config.revocation_deadline, Overdue::new(self.cx.meter()));
        let mut leaves = self.leave.subscribe();
        leaves.mark_changed();
        let cx = &self.cx;
        let (mut look_at, mut tell_at) = (cx.now(), cx.now());
        let mut member = Some(membership);
        while member.is_some() || !works.is_empty() {
            tokio::select! {
                biased;
                leave = next_leave(&mut leaves) => {
                    if let Some(membership) = &member {
                        membership.ownership.leave(leave.park);
                    }
                }
                event = next_event(&mut member) => match event {
                    Some(MembershipEvent::Granted(partition)) => {
                        watchdog.begins(&partition);
                        works.push(Group::one(work.clone(), partition));
                    }
                    Some(MembershipEvent::Lost(_)) | None => member = None,
                    // It comes with each attempt: one line in a validity is enough.
                    Some(event @ MembershipEvent::StoreFailed(_)) => {
                        if cx.now().until(tell_at).is_zero() {
                            tell_at = cx.now().plus(self.cx.validity());
                            self.log(&event);
                        }
                    }
                    Some(event) => self.log(&event),
                },
                Some((partition, ended)) = works.next() => {
                    watchdog.ended(partition.number());
                    self.log_end(&partition, &ended);
                    if member.is_some() {
                        // Work that was told to stop may say so by an error: nothing failed.
                        let back_off = match partition.revoked().is_cancelled() {
                            true => Duration::ZERO,
                            false => back_off(partition.number(), &ended, failures),
                        };
                        partition.release_for(back_off);
                    }
                }
                () = cx.sleep(cx.now().until(look_at)) => {
                    look_at = cx.now().plus(watchdog.interval());
                    self.look_for_overdue(&mut watchdog, &mut member);
                }
            }
        }
    }

    /// The work on one partition. There is one for each that is owned, so it holds what it must and
    /// no more. A panic in any part of it, its drop included, concerns this partition alone.
    fn one<F, W>(work: F, partition: Partition) -> impl Future<Output = (Partition, Ended)>
    where
        F: FnOnce(Partition) -> W,
        W: Future<Output = WorkResult>,
    {
        let kept = partition.another();
        let mut running = contained(|| Box::pin(work(partition)));
        async move {
            let outcome = match &mut running {
                Some(running) => AssertUnwindSafe(running.as_mut()).catch_unwind().await,
                None => return (kept, Ended::Panicked),
            };
            let outcome = outcome.map_err(forget).ok();
            let stopped = kept.revoked().is_cancelled();
            let dropped = contained(|| drop(running)).is_some();
            let ended = match outcome.filter(|_| dropped) {
                None => Ended::Panicked,
                Some(Ok(())) if stopped => Ended::Stopped,
                Some(Ok(())) => Ended::Returned,
                Some(Err(error)) => {
                    let text = contained(|| error.to_string());
                    let _ = contained(|| drop(error));
                    Ended::Failed(text)
                }
            };
            (kept, ended)
        }
    }

    fn look_for_overdue(&self, watchdog: &mut Watchdog, member: &mut Option<Membership>) {
        let (group, deadline) = (self.cx.prefix(), self.config.revocation_deadline);
        for name in watchdog.look(self.cx.now()) {
            let partition = plain(&name);
            tracing::error!(
                group,
                partition,
                ?deadline,
                outcome = "overdue",
                "the work was told to stop and has not returned within the deadline"
            );
        }
        if self.config.leave_when_overdue && watchdog.is_any_overdue() {
            let ownership = member.as_ref().map(|membership| &membership.ownership);
            if let Some(leaving) = ownership.filter(|it| !it.is_leaving()) {
                leaving.leave(None);
            }
            // The session lapses, as the work still runs. The other partitions have moved before.
            if watchdog.is_all_overdue() && ownership.is_some_and(|it| it.is_released()) {
                *member = None;
            }
        }
    }

    fn log_end(&self, partition: &Partition, ended: &Ended) {
        let (group, name) = (self.cx.prefix(), plain(partition.name()));
        match ended {
            Ended::Stopped => {}
            Ended::Returned => {
                tracing::info!(group, partition = name, "the work returned by itself");
            }
            Ended::Failed(error) => {
                let error = error.as_deref().unwrap_or("its error panicked when it was formatted");
                let error = plain(error);
                tracing::warn!(group, partition = name, error, "the work failed");
            }
            Ended::Panicked => {
                tracing::error!(group, partition = name, "the work panicked");
            }
        }
    }

    fn log(&self, event: &MembershipEvent) {
        let group = self.cx.prefix();
        match event {
            MembershipEvent::StoreFailed(error) => {
                tracing::warn!(group, %error, "the group cannot be followed for now");
            }
            MembershipEvent::AtRisk { remaining } => {
                tracing::warn!(group, ?remaining, "the session is at risk: all work is to stop");
            }
            MembershipEvent::Taken { name, .. } => {
                tracing::error!(group, partition = name, "a partition was taken away");
            }
            _ => {}
        }
    }

    /// Makes the calls of [`run`](Group::run) on this `Group` and its clones leave, those to come
    /// among them: no partition is taken any more, and they return once all work has returned. For
    /// the end of a process: call it on SIGTERM.
    ///
    /// It takes back a [`leave_for`](Group::leave_for) until the session is resigned: nothing is
    /// reserved then.
    pub fn leave(&self) {
        self.leave.send_replace(Some(Leave { park: None }));
    }

    /// As [`leave`](Group::leave), but asks that all that the member owns is reserved for its name,
    /// for at most 1 h: nobody else owns it until then. So a rolling restart, in which each process
    /// comes back under its name in time, moves no partition. [`unreserve`](Group::unreserve) ends
    /// that early. After [`leave`](Group::leave) it has no effect.
    pub fn leave_for(&self, delay: Duration) {
        self.leave.send_if_modified(|leave| {
            let reserves = !matches!(leave, Some(Leave { park: None }));
            if reserves {
                *leave = Some(Leave { park: Some(delay) });
            }
            reserves
        });
    }

    /// Waits until this `Group` is to leave.
    pub(super) async fn leaves(&self) {
        // The sender lives in `self`, so the channel is open.
        let _ = self.leave.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns whether the call of [`run`](Group::run) on this `Group` or a clone is a member: its
    /// lease runs, and the assignment that it read last names it. No request. Of several calls the
    /// last that joined counts.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.current().is_some_and(|member| member.is_member())
    }

    /// Returns the lease of the session that the call of [`run`](Group::run) on this `Group` or a
    /// clone has, or had last; `None` before it has joined and once it has returned. No request.
    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        self.current().map(|member| member.lease.clone())
    }

    /// Returns the assignment that the call of [`run`](Group::run) on this `Group` or a clone has
    /// read last; `None` before it has joined and once it has returned. It is as old as
    /// [`since_last_answer`](Group::since_last_answer) says. No request; a copy of all members and
    /// partitions.
    #[must_use]
    pub fn last_seen(&self) -> Option<GroupSnapshot> {
        self.current().map(|member| GroupSnapshot::of(member.known().as_ref()))
    }

    fn current(&self) -> Option<Arc<Ownership>> {
        unpoisoned(self.current.lock()).upgrade()
    }
}

async fn next_leave(leaves: &mut watch::Receiver<Option<Leave>>) -> Leave {
    while leaves.changed().await.is_ok() {
        if let Some(leave) = *leaves.borrow_and_update() {
            return leave;
        }
    }
    std::future::pending().await
}

async fn next_event(member: &mut Option<Membership>) -> Option<MembershipEvent> {
    match member {
        Some(membership) => membership.next().await,
        None => std::future::pending().await,
    }
}

/// How long the partition is not to be given to this member again.
fn back_off(
    number: PartitionNumber,
    ended: &Ended,
    failures: &mut BTreeMap<PartitionNumber, u32>,
) -> Duration {
    match ended {
        Ended::Stopped => {
            failures.remove(&number);
            Duration::ZERO
        }
        Ended::Returned => {
            failures.remove(&number);
            FIRST_BACK_OFF
        }
        Ended::Failed(_) | Ended::Panicked => {
            let failed = failures.entry(number).or_insert(0);
            let back_off = doubled(FIRST_BACK_OFF, LONGEST_BACK_OFF, *failed);
            *failed += 1;
            back_off
        }
    }
}

/// Calls code of the application. `None`: it panicked.
fn contained<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(forget).ok()
}

/// Leaks the payload of a panic: its drop may panic, too.
fn forget(panic: Box<dyn Any + Send>) {
    std::mem::forget(panic);
}
