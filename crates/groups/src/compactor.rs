//! Deletes superseded assignments and ended sessions (GO7).
//!
//! If the session of a member in the newest assignment is missing, the member may still be alive.
//! So a coordinator waits as long as the session may be valid (R1). To avoid this wait, the
//! compactor keeps the sessions that this assignment names. It reads this assignment after the
//! sessions. It also keeps sessions that have seen a greater, deleted assignment (D7).

use std::collections::BTreeSet;
use std::fmt;
use std::future;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use tenure::internals::groups::{After, Record};
use tenure::store::{GetOutcome, plain};
use tenure::{Compactor, CompactorBuilder, Epoch, Error, ErrorKind, Report};

use super::ASSIGNMENT;
use super::assignment_record::{AssignmentRecord, BadAssignment, MAX_BYTES};
use super::session_data::seen;
use super::session_record::{age, session_of};
use crate::protocol::{Assignment, SessionId};

/// Number of sessions that are read at the same time.
const AT_ONCE: usize = 16;

/// Deletes superseded assignments and ended sessions of one group.
///
/// First it deletes superseded assignments, as a [`Compactor`] deletes epochs. Then it deletes each
/// session that has ended, is older than the least age ([`min_age`](CompactorBuilder::min_age)) and
/// is not named by the newest assignment. If this age is above 0, sessions without a date stay.
///
/// Cost: the requests of a [`Compactor`], a LIST for every 1,000 sessions, and a GET for each
/// session older than the least age. After each LIST that shows ended sessions, the run sends one
/// more LIST, a GET and a DELETE. The credentials must also permit to list `members/`, and to read
/// and delete its objects.
///
/// # Examples
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use tenure::{Compactor, store::MemoryStore};
/// # use tenure_groups::{Group, GroupCompactor};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// # let group = Group::builder(store.clone(), "orders").partitions(0..4).build()?;
/// # let member = group.join().await?;
/// let settings = Compactor::builder(store, "orders").min_age(Duration::from_secs(7_200));
/// let report = GroupCompactor::new(settings)?.run_once().await?;
/// assert_eq!((report.assignments.deleted, report.sessions.deleted), (0, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct GroupCompactor {
    assignments: Compactor,
}

/// The result of one run of a [`GroupCompactor`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct GroupReport {
    /// Counts of the assignments, and the requests and the first failure of the run.
    #[serde(flatten)]
    pub assignments: Report,
    /// Counts of the members' sessions.
    pub sessions: SessionsReport,
}

/// The numbers of sessions in a [`GroupReport`]. Each of the `listed` sessions counts in exactly
/// one of `deleted`, `kept` and `failed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct SessionsReport {
    /// Number of listed sessions.
    pub listed: u64,
    /// Number of sessions that this run deleted, or in a dry run would have deleted.
    pub deleted: u64,
    /// Number of kept sessions. A session is kept if it is alive, named by the newest assignment,
    /// younger than [`Report::min_age_ms`], or evidence of a deleted newer assignment.
    pub kept: u64,
    /// Number of sessions that the store did not delete. The next run tries to delete them again.
    pub failed: u64,
}

impl GroupCompactor {
    /// Checks the settings, and returns the compactor of the group at the prefix in the settings.
    /// [`keep_epochs`](CompactorBuilder::keep_epochs) counts assignments. Sends no request.
    ///
    /// # Errors
    /// The errors of [`build`](CompactorBuilder::build).
    pub fn new(settings: CompactorBuilder) -> Result<GroupCompactor, Error> {
        let assignments = settings.numbered(ASSIGNMENT, MAX_BYTES, longest_validity).build()?;
        Ok(GroupCompactor { assignments })
    }

    /// Compacts once.
    ///
    /// # Errors
    /// The errors of [`Compactor::run_once`], and [`NewestDeleted`](ErrorKind::NewestDeleted).
    pub async fn run_once(&self) -> Result<GroupReport, Error> {
        self.run_until(future::pending(), |_| {}).await
    }

    /// Compacts as [`run_once`](Self::run_once) does, but stops once `stop` is ready. Calls
    /// `progress` as [`Compactor::run_until`] does, and after each page of sessions.
    ///
    /// # Errors
    /// The errors of [`run_once`](Self::run_once).
    pub async fn run_until(
        &self,
        stop: impl Future<Output = ()>,
        mut progress: impl FnMut(&GroupReport) + Send,
    ) -> Result<GroupReport, Error> {
        let mut stop = pin!(stop.fuse());
        let none = SessionsReport::default();
        let told = |report: &Report| {
            progress(&GroupReport { assignments: report.clone(), sessions: none });
        };
        let assignments = self.assignments.run_until(stop.as_mut(), told).await?;
        let mut report = GroupReport { assignments, sessions: none };
        if report.assignments.interrupted {
            return Ok(report);
        }
        let stopped = self.compact_sessions(&mut report, stop.as_mut(), &mut progress).await;
        let SessionsReport { listed, deleted, failed, .. } = report.sessions;
        report.sessions.kept = listed - deleted - failed;
        report.assignments.interrupted = stopped?.is_none();
        self.log(report.sessions);
        Ok(report)
    }

    /// Compacts now, and again `interval` after the end of each run, until `shutdown` is ready.
    /// Then drops a run in progress, as [`tenure::Compactor::run_every`] does.
    ///
    /// # Errors
    /// The errors of [`tenure::Compactor::run_every`].
    pub async fn run_every(
        &self,
        interval: Duration,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        if interval.is_zero() {
            let why = "the interval between compactions must be more than 0 s";
            return Err(Error::new(ErrorKind::InvalidInput, why));
        }
        let (mut shutdown, mut has_run) = (pin!(shutdown), false);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                outcome = self.run_once() => match outcome {
                    Err(error) if error.kind().ends_a_service(has_run) => return Err(error),
                    Err(error) => tracing::warn!(%error, "the next compaction tries again"),
                    Ok(_) => has_run = true,
                },
            }
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                () = self.assignments.pause(interval) => {}
            }
        }
    }

    fn log(&self, sessions: SessionsReport) {
        let SessionsReport { listed, deleted, kept, failed } = sessions;
        let (group, outcome) = (self.assignments.prefix(), sessions.outcome());
        macro_rules! event {
            ($level:ident, $message:literal) => {
                tracing::$level!(group, outcome, listed, deleted, kept, failed, $message)
            };
        }
        match outcome {
            "incomplete" => event!(warn, "some sessions could not be deleted"),
            "compacted" => event!(info, "deleted ended sessions"),
            _ => event!(debug, "no session to delete"),
        }
    }

    /// Deletes the ended sessions. Returns `None` if `stop` is ready first.
    async fn compact_sessions(
        &self,
        report: &mut GroupReport,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        progress: &mut (impl FnMut(&GroupReport) + Send),
    ) -> Result<Option<()>, Error> {
        // Without an assignment the members are unknown, so no session is deleted.
        let Some(newest) = report.assignments.newest else { return Ok(Some(())) };
        let prefix = format!("{}members/", self.assignments.prefix());
        let mut start = Some(prefix.clone());
        while let Some(after) = start {
            let page = self.ended_sessions(&prefix, &after, newest, report);
            let read = tokio::select! {
                biased;
                () = stop.as_mut() => return Ok(None),
                read = page => read?,
            };
            let (ended, next) = read;
            // `stop` does not cancel a deletion that was sent.
            let many = ended.len() as u64;
            let deleted = self.delete(ended, report).await;
            let stopped = stop.as_mut().now_or_never().is_some();
            if let Err(error) = deleted {
                if !stopped {
                    return Err(error);
                }
                report.sessions.failed += many;
                let first = &mut report.assignments;
                first.first_failure.get_or_insert_with(|| error.to_string());
                first.first_failure_kind.get_or_insert(error.kind());
            }
            if stopped {
                return Ok(None);
            }
            let SessionsReport { listed, deleted, failed, .. } = report.sessions;
            report.sessions.kept = listed - deleted - failed;
            progress(report);
            start = next;
        }
        Ok(Some(()))
    }

    /// Reads one page, and returns the keys of deletable sessions and the start of the next page.
    async fn ended_sessions(
        &self,
        prefix: &str,
        after: &str,
        newest: Epoch,
        report: &mut GroupReport,
    ) -> Result<(Vec<String>, Option<String>), Error> {
        let least_age = Duration::from_millis(report.assignments.min_age_ms);
        let requests = &mut report.assignments.requests;
        *requests += 1;
        let (page, last) = self.assignments.list(prefix, after).await?;
        let mut old = Vec::new();
        for entry in &page.entries {
            let id = session_of(self.assignments.prefix(), &entry.key);
            let Some(id) = id else { continue };
            report.sessions.listed += 1;
            // Treat an object without a date as new, as the compactor of epochs does.
            let age = age(page.served_at, entry.last_modified).unwrap_or_default();
            if age >= least_age {
                old.push((id, entry.key.clone()));
            }
        }
        *requests += old.len() as u64;
        let mut ended = self.ended(old).await?;
        if !ended.is_empty() {
            let (newest, named) = self.named(newest, requests).await?;
            ended.retain(|(id, _, seen)| !named.contains(id) && *seen <= Some(newest));
        }
        let keys = ended.into_iter().map(|(_, key, _)| key).collect();
        Ok((keys, page.truncated.then_some(last)))
    }

    /// Reads these sessions. Returns the ended sessions, each with the newest assignment seen.
    async fn ended(
        &self,
        sessions: Vec<(SessionId, String)>,
    ) -> Result<Vec<(SessionId, String, Option<Epoch>)>, Error> {
        let read = |(id, key): (SessionId, String)| async move {
            let outcome = self.assignments.get(&key, Record::MAX_READ_BYTES).await?;
            // If this version cannot read an object, keep this object.
            let GetOutcome::Found(object) = outcome else { return Ok::<_, Error>(None) };
            let record = Record::of_single_object(&object).ok().flatten();
            let ended = record.filter(|(_, record)| record.expired);
            Ok(ended.map(|(_, record)| (id, key, seen(&record.data))))
        };
        let reads: Vec<_> = sessions.into_iter().map(read).collect();
        let reads = stream::iter(reads).buffer_unordered(AT_ONCE);
        reads.try_filter_map(|ended| future::ready(Ok(ended))).try_collect().await
    }

    /// Returns the number of the newest assignment, and the sessions that this assignment names.
    async fn named(
        &self,
        mut newest: Epoch,
        requests: &mut u64,
    ) -> Result<(Epoch, BTreeSet<SessionId>), Error> {
        let mut gone = None;
        loop {
            let mut next = Some(After::Number(newest.get()));
            while let Some(after) = next {
                *requests += 1;
                let page = self.assignments.list_numbered(&after).await?;
                newest = page.epochs.map_or(newest, |(_, greatest)| greatest.max(newest));
                next = page.rest;
            }
            let (key, at) = (self.assignments.key(newest), self.assignments.place());
            if gone == Some(newest) {
                let why = format!(
                    "{key} in {at} was the newest assignment, and it was deleted: restore the group"
                );
                return Err(Error::new(ErrorKind::NewestDeleted, why));
            }
            *requests += 1;
            let read = match self.assignments.get(&key, MAX_BYTES).await? {
                GetOutcome::Found(object) => decode(newest, Ok(&object.body)),
                GetOutcome::TooLarge { len, .. } => decode(newest, Err(len)),
                // The assignment was compacted after the listing. List again to find a newer one.
                _ => {
                    gone = Some(newest);
                    continue;
                }
            };
            let assignment = read.map_err(|(kind, bad)| {
                Error::new(kind, format!("{key} in {at}: {bad}; no session is deleted"))
            })?;
            return Ok((newest, assignment.members.iter().map(|it| it.session.id).collect()));
        }
    }

    async fn delete(&self, keys: Vec<String>, report: &mut GroupReport) -> Result<(), Error> {
        let many = keys.len() as u64;
        if keys.is_empty() || self.assignments.is_dry_run() {
            report.sessions.deleted += many;
            return Ok(());
        }
        report.assignments.requests += 1;
        let failed = self.assignments.delete(keys).await?;
        let left = (failed.len() as u64).min(many);
        report.sessions.deleted += many - left;
        report.sessions.failed += left;
        if let Some((key, error)) = failed.first()
            && report.assignments.first_failure.is_none()
        {
            report.assignments.first_failure = Some(plain(&format!("{key}: {error}")));
            report.assignments.first_failure_kind = Some(error.kind().into());
        }
        Ok(())
    }
}

impl SessionsReport {
    /// Returns the outcome of a run, as a stable word for logs.
    fn outcome(self) -> &'static str {
        match (self.failed, self.deleted) {
            (1.., _) => "incomplete",
            (0, 1..) => "compacted",
            (0, 0) => "nothing",
        }
    }
}

impl fmt::Display for GroupReport {
    /// Prints the [`Report`], with the counts of the sessions before the count of the requests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SessionsReport { listed, deleted, kept, failed } = self.sessions;
        let text = self.assignments.to_string().replace(" epochs", " assignments");
        let requests = text.rfind(&format!("; {} requests", self.assignments.requests));
        let (assignments, requests) = text.split_at(requests.unwrap_or(text.len()));
        let would = if self.assignments.dry_run { "would delete" } else { "deleted" };
        write!(f, "{assignments}; {would} {deleted} of {listed} sessions, kept {kept}")?;
        if failed > 0 {
            write!(f, ", {failed} could not be deleted")?;
        }
        f.write_str(requests)
    }
}

fn decode(epoch: Epoch, body: Result<&[u8], u64>) -> Result<Assignment, (ErrorKind, String)> {
    let long = |len| BadAssignment::TooLarge(usize::try_from(len).unwrap_or(usize::MAX));
    let record = body.map_err(long).and_then(|body| AssignmentRecord::decode(epoch, body));
    record.map(|record| record.assignment).map_err(|bad| {
        let kind = match bad {
            BadAssignment::TooNew(_) => ErrorKind::RecordTooNew,
            _ => ErrorKind::CorruptRecord,
        };
        (kind, bad.to_string())
    })
}

/// Returns the longest validity of the members. Live members renew within this time.
fn longest_validity(
    epoch: Epoch,
    body: Result<&[u8], u64>,
) -> Result<Option<Duration>, (ErrorKind, String)> {
    Ok(decode(epoch, body)?.members.iter().map(|it| it.validity).max())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before the fix, a run that failed to delete sessions had the outcome "nothing".
    #[test]
    fn regression_the_outcome_counts_sessions() {
        let outcome =
            |deleted, failed| SessionsReport { listed: 3, deleted, kept: 0, failed }.outcome();
        assert_eq!(
            (outcome(2, 1), outcome(3, 0), outcome(0, 0)),
            ("incomplete", "compacted", "nothing")
        );
    }
}
