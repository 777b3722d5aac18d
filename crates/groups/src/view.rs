//! Snapshots of a group's assignment, for routers and operators.

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

/// The assignment of a group at the time of a read, for routers and operators.
///
/// A newer assignment may exist, and the session of an owner may have ended.
/// [`session_states`](Group::session_states) reads the sessions. A snapshot does not prove
/// ownership. Only [`check`](super::Partition::check) in the owner's process proves ownership. Only
/// the token distinguishes the owner's writes from the writes of former owners.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GroupSnapshot {
    /// Number of the assignment; `None` if the group has no assignment.
    pub epoch: Option<Epoch>,
    /// Members, in the order of their joins.
    pub members: Vec<MemberSnapshot>,
    /// Partitions, in the order of their numbers.
    pub partitions: Vec<PartitionSnapshot>,
    /// Whether a [restore](Group::restore) is unfinished. No partition gets an owner until the
    /// restore finishes.
    pub restoring: bool,
}

/// A member in an assignment.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MemberSnapshot {
    /// Id of the member's session.
    pub session: String,
    /// Display name.
    pub name: String,
    /// Weight of the member. The number of its partitions is proportional to the weight.
    pub weight: u32,
    /// Time for which the member's session lasts without a renewal.
    pub validity: Duration,
    /// Data that the member published when it joined. The default is null.
    pub data: Value,
    /// Whether this member is the coordinator.
    pub coordinates: bool,
    /// Nonce of the member's session.
    pub(super) nonce: Nonce,
}

/// A partition in an assignment.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PartitionSnapshot {
    /// Number of the partition. No other partition of the group ever gets this number.
    pub number: PartitionNumber,
    /// Name of the partition.
    pub name: String,
    /// Index of the owner in [`GroupSnapshot::members`]; `None` without an owner.
    pub owner: Option<usize>,
    /// Token under which the partition was granted last. `None` before the first grant.
    pub token: Option<Epoch>,
    /// Index of the next owner in [`GroupSnapshot::members`]; `None` if the partition must not
    /// move.
    pub target: Option<usize>,
    /// If the partition is reserved: the member name for which it is reserved, usually the name of
    /// a member that restarts. A reserved partition has no owner.
    pub reserved_for: Option<String>,
    /// Marks of operators.
    pub marks: Marks,
}

impl GroupSnapshot {
    /// Returns the partition of this name; `None` if the group has no such partition.
    #[must_use]
    pub fn partition(&self, name: &str) -> Option<&PartitionSnapshot> {
        self.partitions.iter().find(|partition| partition.name == name)
    }

    /// Returns the owner of the partition of this name. Returns `None` if the group has no such
    /// partition, or if the partition has no owner.
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

/// Follows the assignment in a process that is not a member.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) reader: Reader,
    pub(super) objects: Objects,
    /// Metrics of the group. Only an observer has them.
    sight: Option<GroupSight>,
}

impl Follower {
    pub(super) fn new(cx: &Arc<Context>) -> Follower {
        Follower { reader: Reader::new(cx.greatest()), objects: Objects::new(cx), sight: None }
    }

    /// Returns a follower that does not know the greatest assignment that this process has seen.
    pub(super) fn forgetful(cx: &Arc<Context>) -> Follower {
        Follower { reader: Reader::new(None), ..Follower::new(cx) }
    }

    /// Sends the requests of the [`Reader`] until it is idle. After several consecutive failures,
    /// the call gives the request up. If `patient` is true, it then returns no error: an observer
    /// tries again at its next poll.
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

    /// Reads all sessions. If a session has seen a greater assignment than the [`Reader`] of this
    /// process, finds that assignment. The process must not create the successor of an older one
    /// (D3).
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

    /// Sends the requests of an observer's [`Reader`], and waits while the store denies access.
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
            Error::new(
                ErrorKind::Unavailable,
                "the answers of the store contradict each other; try again",
            )
        })
    }
}

impl Group {
    /// Reads the newest assignment. Costs a LIST and a GET.
    ///
    /// # Errors
    /// The errors of [`campaign`](tenure::Election::campaign), and
    /// [`Unavailable`](tenure::ErrorKind::Unavailable).
    pub async fn snapshot(&self) -> Result<GroupSnapshot, Error> {
        self.cx.require_timers()?;
        let mut follower = Follower::new(&self.cx);
        follower.drive(false).await?;
        Ok(GroupSnapshot::of(follower.reader.known()))
    }

    /// Follows the assignment. The stream yields the current assignment, then each change that a
    /// poll finds.
    ///
    /// Costs a LIST and a GET, then one GET every poll interval, and a LIST every 10 min and after
    /// a GET that failed three times. The default of
    /// [`poll_interval`](crate::GroupBuilder::poll_interval) for the stream is a sixth of the
    /// shortest validity of a member. It is at least 1 s, or a sixth of the validity in the
    /// settings if that is less. It is at most 60 s, or a sixth of the validity in the settings if
    /// that is more. The stream retries transient errors of the store. An error that retrying
    /// cannot fix is the last item.
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
                    let members = follower.reader.known().map(|known| &known.members);
                    let shortest = members.into_iter().flatten().map(|it| it.validity).min();
                    cx.sleep(cx.poll_interval_for(shortest)).await;
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
                    follower.reader.known().filter(|_| looked).inspect(|it| sight.sees(it));
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
