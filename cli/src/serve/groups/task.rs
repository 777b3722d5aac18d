//! Joins one group, and follows what this member owns, until the process ends.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tenure::{Error, Loss};
use tenure_groups::{Group, Membership, MembershipEvent, Partition};
use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};

use super::member::{GroupOrder, Leave, Member, MemberRole};
use super::refusals::{NOT_MEMBER, NOTHING_SEEN};
use crate::output::logs::Throttle;
use crate::output::print::{in_ms, plain};
use crate::process::lock::lock;
use crate::process::timer::pause;
use crate::serve::campaign::{LOOK, TOO_LATE, code_of};
use crate::serve::candidacy::OrderReply;
use crate::serve::stream::Source as _;
use crate::store::patience::{AFTER_A_FAILURE, caught};

/// The task of one group.
pub struct Joiner {
    pub member: Arc<Member>,
    pub orders: mpsc::Receiver<GroupOrder>,
    /// Whether the application is healthy.
    pub healthy: watch::Receiver<bool>,
    /// Whether this process is to end.
    pub ending: watch::Receiver<bool>,
    /// How long the application has for its work once this process is to end.
    pub grace: Duration,
    /// For how long what it owns at the end is kept for its name.
    pub leave_for: Option<Duration>,
    /// Between the end of a session for replies and for the others.
    pub margin: Duration,
    /// How long this member stays out of the group after it has left.
    pub defer_for: Duration,
    /// For warnings of joins that failed.
    pub throttle: Throttle,
}

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
    joiner: &'a mut Joiner,
    membership: Membership,
    /// How long to stay out of the group, once it leaves.
    defer_for: Option<Duration>,
    /// It leaves as this process ends.
    draining: bool,
    throttle: Throttle,
}

impl Joiner {
    pub async fn run(mut self) {
        let mut defer_for = None;
        while !*self.ending.borrow() {
            if !caught(self.turn(&mut defer_for)).await {
                self.wait_after("panicked", String::new()).await;
            }
        }
        self.member.enter(MemberRole::Ending);
    }

    async fn turn(&mut self, defer_for: &mut Option<Duration>) {
        if !*self.healthy.borrow() {
            self.stand_by("app_unhealthy", None).await;
        } else if let Some(time) = defer_for.take() {
            self.stand_by("left", Some(time)).await;
        } else if let Some(membership) = self.join().await {
            *defer_for = self.take_part(membership).await;
        }
    }

    /// Owns nothing, and follows the group: for this time, or until the application is healthy.
    async fn stand_by(&mut self, why: &'static str, time: Option<Duration>) {
        self.member.enter(MemberRole::Standby(why));
        match time {
            Some(time) => info!(outcome = "standby", "no member for {}: {why}", in_ms(time)),
            None => info!(outcome = "standby", "no member: {why}"),
        }
        let over = async {
            match time {
                Some(time) => pause(time).await,
                None => until(&mut self.healthy, true).await,
            }
        };
        let looking = look(&self.member.group);
        tokio::select! {
            biased;
            () = until(&mut self.ending, true) => {}
            () = over => {}
            never = refuse_all(&mut self.orders) => match never {},
            never = looking => match never {},
        }
    }

    /// Waits until this process is a member; `None` if something else is to be done first.
    async fn join(&mut self) -> Option<Membership> {
        self.member.enter(MemberRole::Joining);
        let group = self.member.group.clone();
        let mut join = std::pin::pin!(group.join());
        let joined = tokio::select! {
            biased;
            () = until(&mut self.ending, true) => None,
            // The session of a join that is dropped is resigned.
            () = until(&mut self.healthy, false) => return None,
            joined = &mut join => Some(joined),
            never = refuse_all(&mut self.orders) => match never {},
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

    /// Retrying cannot fix it, but an operator can while all else goes on.
    async fn failed(&mut self, error: &Error) {
        let why = plain(&error.to_string());
        if self.throttle.is_due(error) {
            let again = in_ms(AFTER_A_FAILURE);
            warn!(outcome = "failed", "joining failed, and is repeated in {again}: {why}");
        }
        self.wait_after(code_of(error.kind()), why).await;
    }

    async fn wait_after(&mut self, failure: &'static str, why: String) {
        *lock(&self.member.failure) = why;
        self.member.enter(MemberRole::Failed(failure));
        tokio::select! {
            biased;
            () = until(&mut self.ending, true) => {}
            () = pause(AFTER_A_FAILURE) => {}
            never = refuse_all(&mut self.orders) => match never {},
        }
    }

    /// Is a member until the session is over. Returns how long to stay out of the group then.
    async fn take_part(&mut self, membership: Membership) -> Option<Duration> {
        let (session, lease) = (membership.session(), membership.lease());
        info!(outcome = "joined", "joined: session {session}");
        self.member.joined(session, lease);
        let (defer_for, draining, throttle) = Default::default();
        let mut following = Following { joiner: self, membership, defer_for, draining, throttle };
        match following.until_over().await {
            MembershipOver::Left(time) => Some(time),
            MembershipOver::Lost => following.lapse().await,
            MembershipOver::GivenUp(reason) => following.resign(reason).await,
        }
    }
}

impl Following<'_> {
    async fn until_over(&mut self) -> MembershipOver {
        let member = Arc::clone(&self.joiner.member);
        let mut changes = member.changes();
        let mut grace: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(std::future::pending());
        loop {
            let Some(left) = member.remaining() else { return MembershipOver::Lost };
            let joiner = &mut *self.joiner;
            tokio::select! {
                biased;
                () = until(&mut joiner.ending, true), if !self.draining => {
                    self.draining = true;
                    grace = Box::pin(pause(self.joiner.grace));
                    self.drain();
                }
                // At the end it has its grace, and no more.
                () = until(&mut joiner.healthy, false), if !self.draining => {
                    return MembershipOver::GivenUp("app_unhealthy");
                }
                () = &mut grace => return MembershipOver::GivenUp("ending"),
                event = self.membership.next() => match event {
                    Some(MembershipEvent::Lost(loss)) => return self.ended(&loss),
                    Some(event) => self.handle(event),
                    None => return MembershipOver::Lost,
                },
                Some(order) = joiner.orders.recv() => self.carry_out(order),
                _ = changes.changed() => {}
                () = pause(left.min(LOOK)) => {}
            }
        }
    }

    /// The application has its grace to end its work, and the session is renewed meanwhile.
    fn drain(&mut self) {
        let Joiner { member, grace, leave_for, .. } = &*self.joiner;
        info!(outcome = "ending", "all is revoked; leaving after a grace of {}", in_ms(*grace));
        member.leaves("ending", MemberRole::Ending);
        // What the application has asked for counts.
        if self.defer_for.is_none() || leave_for.is_some() {
            leave(&self.membership, *leave_for);
        }
    }

    fn carry_out(&mut self, order: GroupOrder) {
        match order {
            GroupOrder::LastSeen { reply } => drop(reply.send(Ok(self.membership.last_seen()))),
            GroupOrder::Leave { order: Leave { keep, pause }, reply } => {
                if !self.draining {
                    info!(outcome = "leaving", "the application leaves: all is revoked");
                    self.defer_for = Some(pause.unwrap_or(self.joiner.defer_for));
                    self.joiner.member.leaves("left", MemberRole::Leaving);
                    leave(&self.membership, keep);
                }
                let (_, owned) = self.joiner.member.all();
                let _ = reply.send(Ok(owned.len()));
            }
        }
    }

    fn handle(&mut self, event: MembershipEvent) {
        let member = &self.joiner.member;
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
        self.joiner.member.give_up(loss.outcome());
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
        let Following { joiner, mut membership, defer_for, .. } = self;
        let orders = &mut joiner.orders;
        match membership.lease().check() {
            Err(Loss::Resigned) => {
                tokio::select! {
                    () = async { while membership.next().await.is_some() {} } => {}
                    never = refuse_all(orders) => match never {},
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
                    () = until(&mut joiner.ending, true) => {}
                    () = pause(joiner.margin) => {}
                    never = refuse_all(orders) => match never {},
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
        let Some(mut owned) = self.joiner.member.give_up(reason) else {
            return self.lapse().await;
        };
        warn!(outcome = reason, "giving up all partitions: {reason}");
        let mut margin = std::pin::pin!(pause(self.joiner.margin));
        loop {
            tokio::select! {
                biased;
                event = self.membership.next() => match event {
                    Some(MembershipEvent::Granted(partition)) => owned.push(partition),
                    Some(MembershipEvent::Lost(_)) | None => return self.defer_for,
                    Some(_) => {}
                },
                () = &mut margin => break,
                never = refuse_all(&mut self.joiner.orders) => match never {},
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
                never = refuse_all(&mut self.joiner.orders) => match never {},
            }
        }
        info!(outcome = "left", "left the group");
        self.defer_for
    }
}

async fn until(flag: &mut watch::Receiver<bool>, value: bool) {
    // The sender outlives this task.
    let _ = flag.wait_for(|now| *now == value).await;
}

fn leave(membership: &Membership, keep: Option<Duration>) {
    match keep {
        Some(delay) => membership.leave_for(delay),
        None => membership.leave(),
    }
}

/// Follows the group, so that it is known whether the store answers.
async fn look(group: &Group) -> Infallible {
    loop {
        let mut changes = group.observe();
        while let Some(Ok(_)) = changes.next().await {}
        // An error that retrying cannot fix ended it: as a join does, it looks again.
        pause(AFTER_A_FAILURE).await;
    }
}

/// Only a member carries out orders.
async fn refuse_all(orders: &mut mpsc::Receiver<GroupOrder>) -> Infallible {
    while let Some(order) = orders.recv().await {
        match order {
            GroupOrder::Leave { reply, .. } => refuse(reply, NOT_MEMBER),
            GroupOrder::LastSeen { reply } => refuse(reply, NOTHING_SEEN),
        }
    }
    // The member holds a sender.
    std::future::pending().await
}

fn refuse<T>(reply: OrderReply<T>, why: crate::serve::refusal::Refusal) {
    let _ = reply.send(Err(why));
}
