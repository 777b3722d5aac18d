//! Joining: the session is created, written a second time, and kept from then on.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot};

use super::Group;
use super::member::MemberTask;
use super::membership::Membership;
use super::ownership::Ownership;
use super::session_data::{self, seen_alone};
use super::telemetry::joins;
use crate::protocol::session::SessionData;
use crate::protocol::{Session, SessionId};
use tenure::internals::groups::{Context, Requests};
use tenure::{Epoch, Error, ErrorKind, Lease};

/// The requests of one join, whose denials in a row are counted across sessions: those of the first
/// write of each session, and those of the second one. A validity may be shorter than the time for
/// which denials are retried.
#[derive(Debug)]
struct JoinRequests {
    creates: Requests,
    writes: Requests,
}

impl JoinRequests {
    fn new(cx: &Arc<Context>) -> JoinRequests {
        JoinRequests { creates: Requests::new(cx), writes: Requests::new(cx) }
    }
}

impl Group {
    /// Joins the group: from here on this process is a member, and partitions are granted to it as
    /// [events](Membership::next). [`run`](Group::run) does all that is to be done with them.
    ///
    /// Cancel-safe: a join that is dropped leaves at most a session that is resigned, or
    /// lapses. Retries transient
    /// errors of the store.
    ///
    /// Cost: GET, PUT, PUT, then LIST and GET to find the assignment; as a member, a PUT every
    /// renew interval, a GET every poll interval, and a GET every validity. The first join on a
    /// store adds 5 requests to check it.
    ///
    /// # Errors
    /// The errors of [`campaign`](tenure::Election::campaign), also where the store accepts the
    /// first write of a session and denies the second one for the time of
    /// [`retry_denied`](super::GroupBuilder::retry_denied).
    pub async fn join(&self) -> Result<Membership, Error> {
        self.may_join().await?;
        let mut requests = JoinRequests::new(&self.cx);
        loop {
            if let Some(joined) = self.try_join(&AtomicBool::new(false), &[], &mut requests).await?
            {
                return Ok(joined);
            }
        }
    }

    /// As [`join`](Group::join), until this `Group` leaves: `None`. The work under the `former`
    /// sessions of this process has returned, so the member resigns them.
    pub(super) async fn join_unless_leaving(
        &self,
        former: &[Session],
    ) -> Result<Option<Membership>, Error> {
        let mut told = false;
        tokio::select! {
            biased;
            () = self.leaves() => return Ok(None),
            checked = self.telling(&mut told, self.may_join()) => checked?,
        }
        let mut requests = JoinRequests::new(&self.cx);
        loop {
            let written = AtomicBool::new(false);
            let mut join = pin!(self.try_join(&written, former, &mut requests));
            let joined = tokio::select! {
                biased;
                () = self.leaves() => None,
                joined = self.telling(&mut told, join.as_mut()) => Some(joined?),
            };
            let joined = match joined {
                Some(joined) => joined,
                // Others may make it a member: it resigns as one before the process ends.
                None if written.load(Ordering::Relaxed) => join.await?,
                None => return Ok(None),
            };
            if joined.is_some() {
                return Ok(joined);
            }
        }
    }

    /// Does a part of a join, and logs its first failure. Denials are logged where they are
    /// retried.
    async fn telling<T>(&self, told: &mut bool, part: impl Future<Output = T>) -> T {
        let mut part = pin!(part);
        loop {
            tokio::select! {
                biased;
                done = &mut part => return done,
                () = self.cx.sleep(self.cx.validity() / 20) => {}
            }
            let passing = [ErrorKind::Unavailable, ErrorKind::UnsafeStore];
            let failed = self.cx.last_failure().filter(|it| passing.contains(&it.kind()));
            if let Some(error) = failed.filter(|_| !*told) {
                *told = true;
                tracing::warn!(group = self.cx.prefix(), %error, "cannot join yet; trying again");
            }
        }
    }

    async fn may_join(&self) -> Result<(), Error> {
        self.cx.require_timers()?;
        self.cx.check_store().await
    }

    /// `None`: the session was lost before its second write, or its id got too old for a create.
    /// `written` is set before the second write is sent.
    async fn try_join(
        &self,
        written: &AtomicBool,
        former: &[Session],
        requests: &mut JoinRequests,
    ) -> Result<Option<Membership>, Error> {
        let id = SessionId::from_bits(self.cx.unique());
        joins(self.cx.meter());
        // No other process has the id.
        let cx = Arc::new(self.cx.single_object(&format!("members/{id}"), seen_alone)?);
        let Some((leadership, nonce)) = cx.campaign_alone(&mut requests.creates).await? else {
            return Ok(None);
        };
        if leadership.epoch() != Epoch::FIRST {
            // Its first epoch came too late and it took another, which others take for no session.
            leadership.resign().await.or_else(lost)?;
            return Ok(None);
        }
        let session = Session { id, nonce };
        let said = self.config.said.clone();
        // Only a session that was read with data is added to the members. One that is dropped
        // meanwhile is resigned, or the group would give it partitions.
        // This first write has the assignment that the process remembers.
        let data = SessionData { seen: self.cx.greatest(), ..SessionData::default() };
        let (data, _) = session_data::encode(&[], &data, &said, 0);
        let (reply, answer) = oneshot::channel();
        let lease = leadership.lease();
        written.store(true, Ordering::Relaxed);
        self.cx.spawn(async move {
            let outcome = leadership.proclaim(data).await;
            if let Err((_, leadership)) = reply.send((outcome, leadership)) {
                // It lapses otherwise.
                let _ = leadership.resign().await;
            }
        });
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
            error = self.denies(&lease, &mut requests.writes) => return Err(error),
        };
        let Ok((outcome, leadership)) = answer else { return Ok(None) };
        if let Err(error) = outcome {
            tracing::warn!(group = self.cx.prefix(), %error, "could not join; trying again");
            return lost(error).map(|()| None);
        }
        let (sender, notices) = mpsc::unbounded_channel();
        let ownership =
            Arc::new(Ownership::new(&self.cx, session, leadership.lease(), said, sender));
        let (alive, dropped) = mpsc::channel(1);
        let member = MemberTask::new(&ownership, self, former.to_vec());
        self.cx.spawn(member.run(leadership, dropped));
        tracing::info!(
            group = self.cx.prefix(),
            member = self.cx.name(),
            session = %id,
            "joined the group"
        );
        Ok(Some(Membership { ownership, notices, _alive: alive }))
    }
}

impl Group {
    /// Waits until the second writes of sessions have been denied for too long. A session renews
    /// through denials until it lapses, and the next one would fare no better.
    async fn denies(&self, lease: &Lease, writes: &mut Requests) -> Error {
        loop {
            let failed = lease.last_error();
            if let Some(error) = failed.filter(|it| it.kind() != ErrorKind::Unavailable)
                && writes.outlasts(&error).is_none()
            {
                return error;
            }
            self.cx.sleep(self.cx.validity() / 20).await;
        }
    }
}

/// A session that is lost, or that nobody knows of, is left to lapse: another one is created.
fn lost(error: Error) -> Result<(), Error> {
    match error.kind() {
        ErrorKind::LeadershipLost | ErrorKind::Unavailable => Ok(()),
        _ => Err(error),
    }
}
