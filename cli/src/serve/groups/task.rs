//! The task of a sidecar in one group. The task joins the group, and tracks the owned partitions
//! until the process ends.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tenure::Loss;
use tenure_groups::{Membership, MembershipEvent, Partition};
use tracing::{error, info, warn};

use super::member::{GroupOrder, Leave, Member};
use super::refusals::{NOT_MEMBER, NOTHING_SEEN};
use crate::output::logs::Throttle;
use crate::output::print::{in_ms, plain};
use crate::process::timer::pause;
use crate::serve::machine::{
    Common, LOOK, Machine, ServedRole, ServedTask, TOO_LATE, refuse_all, until,
};

/// The reason for the end of a membership of this sidecar.
enum MembershipOver {
    /// The session has ended or is about to end. The application may still work on partitions.
    Lost,
    /// This member has left the group. The field is the pause before it joins again.
    Left(Duration),
    /// This process gives up the session. The field is the reason: `ending` if the grace of the
    /// application has ended, `app_unhealthy` if the application is not healthy.
    GivenUp(&'static str),
}

/// A membership in a group, and whether this member is leaving.
struct Following<'a> {
    task: &'a mut ServedTask<Member>,
    membership: Membership,
    /// Pause before the next join. `Some` after the application has ordered the member to leave.
    defer_for: Option<Duration>,
    /// True if the member leaves because this process ends.
    draining: bool,
    throttle: Throttle,
}

impl Machine for Member {
    type Order = GroupOrder;

    const SEEKING: &str = "joining";
    const NO_SEEKING: &str = "no member";
    const GIVEN_UP: &str = "left";

    fn common(&self) -> &Common<GroupOrder> {
        &self.common
    }

    fn enter(&self, role: ServedRole) {
        Member::enter(self, role);
    }

    async fn follow(&self) {
        let mut changes = self.group.observe();
        while let Some(Ok(_)) = changes.next().await {}
    }

    fn refuse(order: GroupOrder) {
        match order {
            GroupOrder::Leave { reply, .. } => drop(reply.send(Err(NOT_MEMBER))),
            GroupOrder::LastSeen { reply } => drop(reply.send(Err(NOTHING_SEEN))),
        }
    }

    async fn seek_and_hold(task: &mut ServedTask<Member>) -> Option<Duration> {
        let membership = task.join().await?;
        task.take_part(membership).await
    }
}

impl ServedTask<Member> {
    /// Waits until this process is a member. Returns `None` if the process ends, the application is
    /// unhealthy, or the join fails.
    async fn join(&mut self) -> Option<Membership> {
        self.machine.enter(ServedRole::Seeking);
        let group = self.machine.group.clone();
        let mut join = std::pin::pin!(group.join());
        let joined = tokio::select! {
            biased;
            () = until(&mut self.ending, true) => None,
            // When the future of the join is dropped, the library resigns the session that the join
            // has created.
            () = until(&mut self.healthy, false) => return None,
            joined = &mut join => Some(joined),
            never = refuse_all::<Member>(&mut self.orders) => match never {},
        };
        let joined = match joined {
            Some(joined) => joined,
            // The process ends, but other members may already count it as a member. So the join is
            // completed, and the member then leaves.
            None => tokio::select! {
                joined = &mut join => joined,
                () = pause(self.grace) => return None,
            },
        };
        match joined {
            Ok(membership) => Some(membership),
            Err(error) => {
                self.failed(&error).await;
                None
            }
        }
    }

    /// Follows the membership until the session ends. Returns the pause before the next join.
    async fn take_part(&mut self, membership: Membership) -> Option<Duration> {
        let (session, lease) = (membership.session(), membership.lease());
        info!(outcome = "joined", "joined: session {session}");
        self.machine.joined(session, lease);
        let (defer_for, draining, throttle) = Default::default();
        let mut following = Following { task: self, membership, defer_for, draining, throttle };
        match following.until_over().await {
            MembershipOver::Left(time) => Some(time),
            MembershipOver::Lost => following.lapse().await,
            MembershipOver::GivenUp(reason) => following.resign(reason).await,
        }
    }
}

impl Following<'_> {
    async fn until_over(&mut self) -> MembershipOver {
        let member = Arc::clone(&self.task.machine);
        let mut changes = member.common.changes.subscribe();
        let mut grace: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(std::future::pending());
        loop {
            let Some(left) = member.remaining() else { return MembershipOver::Lost };
            let task = &mut *self.task;
            tokio::select! {
                biased;
                () = until(&mut task.ending, true), if !self.draining => {
                    self.draining = true;
                    grace = Box::pin(pause(self.task.grace));
                    self.drain();
                }
                // While this process ends, the health is not checked, because even an unhealthy
                // application has the whole grace.
                () = until(&mut task.healthy, false), if !self.draining => {
                    return MembershipOver::GivenUp("app_unhealthy");
                }
                () = &mut grace => return MembershipOver::GivenUp("ending"),
                event = self.membership.next() => match event {
                    Some(MembershipEvent::Lost(loss)) => return self.ended(&loss),
                    Some(event) => self.handle(event),
                    None => return MembershipOver::Lost,
                },
                Some(order) = task.orders.recv() => self.carry_out(order),
                _ = changes.changed() => {}
                () = pause(left.min(LOOK)) => {}
            }
        }
    }

    /// Starts the grace in which the application ends its work. The session is renewed during the
    /// grace.
    fn drain(&mut self) {
        let ServedTask { machine: member, grace, .. } = &*self.task;
        let leave_for = member.leave_for;
        info!(
            outcome = "ending",
            "all partitions are revoked; leaving after a grace of {}",
            in_ms(*grace)
        );
        member.leaves("ending", ServedRole::Ending);
        // If the application has already ordered this member to leave, the options of its order
        // remain in force. Only a `leave_for` in the settings replaces them.
        if self.defer_for.is_none() || leave_for.is_some() {
            leave(&self.membership, leave_for);
        }
    }

    fn carry_out(&mut self, order: GroupOrder) {
        match order {
            GroupOrder::LastSeen { reply } => drop(reply.send(Ok(self.membership.last_seen()))),
            GroupOrder::Leave { order: Leave { keep, pause }, reply } => {
                if !self.draining {
                    info!(
                        outcome = "leaving",
                        "the application leaves: all partitions are revoked"
                    );
                    self.defer_for = Some(pause.unwrap_or(self.task.defer_for));
                    self.task.machine.leaves("left", ServedRole::Leaving);
                    leave(&self.membership, keep);
                }
                let (_, owned) = self.task.machine.all();
                let _ = reply.send(Ok(owned.len()));
            }
        }
    }

    fn handle(&mut self, event: MembershipEvent) {
        let member = &self.task.machine;
        match event {
            MembershipEvent::Granted(partition) => {
                let (name, token) = (plain(partition.name()), partition.token());
                info!(outcome = "granted", "granted: partition {name}, epoch {token}");
                // If the session has already ended, `granted` returns the partition, and this line
                // drops it. The loop in `until_over` then ends.
                drop(member.granted(partition));
            }
            MembershipEvent::Revoked { name, .. } => {
                info!(outcome = "revoked", "revoked: partition {}", plain(&name));
                member.revoked(&name);
            }
            MembershipEvent::Taken { name, .. } => {
                error!(outcome = "taken", "partition {} was taken away", plain(&name));
                member.taken(&name);
            }
            MembershipEvent::AtRisk { remaining } => {
                let left = in_ms(remaining);
                warn!(outcome = "at_risk", "renewals fail, and the lease ends in {left}");
            }
            MembershipEvent::StoreFailed(error) if self.throttle.is_due(&error) => {
                let why = plain(&error.to_string());
                warn!(outcome = "store_failed", "the store fails, trying again: {why}");
            }
            _ => {}
        }
    }

    /// Handles the event `Lost`, the last event of a membership.
    fn ended(&mut self, loss: &Loss) -> MembershipOver {
        // Records this reason for the end of the session, unless a reason is already recorded.
        self.task.machine.give_up(loss.outcome());
        match (loss, self.defer_for) {
            (Loss::Resigned, Some(time)) => {
                info!(outcome = "left", "left the group");
                MembershipOver::Left(time)
            }
            (Loss::Resigned, None) if self.draining => {
                info!(outcome = "left", "left the group");
                MembershipOver::Left(Duration::ZERO)
            }
            _ => MembershipOver::Lost,
        }
    }

    /// Lets the session lapse, because the application may still work. If the library is already
    /// resigning the session, waits until the resignation has ended. Returns the pause before the
    /// next join.
    async fn lapse(self) -> Option<Duration> {
        let Following { task, mut membership, defer_for, .. } = self;
        let orders = &mut task.orders;
        match membership.lease().check() {
            Err(Loss::Resigned) => {
                tokio::select! {
                    () = async { while membership.next().await.is_some() {} } => {}
                    never = refuse_all::<Member>(orders) => match never {},
                }
                info!(outcome = "left", "left the group");
            }
            Err(loss) => {
                let why = plain(&loss.to_string());
                warn!(outcome = "lost", "the session is lost: {why}");
            }
            Ok(_) => {
                warn!(outcome = "lost", "the session is given up: {TOO_LATE}");
                drop(membership);
                // A member with a unique name seals its former session as soon as it joins again.
                // So this task waits for the margin before the next join, because the application
                // has this time to react to the loss.
                tokio::select! {
                    () = until(&mut task.ending, true) => {}
                    () = pause(task.machine.common.times.margin) => {}
                    never = refuse_all::<Member>(orders) => match never {},
                }
            }
        }
        defer_for
    }

    /// Gives up the session for this reason. Resigns the session after the margin, because the
    /// application has this time to react. Only this function releases partitions that the
    /// application has not released. Returns the pause before the next join.
    async fn resign(mut self, reason: &'static str) -> Option<Duration> {
        // If `give_up` returns `None`, this member can no longer release its partitions. A
        // resignation would wait for their release forever, and renew the session during the wait.
        let Some(mut owned) = self.task.machine.give_up(reason) else {
            return self.lapse().await;
        };
        warn!(outcome = reason, "giving up all partitions: {reason}");
        let mut margin = std::pin::pin!(pause(self.task.machine.common.times.margin));
        loop {
            tokio::select! {
                biased;
                event = self.membership.next() => match event {
                    Some(MembershipEvent::Granted(partition)) => owned.push(partition),
                    Some(MembershipEvent::Lost(_)) | None => return self.defer_for,
                    Some(_) => {}
                },
                () = &mut margin => break,
                never = refuse_all::<Member>(&mut self.task.orders) => match never {},
            }
        }
        if !self.draining {
            self.membership.leave();
        }
        owned.into_iter().for_each(Partition::release);
        loop {
            tokio::select! {
                biased;
                event = self.membership.next() => match event {
                    Some(MembershipEvent::Granted(partition)) => partition.release(),
                    Some(MembershipEvent::Lost(_)) | None => break,
                    Some(_) => {}
                },
                never = refuse_all::<Member>(&mut self.task.orders) => match never {},
            }
        }
        info!(outcome = "left", "left the group");
        self.defer_for
    }
}

fn leave(membership: &Membership, keep: Option<Duration>) {
    match keep {
        Some(delay) => membership.leave_for(delay),
        None => membership.leave(),
    }
}
