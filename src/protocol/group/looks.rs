//! What listings and reads of the sessions show over time; the time is an argument.
//!
//! A listed tag says only *whom to read*: nothing ends by a listing. A look counts from when its
//! request was sent, and what it shows for the first time from when its answer was received. So a
//! look that takes long only delays: it makes no session older.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::session::{Session, SessionId, SessionRecord};
use crate::etag::ETag;
use crate::moment::Moment;
use crate::protocol::lease::Drift;
use crate::protocol::message::EpochEnd;

/// What one coordinator has seen of the sessions.
#[derive(Debug, Clone)]
pub struct Looks {
    drift: Drift,
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
    /// The tag changed sooner than by a renewal.
    early: bool,
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

impl Looks {
    pub fn new(drift: Drift) -> Looks {
        Looks { drift, sessions: BTreeMap::new(), tagless: false }
    }

    /// Watches over this session.
    pub fn watch(&mut self, id: SessionId, validity: Duration) {
        let new = Look {
            validity,
            tag: None,
            shown: None,
            early: false,
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
                Some(Some(tag)) => look.shows(tag, when),
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
                look.shows(&record.etag, when);
                let waits = |ended| !matches!(ended, EpochEnd::Resigned | EpochEnd::Lapsed);
                look.over = record.ended.is_some_and(|ended| !waits(ended));
                if record.ended.is_some_and(waits) {
                    look.ended.get_or_insert(when.received);
                }
            }
            None => look.misses(when),
        }
        look.early = false;
    }

    /// A session was read on the condition that it has another tag than this, and has not.
    pub fn unchanged(&mut self, id: SessionId, tag: &ETag, when: LookTime) {
        if let Some(look) = self.sessions.get_mut(&id) {
            look.answered(when);
            look.shows(tag, when);
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
            look.early = false;
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
    pub fn rests(&self, id: SessionId, poll: Duration, now: Moment) -> bool {
        let Some(look) = self.sessions.get(&id) else { return false };
        let (times, Some(last)) = look.failed else { return false };
        let rest = poll.saturating_mul(times.saturating_sub(1)).min(look.validity / 2);
        now.since(last) < rest
    }

    /// The sessions to read now, beside those that a plan asks for: each once a validity, where its
    /// tag stands still for half of it, and where it changed too early to be a renewal's. All, if
    /// the store lists no tags.
    pub fn due(&self, now: Moment) -> BTreeSet<SessionId> {
        let due = |look: &Look| {
            let unread = look.read.is_none_or(|read| now.since(read) >= look.validity);
            let silent = look.tag.as_ref().is_some_and(|(_, since)| {
                let unread = look.read.is_none_or(|read| read.since(*since) < look.validity / 2);
                unread && now.since(*since) >= look.validity / 2
            });
            look.early || unread || silent || self.tagless
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

    fn shows(&mut self, tag: &ETag, when: LookTime) {
        self.missing = None;
        match &self.tag {
            Some((known, _)) if known.names_the_same(tag) => {}
            Some((_, since)) => {
                self.early = when.received.since(*since) < self.validity / EARLY;
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
mod tests {
    use super::*;
    use crate::protocol::message::Nonce;

    const VALIDITY: Duration = Duration::from_secs(30);
    const SESSION: Session = Session { id: SessionId::from_bits(1), nonce: Nonce::from_bits(7) };

    fn at(seconds: u64) -> Moment {
        let since = Duration::from_secs(seconds);
        Moment::new(since, since, since)
    }

    /// A look that was sent and answered at these seconds.
    fn when(sent: u64, received: u64) -> LookTime {
        LookTime { sent: at(sent), received: at(received) }
    }

    fn looks() -> Looks {
        let mut looks = Looks::new(Drift::from_ppm(10_000));
        looks.watch(SESSION.id, VALIDITY);
        looks
    }

    fn list(looks: &mut Looks, tag: Option<&str>, when: LookTime) {
        let tag = tag.map(|tag| (SESSION.id, Some(ETag::new(tag))));
        looks.listed(&tag.into_iter().collect(), when);
    }

    fn record(tag: &str, ended: Option<EpochEnd>) -> SessionRecord {
        let etag = ETag::new(tag);
        SessionRecord { nonce: SESSION.nonce, heartbeat: 2, etag, ended, data: None }
    }

    #[test]
    fn a_session_lapses_between_two_looks_that_show_the_same_tag() {
        let mut looks = looks();
        list(&mut looks, Some("a"), when(0, 1));
        list(&mut looks, Some("a"), when(31, 31));
        assert_eq!(looks.lapsed(SESSION.id), None, "30.3 s after it was received");
        list(&mut looks, Some("a"), when(32, 40));
        assert_eq!(looks.lapsed(SESSION.id), Some(&ETag::new("a")));
        list(&mut looks, Some("b"), when(33, 41));
        assert_eq!(looks.lapsed(SESSION.id), None);
    }

    #[test]
    fn the_next_look_is_when_a_session_lapses() {
        let mut looks = looks();
        assert_eq!(looks.until_lapse(at(0)), None, "nothing was seen");
        list(&mut looks, Some("a"), when(0, 1));
        let left = |looks: &Looks, now| looks.until_lapse(at(now)).map(|left| left.as_millis());
        assert_eq!((left(&looks, 1), left(&looks, 31)), (Some(30_300), Some(300)));
        looks.unchanged(SESSION.id, &ETag::new("a"), when(10, 10));
        assert_eq!((left(&looks, 31), left(&looks, 32)), (Some(300), None));
        list(&mut looks, Some("b"), when(19, 20));
        assert_eq!(left(&looks, 31), Some(19_300));
        looks.read(SESSION, Some(&record("c", Some(EpochEnd::Resigned))), when(21, 21));
        assert_eq!(left(&looks, 31), None, "nothing is waited for");
        looks.read(SESSION, Some(&record("d", Some(EpochEnd::Deposed))), when(22, 22));
        assert_eq!(left(&looks, 31), Some(21_300));
        looks.read(SESSION, None, when(30, 30));
        assert_eq!(left(&looks, 31), Some(29_300), "it is gone, which is waited for anew");
    }

    /// The one that stalls says nothing about the time that it took.
    #[test]
    fn a_listing_that_stalls_for_three_minutes_lapses_nobody() {
        let mut looks = looks();
        list(&mut looks, Some("a"), when(0, 1));
        list(&mut looks, Some("a"), when(5, 185));
        assert_eq!(looks.lapsed(SESSION.id), None);
        list(&mut looks, Some("z"), when(186, 187));
        assert_eq!(looks.lapsed(SESSION.id), None);
        list(&mut looks, Some("z"), when(190, 400));
        assert_eq!(looks.lapsed(SESSION.id), None);
    }

    #[test]
    fn one_that_is_gone_is_waited_for_from_the_first_look_that_misses_it() {
        let mut looks = looks();
        list(&mut looks, Some("a"), when(0, 1));
        list(&mut looks, None, when(5, 8));
        list(&mut looks, None, when(38, 60));
        assert!(!looks.waited(SESSION.id, at(60)), "30 s from 8 to 38");
        list(&mut looks, None, when(39, 60));
        assert!(looks.waited(SESSION.id, at(60)));
        assert_eq!(looks.lapsed(SESSION.id), None);
        // It is there again, or another session is.
        let mut back = looks.clone();
        list(&mut back, Some("a"), when(61, 61));
        assert!(!back.waited(SESSION.id, at(99)));
        let other = SessionRecord { nonce: Nonce::from_bits(8), ..record("a", None) };
        looks.read(SESSION, Some(&other), when(61, 61));
        assert!(looks.waited(SESSION.id, at(61)), "another nonce is no sign of life");
        list(&mut looks, Some("other"), when(62, 62));
        assert!(looks.waited(SESSION.id, at(62)), "nor is its tag");
        looks.read(SESSION, Some(&record("a", None)), when(63, 63));
        assert!(!looks.waited(SESSION.id, at(63)));
    }

    #[test]
    fn one_that_was_deposed_is_waited_for_from_the_first_sight_of_it() {
        for (ended, waits) in [(EpochEnd::Deposed, true), (EpochEnd::Unknown, true)] {
            let mut looks = looks();
            looks.read(SESSION, Some(&record("a", None)), when(0, 1));
            looks.read(SESSION, Some(&record("b", Some(ended))), when(9, 10));
            looks.read(SESSION, Some(&record("b", Some(ended))), when(20, 21));
            assert!(!looks.waited(SESSION.id, at(40)));
            assert_eq!(looks.waited(SESSION.id, at(41)), waits);
        }
    }

    #[test]
    fn without_tags_every_session_is_read_at_every_look() {
        let mut looks = looks();
        looks.read(SESSION, Some(&record("a", None)), when(0, 0));
        assert!(looks.due(at(1)).is_empty());
        looks.listed(&BTreeMap::from([(SESSION.id, None)]), when(1, 1));
        assert_eq!(looks.due(at(1)).len(), 1);
        looks.read(SESSION, Some(&record("a", None)), when(31, 31));
        assert_eq!(looks.lapsed(SESSION.id), Some(&ETag::new("a")));
    }

    #[test]
    fn sessions_are_read_once_a_validity_and_when_their_tags_say_so() {
        let due = |looks: &Looks, now| looks.due(at(now)).contains(&SESSION.id);
        let mut looks = looks();
        assert!(due(&looks, 0), "never read");
        looks.read(SESSION, Some(&record("a", None)), when(0, 0));
        assert!(!due(&looks, 14));
        assert!(due(&looks, 15), "it stands still for half of the validity");
        list(&mut looks, Some("b"), when(10, 10));
        assert!(!due(&looks, 20), "a renewal");
        list(&mut looks, Some("c"), when(15, 15));
        assert!(due(&looks, 15), "too early for a renewal");
        looks.read(SESSION, Some(&record("c", None)), when(15, 15));
        assert!(!due(&looks, 16));
        for renewal in [25, 35, 44] {
            list(&mut looks, Some(&renewal.to_string()), when(renewal, renewal));
            assert!(!due(&looks, renewal), "{renewal}");
        }
        assert!(due(&looks, 45), "not read for a validity");
    }
}
