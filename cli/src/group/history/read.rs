//! Reads the assignments in ascending order, and keeps only the changes of each assignment.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures::stream::{self, StreamExt as _};
use tenure::internals::wall_clock;
use tenure::{Epoch, EpochEnd, Error, Layout, Store};
use tenure_groups::history::Assignments;
use tenure_groups::{Group, GroupSnapshot, SessionState};
use tenure_history::{LeadershipSpan, Reader};

use super::change::AssignmentChange;
use crate::group::depose::session_prefix;

/// Maximum number of concurrent GETs. Each reads an assignment of up to 4 MiB.
const AT_ONCE: usize = 8;

/// The history of a group from its remaining assignments.
#[derive(Debug)]
pub struct GroupHistory {
    /// Changes of each assignment, in ascending order.
    pub changes: Vec<AssignmentChange>,
    /// Ranges of numbers without an assignment in the store.
    pub missing: Vec<RangeInclusive<Epoch>>,
    /// Number of older assignments that were not read.
    pub left_out: u64,
    /// The newest readable assignment.
    pub newest: Option<GroupSnapshot>,
    /// The name of the partition that `keep_only` has kept, and the number of all partitions in the
    /// newest assignment. `None` if `keep_only` was not called.
    pub only: Option<(String, usize)>,
    /// States of the sessions of the members in `newest`. `None` if they were not read.
    pub sessions: Option<Vec<SessionState>>,
    /// Time of the last read. It comes from the store's clock, or from this machine's clock if the
    /// store sends no dates.
    pub now: DateTime<Utc>,
    pub requests: u64,
}

impl GroupHistory {
    /// Keeps only the changes of the partition with this name. Returns `false` if no assignment
    /// contains the partition.
    pub fn keep_only(&mut self, name: &str) -> bool {
        for change in &mut self.changes {
            change.keep_only(name);
        }
        let of_it = |change: &AssignmentChange| !change.partitions.is_empty();
        let known = self.changes.iter().any(of_it);
        self.changes.retain(|change| of_it(change) || change.unreadable.is_some());
        if let Some(newest) = &mut self.newest {
            self.only = Some((name.to_owned(), newest.partitions.len()));
            newest.partitions.retain(|it| it.name == name);
        }
        known
    }

    /// Reads the sessions of the members of the newest assignment, and of the members that have
    /// left. Records how each session ended. Sends one GET for each of these members.
    pub async fn read_sessions(
        &mut self,
        store: Arc<dyn Store>,
        prefix: &str,
    ) -> Result<(), Error> {
        let Some(newest) = &self.newest else { return Ok(()) };
        let group = Group::builder(Arc::clone(&store), prefix).build()?;
        self.requests += newest.members.len() as u64;
        self.sessions = Some(group.session_states(newest).await?);
        let left = self.changes.iter().flat_map(|change| &change.left);
        let reads: Vec<_> = left
            .map(|it| session(Arc::clone(&store), session_prefix(prefix, &it.member.session)))
            .collect();
        self.requests += reads.len() as u64;
        let spans: Vec<_> = stream::iter(reads).buffered(AT_ONCE).collect().await;
        let left = self.changes.iter_mut().flat_map(|change| &mut change.left);
        for (member, span) in left.zip(spans) {
            let Some(span) = span else { continue };
            member.lapse = (span.end == Some(EpochEnd::Lapsed)).then_some(span.until);
            // A session without a second write counts as given up. Its member could not own
            // partitions.
            let given_up = span.end == Some(EpochEnd::GivenUp);
            member.ended = if given_up { Some(EpochEnd::Lapsed) } else { span.end };
        }
        self.changes.iter_mut().for_each(AssignmentChange::find_gaps);
        Ok(())
    }
}

/// Reads the newest assignments, at most `limit`. Reports the progress after each assignment.
///
/// Sends one LIST per 1,000 assignments, and one GET per read assignment.
pub async fn read(
    store: Arc<dyn Store>,
    prefix: &str,
    limit: usize,
    mut told: impl FnMut(u64, u64),
) -> Result<GroupHistory, Error> {
    let objects = Assignments::new(store, prefix)?;
    let (mut newest, mut first, mut left_out) = (VecDeque::new(), None, 0);
    let (listed_at, mut requests) = objects
        .list(|epoch, age| {
            first.get_or_insert(epoch);
            newest.push_back((epoch, age));
            if newest.len() > limit {
                newest.pop_front();
                left_out += 1;
            }
        })
        .await?;
    let count = newest.len() as u64;
    let mut now = listed_at;
    let listed_at = listed_at.unwrap_or_else(wall_clock);
    let objects = &objects;
    let reads = newest
        .into_iter()
        .map(|(epoch, age)| async move { (epoch, age, objects.read(epoch).await) });
    let mut reads = stream::iter(reads).buffered(AT_ONCE);
    let (mut changes, mut before, mut done) = (Vec::<AssignmentChange>::new(), None, 0);
    while let Some((epoch, age, read)) = reads.next().await {
        done += 1;
        told(done, count);
        // A compaction may have deleted the assignment since the listing, so a missing object is
        // skipped.
        let Some(object) = read? else { continue };
        now = now.max(object.served_at);
        let created = object.created.or_else(|| back(listed_at, age?));
        match object.group {
            Ok(group) => {
                changes.push(AssignmentChange::between(before.as_ref(), &group, epoch, created));
                before = Some(group);
            }
            Err(why) => changes.push(AssignmentChange::unreadable(epoch, created, why)),
        }
    }
    drop(reads);
    requests += done;
    let epochs: Vec<Epoch> = changes.iter().map(|change| change.epoch).collect();
    let missing = missing(first.filter(|_| left_out == 0), &epochs);
    let now = now.unwrap_or_else(wall_clock);
    Ok(GroupHistory {
        changes,
        missing,
        left_out,
        newest: before,
        only: None,
        sessions: None,
        now,
        requests,
    })
}

/// Reads a session. Its object has the format of an election in a single object. Returns `None` if
/// the session cannot be read.
async fn session(store: Arc<dyn Store>, prefix: String) -> Option<LeadershipSpan> {
    let reader = Reader::new(store, &prefix).ok()?.layout(Layout::SingleObject);
    reader.read().await.ok()?.spans.pop()
}

fn back(from: DateTime<Utc>, age: Duration) -> Option<DateTime<Utc>> {
    from.checked_sub_signed(TimeDelta::from_std(age).ok()?)
}

/// Returns the ranges of missing assignments. Each range is between two assignments in `read`. If
/// `first` is given, a range may also be before the first assignment in `read`.
fn missing(first: Option<Epoch>, read: &[Epoch]) -> Vec<RangeInclusive<Epoch>> {
    let range = |from: u64, until: u64| {
        Some(Epoch::new(from)?..=Epoch::new(until)?).filter(|_| from <= until)
    };
    let before = first.and_then(|_| range(1, read.first()?.get() - 1));
    let between = read.windows(2).filter_map(|two| range(two[0].get() + 1, two[1].get() - 1));
    before.into_iter().chain(between).collect()
}
