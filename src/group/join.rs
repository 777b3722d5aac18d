//! Joining: the session is created, written a second time, and kept from then on.

use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot};
use tracing::Span;

use super::Group;
use super::member::MemberTask;
use super::membership::Membership;
use super::session_data;
use super::shared::Shared;
use crate::api::leadership::Lease;
use crate::driver::runtime::require_timers;
use crate::driver::store_check::check_store;
use crate::driver::{CampaignEnd, Context, Denial, Driver, Patience};
use crate::env::timer::sleep;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::group::session::SessionData;
use crate::protocol::group::{Session, SessionId};
use crate::record::keys::Keys;

/// The denials in a row of one join, of the first and of the second write of its sessions. A validity
/// may be shorter than the time for which denials are retried.
#[derive(Debug, Default)]
struct Denials {
    of_creates: Denial,
    of_writes: Denial,
}

impl Group {
    /// Joins the group: from here on this process is a member, and partitions are granted to it as
    /// [events](Membership::next). [`run`](Group::run) does all that is to be done with them.
    ///
    /// Cancel-safe: a join that is dropped leaves at most a session that is resigned, or
    /// lapses. Retries transient
    /// errors of the store.
    ///
    /// Cost: GET, PUT, PUT, then LIST and GET to find the assignment; as a member, a PUT every renew
    /// interval, a GET every poll interval, and a GET every validity. The first join on a store adds
    /// 5 requests to check it.
    ///
    /// # Errors
    /// The errors of [`campaign`](crate::Election::campaign), also where the store accepts the first
    /// write of a session and denies the second one for the time of
    /// [`retry_denied`](super::GroupBuilder::retry_denied).
    pub async fn join(&self) -> Result<Membership, Error> {
        self.may_join().await?;
        let mut denials = Denials::default();
        loop {
            if let Some(joined) = self.try_join(&AtomicBool::new(false), &[], &mut denials).await? {
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
        let mut denials = Denials::default();
        loop {
            let written = AtomicBool::new(false);
            let mut join = pin!(self.try_join(&written, former, &mut denials));
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

    /// Does a part of a join, and logs its first failure. Denials are logged where they are retried.
    async fn telling<T>(&self, told: &mut bool, part: impl Future<Output = T>) -> T {
        let mut part = pin!(part);
        loop {
            tokio::select! {
                biased;
                done = &mut part => return done,
                () = sleep(&self.cx.process, self.cx.config.validity / 20) => {}
            }
            let passing = [ErrorKind::Unavailable, ErrorKind::UnsafeStore];
            let failed = self.cx.last_failure().filter(|it| passing.contains(&it.kind()));
            if let Some(error) = failed.filter(|_| !*told) {
                *told = true;
                tracing::warn!(group = self.cx.keys.prefix(), %error, "cannot join yet; trying again");
            }
        }
    }

    async fn may_join(&self) -> Result<(), Error> {
        require_timers()?;
        check_store(&self.cx, Patience::Wait).await
    }

    /// `None`: the session was lost before its second write, or its id got too old for a create.
    /// `written` is set before the second write is sent. `denials` are counted across sessions.
    async fn try_join(
        &self,
        written: &AtomicBool,
        former: &[Session],
        denials: &mut Denials,
    ) -> Result<Option<Membership>, Error> {
        let process = &self.cx.process;
        let id = SessionId::from_bits(process.unique());
        let keys = Keys::new(&format!("{}members/{id}", self.cx.keys.prefix()))?;
        let (given, config) = (Arc::clone(&self.cx.given), Arc::clone(&self.config.session));
        let cx = Context::session(given, keys, config, process.clone(), &self.cx.meter);
        let mut driver = Driver::candidate(&Arc::new(cx.failing_with(&self.cx)));
        driver.denial = mem::take(&mut denials.of_creates);
        // Past its validity what a former attempt created may have been sealed and compacted, and a
        // DELETE of that, late or sent again, would find what the next attempt creates.
        let mut too_old = std::pin::pin!(sleep(process, self.cx.config.validity));
        // Nobody else has the id, so nobody is ever found to lead there.
        loop {
            let reached = tokio::select! {
                biased;
                () = &mut too_old => {
                    denials.of_creates = driver.denial;
                    return Ok(None);
                }
                reached = driver.campaign(Patience::Wait) => reached,
            };
            match reached {
                Ok(CampaignEnd::Elected) => break,
                Ok(CampaignEnd::Held(_)) => {}
                // It came so late that it was sealed as lapsed and compacted.
                Err(error) if error.kind() == ErrorKind::NewestDeleted => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let Some(nonce) = driver.nonce() else { return Ok(None) };
        let leadership =
            crate::api::leadership::Leadership::new(driver.start_leading(&Span::current()));
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
        process.spawn(async move {
            let outcome = leadership.proclaim(data).await;
            if let Err((_, leadership)) = reply.send((outcome, leadership)) {
                // It lapses otherwise.
                let _ = leadership.resign().await;
            }
        });
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
            error = self.denies(&lease, &mut denials.of_writes) => return Err(error),
        };
        let Ok((outcome, leadership)) = answer else { return Ok(None) };
        if let Err(error) = outcome {
            tracing::warn!(group = self.cx.keys.prefix(), %error, "could not join; trying again");
            return lost(error).map(|()| None);
        }
        let (sender, events) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::new(&self.cx, session, leadership.lease(), said, sender));
        let (alive, dropped) = mpsc::channel(1);
        let member = MemberTask::new(&shared, self, former.to_vec());
        process.spawn(member.run(leadership, dropped));
        tracing::info!(
            group = self.cx.keys.prefix(),
            member = self.cx.config.name,
            session = %id,
            "joined the group"
        );
        Ok(Some(Membership { shared, events, _alive: alive }))
    }
}

impl Group {
    /// Waits until the second writes of sessions have been denied for too long. A session renews
    /// through denials until it lapses, and the next one would fare no better.
    async fn denies(&self, lease: &Lease, denial: &mut Denial) -> Error {
        loop {
            let failed = lease.lead.last_error();
            if let Some(error) = failed.filter(|it| it.kind() != ErrorKind::Unavailable)
                && denial.pause(&self.cx, &error).is_none()
            {
                return error;
            }
            sleep(&self.cx.process, self.cx.config.validity / 20).await;
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
