//! Checks the promises of the assignor. With few seats and shares, the checks compare its plan with
//! all possible plans. With more seats and shares, only the checks without this comparison run.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::*;
use tenure_testkit::properties::cases;

mod broken;

type Plan = Vec<Option<usize>>;

/// The input of an assignor.
#[derive(Debug, Clone)]
struct Group {
    seats: Vec<(Arc<str>, u32)>,
    shares: Vec<Marked>,
}

#[derive(Debug, Clone, Default)]
struct Marked {
    holder: Option<usize>,
    marks: Marks,
    avoid: Vec<Arc<str>>,
    kept: Option<Arc<str>>,
}

/// The properties of the random groups that a check receives.
#[derive(Debug, Clone, Copy)]
struct Kind {
    seats: usize,
    shares: usize,
    weights: bool,
    marks: bool,
}

const SMALL: Kind = Kind { seats: 4, shares: 8, weights: false, marks: false };
const LARGE: Kind = Kind { seats: 12, shares: 60, weights: false, marks: false };

impl Kind {
    fn weighted(self) -> Kind {
        Kind { weights: true, ..self }
    }

    fn marked(self) -> Kind {
        Kind { marks: true, ..self }
    }

    fn draw(self) -> impl Strategy<Value = Group> {
        (1..=self.seats, 0..=self.shares).prop_flat_map(move |(seats, shares)| {
            // Select the number of seats that can hold shares: all seats, some of them, or none.
            let holders = prop_oneof![Just(seats), 1..=seats, Just(0)];
            let weights: RangeInclusive<u32> = if self.weights { 1..=4 } else { 1..=1 };
            let seats = vec((any::<Index>(), 0..8, weights), seats);
            (seats, holders).prop_flat_map(move |(seats, holders)| {
                let name = |(own, (other, namesake, weight)): (usize, &(Index, i32, u32))| {
                    let namesake = self.marks && *namesake == 0;
                    (letter(if namesake { other.index(own + 1) } else { own }), *weight)
                };
                let seats: Vec<_> = seats.iter().enumerate().map(name).collect();
                let share = share(self.marks, seats.len(), holders);
                vec(share, shares).prop_map(move |shares| Group { seats: seats.clone(), shares })
            })
        })
    }
}

fn letter(number: usize) -> Arc<str> {
    char::from(b'a' + u8::try_from(number).expect("few seats")).to_string().into()
}

fn share(marked: bool, seats: usize, holders: usize) -> impl Strategy<Value = Marked> {
    let holder = prop::option::weighted(0.8, 0..holders.max(1));
    let holder = holder.prop_map(move |holder| holder.filter(|_| holders > 0));
    let names = (0..=seats).prop_map(letter);
    // A random number selects the marks. They may contain names that no seat has.
    let marks = (0..if marked { 16 } else { 1 }, names.clone(), names);
    (holder, marks).prop_map(|(holder, (kind, one, other))| {
        let mut share = Marked { holder, ..Marked::default() };
        match kind {
            0..5 => {}
            5 | 6 => share.marks.pinned = Some(one),
            7..10 => share.marks.barred = Some(one),
            10 => share.avoid = vec![one],
            11 => share.kept = Some(one),
            12 => share.marks.paused = true,
            13 => share.marks.retiring = true,
            14 => (share.marks.barred, share.avoid) = (Some(one), vec![other]),
            _ => (share.marks.pinned, share.avoid) = (Some(one), vec![other]),
        }
        share
    })
}

impl Group {
    fn assign(&self, assignor: &dyn Assignor) -> Plan {
        let seat = |(name, weight)| Seat::new(name, weight);
        let seats: Vec<_> = self.seats.iter().map(|(name, weight)| seat((name, *weight))).collect();
        let shares: Vec<_> = self.shares.iter().map(Marked::share).collect();
        assignor.assign(&seats, &shares)
    }

    fn allows(&self, share: usize, seat: usize) -> bool {
        let (name, weight) = &self.seats[seat];
        self.shares[share].share().allows(&Seat::new(name, *weight))
    }

    fn held_as(&self, plan: &Plan) -> Group {
        let hold = |(share, holder): (&Marked, &_)| Marked { holder: *holder, ..share.clone() };
        let shares = self.shares.iter().zip(plan).map(hold).collect();
        Group { seats: self.seats.clone(), shares }
    }

    fn counts(&self, plan: &Plan) -> Vec<usize> {
        let mut counts = vec![0; self.seats.len()];
        plan.iter().flatten().for_each(|seat| counts[*seat] += 1);
        counts
    }

    /// Returns the number of shares that move from a holder to another seat.
    fn moves(&self, plan: &Plan) -> usize {
        let moved = |(now, then): &(&Marked, &Option<usize>)| {
            now.holder.is_some() && then.is_some() && now.holder != **then
        };
        self.shares.iter().zip(plan).filter(moved).count()
    }

    /// Makes all permitted plans in which each share with a permitted seat has a seat. Returns a
    /// map from the seats' numbers of shares to the fewest moves that lead to these numbers.
    fn all_plans(&self) -> BTreeMap<Vec<usize>, usize> {
        let mut plans = BTreeMap::from([(vec![0; self.seats.len()], 0)]);
        for (number, share) in self.shares.iter().enumerate() {
            let able = (0..self.seats.len()).filter(|seat| self.allows(number, *seat));
            let able: Vec<_> = able.collect();
            if able.is_empty() {
                continue;
            }
            let mut next = BTreeMap::new();
            for (counts, moves) in &plans {
                for seat in &able {
                    let mut counts = counts.clone();
                    counts[*seat] += 1;
                    let moved = share.holder.is_some_and(|holder| holder != *seat);
                    let moves = moves + usize::from(moved);
                    let least = next.entry(counts).or_insert(moves);
                    *least = moves.min(*least);
                }
            }
            plans = next;
        }
        plans
    }

    /// Returns the part of `total` that each seat gets by its weight, rounded down and up.
    fn proportions(&self, total: usize) -> Vec<(usize, usize)> {
        let all: usize = self.seats.iter().map(|(_, weight)| *weight as usize).sum();
        let parts = self.seats.iter().map(|(_, weight)| total * *weight as usize);
        parts.map(|parts| (parts / all, parts.div_ceil(all))).collect()
    }

    /// Returns the imbalance of these counts, which [`StickyAssignor`] makes as small as possible.
    /// The floor and the ceiling are the proportion of a seat, rounded down and up. The first
    /// number is the number of shares above the ceilings plus the number missing below the floors.
    /// The second number is the sum of 12 × count² / weight. Each weight divides 12.
    fn imbalance(&self, counts: &[usize]) -> (usize, usize) {
        let proportions = self.proportions(counts.iter().sum());
        let each = counts.iter().zip(proportions).zip(&self.seats);
        each.fold((0, 0), |(outside, squares), ((count, (floor, ceiling)), (_, weight))| {
            let due = *count.min(&floor);
            let excess = *count.max(&ceiling);
            let square = due * due + excess * excess - ceiling * ceiling;
            let square = square * 12 / *weight as usize;
            (outside + floor - due + excess - ceiling, squares + square)
        })
    }
}

impl Marked {
    fn share(&self) -> Share<'_> {
        let (avoid, kept) = (&self.avoid, self.kept.as_deref());
        Share {
            holder: self.holder,
            avoid,
            kept,
            ..Share::new(PartitionNumber(0), "", &self.marks)
        }
    }
}

/// Checks groups without marks: each seat gets its proportion of the shares, rounded down or up.
fn within_one(assignor: &dyn Assignor, group: &Group) -> Result<(), TestCaseError> {
    let plan = group.assign(assignor);
    prop_assert!(plan.iter().all(Option::is_some));
    let counts = group.counts(&plan);
    for (count, (floor, ceiling)) in counts.iter().zip(group.proportions(plan.len())) {
        prop_assert!((floor..=ceiling).contains(count), "{counts:?}");
    }
    Ok(())
}

/// Checks groups without marks: no balanced plan has fewer moves than the assignor's plan. A
/// balanced plan gives each seat its proportion, rounded down or up.
fn fewest_moves(assignor: &dyn Assignor, group: &Group) -> Result<(), TestCaseError> {
    let proportions = group.proportions(group.shares.len());
    let balanced = |counts: &[usize]| {
        let mut all = proportions.iter().zip(counts);
        all.all(|((floor, ceiling), count)| (floor..=ceiling).contains(&count))
    };
    let plans = group.all_plans();
    let fewest = plans.iter().filter(|(counts, _)| balanced(counts)).map(|(_, moves)| *moves).min();
    prop_assert_eq!(Some(group.moves(&group.assign(assignor))), fewest);
    Ok(())
}

fn deterministic(assignor: &dyn Assignor, group: &Group) -> Result<(), TestCaseError> {
    prop_assert_eq!(group.assign(assignor), group.assign(assignor));
    Ok(())
}

fn lawful(assignor: &dyn Assignor, group: &Group) -> Result<(), TestCaseError> {
    let plan = group.assign(assignor);
    prop_assert_eq!(plan.len(), group.shares.len());
    for (share, seat) in plan.iter().enumerate() {
        match seat {
            Some(seat) => prop_assert!(group.allows(share, *seat)),
            None => prop_assert!((0..group.seats.len()).all(|seat| !group.allows(share, seat))),
        }
    }
    Ok(())
}

fn balanced(assignor: &dyn Assignor, group: &Group) -> Result<(), TestCaseError> {
    let plan = group.assign(assignor);
    let own = group.imbalance(&group.counts(&plan));
    let least = group.all_plans().keys().map(|counts| group.imbalance(counts)).min();
    prop_assert_eq!(Some(own), least);
    Ok(())
}

/// Checks the same as [`balanced`] for equal weights, with a simpler rule.
fn least_squares(assignor: &dyn Assignor, group: &Group) -> Result<(), TestCaseError> {
    let squares = |counts: &Vec<usize>| counts.iter().map(|it| it * it).sum::<usize>();
    let least = group.all_plans().keys().map(squares).min();
    prop_assert_eq!(Some(squares(&group.counts(&group.assign(assignor)))), least);
    Ok(())
}

/// Checks that the assignor does not change a plan that is already as balanced as the marks allow.
/// The check makes this plan with the seats in reverse order. So the plan can differ from the
/// assignor's plan for the group itself.
fn balanced_plans_stay(assignor: &dyn Assignor, group: &Group) -> Result<(), TestCaseError> {
    let last = group.seats.len() - 1;
    let turned = |plan: Plan| -> Plan { plan.into_iter().map(|at| Some(last - at?)).collect() };
    let holders = group.shares.iter().map(|share| share.holder).collect();
    let mut mirrored = group.held_as(&turned(holders));
    mirrored.seats.reverse();
    let other = turned(mirrored.assign(&StickyAssignor));
    prop_assert_eq!(group.held_as(&other).assign(assignor), other);
    Ok(())
}

/// Returns the fewest moves of all plans with the best balance, and the number of additional moves
/// in the assignor's plan. Returns `None` if the assignor's plan does not have the best balance.
fn unnecessary_moves(assignor: &dyn Assignor, group: &Group) -> Option<(usize, usize)> {
    let plans = group.all_plans();
    let least = plans.keys().map(|counts| group.imbalance(counts)).min();
    let best = plans.iter().filter(|(counts, _)| Some(group.imbalance(counts)) == least);
    let fewest = best.map(|(_, moves)| *moves).min()?;
    let plan = group.assign(assignor);
    let balanced = Some(group.imbalance(&group.counts(&plan))) == least;
    balanced.then(|| (fewest, group.moves(&plan) - fewest))
}

fn stable(assignor: &dyn Assignor, group: &Group) -> Result<(), TestCaseError> {
    let plan = group.assign(assignor);
    prop_assert_eq!(group.held_as(&plan).assign(assignor), plan);
    Ok(())
}

/// Checks groups without marks and with equal weights. If a seat joins M seats with N shares, at
/// most ⌈N / (M + 1)⌉ shares move, all to the new seat.
fn join(assignor: &dyn Assignor, group: &Group) -> Result<(), TestCaseError> {
    let before = group.assign(assignor);
    let mut group = group.held_as(&before);
    let newcomer = group.seats.len();
    group.seats.push((letter(newcomer), 1));
    let after = group.assign(assignor);
    prop_assert!(group.moves(&after) <= after.len().div_ceil(newcomer + 1));
    let mut moved = before.iter().zip(&after).filter(|(holder, seat)| holder != seat);
    prop_assert!(moved.all(|(_, seat)| *seat == Some(newcomer)));
    Ok(())
}

/// Checks groups without marks and with equal weights: if a seat leaves, only its shares move.
fn leave(assignor: &dyn Assignor, group: &Group) -> Result<(), TestCaseError> {
    let mut group = group.held_as(&group.assign(assignor));
    if group.seats.len() == 1 {
        return Ok(());
    }
    // The number of shares is random, so this index selects a random seat that leaves.
    let leaver = group.shares.len() % group.seats.len();
    group.seats.remove(leaver);
    for share in &mut group.shares {
        share.holder = share.holder.filter(|holder| *holder != leaver);
        share.holder = share.holder.map(|holder| holder - usize::from(holder > leaver));
    }
    prop_assert_eq!(group.moves(&group.assign(assignor)), 0);
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn counts_are_within_one_of_the_proportion(
        equal in LARGE.draw(), weighted in LARGE.weighted().draw(),
    ) {
        within_one(&StickyAssignor, &equal)?;
        within_one(&StickyAssignor, &weighted)?;
    }

    #[test]
    fn no_balanced_plan_moves_fewer_shares(
        equal in SMALL.draw(), weighted in SMALL.weighted().draw(),
    ) {
        fewest_moves(&StickyAssignor, &equal)?;
        fewest_moves(&StickyAssignor, &weighted)?;
    }

    #[test]
    fn the_same_input_gives_the_same_plan(group in LARGE.weighted().marked().draw()) {
        deterministic(&StickyAssignor, &group)?;
    }

    #[test]
    fn marks_are_respected_and_each_permitted_share_has_a_seat(
        small in SMALL.marked().draw(), large in LARGE.weighted().marked().draw(),
    ) {
        lawful(&StickyAssignor, &small)?;
        lawful(&StickyAssignor, &large)?;
    }

    #[test]
    fn counts_are_as_balanced_as_the_marks_allow(
        equal in SMALL.marked().draw(), weighted in SMALL.weighted().marked().draw(),
    ) {
        balanced(&StickyAssignor, &equal)?;
        least_squares(&StickyAssignor, &equal)?;
        balanced(&StickyAssignor, &weighted)?;
    }

    #[test]
    fn a_balanced_plan_does_not_change(
        small in SMALL.weighted().marked().draw(), large in LARGE.weighted().marked().draw(),
    ) {
        balanced_plans_stay(&StickyAssignor, &small)?;
        balanced_plans_stay(&StickyAssignor, &large)?;
    }

    #[test]
    fn the_assignors_own_plan_does_not_change(
        small in SMALL.weighted().marked().draw(), large in LARGE.weighted().marked().draw(),
    ) {
        stable(&StickyAssignor, &small)?;
        stable(&StickyAssignor, &large)?;
    }

    #[test]
    fn a_join_or_a_leave_moves_shares_only_to_or_from_that_seat(group in LARGE.draw()) {
        join(&StickyAssignor, &group)?;
        leave(&StickyAssignor, &group)?;
    }
}

/// Returns the number of plans with unnecessary moves, and the most such moves in one plan.
fn restless(assignor: &dyn Assignor, plans: u32) -> (u32, usize) {
    let mut runner = TestRunner::deterministic();
    let mut found = (0, 0);
    for _ in 0..plans {
        let group = SMALL.weighted().marked().draw().new_tree(&mut runner).unwrap().current();
        if let Some((_, more)) = unnecessary_moves(assignor, &group).filter(|(_, more)| *more > 0) {
            found = (found.0 + 1, found.1.max(more));
        }
    }
    found
}

#[test]
fn few_plans_with_marks_move_one_share_more_than_necessary() {
    let (plans, most) = restless(&StickyAssignor, 4_000);
    assert!(plans <= 20 && most <= 1, "{plans} of 4000 plans move up to {most} shares too many");
}
