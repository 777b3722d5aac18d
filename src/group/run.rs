//! Running work for each partition that this member owns.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};

use super::membership::MembershipEvent;
use super::partition::Partition;
use super::{Group, PartitionNumber};
use crate::backoff::Backoff;
use crate::error::Error;
use crate::escape::plain;
use crate::mutex::unpoisoned;

/// Before a partition whose work has failed here is given to this member again.
const BACK_OFF: Backoff =
    Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };

/// How the work on one partition ended.
enum Ended {
    /// It had been told to stop.
    Stopped,
    /// By itself.
    Returned,
    Failed(Box<dyn StdError + Send + Sync>),
    Panicked,
}

impl Group {
    /// Joins the group and calls `work` for each partition that this member is granted, until
    /// [`leave`](Group::leave) is called.
    ///
    /// The work is to return once [`revoked`](Partition::revoked) says so: the partition is to move,
    /// or the session is at risk. A partition is released only once its work has returned. Work that
    /// returns by itself, fails or panics releases its partition, too, and other members are
    /// preferred for 1 s, which doubles with each failure up to 60 s; no other partition is touched.
    ///
    /// When the session is lost, all work is signalled to stop; once it has returned, the process joins
    /// anew. After [`leave`](Group::leave) no partition is taken any more, and once all work has
    /// returned the session is resigned, so that nobody waits for its lapse.
    ///
    /// All work runs in the task that calls this: spawn tasks for what is to run in parallel.
    /// Dropping the future drops the work, and lets the session lapse.
    ///
    /// Cost: that of [`join`](Group::join), and one PUT for all partitions that are released within
    /// a second.
    ///
    /// # Errors
    /// Those of [`join`](Group::join).
    pub async fn run<F, W>(&self, work: F) -> Result<(), Error>
    where
        F: Fn(Partition) -> W,
        W: Future<Output = Result<(), Box<dyn StdError + Send + Sync>>>,
    {
        let mut failures = BTreeMap::new();
        loop {
            let Some(mut membership) = self.join_unless_leaving().await? else { return Ok(()) };
            let mut leaving = false;
            let mut works = FuturesUnordered::new();
            loop {
                tokio::select! {
                    biased;
                    () = self.leaving.cancelled(), if !leaving => {
                        leaving = true;
                        membership.shared.leave(*unpoisoned(self.park.lock()));
                    }
                    event = membership.next() => match event {
                        Some(MembershipEvent::Granted(partition)) => {
                            works.push(Group::one(&work, partition));
                        }
                        Some(MembershipEvent::Lost(_)) | None => break,
                        Some(event) => self.log(&event),
                    },
                    Some((partition, ended)) = works.next() => {
                        self.release(partition, ended, &mut failures);
                    }
                }
            }
            // What was lost must have stopped before the same process may own it again.
            while works.next().await.is_some() {}
            if leaving {
                return Ok(());
            }
        }
    }

    /// The work on one partition. There is one for each that is owned, so it holds what it must and
    /// no more.
    fn one<F, W>(work: &F, partition: Partition) -> impl Future<Output = (Partition, Ended)>
    where
        F: Fn(Partition) -> W,
        W: Future<Output = Result<(), Box<dyn StdError + Send + Sync>>>,
    {
        let kept = partition.handle();
        let running = match catch_unwind(AssertUnwindSafe(|| work(partition))) {
            Ok(running) => AssertUnwindSafe(running).catch_unwind().left_future(),
            Err(panic) => ready(Err(panic)).right_future(),
        };
        running.map(|outcome| {
            let stopped = kept.revoked().is_cancelled();
            let ended = match outcome {
                Ok(Ok(())) if stopped => Ended::Stopped,
                Ok(Ok(())) => Ended::Returned,
                Ok(Err(error)) => Ended::Failed(error),
                Err(_) => Ended::Panicked,
            };
            (kept, ended)
        })
    }

    fn release(
        &self,
        partition: Partition,
        ended: Ended,
        failures: &mut BTreeMap<PartitionNumber, u32>,
    ) {
        let (group, name, number) =
            (self.cx.keys.prefix(), partition.grant.name.to_string(), partition.number());
        let mut again = || {
            let failed = failures.entry(number).or_insert(0);
            let back_off = BACK_OFF.delay(*failed);
            *failed += 1;
            back_off
        };
        let back_off = match ended {
            Ended::Stopped => {
                failures.remove(&number);
                Duration::ZERO
            }
            Ended::Returned => {
                failures.remove(&number);
                tracing::info!(group, partition = name, "the work returned by itself");
                BACK_OFF.first
            }
            Ended::Failed(error) => {
                let error = plain(&error.to_string());
                tracing::warn!(group, partition = name, error, "the work failed");
                again()
            }
            Ended::Panicked => {
                tracing::error!(group, partition = name, "the work panicked");
                again()
            }
        };
        partition.release_for(back_off);
    }

    fn log(&self, event: &MembershipEvent) {
        let group = self.cx.keys.prefix();
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
    pub fn leave(&self) {
        *unpoisoned(self.park.lock()) = None;
        self.leaving.cancel();
    }

    /// As [`leave`](Group::leave), but asks that all that the member owns is kept for its name, for
    /// at most 1 h: nobody else owns it until then. So a rolling restart, in which each process comes
    /// back under its name in time, moves no partition.
    pub fn leave_for(&self, delay: Duration) {
        *unpoisoned(self.park.lock()) = Some(delay);
        self.leaving.cancel();
    }
}
