//! When a member that does not coordinate takes over; the time is an argument.
//!
//! Nothing rests on this: any number of members may plan at once. It only sees to it that one does,
//! soon, and that seldom two do.

use std::time::Duration;

use super::looks::LookTime;
use super::session::{Session, SessionRecord};
use crate::etag::ETag;
use crate::moment::Moment;
use crate::protocol::lease::Drift;

/// What one member has seen of its coordinator.
#[derive(Debug, Clone)]
pub struct Standby {
    /// `None`: nobody is named.
    coordinator: Option<Session>,
    validity: Duration,
    drift: Drift,
    /// The tag read last, and when the answer that showed it first had been received.
    tag: Option<(ETag, Moment)>,
    /// How often it had looked, and when the answer that showed that first had been received.
    looks: Option<(u64, Moment)>,
    /// When the last answered read was sent.
    read: Option<Moment>,
    /// When it was first known that it does not plan any more.
    over: Option<Moment>,
}

/// Which place a member has behind the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// From 0 on.
    Deputy(usize),
    /// There is no group yet, or none of its deputies lives, and others may have the same place.
    First,
    /// Not named yet. Nobody adds it if all that are named have died.
    Joining,
    Other,
}

impl Standby {
    /// A member that learns at this time who coordinates.
    pub fn new(
        coordinator: Option<Session>,
        validity: Duration,
        drift: Drift,
        now: Moment,
    ) -> Self {
        let over = coordinator.is_none().then_some(now);
        Standby { coordinator, validity, drift, tag: None, looks: None, read: None, over }
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
    /// each poll, by others once a validity.
    pub fn is_due(&self, place: Place, now: Moment) -> bool {
        let once = |read| now.since(read) >= self.validity;
        self.coordinator.is_some() && (place != Place::Other || self.read.is_none_or(once))
    }

    /// Whether a deputy, or one that joins, is to list the sessions, too: so that the death of
    /// several at once does not take a validity for each.
    pub fn lists(&self, place: Place, now: Moment) -> bool {
        let silent = |(_, since): &(ETag, Moment)| now.since(*since) >= self.validity / 2;
        match place {
            Place::Deputy(_) | Place::First => self.tag.as_ref().is_some_and(silent),
            Place::Joining => self.is_over() || self.tag.as_ref().is_some_and(silent),
            Place::Other => false,
        }
    }

    /// Its session is as it was.
    pub fn unchanged(&mut self, when: LookTime) {
        self.read = Some(when.sent);
        self.conclude(when);
    }

    /// Its session was read, or nothing is there. Another nonce there counts as nothing.
    pub fn read(&mut self, found: Option<&SessionRecord>, when: LookTime) {
        self.read = Some(when.sent);
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
    fn conclude(&mut self, when: LookTime) {
        let lapse = self.drift.stretch(self.validity);
        let stands = |since: &Moment, by| when.sent.since(*since) >= by;
        let lapsed = self.tag.as_ref().is_some_and(|(_, since)| stands(since, lapse));
        let wedged = self.looks.as_ref().is_some_and(|(_, since)| stands(since, lapse * 2));
        if lapsed || wedged {
            self.over.get_or_insert(when.received);
        }
    }

    /// How long until this member goes ahead; `None` while the coordinator plans. Deputies go in
    /// their order, a poll after each other; all others a validity later. `delay` is random, as
    /// before a seal: it keeps those apart that have the same place.
    pub fn ahead_in(
        &self,
        place: Place,
        poll: Duration,
        delay: Duration,
        now: Moment,
    ) -> Option<Duration> {
        let turn = match place {
            Place::Deputy(before) => poll * u32::try_from(before).unwrap_or(u32::MAX),
            Place::First => delay,
            Place::Joining | Place::Other => poll * 3 + self.validity + delay,
        };
        Some(turn.saturating_sub(now.since(self.over?)))
    }

    /// How long until the coordinator lapses if its tag stands still: a deputy that looks then sees
    /// it at once, and not at the next poll. `None` if it is not about to.
    pub fn until_lapse(&self, place: Place, now: Moment) -> Option<Duration> {
        let (_, since) = self.tag.as_ref().filter(|_| place != Place::Other)?;
        let left = self.drift.stretch(self.validity).saturating_sub(now.since(*since));
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::group::session::{SessionData, SessionId};
    use crate::protocol::message::{EpochEnd, Nonce};

    const VALIDITY: Duration = Duration::from_secs(30);
    const POLL: Duration = Duration::from_secs(2);
    const COORDINATOR: Session =
        Session { id: SessionId::from_bits(1), nonce: Nonce::from_bits(7) };

    fn at(seconds: u64) -> Moment {
        let since = Duration::from_secs(seconds);
        Moment::new(since, since, since)
    }

    fn when(sent: u64) -> LookTime {
        LookTime { sent: at(sent), received: at(sent) }
    }

    fn standby() -> Standby {
        Standby::new(Some(COORDINATOR), VALIDITY, Drift::from_ppm(0), at(0))
    }

    fn record(tag: u64, looks: u64) -> SessionRecord {
        let data = Some(SessionData { looks, ..SessionData::default() });
        let etag = ETag::new(tag.to_string());
        SessionRecord { nonce: COORDINATOR.nonce, heartbeat: 2, etag, ended: None, data }
    }

    /// In whole seconds.
    fn ahead_in(standby: &Standby, place: Place, now: u64) -> Option<u64> {
        Some(standby.ahead_in(place, POLL, Duration::ZERO, at(now))?.as_secs())
    }

    const FIRST: Place = Place::Deputy(0);

    #[test]
    fn nobody_goes_ahead_of_one_that_renews_and_looks() {
        let mut standby = standby();
        for now in (0..300).step_by(10) {
            standby.read(Some(&record(now, now)), when(now));
            assert_eq!(ahead_in(&standby, FIRST, now), None, "{now}");
        }
    }

    #[test]
    fn deputies_go_in_their_order_and_the_others_a_validity_later() {
        let mut standby = standby();
        let resigned = SessionRecord { ended: Some(EpochEnd::Resigned), ..record(1, 1) };
        standby.read(Some(&resigned), when(10));
        let ahead = |place| ahead_in(&standby, place, 11);
        assert_eq!(ahead(FIRST), Some(0));
        assert_eq!(ahead(Place::Deputy(2)), Some(3));
        assert_eq!(ahead(Place::Other), Some(35));
        let nobody = Standby::new(None, VALIDITY, Drift::from_ppm(0), at(5));
        assert_eq!(ahead_in(&nobody, Place::Deputy(1), 5), Some(2));
        let delayed = |place| nobody.ahead_in(place, POLL, POLL / 2, at(5));
        assert_eq!(delayed(FIRST), Some(Duration::ZERO), "nobody else has its place");
        assert_eq!(delayed(Place::First), Some(POLL / 2));
        assert_eq!(delayed(Place::Joining), Some(VALIDITY + POLL * 3 + POLL / 2));
    }

    #[test]
    fn a_deputy_looks_when_its_coordinator_lapses() {
        let mut standby = standby();
        let left = |standby: &Standby, place, now| standby.until_lapse(place, at(now));
        assert_eq!(left(&standby, FIRST, 0), None);
        standby.read(Some(&record(1, 1)), when(2));
        assert_eq!(left(&standby, FIRST, 29), Some(Duration::from_secs(3)));
        assert_eq!(left(&standby, Place::Other, 29), None);
        assert_eq!(left(&standby, FIRST, 32), None);
    }

    #[test]
    fn one_that_lapses_or_is_gone_is_succeeded() {
        let mut lapsed = standby();
        lapsed.read(Some(&record(1, 1)), when(0));
        lapsed.unchanged(when(29));
        assert_eq!(ahead_in(&lapsed, FIRST, 29), None);
        lapsed.unchanged(when(30));
        assert_eq!(ahead_in(&lapsed, FIRST, 30), Some(0));
        let mut gone = standby();
        gone.read(None, when(3));
        assert_eq!(ahead_in(&gone, FIRST, 3), Some(0));
        let mut another = standby();
        let other = SessionRecord { nonce: Nonce::from_bits(8), ..record(1, 1) };
        another.read(Some(&other), when(3));
        assert_eq!(ahead_in(&another, FIRST, 3), Some(0));
    }

    /// It renews, as its lease's task goes on, and plans no more.
    #[test]
    fn one_that_is_wedged_is_succeeded_after_two_validities() {
        let mut standby = standby();
        for now in (0..60).step_by(10) {
            standby.read(Some(&record(now, 5)), when(now));
            assert_eq!(ahead_in(&standby, FIRST, now), None, "{now}");
        }
        standby.read(Some(&record(60, 5)), when(60));
        assert_eq!(ahead_in(&standby, FIRST, 60), Some(0));
    }

    #[test]
    fn deputies_read_with_each_poll_and_list_when_it_is_silent() {
        let mut standby = standby();
        assert!(standby.is_due(Place::Other, at(0)));
        standby.read(Some(&record(1, 1)), when(0));
        assert!(standby.is_due(FIRST, at(2)));
        assert!(!standby.is_due(Place::Other, at(29)) && standby.is_due(Place::Other, at(30)));
        assert!(!standby.lists(FIRST, at(14)) && standby.lists(FIRST, at(15)));
        assert!(!standby.lists(Place::Other, at(15)));
    }
}
