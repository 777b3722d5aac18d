//! The sessions of a group's members: those that have ended, and that the newest assignment does
//! not name.
//!
//! A session that has ended never lives again. But a coordinator takes one that is named and gone for
//! one that may live, and waits for its validity (docs/groups.md, R1). So the newest assignment is
//! read after the sessions were. A session that has seen a greater assignment stays: it shows that
//! somebody deleted that.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt as _};

use super::Compactor;
use super::report::SessionsReport;
use super::run::{Deleted, PAGE_KEYS, Run};
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::group::{AssignmentRecord, BadAssignment, MAX_ASSIGNMENT_BYTES, seen, session_of};
use crate::protocol::compaction::NewestBody;
use crate::protocol::find::After;
use crate::protocol::group::{Assignment, SessionId};
use crate::record::listing::age;
use crate::record::{MAX_READ_BYTES, Record};
use crate::store::{Determinacy, GetOutcome, check_order, listed_within, within};

/// Sessions that are read side by side.
const AT_ONCE: usize = 16;

impl Run<'_> {
    pub(super) async fn compact_sessions(&mut self) -> Result<(), Error> {
        self.report.sessions = Some(SessionsReport::default());
        // Without an assignment nobody can tell which sessions are members.
        let Some(newest) = self.plan.newest() else { return Ok(()) };
        let prefix = format!("{}members/", self.compactor.keys.prefix());
        let mut start = Some(prefix.clone());
        while let Some(after) = start {
            let (old, next) = self.list_sessions(&prefix, &after).await?;
            let mut ended = self.ended(old).await?;
            if !ended.is_empty() {
                let (newest, named) = self.named(newest).await?;
                // One that has seen a greater assignment shows that somebody deleted that.
                ended.retain(|(id, _, seen)| !named.contains(id) && *seen <= Some(newest));
                self.delete_sessions(ended).await?;
            }
            self.tell();
            start = next;
        }
        Ok(())
    }

    pub(super) fn sessions(&mut self) -> &mut SessionsReport {
        self.report.sessions.get_or_insert_default()
    }

    /// A page of sessions, those that are old enough; and where the next page starts.
    async fn list_sessions(
        &mut self,
        prefix: &str,
        after: &str,
    ) -> Result<(Vec<(SessionId, String)>, Option<String>), Error> {
        let Compactor { store, request_timeout, .. } = self.compactor;
        self.report.requests += 1;
        let request = store.list(prefix, after, PAGE_KEYS);
        let page = self.while_deleting(listed_within(*request_timeout, request)).await?;
        let checked = page.and_then(|page| {
            let last = check_order(prefix, after, &page)?.to_owned();
            Ok((page, last))
        });
        let (page, last) = checked.map_err(|error| self.failure("listing the sessions", error))?;
        let mut old = Vec::new();
        for entry in &page.entries {
            let Some(id) = session_of(self.compactor.keys.prefix(), &entry.key) else { continue };
            self.sessions().listed += 1;
            // An unknown age is no age, as for epochs.
            let age = age(page.served_at, entry.last_modified).unwrap_or_default();
            if age >= self.plan.min_age() {
                old.push((id, entry.key.clone()));
            }
        }
        Ok((old, page.truncated.then_some(last)))
    }

    /// Returns the ended ones of these sessions, each with the greatest assignment it has seen.
    async fn ended(
        &mut self,
        sessions: Vec<(SessionId, String)>,
    ) -> Result<Vec<(SessionId, String, Option<Epoch>)>, Error> {
        self.report.requests += sessions.len() as u64;
        let Compactor { store, request_timeout, .. } = self.compactor;
        let read = |(id, key): (SessionId, String)| async move {
            let request = store.get(&key, None, MAX_READ_BYTES);
            let outcome = within(*request_timeout, Determinacy::Determinate, request).await;
            (id, key, outcome)
        };
        let reads: Vec<_> = sessions.into_iter().map(read).collect();
        let mut reads = stream::iter(reads).buffer_unordered(AT_ONCE);
        let mut ended = Vec::new();
        while let Some((id, key, outcome)) = self.while_deleting(reads.next()).await? {
            let outcome = outcome.map_err(|error| self.failure("reading a session", error))?;
            // What is no record of this version stays.
            if let GetOutcome::Found(object) = outcome
                && let Ok((_, record)) = Record::decode(None, &object.body)
                && record.expired
            {
                ended.push((id, key, seen(&record.data)));
            }
        }
        Ok(ended)
    }

    /// The newest assignment as of now, and the sessions that it names; `newest` is the one known.
    async fn named(&mut self, mut newest: Epoch) -> Result<(Epoch, BTreeSet<SessionId>), Error> {
        let keys = self.compactor.keys.clone();
        let mut gone = None;
        loop {
            let mut next = Some(After::Number(newest.get()));
            while let Some(after) = next {
                let page = self.list(&after).await?;
                newest = page.epochs.last().map_or(newest, |last| last.epoch.max(newest));
                next = page.rest;
            }
            if gone == Some(newest) {
                let (key, at) = (keys.epoch(newest), self.compactor.store.describe());
                let why =
                    format!("{key} in {at} was the newest assignment, and somebody deleted it");
                return Err(Error::new(ErrorKind::NewestDeleted, why));
            }
            match self.assignment(newest).await? {
                Some(assignment) => {
                    let named = assignment.members.iter().map(|it| it.session.id).collect();
                    return Ok((newest, named));
                }
                // Superseded and compacted meanwhile: there is a greater one.
                None => gone = Some(newest),
            }
        }
    }

    /// What an assignment says to the plan, read while the deletions go on.
    ///
    /// A member shows a sign of life at least once in its validity, as a leader does.
    pub(super) async fn read_assignment(&mut self, epoch: Epoch) -> Result<NewestBody, Error> {
        let Some(assignment) = self.assignment(epoch).await? else { return Ok(NewestBody::Gone) };
        Ok(NewestBody::Validity(assignment.members.iter().map(|it| it.validity).max()))
    }

    async fn assignment(&mut self, epoch: Epoch) -> Result<Option<Assignment>, Error> {
        let Compactor { store, keys, request_timeout, .. } = self.compactor;
        let key = keys.epoch(epoch);
        self.report.requests += 1;
        let request = store.get(&key, None, MAX_ASSIGNMENT_BYTES);
        let outcome = self
            .while_deleting(within(*request_timeout, Determinacy::Determinate, request))
            .await?;
        let doing = "reading the newest assignment";
        let read = match outcome.map_err(|error| self.failure(doing, error))? {
            GetOutcome::Found(object) => AssignmentRecord::decode(epoch, &object.body),
            GetOutcome::TooLarge { len, .. } => {
                Err(BadAssignment::TooLarge(usize::try_from(len).unwrap_or(usize::MAX)))
            }
            // The request named no ETag, so `NotModified` cannot occur.
            GetOutcome::NotFound | GetOutcome::NotModified => return Ok(None),
        };
        let record = read.map_err(|bad| {
            let kind = match bad {
                BadAssignment::TooNew(_) => ErrorKind::RecordTooNew,
                _ => ErrorKind::CorruptRecord,
            };
            let at = store.describe();
            let why = format!("{key} in {at}: {bad}; what came before it is not deleted");
            Error::new(kind, why)
        })?;
        Ok(Some(record.assignment))
    }

    async fn delete_sessions(
        &mut self,
        ended: Vec<(SessionId, String, Option<Epoch>)>,
    ) -> Result<(), Error> {
        let many = ended.len() as u64;
        if self.compactor.dry_run {
            self.sessions().deleted += many;
            return Ok(());
        }
        let keys = ended.into_iter().map(|(_, key, _)| key).collect::<Vec<_>>();
        let many = keys.len();
        self.delete(keys, Deleted::Sessions(many)).await
    }
}
