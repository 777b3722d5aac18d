//! The timers of all sessions that a process lists and reads. Each call receives the current time
//! as an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::session::{Session, SessionId, SessionRecord};
use tenure::internals::groups::Drift;
use tenure::store::ETag;
use tenure::{EpochEnd, Moment};

/// The timers of the sessions that one process lists and reads.
///
/// # Contract
///
/// The machine is a value without IO or clock. Four kinds of methods drive it:
///
/// - *Orders*: [`watch`](SessionTimers::watch) starts the timer of a session, or changes its
///   validity. [`keep`](SessionTimers::keep) drops the timers of all other sessions.
/// - *Inputs* report the answer to a request, with the times of that request. An input has no
///   effect on a session that is not watched.
/// - *Waits* return the time until the next request: [`until_lapse`](SessionTimers::until_lapse).
/// - *Getters* return decisions. They change nothing, and depend only on their arguments and
///   earlier calls: [`due`](SessionTimers::due), [`rests`](SessionTimers::rests),
///   [`lapsed`](SessionTimers::lapsed), [`waited`](SessionTimers::waited),
///   [`is_ending`](SessionTimers::is_ending), [`is_silent`](SessionTimers::is_silent).
///
/// A driver repeats these steps. It calls `watch` for each session and lists the sessions. It reads
/// each session in `due`, unless `rests` returns true. It seals each session for which `lapsed`
/// returns a tag. These inputs answer the requests:
///
/// | request | answer | input |
/// | --- | --- | --- |
/// | LIST, all pages | the sessions and their tags | [`listed`](SessionTimers::listed) |
/// | GET | a session, or no object | [`read`](SessionTimers::read) |
/// | GET | an object that is not a session | [`foreign`](SessionTimers::foreign) |
/// | GET with `If-None-Match` | not modified | [`unchanged`](SessionTimers::unchanged) |
/// | GET | a failure | [`failed`](SessionTimers::failed) |
///
/// The driver calls the inputs in the order in which it receives the answers. A listing only
/// selects the sessions to read: if a session has lapsed according to its listed tag, the driver
/// reads it before the seal. The age of a tag begins when the first answer with this tag is
/// received. It ends when the last request that returned the tag was sent. So a slow request only
/// delays a lapse.
#[derive(Debug, Clone)]
pub struct SessionTimers {
    drift: Drift,
    poll: Duration,
    sessions: BTreeMap<SessionId, SessionTimer>,
    /// Whether the store lists no tags. If so, every session is due at every poll.
    tagless: bool,
}

#[derive(Debug, Clone, Default)]
struct SessionTimer {
    validity: Duration,
    /// The last tag, and the time of receipt of the first answer with this tag.
    tag: Option<(ETag, Moment)>,
    /// Time at which the process sent the last request whose answer showed `tag`.
    shown: Option<Moment>,
    /// Whether the last change of `tag` was too early or too late to be a renewal of the session.
    odd: bool,
    /// Time at which the process sent the last GET of the session that was answered.
    read: Option<Moment>,
    /// Number of consecutive failed reads of the session, and the time of the last failure.
    failed: (u32, Option<Moment>),
    /// Time of receipt of the first answer that shows the session's end, if this end requires a
    /// wait, as a deposition does.
    ended: Option<Moment>,
    /// Whether the session has ended in a way that requires no wait: it was resigned or has lapsed.
    over: bool,
    /// Two times, if the last answers did not show the session: the receipt of the first of these
    /// answers, and the sending of the request for the last one.
    missing: Option<(Moment, Moment)>,
    /// Whether the object with this id belongs to another session, or is no session. If so, a
    /// listing of the object does not show that this session exists.
    replaced: bool,
}

/// The time at which a request was sent, and the time at which its whole answer was received. For a
/// listing of several pages, these are the times of the first request and the last answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTimes {
    pub sent: Moment,
    pub received: Moment,
}

/// Divisor of the validity. By default, members renew every third of the validity. So if a tag
/// changes again within a quarter of the validity, the change is probably a release or a
/// resignation, and the next poll reads the session.
const EARLY: u32 = 4;

/// Returns the time after which a session is silent if its tag has not changed. By default, members
/// renew every third of the validity, so this time is two fifths of the validity. It is at least
/// `poll`, the poll interval of the process that reads.
pub fn silence(validity: Duration, poll: Duration) -> Duration {
    poll.max(validity * 2 / 5)
}

impl SessionTimers {
    pub fn new(drift: Drift, poll: Duration) -> SessionTimers {
        SessionTimers { drift, poll, sessions: BTreeMap::new(), tagless: false }
    }

    /// Starts the timer of this session, or changes its validity.
    pub fn watch(&mut self, id: SessionId, validity: Duration) {
        self.sessions.entry(id).or_default().validity = validity;
    }

    /// Keeps only the timers of these sessions.
    pub fn keep(&mut self, ids: &BTreeSet<SessionId>) {
        self.sessions.retain(|id, _| ids.contains(id));
    }

    /// Records a complete listing: each session, with its tag if the store lists tags.
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

    /// Records the result of a GET of `session`. `found` is `None` if no object exists. If `found`
    /// has another nonce than `session`, the session counts as missing.
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

    /// Records that a conditional read found the session unchanged, with this tag.
    pub fn unchanged(&mut self, id: SessionId, tag: &ETag, when: RequestTimes) {
        if let Some(timer) = self.sessions.get_mut(&id) {
            timer.answered(when);
            timer.shows(tag, when, self.poll);
        }
    }

    /// Returns the time until a session lapses or a wait ends, if no tag changes until then. The
    /// driver lists the sessions at that time, so that it finds the lapse sooner than with the next
    /// poll. Returns `None` if no session can lapse and no wait can end.
    pub fn until_lapse(&self, now: Moment) -> Option<Duration> {
        let left = |timer: &SessionTimer| {
            let tagged = timer.tag.as_ref().map(|(_, since)| *since).filter(|_| !timer.over);
            let since = timer.missing.map(|(first, _)| first).or(timer.ended).or(tagged)?;
            let left = self.drift.stretch(timer.validity).saturating_sub(now.since(since));
            (!left.is_zero()).then_some(left)
        };
        self.sessions.values().filter_map(left).min()
    }

    /// Records that a read found an object that is not a session. The session counts as missing.
    pub fn foreign(&mut self, id: SessionId, when: RequestTimes) {
        if let Some(timer) = self.sessions.get_mut(&id) {
            timer.answered(when);
            timer.replaced = true;
            timer.misses(when);
            timer.odd = false;
        }
    }

    /// Records the failure of a read.
    pub fn failed(&mut self, id: SessionId, now: Moment) {
        if let Some(timer) = self.sessions.get_mut(&id) {
            timer.failed = (timer.failed.0.saturating_add(1), Some(now));
        }
    }

    /// Returns whether this round skips the session because its last reads failed. Without the
    /// skips, an unreadable object would delay every round by the timeout of a request. The first
    /// attempt after a failure is in the next round. Later attempts are up to half of the validity
    /// apart.
    pub fn rests(&self, id: SessionId, now: Moment) -> bool {
        let Some(timer) = self.sessions.get(&id) else { return false };
        let (times, Some(last)) = timer.failed else { return false };
        let rest = self.poll.saturating_mul(times.saturating_sub(1)).min(timer.validity / 2);
        now.since(last) < rest
    }

    /// Returns the sessions to read now, in addition to the sessions that a plan needs:
    /// - sessions that were not read for at least one validity, or never,
    /// - sessions with a tag that has not changed for half of the validity, unless they were read
    ///   after that time,
    /// - sessions with a tag that changed too early or too late for a renewal,
    /// - all sessions if the store lists no tags.
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

    /// Returns the tag of the session if the session has lapsed: two answered requests, at least
    /// validity × (1 + drift) apart, showed the same tag. The driver reads the session again before
    /// the seal.
    pub fn lapsed(&self, id: SessionId) -> Option<&ETag> {
        let timer = self.sessions.get(&id)?;
        let (tag, since) = timer.tag.as_ref()?;
        let lapsed = timer.shown?.since(*since) >= self.drift.stretch(timer.validity);
        (lapsed && timer.missing.is_none()).then_some(tag)
    }

    /// Returns whether the session has lapsed or was deposed. If so, its member gets no more
    /// partitions. The partitions move only after the lapsed session is sealed, or after the wait
    /// for the deposed session.
    pub fn is_ending(&self, id: SessionId) -> bool {
        let deposed = self.sessions.get(&id).is_some_and(|timer| timer.ended.is_some());
        deposed || self.lapsed(id).is_some()
    }

    /// Returns whether the session has ended, is missing, or has an overdue renewal. The result
    /// affects only the order in which members replace the coordinator, and whether a joining
    /// session must wait.
    pub fn is_silent(&self, id: SessionId) -> bool {
        let Some(timer) = self.sessions.get(&id) else { return false };
        let silent = |(_, since): &(ETag, Moment)| {
            let silence = silence(timer.validity, self.poll);
            timer.shown.is_some_and(|shown| shown.since(*since) >= silence)
        };
        let ended = timer.over || timer.ended.is_some() || timer.missing.is_some();
        ended || timer.tag.as_ref().is_some_and(silent)
    }

    /// Returns whether the wait for a deposed or missing session has ended (GA1, GA2). After this
    /// wait the member of the session no longer believes that its lease runs.
    pub fn waited(&self, id: SessionId, now: Moment) -> bool {
        let Some(timer) = self.sessions.get(&id) else { return false };
        let lapse = self.drift.stretch(timer.validity);
        let deposed = timer.ended.is_some_and(|ended| now.since(ended) >= lapse);
        deposed || timer.missing.is_some_and(|(first, last)| last.since(first) >= lapse)
    }
}

impl SessionTimer {
    /// Records an answered GET.
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
