//! The ended sessions that this process has read (GC3). An ended session never changes, so the
//! process reads each of them once, even if it becomes the coordinator several times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use crate::protocol::SessionId;
use crate::protocol::session::SessionRecord;
use crate::unpoisoned;
use tenure::store::ETag;

/// The records of the ended sessions that one process has read.
#[derive(Debug, Default)]
pub(super) struct EndedSessions(Mutex<BTreeMap<SessionId, SessionRecord>>);

impl EndedSessions {
    /// If the session has ended, keeps its record.
    pub(super) fn note(&self, id: SessionId, record: &SessionRecord) {
        if record.ended.is_some() {
            self.records().insert(id, record.clone());
        }
    }

    pub(super) fn contains(&self, id: SessionId) -> bool {
        self.records().contains_key(&id)
    }

    /// If the listed ETag equals the ETag of an earlier read, returns the record of that read. A
    /// new read would return the same record.
    pub(super) fn record(&self, id: SessionId, listed: &ETag) -> Option<SessionRecord> {
        let records = self.records();
        records.get(&id).filter(|it| listed.names_the_same(&it.etag)).cloned()
    }

    /// Forgets the sessions that a complete listing did not show.
    pub(super) fn keep(&self, listed: &BTreeSet<SessionId>) {
        self.records().retain(|id, _| listed.contains(id));
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<SessionId, SessionRecord>> {
        unpoisoned(self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::EpochEnd;
    use tenure::internals::groups::Nonce;

    #[test]
    fn a_record_is_returned_only_for_its_own_etag() {
        let (sessions, id) = (EndedSessions::default(), SessionId::from_bits(1));
        let [etag, other] = ["1", "2"].map(ETag::new);
        let nonce = Nonce::from_bits(7);
        let live = SessionRecord { nonce, heartbeat: 2, etag, ended: None, data: None };
        sessions.note(id, &live);
        assert!(!sessions.contains(id), "a live session is not kept");
        let ended = SessionRecord { ended: Some(EpochEnd::Lapsed), ..live };
        sessions.note(id, &ended);
        assert_eq!(sessions.record(id, &ended.etag), Some(ended.clone()));
        assert_eq!(sessions.record(id, &other), None);
        sessions.keep(&BTreeSet::new());
        assert!(!sessions.contains(id));
    }
}
