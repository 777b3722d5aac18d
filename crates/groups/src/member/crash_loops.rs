//! Delays members that crash repeatedly (GC7). A name relapses if a session of this name ends
//! without a resignation soon after the session was added. The next sessions of the name must wait
//! before they join. After new names have relapsed in two rounds, the sessions of other new names
//! must wait, too.
//!
//! Each member keeps the relapses only in memory, so a new coordinator does not know the relapses
//! that an earlier coordinator saw. No invariant depends on them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::doubled;
use crate::protocol::{Assignment, Session};
use tenure::Moment;

/// A name relapses if a session of this name ends without a resignation within this number of
/// validities after the session was added. This time includes the last validity, in which a lapsing
/// session is already silent.
const STABLE: u32 = 3;
/// The longest time that a session must wait before it joins, in validities.
const LONGEST: u32 = 8;
/// A name with at least this number of relapses crashes frequently. Its next session must wait even
/// if partitions are reserved for the name.
const FREQUENT: u32 = 3;
/// A name has relapsed if a session of this name ended soon after it was added. The coordinator
/// forgets such a name if, for this number of validities, the name has not relapsed again and none
/// of its sessions has waited.
const FORGOTTEN: u32 = 2 * LONGEST;

/// The facts that a coordinator remembers about the members that it added.
#[derive(Debug, Default)]
pub(super) struct CrashLoops {
    /// Name of each member, and the time at which this coordinator added it; `None` if another
    /// coordinator added the member.
    members: BTreeMap<Session, (Arc<str>, Option<Moment>)>,
    names: BTreeMap<Arc<str>, Relapsed>,
    /// Counts the calls of [`note`](Self::note) that recorded the first relapse of at least one
    /// name. `last` is the time of the last such call, or of the last wait that this count caused.
    /// Some processes have their process id in their name, so each restart has a new name. Only
    /// this count makes such a process wait.
    new_names: Option<Relapsed>,
    /// Time at which this coordinator first saw each joining session.
    waiting: BTreeMap<Session, Moment>,
}

#[derive(Debug)]
struct Relapsed {
    times: u32,
    last: Moment,
}

impl Relapsed {
    fn once_more(before: Option<&Relapsed>, now: Moment) -> Relapsed {
        Relapsed { times: before.map_or(1, |it| it.times.saturating_add(1)), last: now }
    }

    fn is_over(&self, validity: Duration, now: Moment) -> bool {
        now.since(self.last) >= validity * FORGOTTEN
    }
}

impl CrashLoops {
    /// Records the members of an assignment. If the session of a recently added member ended
    /// without a resignation (`lapsed` returns true), records a relapse of the member's name.
    pub(super) fn note(
        &mut self,
        known: &Assignment,
        lapsed: impl Fn(Session) -> bool,
        validity: Duration,
        now: Moment,
    ) {
        let first = self.members.is_empty();
        for member in &known.members {
            let added = (!first).then_some(now);
            self.members.entry(member.session).or_insert((Arc::clone(&member.name), added));
        }
        let names = &mut self.names;
        let mut is_new = false;
        self.members.retain(|session, (name, added)| {
            let relapsed = added.is_some_and(|added| now.since(added) < validity * STABLE);
            let ended = lapsed(*session);
            if ended && relapsed {
                let before = names.get(name);
                is_new |= before.is_none();
                let relapsed = Relapsed::once_more(before, now);
                names.insert(Arc::clone(name), relapsed);
                *added = None;
            }
            known.member(*session).is_some()
        });
        names.retain(|_, relapsed| !relapsed.is_over(validity, now));
        self.new_names.take_if(|relapsed| relapsed.is_over(validity, now));
        if is_new {
            self.new_names = Some(Relapsed::once_more(self.new_names.as_ref(), now));
        }
    }

    /// Returns whether a live session of this name must wait before it joins. If the name has
    /// relapsed, the number of its relapses determines the wait. Otherwise, the wait depends on the
    /// number of rounds in which new names relapsed. The first of these rounds causes no wait.
    pub(super) fn delays(
        &mut self,
        session: Session,
        name: &str,
        validity: Duration,
        now: Moment,
    ) -> bool {
        let (relapsed, excused) = match self.names.get_mut(name) {
            Some(relapsed) => (Some(relapsed), 1),
            None => (self.new_names.as_mut(), 2),
        };
        let Some(relapsed) = relapsed else { return false };
        let Some(before) = relapsed.times.checked_sub(excused) else { return false };
        let delay = doubled(validity / 2, validity * LONGEST, before);
        let since = *self.waiting.entry(session).or_insert(now);
        let delays = now.since(since) < delay;
        if delays {
            relapsed.last = now;
        }
        delays
    }

    /// Returns whether the next session of this name must wait even if partitions are reserved for
    /// the name. It must wait if at least [`FREQUENT`] of its sessions ended soon after they were
    /// added.
    pub(super) fn are_frequent(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|relapsed| relapsed.times >= FREQUENT)
    }

    /// Forgets the sessions that do not wait to join.
    pub(super) fn forget_all_but(&mut self, is_waiting: impl Fn(Session) -> bool) {
        self.waiting.retain(|session, _| is_waiting(*session));
    }

    /// Forgets the members and their times, because another member is now the coordinator and adds
    /// members.
    pub(super) fn stop(&mut self) {
        self.members.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Member;
    use crate::test_values::{at, session};
    use tenure::internals::groups::Nonce;

    const VALIDITY: Duration = Duration::from_secs(30);

    /// Returns an assignment with these members. Member 1 has the name "a", all others the name
    /// "b".
    fn known(members: &[u128]) -> Assignment {
        let mut it = Assignment::first(Nonce::from_bits(1), Vec::new());
        let name = |id| if id == 1 { "a" } else { "b" };
        it.members = members.iter().map(|id| Member::new(session(*id), name(*id))).collect();
        it
    }

    fn note(it: &mut CrashLoops, members: &[u128], lapsed: &[u128], now: u64) {
        let lapsed = |one| lapsed.iter().any(|id| session(*id) == one);
        it.note(&known(members), lapsed, VALIDITY, at(now));
    }

    fn delays(it: &mut CrashLoops, id: u128, name: &str, now: u64) -> bool {
        it.delays(session(id), name, VALIDITY, at(now))
    }

    #[test]
    fn each_relapse_of_a_name_doubles_its_wait() {
        let mut it = CrashLoops::default();
        note(&mut it, &[1], &[], 0);
        for (times, delay) in [(1, 15), (2, 30), (3, 60), (4, 120), (5, 240), (6, 240)] {
            let (id, now) = (10 + times, 1_000 * u64::try_from(times).unwrap());
            it.names.values_mut().for_each(|it| it.last = at(now));
            note(&mut it, &[1, id], &[], now);
            note(&mut it, &[1, id], &[id], now + 40);
            note(&mut it, &[1, id], &[id], now + 45);
            assert!(delays(&mut it, 99 + id, "b", now + 50));
            assert!(delays(&mut it, 99 + id, "b", now + 49 + delay), "{times}");
            assert!(!delays(&mut it, 99 + id, "b", now + 50 + delay), "{times}");
            assert!(!delays(&mut it, 98, "a", now + 50), "another name");
            assert_eq!(it.are_frequent("b"), times >= 3);
        }
    }

    #[test]
    fn regression_relapses_of_new_names_delay_other_new_names() {
        let mut it = CrashLoops::default();
        let add = |it: &mut CrashLoops, names: &[&str], now| {
            let mut known = known(&[1]);
            let member = |name: &&str| Member::new(session(name.len() as u128 + 9), *name);
            known.members.extend(names.iter().map(member));
            it.note(&known, |_| false, VALIDITY, at(now));
            it.note(&known, |one| one != session(1), VALIDITY, at(now + 40));
        };
        it.note(&known(&[1]), |_| false, VALIDITY, at(0));
        add(&mut it, &["x", "xx", "xxx"], 10);
        assert!(!delays(&mut it, 80, "new", 50), "relapses in one round count once");
        add(&mut it, &["xxxx"], 60);
        assert!(delays(&mut it, 81, "new", 100));
        assert!(!delays(&mut it, 81, "new", 115), "the session has lived for half a validity");
        add(&mut it, &["xxxxx"], 120);
        assert!(delays(&mut it, 82, "new", 160));
        assert!(delays(&mut it, 82, "new", 189), "the delay has doubled");
        assert!(!delays(&mut it, 82, "new", 190));
        it.note(&known(&[1]), |_| false, VALIDITY, at(190 + 480));
        assert!(!delays(&mut it, 83, "new", 190 + 480), "the relapses are forgotten");
    }

    #[test]
    fn stable_members_and_old_relapses_cause_no_wait() {
        let mut it = CrashLoops::default();
        note(&mut it, &[1, 2], &[], 0);
        note(&mut it, &[1, 2], &[2], 10);
        assert!(!delays(&mut it, 9, "b", 10), "another coordinator added the member");
        note(&mut it, &[1, 3], &[], 20);
        note(&mut it, &[1, 3], &[3], 110);
        assert!(!delays(&mut it, 9, "b", 110), "the session lived for three validities");
        note(&mut it, &[1, 4], &[], 120);
        note(&mut it, &[1, 4], &[4], 160);
        assert!(delays(&mut it, 9, "b", 160));
        note(&mut it, &[1], &[], 160 + 479);
        assert_eq!(it.names.len(), 1);
        note(&mut it, &[1], &[], 160 + 480);
        assert!(it.names.is_empty());
    }
}
