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

/// The pinned shares count for the balance of their seat, so more free shares go to the other
/// seats.
#[test]
fn marked_shares_count_in_the_balance() {
    let pinned = Marks { pinned: Some("a".into()), ..FREE.clone() };
    let all: Vec<_> = [&pinned; 4].into_iter().chain([&FREE; 5]).map(share).collect();
    let placed = StickyAssignor.assign(&seats(&[1, 1, 1]), &all);
    assert_eq!(counts(3, &placed), [4, 3, 2]);
    // Operators have barred all shares from seat `a`, so the other seats get the shares.
    let barred = Marks { barred: Some("a".into()), ..FREE.clone() };
    let held = Share { holder: Some(1), ..share(&barred) };
    let placed = StickyAssignor.assign(&seats(&[1, 1, 1]), &[held; 6]);
    assert_eq!(counts(3, &placed), [0, 3, 3]);
}

/// If marks give one seat more than its proportion, the other seats share the rest by their
/// weights.
#[test]
fn the_other_seats_share_the_unmarked_partitions_by_weight() {
    let pinned = Marks { pinned: Some("c".into()), ..FREE.clone() };
    let all: Vec<_> = [&pinned; 6].into_iter().chain([&FREE; 3]).map(share).collect();
    let placed = StickyAssignor.assign(&seats(&[1, 4, 1]), &all);
    assert_eq!(counts(3, &placed), [1, 2, 6]);
}

/// Seat `a` may take only one share, and seat `b` holds this share. Seat `b` may take a share of
/// seat `c`.
#[test]
fn a_chain_of_moves_relieves_a_seat() {
    let marks = |barred: &str| Marks { barred: Some(barred.into()), ..Marks::default() };
    let (not_a, not_c) = (marks("a"), marks("c"));
    let share = |marks, holder| Share { holder: Some(holder), ..share(marks) };
    let all = [share(&not_c, 1), share(&not_a, 2), share(&not_a, 2)];
    let placed = StickyAssignor.assign(&seats(&[1, 1, 1]), &all);
    assert_eq!(placed, [Some(0), Some(2), Some(1)]);
}

/// The best number of shares per seat is the same with and without the marks, so no share moves.
#[test]
fn a_mark_that_changes_no_share_count_moves_no_share() {
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
