//! Joining: a process creates its session, writes it a second time (GO3), and then renews it.

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
use tenure::store::plain;
use tenure::{Epoch, Error, ErrorKind, Lease};

/// The requests of one join. A join may create several sessions, because a session may lapse while
/// the join retries denied requests. So the counts of consecutive denials continue across the
/// sessions. The first and the second write of a session have separate counts.
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
    /// Joins the group. The member receives its partitions as [events](Membership::next).
    /// [`run`](Group::run) handles these events itself.
    ///
    /// Cancel-safe: a dropped join leaves at most one session, which is resigned or lapses. The
    /// join retries transient errors of the store.
    ///
    /// Cost: 1 GET and 2 PUT for the session, then 1 LIST and 1 GET to find the assignment. A
    /// member then sends a PUT every renew interval, a GET every poll interval, and a conditional
    /// GET about every third of the validity. The first join on a store sends 5 more requests to
    /// check the store.
    ///
    /// # Errors
    /// The errors of [`campaign`](tenure::Election::campaign). `AccessDenied` can also mean that
    /// the store accepts the first write of a session, but denies the second write for the time of
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

    /// Joins as [`join`](Group::join) does. Returns `None` if the `Group` must leave before the
    /// join is complete. The member resigns the `former` sessions of this process, because the work
    /// under them has returned (GW4).
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
                // The group may already count the session as a member, so complete the join. The
                // member leaves afterwards.
                None if written.load(Ordering::Relaxed) => join.await?,
                None => return Ok(None),
            };
            if joined.is_some() {
                return Ok(joined);
            }
        }
    }

    /// Runs one step of a join, and logs the first transient failure of the join. This function
    /// logs no denials, because the code that retries denied requests logs them.
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
                tracing::warn!(group = self.cx.prefix(), %error, "cannot join the group; trying again");
            }
        }
    }

    async fn may_join(&self) -> Result<(), Error> {
        self.cx.require_timers()?;
        self.cx.check_store().await
    }

    /// Returns `None` if the session was not created within one validity, has a token above 1, or
    /// was lost before its second write. In each case the join needs a session with another id
    /// (GO2). Sets `written` before it sends the second write.
    async fn try_join(
        &self,
        written: &AtomicBool,
        former: &[Session],
        requests: &mut JoinRequests,
    ) -> Result<Option<Membership>, Error> {
        let id = SessionId::from_bits(self.cx.unique());
        joins(self.cx.meter());
        // The id is random, so no other process campaigns for this object.
        let cx = Arc::new(self.cx.single_object(&format!("members/{id}"), seen_alone)?);
        let Some((leadership, nonce)) = cx.campaign_alone(&mut requests.creates).await? else {
            return Ok(None);
        };
        if leadership.epoch() != Epoch::FIRST {
            // The token of a session must be 1 (GO4). This session has a greater token, because a
            // create of its first epoch took effect late. Give the session up.
            leadership.resign().await.or_else(lost)?;
            return Ok(None);
        }
        let session = Session { id, nonce };
        let said = self.config.said.clone();
        // A coordinator adds a member only after it has read data in the session of the member
        // (GO3), so the second write adds the data. If the join is dropped after this point, it
        // resigns the session, because the group may grant partitions to the session. The second
        // write contains the greatest assignment that the process remembers (D1).
        let data = SessionData { seen: self.cx.greatest(), ..SessionData::default() };
        let (data, _) = session_data::encode(&[], &data, &said, 0);
        let (reply, answer) = oneshot::channel();
        let lease = leadership.lease();
        written.store(true, Ordering::Relaxed);
        self.cx.spawn(async move {
            let outcome = leadership.proclaim(data).await;
            if let Err((_, leadership)) = reply.send((outcome, leadership)) {
                // If the resignation fails, the session lapses.
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
            tracing::warn!(group = self.cx.prefix(), %error, "could not write the new session; trying again");
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
            "joined as {}, session {:.8}",
            plain(self.cx.name()),
            id.to_string()
        );
        Ok(Some(Membership { ownership, notices, _alive: alive }))
    }
}

impl Group {
    /// Waits until the store has denied the second writes for longer than the time of
    /// `retry_denied`. Each session retries denied writes until it lapses, and the join then
    /// creates another session. Without this limit the join would never return an error.
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

/// Ignores the error of a lost or unknown session: the session lapses, and the join creates another
/// session.
fn lost(error: Error) -> Result<(), Error> {
    match error.kind() {
        ErrorKind::LeadershipLost | ErrorKind::Unavailable => Ok(()),
        _ => Err(error),
    }
}
