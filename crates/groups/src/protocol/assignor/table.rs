//! Builds a plan: gives the shares to seats, then moves shares until the plan is balanced.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use super::{Seat, Share};

/// The cost of the share that a seat received last. The cost depends on the seat's number of
/// shares.
///
/// A chain of moves takes a share from one seat and adds a share to another. A plan is balanced if
/// in every possible chain the added share has at least the rank of the removed share. Ranks rise
/// with the count, so a balanced plan is the best of all plans, and not only a local optimum
/// (Harvey and others, "Semi-matchings for bipartite graphs and load balancing", 2006).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// The seat's number of shares is at most the floor: its proportion, rounded down.
    Due(PerWeight),
    /// The number of shares is above the floor and at most the ceiling. The ceiling is the
    /// proportion, rounded up. All numbers in this range have the same rank, so no share moves
    /// between two seats with these numbers.
    Spare,
    /// The number of shares is above the ceiling.
    Excess(PerWeight),
}

/// The increase of count² / weight by the last share of a seat: (2 × count − 1) / weight.
#[derive(Debug, Clone, Copy)]
pub(super) struct PerWeight {
    growth: u64,
    parts: u64,
}

impl Ord for PerWeight {
    fn cmp(&self, other: &Self) -> Ordering {
        let scaled = |it: &Self, by: &Self| u128::from(it.growth) * u128::from(by.parts);
        scaled(self, other).cmp(&scaled(other, self))
    }
}

impl PartialOrd for PerWeight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PerWeight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PerWeight {}

/// An unfinished plan.
pub(super) struct Table<'a> {
    seats: &'a [Seat<'a>],
    shares: &'a [Share<'a>],
    by_name: BTreeMap<&'a str, Vec<usize>>,
    /// Shares that have no seat yet, although at least one seat may have them. The most restricted
    /// shares come first, and failing shares last.
    pub(super) waiting: Vec<usize>,
    /// Shares of each seat, in this order: shares that require a name, barred shares, free shares,
    /// failing shares, and shares that the seat received in this plan. The last share moves first.
    pub(super) held: Vec<Vec<usize>>,
    /// For each seat: its proportion of the shares, rounded down and rounded up.
    proportions: Vec<(u64, u64)>,
    /// Seats by the rank that their next share would have, lowest first. An entry is outdated if
    /// its seat has since received a share. An outdated entry stays until it is the lowest entry.
    room: BinaryHeap<Reverse<(Rank, usize)>>,
    /// For each seat: true if no chain of moves leads from this seat to a seat with room.
    closed: Vec<bool>,
}

impl<'a> Table<'a> {
    /// Returns a table in which each share is at its holder. Shares without a permitted holder have
    /// no seat yet.
    pub(super) fn new(seats: &'a [Seat<'a>], shares: &'a [Share<'a>]) -> Table<'a> {
        let mut by_name = BTreeMap::<_, Vec<_>>::new();
        for (index, seat) in seats.iter().enumerate() {
            by_name.entry(seat.name).or_default().push(index);
        }
        let mut table = Table {
            seats,
            shares,
            by_name,
            waiting: Vec::new(),
            held: vec![Vec::new(); seats.len()],
            proportions: Vec::new(),
            room: BinaryHeap::new(),
            closed: vec![false; seats.len()],
        };
        let mut open: Vec<_> = (0..shares.len()).filter(|it| table.is_open(*it)).collect();
        open.sort_by_key(|it| (shares[*it].goes_first(), shares[*it].choice()));
        let all: u128 = seats.iter().map(|seat| u128::from(seat.parts())).sum();
        let proportion = |seat: &Seat<'_>| {
            let exact = open.len() as u128 * u128::from(seat.parts());
            let whole = |part| u64::try_from(part).expect("a part is at most the whole");
            (whole(exact / all), whole(exact.div_ceil(all)))
        };
        table.proportions = seats.iter().map(proportion).collect();
        for share in open {
            match shares[share].holder.filter(|it| table.allowed(share, *it)) {
                Some(seat) => table.held[seat].push(share),
                None => table.waiting.push(share),
            }
        }
        table.room = (0..seats.len()).map(|seat| Reverse((table.next_rank(seat), seat))).collect();
        table
    }

    pub(super) fn placed(&self) -> Vec<Option<usize>> {
        let mut placed = vec![None; self.shares.len()];
        for (seat, held) in self.held.iter().enumerate() {
            for share in held {
                placed[*share] = Some(seat);
            }
        }
        placed
    }

    fn allowed(&self, share: usize, seat: usize) -> bool {
        self.shares[share].allows(&self.seats[seat])
    }

    /// Returns whether at least one seat may have the share.
    fn is_open(&self, share: usize) -> bool {
        let Share { marks, .. } = self.shares[share];
        let closed = marks.paused || marks.retiring;
        !closed
            && match self.namesakes(share) {
                Some(seats) => seats.iter().any(|seat| self.allowed(share, *seat)),
                None => (0..self.seats.len()).any(|seat| self.allowed(share, seat)),
            }
    }

    /// Returns the seats with the name that a pin or a reservation requires; `None` if the share
    /// requires no name.
    fn namesakes(&self, share: usize) -> Option<&[usize]> {
        let name = self.shares[share].named()?;
        Some(self.by_name.get(name).map_or(&[][..], |seats| seats))
    }

    /// Returns the rank of the last share of a seat that has `count` shares.
    fn rank(&self, seat: usize, count: usize) -> Rank {
        let count = count as u64;
        let growth = (2 * count).saturating_sub(1);
        let per_weight = PerWeight { growth, parts: self.seats[seat].parts() };
        match self.proportions[seat] {
            (floor, _) if count <= floor => Rank::Due(per_weight),
            (_, ceiling) if count <= ceiling => Rank::Spare,
            _ => Rank::Excess(per_weight),
        }
    }

    fn next_rank(&self, seat: usize) -> Rank {
        self.rank(seat, self.held[seat].len() + 1)
    }

    pub(super) fn last_rank(&self, seat: usize) -> Rank {
        self.rank(seat, self.held[seat].len())
    }

    /// Returns the permitted seat with the most room for this share.
    fn roomiest(&mut self, share: usize) -> Option<usize> {
        if let Some(seats) = self.namesakes(share) {
            let allowed = seats.iter().copied().filter(|seat| self.allowed(share, *seat));
            return allowed.min_by_key(|seat| self.next_rank(*seat));
        }
        let mut refused = Vec::new();
        let found = loop {
            let Some(Reverse((rank, seat))) = self.room.peek().copied() else { break None };
            let current = rank == self.next_rank(seat);
            if current && self.allowed(share, seat) {
                break Some(seat);
            }
            let entry = self.room.pop();
            refused.extend(entry.filter(|_| current));
        };
        self.room.extend(refused);
        found
    }

    /// Gives each share without a seat to the permitted seat with the most room.
    pub(super) fn fill(&mut self) {
        for share in std::mem::take(&mut self.waiting) {
            let seat = self.roomiest(share).expect("at least one seat may have the share");
            self.put(share, seat);
        }
    }

    fn put(&mut self, share: usize, seat: usize) {
        self.held[seat].push(share);
        self.room.push(Reverse((self.next_rank(seat), seat)));
    }

    /// Moves shares away from the fullest seats until the balance no longer improves.
    ///
    /// Each step moves shares along a chain of seats. It takes a share of the highest remaining rank
    /// from the first seat, and only the last seat of the chain gains a share, of a lower rank. If
    /// a seat has given a share away, its next share would have the rank of that share. So no later
    /// chain ends at this seat, and the seat needs no new entry in `room`. Closed seats stay
    /// closed, because no chain from a closed seat reaches a seat with room.
    pub(super) fn level(&mut self) {
        let by_rank = |table: &Self, seat: usize| {
            let gives = table.held[seat].last();
            let gives_failing = gives.is_some_and(|share| table.shares[*share].goes_first());
            (table.last_rank(seat), gives_failing, seat)
        };
        let mut full: BinaryHeap<_> = (0..self.seats.len()).map(|it| by_rank(self, it)).collect();
        while let Some((rank, _, seat)) = full.pop() {
            if self.closed[seat] {
                continue;
            }
            let moved = self.shift(seat, rank).or_else(|| self.chain(seat, rank));
            if let Some(to) = moved {
                full.push(by_rank(self, seat));
                full.push(by_rank(self, to));
            }
        }
    }

    /// Moves one share away from the seat `from`, to a seat where it has a lower rank than `rank`.
    /// Returns that seat.
    pub(super) fn shift(&mut self, from: usize, rank: Rank) -> Option<usize> {
        for index in (0..self.held[from].len()).rev() {
            let share = self.held[from][index];
            let to = self.roomiest(share).filter(|to| self.next_rank(*to) < rank);
            if let Some(to) = to {
                self.held[from].remove(index);
                self.put(share, to);
                return Some(to);
            }
        }
        None
    }

    /// Moves shares along a chain: each seat takes a share from the previous seat and gives another
    /// share to the next seat. The chain ends at a seat where one more share has a lower rank than
    /// `rank`. It is the shortest such chain. Returns the last seat.
    fn chain(&mut self, from: usize, rank: Rank) -> Option<usize> {
        // For each seat that a chain reaches: the share that the seat would take, and the seat that
        // would give this share.
        let mut ways = vec![None; self.seats.len()];
        let others = (0..self.seats.len()).filter(|seat| *seat != from && !self.closed[*seat]);
        let mut unseen: Vec<_> = others.collect();
        let mut seen = vec![from];
        let mut next = 0;
        while let Some(seat) = seen.get(next).copied() {
            next += 1;
            for share in self.held[seat].iter().rev().copied() {
                if self.namesakes(share).is_some_and(|seats| seats.len() == 1) {
                    continue;
                }
                let new = seen.len();
                seen.extend(unseen.extract_if(.., |it| self.allowed(share, *it)));
                for to in &seen[new..] {
                    ways[*to] = Some((share, seat));
                }
                let end = seen[new..].iter().copied().find(|it| self.next_rank(*it) < rank);
                if let Some(end) = end {
                    self.follow(&ways, end);
                    return Some(end);
                }
            }
        }
        for seat in seen {
            self.closed[seat] = true;
        }
        None
    }

    /// Makes the moves of a chain, the last move first.
    fn follow(&mut self, ways: &[Option<(usize, usize)>], end: usize) {
        let mut to = end;
        while let Some((share, from)) = ways[to] {
            self.held[from].retain(|it| *it != share);
            self.put(share, to);
            to = from;
        }
    }
}
