//! What listings and reads of the sessions show over time; the time is an argument.
//!
//! A listed tag says only *whom to read*: nothing ends by a listing. A look counts from when its
//! request was sent, and what it shows for the first time from when its answer was received. So a
//! look that takes long only delays: it makes no session older.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::session::{Session, SessionId, SessionRecord};
use tenure::EpochEnd;
use tenure::Moment;
use tenure::internals::groups::Drift;
use tenure::store::ETag;

/// What one coordinator has seen of the sessions.
#[derive(Debug, Clone)]
pub struct Looks {
    drift: Drift,
    poll: Duration,
    sessions: BTreeMap<SessionId, Look>,
    /// The store lists no tags: every session is read at every look.
    tagless: bool,
}

#[derive(Debug, Clone)]
struct Look {
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
pub struct LookTime {
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

impl Looks {
    pub fn new(drift: Drift, poll: Duration) -> Looks {
        Looks { drift, poll, sessions: BTreeMap::new(), tagless: false }
    }

    /// Watches over this session.
    pub fn watch(&mut self, id: SessionId, validity: Duration) {
        let new = Look {
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
    pub fn listed(&mut self, listed: &BTreeMap<SessionId, Option<ETag>>, when: LookTime) {
        self.tagless = listed.values().any(Option::is_none);
        for (id, look) in &mut self.sessions {
            match listed.get(id).filter(|_| !look.replaced) {
                Some(Some(tag)) => look.shows(tag, when, self.poll),
                Some(None) => look.missing = None,
                None => look.misses(when),
            }
        }
    }

    /// A session was read, or nothing was found there. What has another nonce than `expected`
    /// counts as gone.
    pub fn read(&mut self, session: Session, found: Option<&SessionRecord>, when: LookTime) {
        let Some(look) = self.sessions.get_mut(&session.id) else { return };
        look.answered(when);
        look.replaced = found.is_some_and(|record| record.nonce != session.nonce);
        match found.filter(|_| !look.replaced) {
            Some(record) => {
                look.shows(&record.etag, when, self.poll);
                let waits = |ended| !matches!(ended, EpochEnd::Resigned | EpochEnd::Lapsed);
                look.over = record.ended.is_some_and(|ended| !waits(ended));
                if record.ended.is_some_and(waits) {
                    look.ended.get_or_insert(when.received);
                }
            }
            None => look.misses(when),
        }
        look.odd = false;
    }

    /// A session was read on the condition that it has another tag than this, and has not.
    pub fn unchanged(&mut self, id: SessionId, tag: &ETag, when: LookTime) {
        if let Some(look) = self.sessions.get_mut(&id) {
            look.answered(when);
            look.shows(tag, when, self.poll);
        }
    }

    /// How long until the next session lapses, or a wait is over, if all stands still: a look then
    /// sees it at once, and not at the next poll. `None` if none is about to.
    pub fn until_lapse(&self, now: Moment) -> Option<Duration> {
        let left = |look: &Look| {
            let tagged = look.tag.as_ref().map(|(_, since)| *since).filter(|_| !look.over);
            let since = look.missing.map(|(first, _)| first).or(look.ended).or(tagged)?;
            let left = self.drift.stretch(look.validity).saturating_sub(now.since(since));
            (!left.is_zero()).then_some(left)
        };
        self.sessions.values().filter_map(left).min()
    }

    /// What lies there is no session that this version can read, so it counts as gone.
    pub fn foreign(&mut self, id: SessionId, when: LookTime) {
        if let Some(look) = self.sessions.get_mut(&id) {
            look.answered(when);
            look.replaced = true;
            look.misses(when);
            look.odd = false;
        }
    }

    /// A read of this session failed.
    pub fn failed(&mut self, id: SessionId, now: Moment) {
        if let Some(look) = self.sessions.get_mut(&id) {
            look.failed = (look.failed.0.saturating_add(1), Some(now));
        }
    }

    /// Whether reads of this session have failed so often that this round leaves it out: an object
    /// that cannot be read must not delay every round by the timeout of a request. The first
    /// attempt after a failure is in the next round, the others are up to half of the validity
    /// apart.
    pub fn rests(&self, id: SessionId, now: Moment) -> bool {
        let Some(look) = self.sessions.get(&id) else { return false };
        let (times, Some(last)) = look.failed else { return false };
        let rest = self.poll.saturating_mul(times.saturating_sub(1)).min(look.validity / 2);
        now.since(last) < rest
    }

    /// The sessions to read now, beside those that a plan asks for: each once a validity, where its
    /// tag stands still for half of it, and where it changed too early or too late to be a
    /// renewal's. All, if the store lists no tags.
    pub fn due(&self, now: Moment) -> BTreeSet<SessionId> {
        let due = |look: &Look| {
            let unread = look.read.is_none_or(|read| now.since(read) >= look.validity);
            let silent = look.tag.as_ref().is_some_and(|(_, since)| {
                let unread = look.read.is_none_or(|read| read.since(*since) < look.validity / 2);
                unread && now.since(*since) >= look.validity / 2
            });
            look.odd || unread || silent || self.tagless
        };
        self.sessions.iter().filter(|(_, look)| due(look)).map(|(id, _)| *id).collect()
    }

    /// The tag under which this session has lapsed: two answered looks lie apart by more than its
    /// validity × (1 + drift), and both showed it. It is read once more before it is sealed.
    pub fn lapsed(&self, id: SessionId) -> Option<&ETag> {
        let look = self.sessions.get(&id)?;
        let (tag, since) = look.tag.as_ref()?;
        let lapsed = look.shown?.since(*since) >= self.drift.stretch(look.validity);
        (lapsed && look.missing.is_none()).then_some(tag)
    }

    /// Whether a member with this session is given nothing more: it has lapsed or was deposed, and
    /// no rule lets its partitions leave it yet.
    pub fn is_ending(&self, id: SessionId) -> bool {
        let deposed = self.sessions.get(&id).is_some_and(|look| look.ended.is_some());
        deposed || self.lapsed(id).is_some()
    }

    /// Whether the holder of this session shows no sign of life: it has ended, is gone, or a
    /// renewal is overdue. Only the order of the
    /// succession rests on this.
    pub fn is_silent(&self, id: SessionId) -> bool {
        let Some(look) = self.sessions.get(&id) else { return false };
        // Between looks nobody knows.
        let silent = |(_, since): &(ETag, Moment)| {
            let silence = silence(look.validity, self.poll);
            look.shown.is_some_and(|shown| shown.since(*since) >= silence)
        };
        let ended = look.over || look.ended.is_some() || look.missing.is_some();
        ended || look.tag.as_ref().is_some_and(silent)
    }

    /// Whether the holder of this session cannot believe in it any more, although its object does
    /// not say that it has lapsed or resigned: it was deposed, or it is gone.
    pub fn waited(&self, id: SessionId, now: Moment) -> bool {
        let Some(look) = self.sessions.get(&id) else { return false };
        let lapse = self.drift.stretch(look.validity);
        let deposed = look.ended.is_some_and(|ended| now.since(ended) >= lapse);
        deposed || look.missing.is_some_and(|(first, last)| last.since(first) >= lapse)
    }
}

impl Look {
    /// A GET that was sent at this time was answered.
    fn answered(&mut self, when: LookTime) {
        (self.read, self.failed) = (Some(when.sent), (0, None));
    }

    fn shows(&mut self, tag: &ETag, when: LookTime, poll: Duration) {
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

    fn misses(&mut self, when: LookTime) {
        let first = self.missing.map_or(when.received, |(first, _)| first);
        self.missing = Some((first, when.sent));
    }
}

#[cfg(test)]
mod tests;
