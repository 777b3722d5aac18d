//! When a member that does not coordinate takes over; the time is an argument.
//!
//! Nothing rests on this: any number of members may plan at once. It only sees to it that one does,
//! soon, and that seldom two do.

use std::time::Duration;

use super::session::{Session, SessionRecord};
use super::session_timers::{RequestTimes, silence};
use tenure::Moment;
use tenure::internals::groups::Drift;
use tenure::store::ETag;

/// What one member has seen of its coordinator.
#[derive(Debug, Clone)]
pub struct Standby {
    /// `None`: nobody is named.
    coordinator: Option<Session>,
    validity: Duration,
    poll: Duration,
    drift: Drift,
    /// The tag read last, and when the answer that showed it first had been received.
    tag: Option<(ETag, Moment)>,
    /// How often it had looked, and when the answer that showed that first had been received.
    looks: Option<(u64, Moment)>,
    /// When it was first known that it does not plan any more.
    over: Option<Moment>,
}

/// Which role a member has while another one coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// One of the three after the coordinator.
    Deputy,
    Other,
    /// Not named yet. Nobody adds it if all that are named have died.
    Joining,
    /// There is no group yet, and others may have the same place.
    First,
}

impl Standby {
    /// A member that learns at this time who coordinates.
    pub fn new(
        coordinator: Option<Session>,
        validity: Duration,
        poll: Duration,
        drift: Drift,
        now: Moment,
    ) -> Self {
        let over = coordinator.is_none().then_some(now);
        Standby { coordinator, validity, poll, drift, tag: None, looks: None, over }
    }

    pub fn coordinator(&self) -> Option<Session> {
        self.coordinator
    }

    /// The tag under which a conditional GET of the coordinator's session asks for news.
    pub fn tag(&self) -> Option<&ETag> {
        self.tag.as_ref().map(|(tag, _)| tag)
    }

    /// Whether it plans no more.
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Whether the coordinator's session is to be read now: by deputies and those that join with
    /// each poll, by others at the last poll before it would be silent, which is about as often as
    /// it is renewed.
    pub fn is_due(&self, place: Place, now: Moment) -> bool {
        let last = |(_, since): &(ETag, Moment)| {
            now.since(*since).saturating_add(self.poll) > self.silence()
        };
        let due = place != Place::Other || self.tag.as_ref().is_none_or(last);
        self.coordinator.is_some() && due
    }

    /// Whether a renewal of the coordinator is overdue, or it has ended. Then each member lists the
    /// sessions: the timers of all that died with it run from here on.
    pub fn is_silent(&self, now: Moment) -> bool {
        let stands = |(_, since): &(ETag, Moment)| now.since(*since) >= self.silence();
        self.is_over() || self.tag.as_ref().is_some_and(stands)
    }

    fn silence(&self) -> Duration {
        silence(self.validity, self.poll)
    }

    /// Its session has lapsed by the listed tags, and it cannot be read.
    pub fn lapsed(&mut self, now: Moment) {
        self.over.get_or_insert(now);
    }

    /// Its session is as it was.
    pub fn unchanged(&mut self, when: RequestTimes) {
        self.conclude(when);
    }

    /// Its session was read, or nothing is there. Another nonce there counts as nothing.
    pub fn read(&mut self, found: Option<&SessionRecord>, when: RequestTimes) {
        let own = |record: &&SessionRecord| {
            self.coordinator.is_some_and(|session| session.nonce == record.nonce)
        };
        let Some(record) = found.filter(own) else {
            self.over.get_or_insert(when.received);
            return;
        };
        if self.tag.as_ref().is_none_or(|(tag, _)| *tag != record.etag) {
            self.tag = Some((record.etag.clone(), when.received));
        }
        let looks = record.data.as_ref().map_or(0, |data| data.looks);
        if self.looks.is_none_or(|(known, _)| known != looks) {
            self.looks = Some((looks, when.received));
        }
        if record.ended.is_some() {
            self.over.get_or_insert(when.received);
        }
        self.conclude(when);
    }

    /// It has lapsed if its tag stands still for its validity, and is wedged if it does not look
    /// for two.
    fn conclude(&mut self, when: RequestTimes) {
        let lapse = self.drift.stretch(self.validity);
        let stands = |since: &Moment, by| when.sent.since(*since) >= by;
        let lapsed = self.tag.as_ref().is_some_and(|(_, since)| stands(since, lapse));
        let wedged = self.looks.as_ref().is_some_and(|(_, since)| stands(since, lapse * 2));
        if lapsed || wedged {
            self.over.get_or_insert(when.received);
        }
    }

    /// How long until this member goes ahead; `None` while the coordinator plans. Members go in
    /// their order, a poll after each other, and those do not count that show no sign of life:
    /// `before` are left. `delay` is random, as before a seal: it keeps those apart that have the
    /// same place.
    pub fn ahead_in(
        &self,
        place: Place,
        before: usize,
        delay: Duration,
        now: Moment,
    ) -> Option<Duration> {
        let turn = self.poll.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX));
        let turn = match place {
            Place::Deputy | Place::Other => turn,
            Place::Joining | Place::First => turn.saturating_add(delay),
        };
        Some(turn.saturating_sub(now.since(self.over?)))
    }

    /// How long until the coordinator is silent or lapses if its tag stays the same: a member that
    /// looks then sees it at once, and not at the next poll. `None` if it is not about to.
    pub fn next_look(&self, now: Moment) -> Option<Duration> {
        let (_, since) = self.tag.as_ref()?;
        let until = |end: Duration| end.saturating_sub(now.since(*since));
        let ends = [self.silence(), self.drift.stretch(self.validity)];
        ends.into_iter().map(until).find(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::session::{SessionData, SessionId};
    use crate::test_values::at;
    use tenure::EpochEnd;
    use tenure::internals::groups::Nonce;

    const VALIDITY: Duration = Duration::from_secs(30);
    const POLL: Duration = Duration::from_secs(2);
    const COORDINATOR: Session =
        Session { id: SessionId::from_bits(1), nonce: Nonce::from_bits(7) };

    fn when(sent: u64) -> RequestTimes {
        RequestTimes { sent: at(sent), received: at(sent) }
    }

    fn standby() -> Standby {
        Standby::new(Some(COORDINATOR), VALIDITY, POLL, Drift::from_ppm(0), at(0))
    }

    fn record(tag: u64, looks: u64) -> SessionRecord {
        let data = Some(SessionData { looks, ..SessionData::default() });
        let etag = ETag::new(tag.to_string());
        SessionRecord { nonce: COORDINATOR.nonce, heartbeat: 2, etag, ended: None, data }
    }

    /// In whole seconds.
    fn ahead_in(standby: &Standby, before: usize, now: u64) -> Option<u64> {
        let ahead = standby.ahead_in(Place::Other, before, Duration::ZERO, at(now));
        Some(ahead?.as_secs())
    }

    #[test]
    fn nobody_goes_ahead_of_one_that_renews_and_looks() {
        let mut standby = standby();
        for now in (0..300).step_by(10) {
            standby.read(Some(&record(now, now)), when(now));
            assert_eq!(ahead_in(&standby, 0, now), None, "{now}");
            assert!(!standby.is_silent(at(now)));
        }
    }

    #[test]
    fn members_go_in_their_order() {
        let mut standby = standby();
        let resigned = SessionRecord { ended: Some(EpochEnd::Resigned), ..record(1, 1) };
        standby.read(Some(&resigned), when(10));
        assert_eq!([0, 2, 7].map(|before| ahead_in(&standby, before, 11)), [0, 3, 13].map(Some));
        let nobody = Standby::new(None, VALIDITY, POLL, Drift::from_ppm(0), at(5));
        assert_eq!(ahead_in(&nobody, 1, 5), Some(2));
        let delayed = |place, before| nobody.ahead_in(place, before, POLL / 2, at(5));
        for place in [Place::Deputy, Place::Other] {
            assert_eq!(delayed(place, 0), Some(Duration::ZERO), "nobody else has its place");
        }
        assert_eq!(delayed(Place::First, 0), Some(POLL / 2));
        assert_eq!(delayed(Place::Joining, 2), Some(POLL * 2 + POLL / 2));
    }

    #[test]
    fn a_member_looks_when_its_coordinator_is_silent_and_when_it_lapses() {
        let mut standby = standby();
        let left = |standby: &Standby, now| standby.next_look(at(now)).map(|it| it.as_secs());
        assert_eq!(left(&standby, 0), None);
        standby.read(Some(&record(1, 1)), when(2));
        let looks = [3, 13, 14, 29, 32].map(|now| left(&standby, now));
        assert_eq!(looks, [Some(11), Some(1), Some(18), Some(3), None]);
    }

    #[test]
    fn one_that_lapses_or_is_gone_is_succeeded() {
        let mut lapsed = standby();
        lapsed.read(Some(&record(1, 1)), when(0));
        lapsed.unchanged(when(29));
        assert_eq!(ahead_in(&lapsed, 0, 29), None);
        lapsed.unchanged(when(30));
        assert_eq!(ahead_in(&lapsed, 0, 30), Some(0));
        let mut gone = standby();
        gone.read(None, when(3));
        assert_eq!(ahead_in(&gone, 0, 3), Some(0));
        let mut another = standby();
        let other = SessionRecord { nonce: Nonce::from_bits(8), ..record(1, 1) };
        another.read(Some(&other), when(3));
        assert_eq!(ahead_in(&another, 0, 3), Some(0));
    }

    /// It renews, as its lease's task goes on, and plans no more.
    #[test]
    fn one_that_is_wedged_is_succeeded_after_two_validities() {
        let mut standby = standby();
        for now in (0..60).step_by(10) {
            standby.read(Some(&record(now, 5)), when(now));
            assert_eq!(ahead_in(&standby, 0, now), None, "{now}");
        }
        standby.read(Some(&record(60, 5)), when(60));
        assert_eq!(ahead_in(&standby, 0, 60), Some(0));
    }

    #[test]
    fn deputies_read_with_each_poll_and_others_as_often_as_it_is_renewed() {
        let mut standby = standby();
        let due = |standby: &Standby, place, now| standby.is_due(place, at(now));
        assert!(due(&standby, Place::Other, 0));
        standby.read(Some(&record(1, 1)), when(0));
        assert!(due(&standby, Place::Deputy, 2) && due(&standby, Place::Joining, 2));
        assert!(!due(&standby, Place::Other, 10) && due(&standby, Place::Other, 11));
        standby.unchanged(when(11));
        assert!(due(&standby, Place::Other, 12), "silent");
        assert!(!standby.is_silent(at(11)) && standby.is_silent(at(12)));
    }
}
