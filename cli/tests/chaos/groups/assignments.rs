//! Watches the assignments during the run. Records their times and grants, and checks that the
//! newest assignment exists.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;

use super::worker::Grant;
use crate::backend::Backend;
use crate::child::now_ns;
use crate::watch::Seen;

#[derive(Default)]
pub struct Assignments {
    /// For each assignment, the interval in which it was created. The map includes assignments that
    /// were compacted before a poll saw them.
    pub made: BTreeMap<u64, Seen>,
    /// The session of the member that got each grant.
    pub grants: BTreeMap<Grant, String>,
    pub newest: Option<Assignment>,
    body: Bytes,
    /// A time shortly before the start of the last poll that found no assignment after `newest`.
    nothing_above_ns: u64,
    /// Descriptions of the observations that break a rule of groups.
    pub wrong: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Assignment {
    epoch: u64,
    /// Index into `members`. The other types of this file also use indexes into `members`.
    coordinator: Option<usize>,
    members: Vec<Member>,
    partitions: Vec<Partition>,
}

#[derive(Clone, Debug, Deserialize)]
struct Member {
    id: String,
    name: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Partition {
    name: String,
    owner: Option<usize>,
    token: Option<u64>,
    target: Option<usize>,
}

impl Assignment {
    pub fn coordinator(&self) -> Option<&str> {
        self.members.get(self.coordinator?).map(|member| &*member.name)
    }

    pub fn owns(&self, member: &str) -> bool {
        let owners = self.partitions.iter().filter_map(|partition| partition.owner);
        owners.into_iter().any(|owner| self.members[owner].name == member)
    }

    /// Returns whether the group has this number of members, their numbers of partitions differ by
    /// at most one, and no partition is about to move.
    pub fn is_balanced(&self, members: usize) -> bool {
        let moves =
            |it: &Partition| it.owner.is_none() || it.target.is_some_and(|_| it.target != it.owner);
        let count = |member| self.partitions.iter().filter(|it| it.owner == Some(member)).count();
        let counts: Vec<_> = (0..self.members.len()).map(count).collect();
        let (least, most) = (counts.iter().min(), counts.iter().max());
        let even = least.zip(most).is_some_and(|(least, most)| most - least <= 1);
        counts.len() == members && even && !self.partitions.iter().any(moves)
    }
}

impl Assignments {
    /// Polls once, and returns whether the store answered. After a failure, the next poll observes
    /// the missed changes.
    pub fn look(&mut self, backend: &Backend) -> bool {
        self.read(backend).is_ok()
    }

    fn number(&self) -> u64 {
        self.newest.as_ref().map_or(0, |newest| newest.epoch)
    }

    fn read(&mut self, backend: &Backend) -> Result<(), ()> {
        let mut next = self.number() + 1;
        if next > 1 {
            match backend.epoch_object(next - 1)? {
                Some(body) if body != self.body => {
                    self.wrong.push(format!("assignment {} was overwritten", next - 1));
                }
                Some(_) => {}
                // The object is missing. If a newer assignment exists, the compactor has deleted
                // this object. If none exists, the store has lost the object.
                None => match backend.epochs_after(next - 1)?.first() {
                    Some(first) => next = *first,
                    None => {
                        self.wrong.push(format!("assignment {}, the newest, is missing", next - 1));
                    }
                },
            }
        }
        loop {
            let looked_ns = now_ns();
            let Some(body) = backend.epoch_object(next)? else {
                if next == self.number() + 1 {
                    self.nothing_above_ns = looked_ns;
                }
                return Ok(());
            };
            let seen = Seen { from_ns: self.nothing_above_ns, until_ns: now_ns() };
            self.note(next, body, seen);
            next += 1;
        }
    }

    fn note(&mut self, number: u64, body: Bytes, seen: Seen) {
        for skipped in self.number() + 1..=number {
            self.made.insert(skipped, seen);
        }
        let assignment: Assignment = serde_json::from_slice(&body).expect("assignments are JSON");
        for partition in &assignment.partitions {
            let (Some(owner), Some(token)) = (partition.owner, partition.token) else { continue };
            let grant = Grant { partition: partition.name.parse().expect("a number"), token };
            let session = &assignment.members[owner].id;
            let granted = self.grants.entry(grant).or_insert_with(|| session.clone());
            if granted != session {
                self.wrong.push(format!("{grant:?} was granted to {granted} and to {session}"));
            }
        }
        let tokens = |assignment: &Assignment| {
            let tokens = assignment.partitions.iter().map(|it| (it.name.clone(), it.token));
            tokens.collect::<BTreeMap<_, _>>()
        };
        if let Some(before) = &self.newest {
            let before = tokens(before);
            for (name, token) in tokens(&assignment) {
                if before.get(&name).is_some_and(|before| *before > token) {
                    self.wrong
                        .push(format!("assignment {number} lowers the token of {name}: {token:?}"));
                }
            }
        }
        (self.newest, self.body) = (Some(assignment), body);
    }
}

mod tests {
    use super::*;

    fn noted(assignments: &[String]) -> Assignments {
        let mut watch = Assignments::default();
        for (at, body) in (1..).zip(assignments) {
            let seen = Seen { from_ns: at * 100, until_ns: at * 100 + 10 };
            watch.note(at, Bytes::from(body.clone()), seen);
        }
        watch
    }

    fn assignment(epoch: u64, owner: usize, token: u64) -> String {
        format!(
            r#"{{"epoch":{epoch},"coordinator":0,"members":[{{"id":"a","name":"m0"}},
                {{"id":"b","name":"m1"}}],"partitions":[{{"name":"0","owner":{owner},
                "token":{token}}}]}}"#
        )
    }

    #[test]
    fn a_new_owner_has_a_new_token() {
        let watch = noted(&[assignment(1, 0, 1), assignment(2, 0, 1), assignment(3, 1, 3)]);
        assert!(watch.wrong.is_empty(), "{:?}", watch.wrong);
        let grant = |token| Grant { partition: 0, token };
        let grants: Vec<_> = watch.grants.into_iter().collect();
        assert_eq!(grants, [(grant(1), "a".to_owned()), (grant(3), "b".to_owned())]);
        assert_eq!(watch.newest.expect("an assignment exists").coordinator(), Some("m0"));
    }

    #[test]
    fn broken_grant_of_one_token_to_two_sessions_is_caught() {
        let watch = noted(&[assignment(1, 0, 1), assignment(2, 1, 1)]);
        assert!(watch.wrong[0].contains("was granted to a and to b"), "{:?}", watch.wrong);
    }

    #[test]
    fn broken_token_that_decreases_is_caught() {
        let watch = noted(&[assignment(1, 0, 1), assignment(2, 1, 2), assignment(3, 0, 1)]);
        assert!(watch.wrong[0].contains("lowers the token"), "{:?}", watch.wrong);
    }

    #[test]
    fn broken_deletion_and_overwrite_of_an_assignment_are_caught() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let backend = Backend::dir(dir.path()).of_group(0);
        let mut watch = Assignments::default();
        watch.look(&backend);
        backend.make_epoch_object(1, r#"{"epoch":1,"members":[],"partitions":[]}"#);
        watch.look(&backend);
        assert!(watch.wrong.is_empty() && watch.made.len() == 1, "{:?}", watch.wrong);
        backend.delete_epoch_object(1);
        watch.look(&backend);
        assert_eq!(watch.wrong, ["assignment 1, the newest, is missing"]);
        backend.make_epoch_object(1, r#"{"epoch":1, "members":[],"partitions":[]}"#);
        watch.look(&backend);
        assert_eq!(watch.wrong[1..], ["assignment 1 was overwritten"]);
        // Assignment 2 is created and compacted between two polls. The watch sees the assignments 1
        // and 3, and infers from the gap that assignment 2 was created.
        backend.delete_epoch_object(1);
        backend.make_epoch_object(3, r#"{"epoch":3,"members":[],"partitions":[]}"#);
        watch.look(&backend);
        assert_eq!(watch.made.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn equal_shares_without_moves_are_balanced() {
        let newest =
            |owner| noted(&[assignment(1, owner, 1)]).newest.expect("an assignment exists");
        assert!(newest(0).is_balanced(2) && newest(1).owns("m1") && !newest(1).owns("m0"));
        assert!(!newest(0).is_balanced(3));
    }
}
