//! Joins one group, and follows what this member owns, until the process ends.

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

/// Why this process is no member any more.
enum MembershipOver {
    /// The session is over, or is about to end: what the application does is not known.
    Lost,
    /// It has left, and stays out for so long.
    Left(Duration),
    /// The application has had its time: the session is given up for this reason.
    GivenUp(&'static str),
}

/// A membership, and why it ends.
struct Following<'a> {
    task: &'a mut ServedTask<Member>,
    membership: Membership,
    /// How long to stay out of the group, once it leaves.
    defer_for: Option<Duration>,
    /// It leaves as this process ends.
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
    /// Waits until this process is a member; `None` if something else is to be done first.
    async fn join(&mut self) -> Option<Membership> {
        self.machine.enter(ServedRole::Seeking);
        let group = self.machine.group.clone();
        let mut join = std::pin::pin!(group.join());
        let joined = tokio::select! {
            biased;
            () = until(&mut self.ending, true) => None,
            // The session of a join that is dropped is resigned.
            () = until(&mut self.healthy, false) => return None,
            joined = &mut join => Some(joined),
            never = refuse_all::<Member>(&mut self.orders) => match never {},
        };
        let joined = match joined {
            Some(joined) => joined,
            // Others may make it a member already: it leaves before the process ends.
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

    /// Is a member until the session is over. Returns how long to stay out of the group then.
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
                // At the end it has its grace, and no more.
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

    /// The application has its grace to end its work, and the session is renewed meanwhile.
    fn drain(&mut self) {
        let ServedTask { machine: member, grace, .. } = &*self.task;
        let leave_for = member.leave_for;
        info!(outcome = "ending", "all is revoked; leaving after a grace of {}", in_ms(*grace));
        member.leaves("ending", ServedRole::Ending);
        // What the application has asked for counts.
        if self.defer_for.is_none() || leave_for.is_some() {
            leave(&self.membership, leave_for);
        }
    }

    fn carry_out(&mut self, order: GroupOrder) {
        match order {
            GroupOrder::LastSeen { reply } => drop(reply.send(Ok(self.membership.last_seen()))),
            GroupOrder::Leave { order: Leave { keep, pause }, reply } => {
                if !self.draining {
                    info!(outcome = "leaving", "the application leaves: all is revoked");
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
                // Otherwise the session is over for replies, and the loop ends.
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
                warn!(outcome = "at_risk", "renewals fail, and {left} are left of the lease");
            }
            MembershipEvent::StoreFailed(error) if self.throttle.is_due(&error) => {
                let why = plain(&error.to_string());
                warn!(outcome = "store_failed", "the store fails, trying again: {why}");
            }
            _ => {}
        }
    }

    /// The last event has come.
    fn ended(&mut self, loss: &Loss) -> MembershipOver {
        // Finds the reason, if no reply has done so.
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

    /// What the application does is not known, so the session is left to lapse. One that is being
    /// resigned is over for replies, too: that is waited for. Returns how long to stay out.
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
                // A member whose name is unique seals its former session as soon as it joins, and
                // the application has the margin to hear of the loss.
                tokio::select! {
                    () = until(&mut task.ending, true) => {}
                    () = pause(task.machine.common.margin) => {}
                    never = refuse_all::<Member>(orders) => match never {},
                }
            }
        }
        defer_for
    }

    /// Gives the session up for this reason, and resigns it after the time that the application has
    /// to hear of it: only here is a partition released without its word. Returns how long to stay
    /// out.
    async fn resign(mut self, reason: &'static str) -> Option<Duration> {
        // Without its partitions nothing could release them, and the session would be renewed for
        // ever.
        let Some(mut owned) = self.task.machine.give_up(reason) else {
            return self.lapse().await;
        };
        warn!(outcome = reason, "giving up all partitions: {reason}");
        let mut margin = std::pin::pin!(pause(self.task.machine.common.margin));
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
