use std::sync::Arc;

use super::*;

static FREE: Marks = Marks { pinned: None, barred: None, paused: false, retiring: false };

fn seats(weights: &[u32]) -> Vec<Seat<'static>> {
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let seat = |(name, weight): (&&'static str, &u32)| Seat::new(name, *weight);
    NAMES.iter().zip(weights).map(seat).collect()
}

/// Returns a share without a holder.
fn share(marks: &Marks) -> Share<'_> {
    Share::new(PartitionNumber(0), "", marks)
}

fn free(holder: Option<usize>) -> Share<'static> {
    Share { holder, ..share(&FREE) }
}

fn shares(holders: &[Option<usize>]) -> Vec<Share<'static>> {
    holders.iter().copied().map(free).collect()
}

fn assign(weights: &[u32], holders: &[Option<usize>]) -> Vec<Option<usize>> {
    StickyAssignor.assign(&seats(weights), &shares(holders))
}

fn counts(seats: usize, placed: &[Option<usize>]) -> Vec<usize> {
    (0..seats).map(|seat| placed.iter().filter(|it| **it == Some(seat)).count()).collect()
}

/// Returns the number of shares that move from a holder to another seat.
fn moves(holders: &[Option<usize>], placed: &[Option<usize>]) -> usize {
    holders.iter().zip(placed).filter(|(from, to)| from.is_some() && from != to).count()
}

/// Returns the fewest moves that lead to a plan in which the count of each seat is the floor or the
/// ceiling of its proportion.
fn fewest(weights: &[u32], holders: &[Option<usize>]) -> usize {
    let held = counts(weights.len(), holders);
    let total = holders.len();
    let all: u32 = weights.iter().sum();
    let mut best = usize::MAX;
    let mut plans = vec![Vec::new()];
    for weight in weights {
        let (part, all) = (total * *weight as usize, all as usize);
        let (floor, ceiling) = (part / all, part.div_ceil(all));
        plans = plans
            .into_iter()
            .flat_map(|plan: Vec<usize>| {
                [floor, ceiling].map(|count| [plan.clone(), vec![count]].concat())
            })
            .collect();
    }
    for plan in plans.iter().filter(|plan| plan.iter().sum::<usize>() == total) {
        let kept: usize = plan.iter().zip(&held).map(|(count, held)| count.min(held)).sum();
        best = best.min(held.iter().sum::<usize>() - kept);
    }
    best
}

/// Returns a random group: the weights of its seats and the holders of its shares.
fn drawn(rng: &mut fastrand::Rng, weighted: bool) -> (Vec<u32>, Vec<Option<usize>>) {
    let weight = |rng: &mut fastrand::Rng| if weighted { rng.u32(1..6) } else { 1 };
    let weights: Vec<u32> = (0..rng.usize(1..6)).map(|_| weight(rng)).collect();
    let holder = |rng: &mut fastrand::Rng| {
        let seat = rng.usize(0..=weights.len());
        (seat < weights.len()).then_some(seat)
    };
    let holders = (0..rng.usize(0..16)).map(|_| holder(rng)).collect();
    (weights, holders)
}

#[test]
fn a_plan_without_marks_is_balanced_with_the_fewest_moves() {
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..4_000 {
        let (weights, holders) = drawn(&mut rng, round % 2 == 0);
        let placed = assign(&weights, &holders);
        assert!(placed.iter().all(Option::is_some));
        let all: u32 = weights.iter().sum();
        for (count, weight) in counts(weights.len(), &placed).into_iter().zip(&weights) {
            // The difference between the count of a seat and its proportion (total × weight / sum
            // of all weights) is less than 1.
            let (have, want) = (count * all as usize, holders.len() * *weight as usize);
            assert!(have.abs_diff(want) < all as usize, "{weights:?} {holders:?}: {placed:?}");
        }
        let moved = moves(&holders, &placed);
        assert_eq!(moved, fewest(&weights, &holders), "{weights:?} {holders:?}: {placed:?}");
        assert_eq!(assign(&weights, &placed), placed, "a second plan is the same");
    }
}

/// Broken assignors: each breaks one of the properties above.
#[test]
fn broken_assignors_are_found() {
    let holders = [Some(0), Some(0), Some(0), None, Some(1)];
    let fine = assign(&[1, 1], &holders);
    let unbalanced: Vec<_> = holders.iter().map(|it| it.or(Some(0))).collect();
    let restless: Vec<_> = (0..5).map(|share| Some(share % 2)).collect();
    assert!(counts(2, &fine)[0].abs_diff(counts(2, &fine)[1]) <= 1);
    assert!(counts(2, &unbalanced)[0].abs_diff(counts(2, &unbalanced)[1]) > 1);
    assert_eq!(moves(&holders, &fine), fewest(&[1, 1], &holders));
    assert!(moves(&holders, &restless) > fewest(&[1, 1], &holders));
}

#[test]
fn a_join_moves_one_part_and_a_leave_only_the_shares_of_the_leaver() {
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..2_000 {
        let (members, partitions) = (rng.usize(1..7), rng.usize(0..40));
        let before = assign(&vec![1; members], &vec![None; partitions]);
        let joined = assign(&vec![1; members + 1], &before);
        assert!(moves(&before, &joined) <= partitions.div_ceil(members + 1));
        let gone = rng.usize(0..=members);
        let without = |seat: &Option<usize>| match *seat {
            Some(seat) if seat > gone => Some(seat - 1),
            Some(seat) if seat < gone => Some(seat),
            _ => None,
        };
        let left: Vec<_> = joined.iter().map(without).collect();
        assert_eq!(moves(&left, &assign(&vec![1; members], &left)), 0);
    }
}

#[test]
fn marks_are_respected_and_each_placeable_share_has_a_seat() {
    let mut rng = fastrand::Rng::with_seed(11);
    let names = [None, Some("a"), Some("b"), Some("c"), Some("z")];
    for _ in 0..4_000 {
        let (weights, holders) = drawn(&mut rng, true);
        let marks: Vec<Marks> = holders
            .iter()
            .map(|_| {
                let mut name =
                    |odds| if rng.u8(0..odds) == 0 { rng.choice(names).flatten() } else { None };
                let (pinned, barred) = (name(4).map(Arc::from), name(4).map(Arc::from));
                Marks { pinned, barred, paused: rng.u8(0..9) == 0, retiring: rng.u8(0..9) == 0 }
            })
            .collect();
        let mut name = || if rng.u8(0..4) == 0 { rng.choice(names).flatten() } else { None };
        let avoid: Vec<Vec<Arc<str>>> =
            holders.iter().map(|_| name().map(Arc::from).into_iter().collect()).collect();
        let mut shares: Vec<Share<'_>> = holders
            .iter()
            .zip(&marks)
            .zip(&avoid)
            .map(|((holder, marks), avoid)| Share {
                holder: *holder,
                avoid,
                kept: name(),
                ..share(marks)
            })
            .collect();
        let seats = seats(&weights);
        let placed = StickyAssignor.assign(&seats, &shares);
        for (share, place) in shares.iter().zip(&placed) {
            match place {
                Some(seat) => assert!(share.allows(&seats[*seat])),
                None => assert!(!seats.iter().any(|seat| share.allows(seat)), "{share:?}"),
            }
        }
        for (share, place) in shares.iter_mut().zip(&placed) {
            share.holder = *place;
        }
        assert_eq!(StickyAssignor.assign(&seats, &shares), placed, "a second plan is the same");
    }
}

/// The pinned shares count for the balance of their seat, so more free shares go to the other
/// seats.
#[test]
fn marked_shares_count_in_the_balance() {
    let pinned = Marks { pinned: Some("a".into()), ..FREE.clone() };
    let all: Vec<_> = [&pinned; 4].into_iter().chain([&FREE; 5]).map(share).collect();
    let placed = StickyAssignor.assign(&seats(&[1, 1, 1]), &all);
    assert_eq!(counts(3, &placed), [4, 3, 2]);
    // All shares are barred from seat `a`, so the other seats get them.
    let barred = Marks { barred: Some("a".into()), ..FREE.clone() };
    let held = Share { holder: Some(1), ..share(&barred) };
    let placed = StickyAssignor.assign(&seats(&[1, 1, 1]), &[held; 6]);
    assert_eq!(counts(3, &placed), [0, 3, 3]);
}

/// If marks give one seat more than its part, the other seats share the rest in proportion to their
/// weights.
#[test]
fn marks_for_one_seat_leave_the_rest_shared_by_weight() {
    let pinned = Marks { pinned: Some("c".into()), ..FREE.clone() };
    let all: Vec<_> = [&pinned; 6].into_iter().chain([&FREE; 3]).map(share).collect();
    let placed = StickyAssignor.assign(&seats(&[1, 4, 1]), &all);
    assert_eq!(counts(3, &placed), [1, 2, 6]);
}

/// Seat `a` may take only one share, which seat `b` holds. Seat `b` may take a share of seat `c`.
#[test]
fn a_chain_of_moves_relieves_a_seat() {
    let marks = |barred: &str| Marks { barred: Some(barred.into()), ..Marks::default() };
    let (not_a, not_c) = (marks("a"), marks("c"));
    let share = |marks, holder| Share { holder: Some(holder), ..share(marks) };
    let all = [share(&not_c, 1), share(&not_a, 2), share(&not_a, 2)];
    let placed = StickyAssignor.assign(&seats(&[1, 1, 1]), &all);
    assert_eq!(placed, [Some(0), Some(2), Some(1)]);
}

/// The best counts are the same with and without the marks, so no share moves.
#[test]
fn a_mark_that_changes_no_count_moves_nothing() {
    let barred = Marks { barred: Some("c".into()), ..Marks::default() };
    let share = |number: usize| {
        let marks = if number < 4 { &barred } else { &FREE };
        Share { holder: Some(number / 4), ..share(marks) }
    };
    let all: Vec<_> = (0..12).map(share).collect();
    let holders: Vec<_> = all.iter().map(|share| share.holder).collect();
    assert_eq!(StickyAssignor.assign(&seats(&[1, 1, 1]), &all), holders);
}

#[test]
fn empty_seats_and_shares_are_accepted() {
    assert_eq!(assign(&[], &[None, None]), [None, None]);
    assert_eq!(assign(&[1, 2], &[]), []);
    assert_eq!(counts(2, &assign(&[0, 0], &[None; 4])), [2, 2]);
}
