//! Tests the table against the rule of arrival. The rule grants a call if and only if no earlier
//! call in the table conflicts with it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use tenure_testkit::properties::cases;

/// The subject of a test: the real table, or a table with a deliberate error.
trait Subject {
    fn enter(&mut self, name: usize, operation: &Operation);
    /// Returns whether a call with this operation would be granted immediately.
    fn is_free(&self, operation: &Operation) -> bool;
    fn leave(&mut self, name: usize);
    fn is_granted(&self, name: usize) -> bool;
    fn is_empty(&self) -> bool;
}

/// The real table. A test can replace the function that computes the modes of a call.
struct Shipped {
    table: Table,
    calls: BTreeMap<usize, (Ticket, Modes)>,
    modes: fn(&Operation) -> Modes,
    /// Calls without a grant: the table did not grant them when they entered, and has not returned
    /// a grant for them since.
    unheard: BTreeSet<Ticket>,
}

impl Shipped {
    fn with(modes: fn(&Operation) -> Modes) -> Shipped {
        Shipped { table: Table::default(), calls: BTreeMap::new(), modes, unheard: BTreeSet::new() }
    }

    fn new() -> Shipped {
        Shipped::with(Operation::modes)
    }
}

impl Subject for Shipped {
    fn enter(&mut self, name: usize, operation: &Operation) {
        let modes = (self.modes)(operation);
        let ticket = self.table.enter(&modes);
        if !self.table.is_granted(ticket) {
            self.unheard.insert(ticket);
        }
        self.calls.insert(name, (ticket, modes));
    }

    fn is_free(&self, operation: &Operation) -> bool {
        self.table.is_free(&(self.modes)(operation))
    }

    fn leave(&mut self, name: usize) {
        let (ticket, modes) = self.calls.remove(&name).expect("the call has entered");
        self.unheard.remove(&ticket);
        for granted in self.table.leave(ticket, &modes) {
            assert!(
                self.unheard.remove(&granted),
                "a grant is returned once, and only for a waiting call"
            );
        }
    }

    /// Returns whether the call is granted. Asserts that the answer of the table agrees with the
    /// grants that the table has returned.
    fn is_granted(&self, name: usize) -> bool {
        let ticket = self.calls[&name].0;
        assert_eq!(self.table.is_granted(ticket), !self.unheard.contains(&ticket));
        self.table.is_granted(ticket)
    }

    fn is_empty(&self) -> bool {
        self.table.locked_paths() == 0
    }
}

/// The rule of arrival. The tests compare each subject with it.
#[derive(Default)]
struct Naive {
    /// Calls in the order of arrival.
    calls: Vec<(usize, Operation)>,
}

impl Naive {
    fn is_granted(&self, at: usize) -> bool {
        let (before, this) = (&self.calls[..at], &self.calls[at].1);
        before.iter().all(|(_, other)| !other.conflicts_with(this))
    }

    fn judge(&self, subject: &dyn Subject) -> Result<(), String> {
        for (at, (name, operation)) in self.calls.iter().enumerate() {
            let (is, should) = (subject.is_granted(*name), self.is_granted(at));
            if is != should {
                return Err(format!("{}: {operation:?}", amiss(is)));
            }
        }
        match self.calls.is_empty() && !subject.is_empty() {
            true => Err("locks remain that no call holds".to_owned()),
            false => Ok(()),
        }
    }
}

fn amiss(granted: bool) -> &'static str {
    if granted { "granted too early" } else { "granted too late" }
}

#[derive(Debug, Clone)]
enum Deed {
    Enters(Operation),
    /// One of the calls in the table leaves, whether the call is granted or waiting.
    Leaves(prop::sample::Index),
}

/// Applies a sequence of arrivals and departures, and removes all calls at the end.
fn play(story: &[Deed], subject: &mut dyn Subject) -> Result<(), String> {
    let (mut naive, mut names) = (Naive::default(), 0..);
    for deed in story {
        match deed {
            Deed::Enters(operation) => {
                let free = naive.calls.iter().all(|(_, other)| !other.conflicts_with(operation));
                if subject.is_free(operation) != free {
                    return Err(format!("{}: {operation:?}", amiss(!free)));
                }
                let name = names.next().expect("there are enough names");
                subject.enter(name, operation);
                naive.calls.push((name, operation.clone()));
            }
            Deed::Leaves(_) if naive.calls.is_empty() => {}
            Deed::Leaves(index) => {
                let (name, _) = naive.calls.remove(index.index(naive.calls.len()));
                subject.leave(name);
            }
        }
        naive.judge(subject)?;
    }
    while let Some((name, _)) = naive.calls.pop() {
        subject.leave(name);
        naive.judge(subject)?;
    }
    Ok(())
}

fn paths() -> impl Strategy<Value = BTreeSet<Path>> {
    let deeper = proptest::collection::vec("[abc]", 1..5)
        .prop_map(|components| path(&format!("/{}", components.join("/"))));
    let one = prop_oneof![3 => prop::sample::select(&TREE[..]).prop_map(path), 1 => deeper];
    proptest::collection::btree_set(one, 0..3)
}

fn story() -> impl Strategy<Value = Vec<Deed>> {
    let operation = (paths(), paths()).prop_map(|(reads, writes)| Operation { reads, writes });
    let deed = prop_oneof![
        3 => operation.prop_map(Deed::Enters),
        2 => any::<prop::sample::Index>().prop_map(Deed::Leaves),
    ];
    proptest::collection::vec(deed, 1..40)
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_call_is_granted_unless_an_earlier_call_conflicts(story in story()) {
        let played = play(&story, &mut Shipped::new());
        prop_assert!(played.is_ok(), "{}", played.unwrap_err());
    }
}

/// Tests three calls with one or two paths each, in every order of arrival and departure.
#[test]
fn three_calls_keep_the_rule_in_every_order() {
    let ones: Vec<Operation> = TREE[..4]
        .iter()
        .flat_map(|path| [Operation::of(&[path], &[]), Operation::of(&[], &[path])])
        .chain([Operation::of(&["/a"], &["/a/b"]), Operation::of(&["/a/b"], &["/a"])])
        .collect();
    let mut played = 0;
    for [a, b, c] in triples(ones.len()) {
        let calls = [&ones[a], &ones[b], &ones[c]];
        every_order(&mut Vec::new(), &mut |order| {
            let mut subject = Shipped::new();
            let mut naive = Naive::default();
            for name in order {
                match naive.calls.iter().position(|(known, _)| known == name) {
                    Some(at) => {
                        naive.calls.remove(at);
                        subject.leave(*name);
                    }
                    None => {
                        subject.enter(*name, calls[*name]);
                        naive.calls.push((*name, calls[*name].clone()));
                    }
                }
                naive.judge(&subject).unwrap();
            }
            played += 1;
        });
    }
    assert_eq!(played, 10 * 10 * 10 * 90);
}

fn triples(of: usize) -> impl Iterator<Item = [usize; 3]> {
    (0..of).flat_map(move |a| (0..of).flat_map(move |b| (0..of).map(move |c| [a, b, c])))
}

/// Calls `act` with each sequence of six elements in which each of three names occurs twice.
fn every_order(order: &mut Vec<usize>, act: &mut dyn FnMut(&[usize])) {
    if order.len() == 6 {
        return act(order);
    }
    for name in 0..3 {
        if order.iter().filter(|known| **known == name).count() < 2 {
            order.push(name);
            every_order(order, act);
            order.pop();
        }
    }
}

/// A broken table. If a waiting call gives up, the table does not remove this call.
struct ForgetsWhoGivesUp(Shipped);

impl Subject for ForgetsWhoGivesUp {
    fn enter(&mut self, name: usize, operation: &Operation) {
        self.0.enter(name, operation);
    }

    fn is_free(&self, operation: &Operation) -> bool {
        self.0.is_free(operation)
    }

    fn leave(&mut self, name: usize) {
        if self.0.is_granted(name) {
            self.0.leave(name);
        }
    }

    fn is_granted(&self, name: usize) -> bool {
        self.0.is_granted(name)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A broken table that ignores waiting calls: it grants a call if no granted call conflicts with
/// it.
#[derive(Default)]
struct Unfair {
    granted: BTreeMap<usize, Operation>,
    waiting: BTreeMap<usize, Operation>,
}

impl Unfair {
    fn grant(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for (name, operation) in waiting {
            let to = if self.is_free(&operation) { &mut self.granted } else { &mut self.waiting };
            to.insert(name, operation);
        }
    }
}

impl Subject for Unfair {
    fn enter(&mut self, name: usize, operation: &Operation) {
        self.waiting.insert(name, operation.clone());
        self.grant();
    }

    fn is_free(&self, operation: &Operation) -> bool {
        self.granted.values().all(|other| !other.conflicts_with(operation))
    }

    fn leave(&mut self, name: usize) {
        self.granted.remove(&name);
        self.waiting.remove(&name);
        self.grant();
    }

    fn is_granted(&self, name: usize) -> bool {
        self.granted.contains_key(&name)
    }

    fn is_empty(&self) -> bool {
        self.granted.is_empty() && self.waiting.is_empty()
    }
}

/// Returns the first failure that proptest finds with random sequences of arrivals and departures.
#[track_caller]
fn caught<S: Subject>(subject: impl Fn() -> S) -> String {
    use proptest::test_runner::{Config, TestError, TestRunner};
    let config = Config { failure_persistence: None, ..cases(2_000) };
    let mut runner = TestRunner::new(config);
    let outcome =
        runner.run(&story(), |story| play(&story, &mut subject()).map_err(TestCaseError::fail));
    match outcome.unwrap_err() {
        TestError::Fail(why, _) => why.to_string(),
        TestError::Abort(why) => panic!("{why}"),
    }
}

#[test]
fn broken_modes_that_grant_too_early_are_caught() {
    assert!(caught(|| Shipped::with(modes_of_the_post)).contains("granted too early"));
}

#[test]
fn broken_cancelled_call_that_stays_in_the_table_is_caught() {
    let why = caught(|| ForgetsWhoGivesUp(Shipped::new()));
    assert!(why.contains("granted too late") || why.contains("locks remain"), "{why}");
}

#[test]
fn broken_readers_that_overtake_a_writer_are_caught() {
    assert!(caught(Unfair::default).contains("granted too early"));
    // The broken table never grants the call of a writer of the root, because new readers overtake
    // this call.
    let mut unfair = Unfair::default();
    let mut fair = Shipped::new();
    let (read, write) = (Operation::of(&["/a"], &[]), Operation::of(&[], &["/"]));
    for subject in [&mut unfair as &mut dyn Subject, &mut fair] {
        subject.enter(0, &read);
        subject.enter(1, &write);
        for reader in 2..100 {
            subject.enter(reader, &read);
            subject.leave(if reader == 2 { 0 } else { reader - 1 });
            if subject.is_granted(1) {
                break;
            }
        }
    }
    assert!(!unfair.is_granted(1) && fair.is_granted(1));
}
