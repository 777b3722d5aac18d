//! What listings and reads of the sessions show over time; the time is an argument.
//!
//! A listed tag says only *whom to read*: nothing ends by a listing. A look counts from when its
//! request was sent, and what it shows for the first time from when its answer was received. So a
//! look that takes long only delays: it makes no session older.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::session::{Session, SessionId, SessionRecord};
use tenure::internals::groups::Drift;
use tenure::store::ETag;
use tenure::{EpochEnd, Moment};

/// What one coordinator has seen of the sessions.
#[derive(Debug, Clone)]
pub struct SessionTimers {
    drift: Drift,
    poll: Duration,
    sessions: BTreeMap<SessionId, SessionTimer>,
    /// The store lists no tags: every session is read at every look.
    tagless: bool,
}

#[derive(Debug, Clone)]
struct SessionTimer {
    validity: Duration,
    /// The tag shown last, and when the answer that showed it first had been received.
    tag: Option<(ETag, Moment)>,
    /// When the last answered look that showed this tag was sent.
    shown: Option<Moment>,
    /// The tag changed sooner than by a renewal, or after a renewal was overdue.
    odd: bool,
    /// When the last answered GET was sent.
    read: Option<Moment>,
    /// Reads that failed in a row, and when the last of them had failed.
    failed: (u32, Option<Moment>),
    /// It has ended by a word that is waited for: when that was received first.
    ended: Option<Moment>,
    /// It has ended by another word: nothing is waited for.
    over: bool,
    /// When the first answer that missed it had been received, and when the last look that missed
    /// it was sent.
    missing: Option<(Moment, Moment)>,
    /// What lies there is another session's, so a listing that shows it says nothing of this one.
    replaced: bool,
}

/// One look: when its request was sent, and when its whole answer had been received. Of a listing
/// of several pages: the first request and the last answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTimes {
    pub sent: Moment,
    pub received: Moment,
}

/// A tag that changes within this part of the validity after it changed last is no renewal's:
/// members renew every third. So a release or a resignation is read at the next look.
const EARLY: u32 = 4;

/// How long the tag of a session stays the same before its member is silent: two fifths of the
/// validity, as members renew every third of it, and at least one poll of the reader.
pub fn silence(validity: Duration, poll: Duration) -> Duration {
    poll.max(validity * 2 / 5)
}

impl SessionTimers {
    pub fn new(drift: Drift, poll: Duration) -> SessionTimers {
        SessionTimers { drift, poll, sessions: BTreeMap::new(), tagless: false }
    }

    /// Watches over this session.
    pub fn watch(&mut self, id: SessionId, validity: Duration) {
        let new = SessionTimer {
            validity,
            tag: None,
            shown: None,
            odd: false,
            read: None,
            failed: (0, None),
            ended: None,
            over: false,
            missing: None,
            replaced: false,
        };
        self.sessions.entry(id).or_insert(new).validity = validity;
    }

    /// Forgets the sessions that are not among these.
    pub fn keep(&mut self, ids: &BTreeSet<SessionId>) {
        self.sessions.retain(|id, _| ids.contains(id));
    }

    /// A complete listing, each session with its tag where the store lists them.
    pub fn listed(&mut self, listed: &BTreeMap<SessionId, Option<ETag>>, when: RequestTimes) {
        self.tagless = listed.values().any(Option::is_none);
        for (id, timer) in &mut self.sessions {
            match listed.get(id).filter(|_| !timer.replaced) {
                Some(Some(tag)) => timer.shows(tag, when, self.poll),
                Some(None) => timer.missing = None,
                None => timer.misses(when),
            }
        }
    }

    /// A session was read, or nothing was found there. What has another nonce than `expected`
    /// counts as gone.
    pub fn read(&mut self, session: Session, found: Option<&SessionRecord>, when: RequestTimes) {
        let Some(timer) = self.sessions.get_mut(&session.id) else { return };
        timer.answered(when);
        timer.replaced = found.is_some_and(|record| record.nonce != session.nonce);
        match found.filter(|_| !timer.replaced) {
            Some(record) => {
                timer.shows(&record.etag, when, self.poll);
                let waits = |ended| !matches!(ended, EpochEnd::Resigned | EpochEnd::Lapsed);
                timer.over = record.ended.is_some_and(|ended| !waits(ended));
                if record.ended.is_some_and(waits) {
                    timer.ended.get_or_insert(when.received);
                }
            }
            None => timer.misses(when),
        }
        timer.odd = false;
    }

    /// A session was read on the condition that it has another tag than this, and has not.
    pub fn unchanged(&mut self, id: SessionId, tag: &ETag, when: RequestTimes) {
        if let Some(timer) = self.sessions.get_mut(&id) {
            timer.answered(when);
            timer.shows(tag, when, self.poll);
        }
    }

    /// How long until the next session lapses, or a wait is over, if all stands still: a look then
    /// sees it at once, and not at the next poll. `None` if none is about to.
    pub fn until_lapse(&self, now: Moment) -> Option<Duration> {
        let left = |timer: &SessionTimer| {
            let tagged = timer.tag.as_ref().map(|(_, since)| *since).filter(|_| !timer.over);
            let since = timer.missing.map(|(first, _)| first).or(timer.ended).or(tagged)?;
            let left = self.drift.stretch(timer.validity).saturating_sub(now.since(since));
            (!left.is_zero()).then_some(left)
        };
        self.sessions.values().filter_map(left).min()
    }

    /// What lies there is no session that this version can read, so it counts as gone.
    pub fn foreign(&mut self, id: SessionId, when: RequestTimes) {
        if let Some(timer) = self.sessions.get_mut(&id) {
            timer.answered(when);
            timer.replaced = true;
            timer.misses(when);
            timer.odd = false;
        }
    }

    /// A read of this session failed.
    pub fn failed(&mut self, id: SessionId, now: Moment) {
        if let Some(timer) = self.sessions.get_mut(&id) {
            timer.failed = (timer.failed.0.saturating_add(1), Some(now));
        }
    }

    /// Whether reads of this session have failed so often that this round leaves it out: an object
    /// that cannot be read must not delay every round by the timeout of a request. The first
    /// attempt after a failure is in the next round, the others are up to half of the validity
    /// apart.
    pub fn rests(&self, id: SessionId, now: Moment) -> bool {
        let Some(timer) = self.sessions.get(&id) else { return false };
        let (times, Some(last)) = timer.failed else { return false };
        let rest = self.poll.saturating_mul(times.saturating_sub(1)).min(timer.validity / 2);
        now.since(last) < rest
    }

    /// The sessions to read now, beside those that a plan asks for: each once a validity, where its
    /// tag stands still for half of it, and where it changed too early or too late to be a
    /// renewal's. All, if the store lists no tags.
    pub fn due(&self, now: Moment) -> BTreeSet<SessionId> {
        let due = |timer: &SessionTimer| {
            let unread = timer.read.is_none_or(|read| now.since(read) >= timer.validity);
            let silent = timer.tag.as_ref().is_some_and(|(_, since)| {
                let unread = timer.read.is_none_or(|read| read.since(*since) < timer.validity / 2);
                unread && now.since(*since) >= timer.validity / 2
            });
            timer.odd || unread || silent || self.tagless
        };
        self.sessions.iter().filter(|(_, timer)| due(timer)).map(|(id, _)| *id).collect()
    }

    /// The tag under which this session has lapsed: two answered looks lie apart by more than its
    /// validity × (1 + drift), and both showed it. It is read once more before it is sealed.
    pub fn lapsed(&self, id: SessionId) -> Option<&ETag> {
        let timer = self.sessions.get(&id)?;
        let (tag, since) = timer.tag.as_ref()?;
        let lapsed = timer.shown?.since(*since) >= self.drift.stretch(timer.validity);
        (lapsed && timer.missing.is_none()).then_some(tag)
    }

    /// Whether a member with this session is given nothing more: it has lapsed or was deposed, and
    /// no rule lets its partitions leave it yet.
    pub fn is_ending(&self, id: SessionId) -> bool {
        let deposed = self.sessions.get(&id).is_some_and(|timer| timer.ended.is_some());
        deposed || self.lapsed(id).is_some()
    }

    /// Whether the holder of this session shows no sign of life: it has ended, is gone, or a
    /// renewal is overdue. Only the order of the
    /// succession rests on this.
    pub fn is_silent(&self, id: SessionId) -> bool {
        let Some(timer) = self.sessions.get(&id) else { return false };
        // Between looks nobody knows.
        let silent = |(_, since): &(ETag, Moment)| {
            let silence = silence(timer.validity, self.poll);
            timer.shown.is_some_and(|shown| shown.since(*since) >= silence)
        };
        let ended = timer.over || timer.ended.is_some() || timer.missing.is_some();
        ended || timer.tag.as_ref().is_some_and(silent)
    }

    /// Whether the holder of this session cannot believe in it any more, although its object does
    /// not say that it has lapsed or resigned: it was deposed, or it is gone.
    pub fn waited(&self, id: SessionId, now: Moment) -> bool {
        let Some(timer) = self.sessions.get(&id) else { return false };
        let lapse = self.drift.stretch(timer.validity);
        let deposed = timer.ended.is_some_and(|ended| now.since(ended) >= lapse);
        deposed || timer.missing.is_some_and(|(first, last)| last.since(first) >= lapse)
    }
}

impl SessionTimer {
    /// A GET that was sent at this time was answered.
    fn answered(&mut self, when: RequestTimes) {
        (self.read, self.failed) = (Some(when.sent), (0, None));
    }

    fn shows(&mut self, tag: &ETag, when: RequestTimes, poll: Duration) {
        self.missing = None;
        match &self.tag {
            Some((known, _)) if known.names_the_same(tag) => {}
            Some((_, since)) => {
                let stood = when.received.since(*since);
                let late = stood >= poll.max(self.validity / 3) * 2;
                self.odd = stood < self.validity / EARLY || late;
                self.tag = Some((tag.clone(), when.received));
            }
            None => self.tag = Some((tag.clone(), when.received)),
        }
        self.shown = Some(when.sent);
    }

    fn misses(&mut self, when: RequestTimes) {
        let first = self.missing.map_or(when.received, |(first, _)| first);
        self.missing = Some((first, when.sent));
    }
}

#[cfg(test)]
mod tests;
