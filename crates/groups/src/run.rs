//! Joins a group, and runs work for each partition that this member owns.

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

/// If the work on a partition fails for the first time, the member does not get the partition again
/// for this time. The same applies if the work returns without the signal to stop.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

/// The way in which a member leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leave {
    /// Time for which the member's partitions are reserved for the member's name.
    park: Option<Duration>,
}

/// Maximum number of lost sessions that one process resigns after their work has returned. Its
/// other lost sessions lapse.
const MOST_FORMER: usize = 2;

/// The way in which the work on one partition ended.
enum Ended {
    /// The work returned without an error after the signal to stop.
    Stopped,
    /// The work returned without an error and without the signal to stop.
    Returned,
    /// The error that the work returned, or `None` if formatting the error panicked.
    Failed(Option<String>),
    Panicked,
}

type WorkResult = Result<(), Box<dyn StdError + Send + Sync>>;

impl Group {
    /// Joins the group and calls `work` for each partition that this member is granted, until
    /// [`leave`](Group::leave) is called. The work must return once it receives the signal
    /// [`revoked`](Partition::revoked). The member sends this signal if the partition must move to
    /// another member, or if the session is at risk. The member releases a partition only after its
    /// work has returned. If the work does not return within the
    /// [`revocation_deadline`](super::GroupBuilder::revocation_deadline) after the signal, the
    /// member logs an error.
    ///
    /// If the work returns without the signal, fails or panics, the member also releases the
    /// partition. The partition then moves to a member where its work has not failed in the last
    /// ten minutes. If the work on the partition has failed at each member, a member gets the
    /// partition again after 1 s. This delay doubles with each failure, up to 60 s. When the work
    /// on a partition fails at a member for the first time in ten minutes, at most one other
    /// partition moves. Later failures at this member move no other partition.
    ///
    /// If the session is lost, all work gets the signal to stop. Once all work has returned, the
    /// process joins again. After [`leave`](Group::leave) the member gets no more partitions. Once
    /// all work has returned, the member resigns its session, so the partitions move without a wait
    /// for a lapse.
    ///
    /// `work` is a closure such as `async |partition| …` or `async move |partition| …`, or a
    /// function. Each call consumes a clone of `work`, so the future is `Send` even if the closure
    /// owns its captures. To share state between the calls of `work`, use an `Arc`. The bound is
    /// not `AsyncFn`, because stable Rust cannot require that the futures of an `AsyncFn` are
    /// `Send`. With `AsyncFn`, a generic function could not spawn this call, and a task could not
    /// use a closure that borrows.
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
    /// All work runs in the task of the caller. For parallel work, `work` must spawn tasks.
    /// Dropping the future drops the work and lets the session lapse. While `run` is pending,
    /// [`is_member`](Group::is_member), [`lease`](Group::lease) and [`last_seen`](Group::last_seen)
    /// describe its membership, on this `Group` and on its clones.
    ///
    /// Costs the requests of [`join`](Group::join). One additional PUT reports all partitions that
    /// the member releases within a second.
    ///
    /// # Errors
    /// The errors of [`join`](Group::join).
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

    /// Runs the work of one membership. Returns once the membership has ended and all work has
    /// returned.
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
                    // Each failed request causes this event, so log one per validity.
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
                        // An error after the signal to stop does not count as a failure.
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

    /// Runs the work on one partition. The returned future is small, because a member may own many
    /// partitions. If the work panics, or the drop of its future panics, only the work on this
    /// partition ends.
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
                "the work did not return within the deadline after the signal to stop"
            );
        }
        if self.config.leave_when_overdue && watchdog.is_any_overdue() {
            let ownership = member.as_ref().map(|membership| &membership.ownership);
            if let Some(leaving) = ownership.filter(|it| !it.is_leaving()) {
                leaving.leave(None);
            }
            // If all remaining work is overdue and the member has released all other partitions,
            // let the session lapse. Do not resign the session, because the overdue work still
            // runs.
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
                tracing::info!(
                    group,
                    partition = name,
                    "the work returned without a signal to stop"
                );
            }
            Ended::Failed(error) => {
                let error = error.as_deref().unwrap_or("formatting the error of the work panicked");
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
                tracing::warn!(group, %error, "a request of this member failed; trying again");
            }
            MembershipEvent::AtRisk { remaining } => {
                tracing::warn!(group, ?remaining, "the session is at risk: all work must stop");
            }
            MembershipEvent::Taken { name, .. } => {
                tracing::error!(
                    group,
                    partition = name,
                    "an assignment took a partition that this member did not release"
                );
            }
            _ => {}
        }
    }

    /// Ends all calls of [`run`](Group::run) on this `Group` and its clones, including later calls.
    /// The calls get no more partitions, and return once all work has returned. Call this method at
    /// the end of the process, for example on SIGTERM.
    ///
    /// If [`leave_for`](Group::leave_for) was called before and the session is not resigned yet,
    /// this call replaces that call, and no partition is reserved.
    pub fn leave(&self) {
        self.leave.send_replace(Some(Leave { park: None }));
    }

    /// Leaves as [`leave`](Group::leave) does, but reserves the member's partitions for members
    /// with the same name. The reservation lasts for `delay`, at most 1 h. During this time no
    /// member with another name owns these partitions. So if each process joins again under its
    /// name within `delay`, a rolling restart moves no partition. [`unreserve`](Group::unreserve)
    /// ends a reservation early. After [`leave`](Group::leave) this call has no effect.
    pub fn leave_for(&self, delay: Duration) {
        self.leave.send_if_modified(|leave| {
            let reserves = !matches!(leave, Some(Leave { park: None }));
            if reserves {
                *leave = Some(Leave { park: Some(delay) });
            }
            reserves
        });
    }

    /// Waits until [`leave`](Group::leave) or [`leave_for`](Group::leave_for) is called.
    pub(super) async fn leaves(&self) {
        // `self` owns the sender of the channel, so the channel is open.
        let _ = self.leave.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns whether a call of [`run`](Group::run) on this `Group` or a clone is a member. This
    /// means that the lease of its session runs, and that the newest assignment that the call has
    /// read names this session. If several calls run, the result describes the call that joined
    /// last. Sends no request.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.current().is_some_and(|member| member.is_member())
    }

    /// Returns the lease of the session that [`run`](Group::run) has on this `Group` or a clone. If
    /// several calls run, this is the session that joined last. Returns `None` before that session
    /// has joined, and after its call has returned. Sends no request.
    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        self.current().map(|member| member.lease.clone())
    }

    /// Returns the newest assignment that a call of [`run`](Group::run) on this `Group` or a clone
    /// has read. Returns `None` before that call has joined, and after it has returned.
    /// [`since_last_answer`](Group::since_last_answer) returns the time since the last read. Sends
    /// no request, but copies all members and partitions.
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

/// Returns the time for which this member must not get the partition again.
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

/// Calls code of the application. Returns `None` if that code panicked.
fn contained<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(forget).ok()
}

/// Leaks the payload of a panic, because the drop of the payload may also panic.
fn forget(panic: Box<dyn Any + Send>) {
    std::mem::forget(panic);
}
