//! Assignors with deliberate defects. Each defect breaks a promise, and the checks must find it.

use std::collections::HashMap;

use proptest::test_runner::{RngAlgorithm, TestError, TestRng};

use super::*;

type Check = fn(&dyn Assignor, &Group) -> Result<(), TestCaseError>;

/// An assignor with a deliberate defect.
#[derive(Debug, Clone, Copy)]
enum Broken {
    /// A holder keeps as many shares as its weight entitles it to, rounded up, even if another seat
    /// then has too few shares.
    KeepsTheCeiling,
    /// Ignores the holders.
    Afresh,
    /// Takes the seats in the order of a hash map.
    HashOrder,
    /// Ignores the names of seats that a share must avoid.
    IgnoresAvoid,
    /// Leaves a share without a seat if its holder may not have it.
    GivesUp,
    /// Makes two plans: one for the shares that any seat may have, and one for the restricted
    /// shares.
    Apart,
    /// Moves a share only directly to a seat with room, and never by a chain of moves.
    WithoutChains,
    IgnoresWeights,
    /// In each plan, moves each share to the seat after its holder.
    Rotates,
}

impl Assignor for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn assign(&self, seats: &[Seat<'_>], shares: &[Share<'_>]) -> Plan {
        let held = |holder: &dyn Fn(&Share<'_>) -> Option<usize>| -> Vec<_> {
            shares.iter().map(|it| Share { holder: holder(it), ..*it }).collect()
        };
        match self {
            Broken::KeepsTheCeiling => {
                let most = shares.len().div_ceil(seats.len());
                let mut table = Table::new(seats, shares);
                for held in &mut table.held {
                    table.waiting.extend(held.split_off(held.len().min(most)));
                }
                table.fill();
                table.placed()
            }
            Broken::Afresh => StickyAssignor.assign(seats, &held(&|_| None)),
            Broken::HashOrder => {
                let order: HashMap<usize, ()> = (0..seats.len()).map(|it| (it, ())).collect();
                let order: Vec<usize> = order.into_keys().collect();
                let place = |seat| order.iter().position(|it| *it == seat);
                let shuffled: Vec<_> = order.iter().map(|seat| seats[*seat]).collect();
                let plan = StickyAssignor.assign(&shuffled, &held(&|it| place(it.holder?)));
                plan.into_iter().map(|seat| Some(order[seat?])).collect()
            }
            Broken::IgnoresAvoid => {
                let shares: Vec<_> = shares.iter().map(|it| Share { avoid: &[], ..*it }).collect();
                StickyAssignor.assign(seats, &shares)
            }
            Broken::GivesUp => {
                let refused = |it: &Share<'_>| it.holder.is_some_and(|at| !it.allows(&seats[at]));
                let plan = StickyAssignor.assign(seats, shares);
                shares.iter().zip(plan).map(|(it, seat)| seat.filter(|_| !refused(it))).collect()
            }
            Broken::Apart => {
                let closed = Marks { paused: true, ..Marks::default() };
                let only = |wanted: bool| -> Plan {
                    let mut part = shares.to_vec();
                    let other = |it: &&mut Share<'_>| (it.choice() == Choice::Free) != wanted;
                    part.iter_mut().filter(other).for_each(|it| it.marks = &closed);
                    StickyAssignor.assign(seats, &part)
                };
                only(true).into_iter().zip(only(false)).map(|(one, other)| one.or(other)).collect()
            }
            Broken::WithoutChains => {
                let mut table = Table::new(seats, shares);
                table.fill();
                let shift = |table: &mut Table<'_>| {
                    (0..seats.len()).any(|seat| table.shift(seat, table.last_rank(seat)).is_some())
                };
                while shift(&mut table) {}
                table.placed()
            }
            Broken::IgnoresWeights => {
                let equal: Vec<_> = seats.iter().map(|it| Seat { weight: 1, ..*it }).collect();
                StickyAssignor.assign(&equal, shares)
            }
            Broken::Rotates => {
                let next = |it: &Share<'_>| Some((it.holder? + 1) % seats.len());
                StickyAssignor.assign(seats, &held(&next))
            }
        }
    }
}

fn is_caught(broken: Broken, kind: Kind, check: Check) {
    // The test does not show the failing inputs, so shrinking them would only take time.
    let config = ProptestConfig { failure_persistence: None, max_shrink_iters: 0, ..cases(10_000) };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let found = runner.run(&kind.draw(), |group| check(&broken, &group));
    assert!(matches!(found, Err(TestError::Fail(..))), "{broken:?} was not caught: {found:?}");
}

#[test]
fn broken_plan_that_leaves_a_holder_too_many_shares_is_caught() {
    is_caught(Broken::KeepsTheCeiling, LARGE, within_one);
    is_caught(Broken::KeepsTheCeiling, SMALL, least_squares);
}

#[test]
fn broken_plan_that_ignores_the_weights_is_caught() {
    is_caught(Broken::IgnoresWeights, LARGE.weighted(), within_one);
    is_caught(Broken::IgnoresWeights, SMALL.weighted(), balanced);
}

#[test]
fn broken_plan_that_ignores_the_current_holders_is_caught() {
    is_caught(Broken::Afresh, SMALL, fewest_moves);
    is_caught(Broken::Afresh, SMALL.marked(), balanced_plans_stay);
    is_caught(Broken::Afresh, LARGE, join);
    is_caught(Broken::Afresh, LARGE, leave);
    let (plans, most) = restless(&Broken::Afresh, 4_000);
    assert!(plans > 20 && most > 1, "{plans} of 4000 plans move up to {most} shares too many");
}

#[test]
fn broken_plan_that_depends_on_the_order_of_a_hash_map_is_caught() {
    is_caught(Broken::HashOrder, LARGE, deterministic);
}

#[test]
fn broken_plan_that_gives_a_share_to_an_avoided_seat_is_caught() {
    is_caught(Broken::IgnoresAvoid, SMALL.marked(), lawful);
}

#[test]
fn broken_plan_that_leaves_a_share_without_a_seat_is_caught() {
    is_caught(Broken::GivesUp, SMALL.marked(), lawful);
}

#[test]
fn broken_plan_that_does_not_count_marked_shares_is_caught() {
    is_caught(Broken::Apart, SMALL.marked(), least_squares);
    is_caught(Broken::Apart, SMALL.marked(), balanced);
}

#[test]
fn broken_plan_without_chains_of_moves_is_caught() {
    is_caught(Broken::WithoutChains, SMALL.marked(), least_squares);
    is_caught(Broken::WithoutChains, SMALL.marked(), balanced);
}

#[test]
fn broken_plan_that_rotates_is_caught() {
    is_caught(Broken::Rotates, SMALL, stable);
}
