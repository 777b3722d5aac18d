//! Who owns what, for routers, operators and people.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use serde_json::Value;

use super::objects::{LIST_EVERY, Objects, Seen};
use super::telemetry::GroupSight;
use super::{Group, Marks, PartitionNumber};
use crate::protocol::message::{News, ReaderStep};
use crate::protocol::reader::Reader;
use crate::protocol::{Assignment, SessionId};
use tenure::internals::groups::{Context, Nonce, Requests};
use tenure::{Epoch, Error, ErrorKind};

/// A group's assignment, as it was read.
///
/// It may be outdated when it is looked at, and an owner's session may have ended:
/// [`session_states`](Group::session_states) reads the sessions. It is for routing, for operators
/// and for people. Only the owner's own [`check`](super::Partition::check)
/// says who owns a partition, and only its token tells writers apart.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GroupSnapshot {
    /// The number of the assignment; `None` if there is none yet.
    pub epoch: Option<Epoch>,
    /// In the order in which they joined.
    pub members: Vec<MemberSnapshot>,
    /// In the order of their numbers.
    pub partitions: Vec<PartitionSnapshot>,
    /// Whether a [restoring](Group::restore) is not finished: nothing is assigned until it is.
    pub restoring: bool,
}

/// A member, as an assignment names it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MemberSnapshot {
    /// The id of its session.
    pub session: String,
    /// Its display name.
    pub name: String,
    /// How many shares of the partitions it takes.
    pub weight: u32,
    /// How long its session lasts without a renewal.
    pub validity: Duration,
    /// What it says of itself, as when it joined; null if nothing.
    pub data: Value,
    /// Whether it plans.
    pub coordinates: bool,
    /// The nonce of its session.
    pub(super) nonce: Nonce,
}

/// A partition, as an assignment names it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PartitionSnapshot {
    /// Its number, never used again for another.
    pub number: PartitionNumber,
    /// Its name.
    pub name: String,
    /// The place of its owner in [`GroupSnapshot::members`].
    pub owner: Option<usize>,
    /// The token that was granted last; `None` if it was never owned.
    pub token: Option<Epoch>,
    /// The place of the member that is to own it next, if that is not its owner.
    pub target: Option<usize>,
    /// The name of the member that it is reserved for, as that left for a restart; it has no owner
    /// then.
    pub reserved_for: Option<String>,
    /// What operators said of it.
    pub marks: Marks,
}

impl GroupSnapshot {
    /// Returns the partition of this name; `None` if the group has none.
    #[must_use]
    pub fn partition(&self, name: &str) -> Option<&PartitionSnapshot> {
        self.partitions.iter().find(|partition| partition.name == name)
    }

    /// Returns the owner of the partition of this name; `None` if there is no such partition, or if
    /// nobody owns it.
    #[must_use]
    pub fn owner(&self, name: &str) -> Option<&MemberSnapshot> {
        self.members.get(self.partition(name)?.owner?)
    }

    pub(crate) fn of(known: Option<&Arc<Assignment>>) -> GroupSnapshot {
        let Some(known) = known else {
            let (members, partitions) = (Vec::new(), Vec::new());
            return GroupSnapshot { epoch: None, members, partitions, restoring: false };
        };
        let places: std::collections::BTreeMap<_, _> =
            known.members.iter().map(|it| it.session).zip(0..).collect();
        let place = |session| places.get(&session).copied();
        let data = |text: &str| serde_json::from_str(text).unwrap_or_default();
        let members = known.members.iter().map(|it| MemberSnapshot {
            session: it.session.id.to_string(),
            name: it.name.to_string(),
            weight: it.weight,
            validity: it.validity,
            data: it.data.as_deref().map_or(Value::Null, data),
            coordinates: known.coordinator == Some(it.session),
            nonce: it.session.nonce,
        });
        let partitions = known.partitions.iter().map(|it| PartitionSnapshot {
            number: it.number,
            name: it.name.to_string(),
            owner: it.owner.and_then(place),
            token: it.token,
            target: it.target.and_then(place),
            reserved_for: it.kept.as_ref().map(|(name, _)| name.to_string()),
            marks: it.marks.clone(),
        });
        GroupSnapshot {
            epoch: Some(known.epoch),
            members: members.collect(),
            partitions: partitions.collect(),
            restoring: known.restoring.is_some(),
        }
    }
}

/// Follows the assignment without being a member.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) reader: Reader,
    pub(super) objects: Objects,
    /// Of an observer.
    sight: Option<GroupSight>,
}

impl Follower {
    pub(super) fn new(cx: &Arc<Context>) -> Follower {
        Follower { reader: Reader::new(cx.greatest()), objects: Objects::new(cx), sight: None }
    }

    /// A follower that ignores the assignments this process has seen.
    pub(super) fn forgetful(cx: &Arc<Context>) -> Follower {
        Follower { reader: Reader::new(None), ..Follower::new(cx) }
    }

    /// Carries out the reader's requests until it has none left. After several failures in a row an
    /// observer (`patient`) leaves the rest to its next poll, and a call fails.
    pub(super) async fn drive(&mut self, patient: bool) -> Result<Option<News>, Error> {
        let cx = Arc::clone(&self.objects.cx);
        let mut news = None;
        loop {
            match self.reader.step() {
                ReaderStep::Idle => return Ok(news),
                ReaderStep::Nonce => self.reader.nonce(cx.nonce()),
                ReaderStep::Failed(failure) => return Err(self.objects.explain(failure)),
                ReaderStep::Pause => {
                    if self.objects.have_failed(Requests::FAILURES_BEFORE_GIVING_UP) {
                        if !patient {
                            return Err(self.failed());
                        }
                        self.reader.give_up();
                        return Ok(news);
                    }
                    cx.sleep(self.objects.retry_delay()).await;
                    self.reader.resume();
                }
                ReaderStep::Request(request) => match self.objects.assignment(&request).await {
                    Some(answer) => {
                        let now = self.reader.handle(answer);
                        cx.learn(self.reader.greatest());
                        if let (Some(News::Read | News::Confirmed), Some(sight), Some(known)) =
                            (now, &self.sight, self.reader.known())
                        {
                            sight.sees(known);
                        }
                        news = now.or(news);
                    }
                    None => {
                        self.reader.discard();
                        return Err(self.failed());
                    }
                },
            }
        }
    }

    /// Reads all sessions: nothing is made of an assignment if one of them has seen a greater one.
    pub(super) async fn expect_what_sessions_saw(&mut self) -> Result<(), Error> {
        let sessions = self.all_sessions().await?;
        let seen = sessions.iter().filter_map(|(_, seen)| seen.session()?.record().data?.seen);
        self.reader.expect(seen.max());
        if self.reader.greatest().is_some() && self.reader.is_behind() {
            self.reader.poll();
            self.drive(false).await?;
        }
        Ok(())
    }

    /// Reads all sessions.
    pub(super) async fn all_sessions(&mut self) -> Result<Vec<(SessionId, Seen)>, Error> {
        let mut ids = BTreeSet::new();
        let (mut after, mut attempts) = (None, 0);
        loop {
            match self.objects.list_sessions(after).await {
                Some(page) => {
                    after = page.sessions.last().map(|(id, _)| *id);
                    ids.extend(page.sessions.into_iter().map(|(id, _)| id));
                    if !page.truncated {
                        break;
                    }
                }
                None => self.pause(&mut attempts).await?,
            }
        }
        let mut sessions = Vec::with_capacity(ids.len());
        loop {
            for (id, seen, _) in self.objects.read_sessions(ids.clone()).await {
                if !matches!(seen, Seen::Unknown) {
                    ids.remove(&id);
                    sessions.push((id, seen));
                }
            }
            if ids.is_empty() {
                break;
            }
            self.pause(&mut attempts).await?;
        }
        Ok(sessions)
    }

    async fn pause(&mut self, attempts: &mut u32) -> Result<(), Error> {
        *attempts += 1;
        if *attempts >= Requests::FAILURES_BEFORE_GIVING_UP {
            return Err(self.failed());
        }
        self.objects.cx.sleep(self.objects.retry_delay()).await;
        Ok(())
    }

    /// Carries out the requests of the reader for an observer, which waits while access is denied.
    async fn outlast_denials(&mut self) -> Result<Option<News>, Error> {
        let cx = Arc::clone(&self.objects.cx);
        self.objects.requests.forget_denials();
        loop {
            match self.drive(true).await {
                Err(error) => {
                    let Some(pause) = self.objects.requests.outlasts(&error) else {
                        return Err(error);
                    };
                    cx.sleep(pause).await;
                    self.reader.restart();
                }
                driven => return driven,
            }
        }
    }

    pub(super) fn failed(&mut self) -> Error {
        self.objects.failure().unwrap_or_else(|| {
            Error::new(ErrorKind::Unavailable, "the store does not give the same answer twice")
        })
    }
}

impl Group {
    /// Reads the newest assignment. LIST and GET.
    ///
    /// # Errors
    /// Those of [`campaign`](tenure::Election::campaign), and
    /// [`Unavailable`](tenure::ErrorKind::Unavailable).
    pub async fn snapshot(&self) -> Result<GroupSnapshot, Error> {
        self.cx.require_timers()?;
        let mut follower = Follower::new(&self.cx);
        follower.drive(false).await?;
        Ok(GroupSnapshot::of(follower.reader.known()))
    }

    /// Follows the assignment. The stream yields the current one, then each change that a poll
    /// sees.
    ///
    /// LIST and GET, then one GET every poll interval, and a LIST every 10 min and after a GET that
    /// failed three times. It retries transient errors of the store. An error that retrying cannot
    /// fix is the last item.
    pub fn observe(
        &self,
    ) -> impl Stream<Item = Result<GroupSnapshot, Error>> + Send + Unpin + use<> {
        let cx = Arc::clone(&self.cx);
        let began = cx.now();
        let sight = Some(self.followers.observer(cx.meter()));
        let follower = Follower { sight, ..Follower::new(&cx) };
        let start = (Some(follower), cx, began, true);
        let stream = stream::unfold(start, |(follower, cx, mut listed, first)| async move {
            let mut follower = follower?;
            let before = follower.reader.known().map(|known| known.epoch);
            loop {
                if follower.reader.step() == ReaderStep::Idle {
                    cx.sleep(cx.poll_interval()).await;
                    if cx.now().since(listed) >= LIST_EVERY {
                        listed = cx.now();
                        follower.reader.confirm();
                    } else {
                        follower.reader.poll();
                    }
                }
                let driven = follower.outlast_denials().await;
                let looked = matches!(driven, Ok(Some(_)));
                if let Some(sight) = &follower.sight {
                    sight.polled(looked);
                }
                if let Err(error) = driven {
                    return Some((Err(error), (None, cx, listed, false)));
                }
                let known = follower.reader.known();
                if looked && (first || known.map(|known| known.epoch) != before) {
                    let snapshot = GroupSnapshot::of(known);
                    return Some((Ok(snapshot), (Some(follower), cx, listed, false)));
                }
            }
        });
        Box::pin(stream.fuse())
    }
}
