//! Restoring a group after assignments were deleted (docs/design/groups.md, D8 to D12).

use std::sync::Arc;
use std::time::Duration;

use super::assignment_record::MAX_VALIDITY;
use super::config::refuse;
use super::objects::Seen;
use super::session_record::SessionBody;
use super::view::Follower;
use super::{Group, GroupSnapshot};
use crate::protocol::message::AssignmentAnswer;
use crate::protocol::operation::{hold, release};
use crate::protocol::{Assignment, SessionId};
use tenure::{Epoch, EpochEnd, Error, ErrorKind};

/// Number of attempts to depose all sessions. An attempt fails if a member renews its session
/// between the read and the seal of that session.
const ATTEMPTS: usize = 16;

/// The outcome of [`Group::restore`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum GroupRestored {
    /// All later grants have tokens above the epoch of the call. No partition has an owner yet.
    Restored(GroupSnapshot),
    /// An assignment at or above the epoch exists, so the call changed nothing.
    Exists(GroupSnapshot),
    /// Another restore, with this greater epoch, is unfinished. Call [`Group::restore`] again with
    /// this greater epoch.
    Unfinished(Epoch),
}

impl Group {
    /// Restores this group after assignments were deleted: all later grants have tokens above
    /// `epoch`. This method is for operators.
    ///
    /// `epoch` must be at least the greatest token that any guarded resource has seen. The group
    /// keeps the partitions and marks of the newest existing assignment. If no assignment exists,
    /// the group gets the partitions in the settings of this `Group`, with new numbers.
    ///
    /// The call deposes every live session, so all owners lose their partitions. It returns after
    /// the lease of each deposed session has ended, and after at least `wait`. The maximum of
    /// `wait` is 1 h. If sessions were deleted, `wait` must be at least the validity of their
    /// members. Live members join again automatically. The call may be repeated. After an error or
    /// a crash it must be repeated, because the group assigns no partition until a call succeeds.
    ///
    /// Costs three LISTs, one GET and two PUTs. In addition it costs two LISTs of the sessions, two
    /// GETs of each session, and one PUT for each live session.
    ///
    /// # Errors
    /// - [`InvalidInput`](ErrorKind::InvalidInput): `wait` is above 1 h, a session or this process
    ///   has seen a deleted assignment above `epoch`, or no assignment exists and the settings
    ///   contain no partitions. The call has written nothing.
    /// - [`CorruptRecord`](ErrorKind::CorruptRecord): a session cannot be read, and `wait` is 0.
    ///   The validity of that session is unknown. Call again with a `wait` of at least that
    ///   validity.
    /// - [`EpochsExhausted`](ErrorKind::EpochsExhausted): fewer than two numbers exist above
    ///   `epoch`.
    /// - The errors of [`snapshot`](Group::snapshot), except
    ///   [`NewestDeleted`](ErrorKind::NewestDeleted).
    pub async fn restore(&self, epoch: Epoch, wait: Duration) -> Result<GroupRestored, Error> {
        self.cx.require_timers()?;
        let at = epoch.next().filter(|at| at.next().is_some());
        let Some(at) = at else {
            let why = format!("fewer than two assignment numbers exist above {epoch}");
            return Err(Error::new(ErrorKind::EpochsExhausted, why));
        };
        if wait > MAX_VALIDITY {
            return refuse(format!("wait must be at most {MAX_VALIDITY:?}, got {wait:?}"));
        }
        // This process may have seen assignments that were deleted. The follower starts without
        // their epochs, so that it does not fail with `NewestDeleted`.
        let mut follower = Follower::forgetful(&self.cx);
        let restored = self.restore_above(&mut follower, epoch, at, wait).await;
        restored.map_err(|error| follower.objects.after_creates(error))
    }

    async fn restore_above(
        &self,
        follower: &mut Follower,
        epoch: Epoch,
        at: Epoch,
        wait: Duration,
    ) -> Result<GroupRestored, Error> {
        follower.drive(false).await?;
        let sessions = follower.all_sessions().await?;
        let newest = follower.reader.known().cloned();
        self.check_restore(epoch, wait, newest.as_deref(), &sessions)?;
        let unfinished = newest.as_ref().is_some_and(|newest| newest.restoring.is_some());
        let held = match newest {
            Some(newest) if newest.epoch == at && unfinished => newest,
            Some(newest) if newest.epoch > epoch && unfinished => return Ok(other(&newest)),
            Some(newest) if newest.epoch >= epoch => return Ok(exists(&newest)),
            newest => {
                let nonce = self.cx.nonce();
                let first = || Assignment::first(nonce, self.config.partitions.clone());
                let newest = newest.map_or_else(first, |newest| Assignment::clone(&newest));
                follower.reader.create_above(hold(newest, at, nonce, wait));
                follower.drive(false).await?;
                match follower.reader.known().cloned() {
                    Some(known) if known.epoch >= at => known,
                    _ => return Err(follower.failed()),
                }
            }
        };
        match held.restoring {
            Some(longest) if held.epoch == at => {
                let longest = self.depose_all(follower, at).await?.max(longest).max(wait);
                self.cx.sleep(self.cx.drift().stretch(longest)).await;
                self.end_restore(follower, &held).await
            }
            Some(_) => Ok(other(&held)),
            None => Ok(exists(&held)),
        }
    }

    fn check_restore(
        &self,
        epoch: Epoch,
        wait: Duration,
        newest: Option<&Assignment>,
        sessions: &[(SessionId, Seen)],
    ) -> Result<(), Error> {
        let seen = sessions.iter().filter_map(|(_, seen)| seen.session()?.record().data?.seen);
        let seen = seen.max().max(self.cx.greatest());
        if let Some(seen) = seen.filter(|seen| *seen > epoch)
            && newest.is_none_or(|newest| newest.epoch < seen)
        {
            return refuse(format!(
                "a session or this process has seen assignment {seen}: restore above {seen}, not \
                 above {epoch}"
            ));
        }
        let corrupt = sessions.iter().find(|(_, seen)| matches!(seen, Seen::Corrupt));
        if let Some((id, _)) = corrupt.filter(|_| wait.is_zero()) {
            let (prefix, store) = (self.cx.prefix(), self.cx.place());
            let why = format!(
                "{prefix}members/{id}/lock.json in {store} cannot be read, so the end of its \
                 ownership is unknown: restore with a wait of its validity, at most \
                 {MAX_VALIDITY:?}"
            );
            return Err(Error::new(ErrorKind::CorruptRecord, why));
        }
        if newest.is_none() && self.config.partitions.is_empty() {
            return refuse("no assignment exists: set the partitions of the group".to_owned());
        }
        Ok(())
    }

    /// Deposes every live session that has not seen assignment `at`, because its member may own
    /// partitions by an earlier assignment (D10). Returns the longest time for which a member may
    /// still believe that it owns such partitions (D11).
    async fn depose_all(&self, follower: &mut Follower, at: Epoch) -> Result<Duration, Error> {
        let mut longest = Duration::ZERO;
        for _ in 0..ATTEMPTS {
            let mut done = true;
            for (id, seen) in follower.all_sessions().await? {
                let Some(body) = seen.session() else { continue };
                let record = body.record();
                if matches!(record.ended, Some(EpochEnd::Resigned | EpochEnd::Lapsed)) {
                    continue;
                }
                longest = longest.max(body.validity());
                let knows = record.data.is_some_and(|data| data.seen >= Some(at));
                if record.ended.is_none() && !knows {
                    done &= self.depose_session(follower, id, body).await?;
                }
            }
            if done {
                return Ok(longest);
            }
            self.cx.sleep(follower.objects.retry_delay()).await;
        }
        if follower.objects.have_failed(1) {
            return Err(follower.failed());
        }
        let why =
            "the members renewed their sessions before each attempt to depose them; try again";
        Err(Error::new(ErrorKind::Unavailable, why))
    }

    /// Deposes one session. Returns false if the session must be read again first.
    async fn depose_session(
        &self,
        follower: &mut Follower,
        id: SessionId,
        body: &SessionBody,
    ) -> Result<bool, Error> {
        let now = self.cx.now();
        let sealed = body.sealed(EpochEnd::Deposed, self.cx.name(), None, now);
        match follower.objects.seal(id, sealed, body.record().etag).await {
            AssignmentAnswer::Done => Ok(true),
            AssignmentAnswer::Denied | AssignmentAnswer::Unsafe => Err(follower.failed()),
            _ => Ok(false),
        }
    }

    /// Creates the assignment that ends the restore. Later assignments may grant partitions (D12).
    async fn end_restore(
        &self,
        follower: &mut Follower,
        held: &Assignment,
    ) -> Result<GroupRestored, Error> {
        if let Some(next) = release(held, self.cx.nonce()) {
            follower.reader.create(next);
            follower.drive(false).await?;
        }
        match follower.reader.known() {
            Some(known) if known.epoch > held.epoch => Ok(match known.restoring {
                Some(_) => other(known),
                None => GroupRestored::Restored(GroupSnapshot::of(Some(known))),
            }),
            _ => Err(follower.failed()),
        }
    }
}

fn exists(newest: &Arc<Assignment>) -> GroupRestored {
    GroupRestored::Exists(GroupSnapshot::of(Some(newest)))
}

/// Returns the outcome of a restore that has found another, unfinished restore. `held` is the
/// assignment with which the other restore began.
fn other(held: &Assignment) -> GroupRestored {
    GroupRestored::Unfinished(Epoch::new(held.epoch.get() - 1).unwrap_or(Epoch::FIRST))
}
