//! The time at which a member takes over from the coordinator. Each call receives the current time
//! as an argument.

use std::time::Duration;

use super::session::{Session, SessionRecord};
use super::session_timers::{RequestTimes, silence};
use tenure::Moment;
use tenure::internals::groups::Drift;
use tenure::store::ETag;

/// The timer of one coordinator, in a member that may replace the coordinator.
///
/// No invariant depends on this timer: any number of members may plan at the same time. With the
/// timer one member takes over soon, and two members rarely take over together.
///
/// # Contract
///
/// The machine is a value without IO or clock. Three kinds of methods drive it:
///
/// - *Inputs*: [`read`](Standby::read) and [`unchanged`](Standby::unchanged) report the answer to a
///   read of the coordinator's session, with the times of that request. [`lapsed`](Standby::lapsed)
///   reports a lapse that the listings of the sessions show.
/// - *Waits*: [`ahead_in`](Standby::ahead_in) returns the time until this member plans.
///   [`next_look`](Standby::next_look) returns the time until a read that must come before the next
///   poll.
/// - *Getters* change nothing: [`is_due`](Standby::is_due) and [`tag`](Standby::tag) for the next
///   read, [`is_silent`](Standby::is_silent), [`is_over`](Standby::is_over).
///
/// A driver creates one `Standby` for each coordinator that an assignment names. With each poll the
/// driver reads the coordinator's session if `is_due` returns true, and lists all sessions if
/// `is_silent` returns true. Then it calls `ahead_in`. If `ahead_in` returns zero, the member plans
/// now. These inputs answer the requests:
///
/// | request | answer | input |
/// | --- | --- | --- |
/// | GET of the session, unless it has `tag` | a session, or no session | [`read`](Standby::read) |
/// | the same | not modified | [`unchanged`](Standby::unchanged) |
/// | the same | a failure | none |
/// | LIST | the session has lapsed ([`SessionTimers`]) | [`lapsed`](Standby::lapsed) |
///
/// Once `is_over` returns true, it always returns true.
///
/// [`SessionTimers`]: super::session_timers::SessionTimers
#[derive(Debug, Clone)]
pub struct Standby {
    /// Session of the coordinator. `None` means that the assignment names no coordinator.
    coordinator: Option<Session>,
    validity: Duration,
    poll: Duration,
    drift: Drift,
    /// The last tag, and the time of receipt of the first answer with this tag.
    tag: Option<(ETag, Moment)>,
    /// The coordinator's count of completed rounds, and the time of receipt of the first answer
    /// with this count.
    looks: Option<(u64, Moment)>,
    /// Time of receipt of the first answer that shows that the coordinator no longer plans.
    over: Option<Moment>,
}

/// The role of a process while another process coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A deputy: one of the three members after the coordinator.
    Deputy,
    Other,
    /// A process that has created a session, but is not a member of the assignment yet. If all
    /// members of the assignment die, such a process must plan.
    Joining,
    /// A process whose group has no assignment. Several processes may have this role.
    First,
}

impl Standby {
    /// Starts the timer of a coordinator. The driver calls this function when it receives an
    /// assignment that names another coordinator.
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

    /// Returns the tag for a conditional GET of the coordinator's session.
    pub fn tag(&self) -> Option<&ETag> {
        self.tag.as_ref().map(|(tag, _)| tag)
    }

    /// Returns whether the coordinator no longer plans.
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Returns whether the driver must read the coordinator's session now. Deputies and joining
    /// members read the session with each poll. Other members read it only if the coordinator would
    /// be silent at their next poll. So these members read the session about as often as the
    /// coordinator renews it.
    pub fn is_due(&self, place: Place, now: Moment) -> bool {
        let last = |(_, since): &(ETag, Moment)| {
            now.since(*since).saturating_add(self.poll) > self.silence()
        };
        let due = place != Place::Other || self.tag.as_ref().is_none_or(last);
        self.coordinator.is_some() && due
    }

    /// Returns whether a renewal of the coordinator is overdue, or its session has ended. In both
    /// cases each member lists the sessions. The listing starts the timers of all sessions, because
    /// other members may have died together with the coordinator.
    pub fn is_silent(&self, now: Moment) -> bool {
        let stands = |(_, since): &(ETag, Moment)| now.since(*since) >= self.silence();
        self.is_over() || self.tag.as_ref().is_some_and(stands)
    }

    fn silence(&self) -> Duration {
        silence(self.validity, self.poll)
    }

    /// Records that the coordinator's session has lapsed according to the listed tags. If the
    /// session cannot be read, only the listed tags show the lapse.
    pub fn lapsed(&mut self, now: Moment) {
        self.over.get_or_insert(now);
    }

    /// Records the result of a GET of the coordinator's session. `found` is `None` if no object
    /// exists. A session with another nonce than the coordinator's counts as no object.
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
        self.unchanged(when);
    }

    /// Records that a conditional read found the session unchanged. The coordinator no longer plans
    /// if its tag has not changed for one validity, or if its count of rounds has not changed for
    /// two validities.
    pub fn unchanged(&mut self, when: RequestTimes) {
        let lapse = self.drift.stretch(self.validity);
        let stands = |since: &Moment, by| when.sent.since(*since) >= by;
        let lapsed = self.tag.as_ref().is_some_and(|(_, since)| stands(since, lapse));
        let wedged = self.looks.as_ref().is_some_and(|(_, since)| stands(since, lapse * 2));
        if lapsed || wedged {
            self.over.get_or_insert(when.received);
        }
    }

    /// Returns the time until this member plans. Returns `None` while the coordinator plans. The
    /// members take over in their order, one poll interval apart. `before` is the number of live
    /// members before this member in that order. `delay` is a random time that separates processes
    /// that have no place in the order.
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

    /// Returns the time until the coordinator is silent. If it is silent already, returns the time
    /// until it lapses. Both times assume that its tag does not change. The driver reads the
    /// session at that time, so that it finds the silence or the lapse sooner than with the next
    /// poll. Returns `None` if both times have passed.
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
    use crate::protocol::SessionId;
    use crate::protocol::session::SessionData;
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

    /// Returns the result of [`Standby::ahead_in`] in whole seconds.
    fn ahead_in(standby: &Standby, before: usize, now: u64) -> Option<u64> {
        let ahead = standby.ahead_in(Place::Other, before, Duration::ZERO, at(now));
        Some(ahead?.as_secs())
    }

    #[test]
    fn no_member_replaces_a_coordinator_that_renews_and_plans() {
        let mut standby = standby();
        for now in (0..300).step_by(10) {
            standby.read(Some(&record(now, now)), when(now));
            assert_eq!(ahead_in(&standby, 0, now), None, "{now}");
            assert!(!standby.is_silent(at(now)));
        }
    }

    #[test]
    fn members_take_over_in_their_order() {
        let mut standby = standby();
        let resigned = SessionRecord { ended: Some(EpochEnd::Resigned), ..record(1, 1) };
        standby.read(Some(&resigned), when(10));
        assert_eq!([0, 2, 7].map(|before| ahead_in(&standby, before, 11)), [0, 3, 13].map(Some));
        let nobody = Standby::new(None, VALIDITY, POLL, Drift::from_ppm(0), at(5));
        assert_eq!(ahead_in(&nobody, 1, 5), Some(2));
        let delayed = |place, before| nobody.ahead_in(place, before, POLL / 2, at(5));
        for place in [Place::Deputy, Place::Other] {
            assert_eq!(delayed(place, 0), Some(Duration::ZERO), "no other member has its place");
        }
        assert_eq!(delayed(Place::First, 0), Some(POLL / 2));
        assert_eq!(delayed(Place::Joining, 2), Some(POLL * 2 + POLL / 2));
    }

    #[test]
    fn a_member_reads_its_coordinator_at_silence_and_at_the_lapse() {
        let mut standby = standby();
        let left = |standby: &Standby, now| standby.next_look(at(now)).map(|it| it.as_secs());
        assert_eq!(left(&standby, 0), None);
        standby.read(Some(&record(1, 1)), when(2));
        let looks = [3, 13, 14, 29, 32].map(|now| left(&standby, now));
        assert_eq!(looks, [Some(11), Some(1), Some(18), Some(3), None]);
    }

    #[test]
    fn a_lapsed_or_missing_coordinator_is_replaced() {
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

    /// A wedged coordinator renews its lease but completes no rounds, so it does not plan.
    #[test]
    fn a_wedged_coordinator_is_replaced_after_two_validities() {
        let mut standby = standby();
        for now in (0..60).step_by(10) {
            standby.read(Some(&record(now, 5)), when(now));
            assert_eq!(ahead_in(&standby, 0, now), None, "{now}");
        }
        standby.read(Some(&record(60, 5)), when(60));
        assert_eq!(ahead_in(&standby, 0, 60), Some(0));
    }

    #[test]
    fn deputies_read_the_session_at_each_poll_and_others_once_per_renewal() {
        let mut standby = standby();
        let due = |standby: &Standby, place, now| standby.is_due(place, at(now));
        assert!(due(&standby, Place::Other, 0));
        standby.read(Some(&record(1, 1)), when(0));
        assert!(due(&standby, Place::Deputy, 2) && due(&standby, Place::Joining, 2));
        assert!(!due(&standby, Place::Other, 10) && due(&standby, Place::Other, 11));
        standby.unchanged(when(11));
        assert!(due(&standby, Place::Other, 12), "the coordinator is silent");
        assert!(!standby.is_silent(at(11)) && standby.is_silent(at(12)));
    }
}
