//! Finding the newest epoch with a listing that only answers "what comes after this key?".
//!
//! docs/design/protocol.md, section 6. The question "is there an epoch greater than X?" is monotone
//! in X whatever the gaps, so galloping and bisecting on it is exact for any set of keys. "Does
//! epoch X exist?" is not. The same search finds the end of a fenced log, whose numbers have more
//! digits.

use std::num::NonZeroU64;

use crate::epoch::Epoch;

/// What keys under a prefix are numbered with, from 1 on.
pub trait Number: Copy + Ord {
    /// The greatest that a key can hold.
    const LAST: u64;

    /// The number itself, at least 1.
    fn number(self) -> u64;
}

impl Number for Epoch {
    const LAST: u64 = Epoch::MAX.get();

    fn number(self) -> u64 {
        self.get()
    }
}

impl Number for NonZeroU64 {
    const LAST: u64 = u64::MAX;

    fn number(self) -> u64 {
        self.get()
    }
}

/// Where a listing starts: after this place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum After {
    /// After the key that the epoch of this number has or would have; 0 is the start.
    Number(u64),
    /// After a foreign key, to list past it.
    Key(String),
}

/// What a page of a listing says about epochs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Listing<N = Epoch> {
    /// The least and the greatest epoch on the page.
    pub epochs: Option<(N, N)>,
    /// Where the next page starts; `None` if no epoch can follow.
    pub rest: Option<After>,
}

/// The question whether an epoch greater than a number exists. It lists past foreign keys.
///
/// The driver lists one page from [`next_page`](SuccessorSearch::next_page) and passes it to
/// [`handle`](SuccessorSearch::handle), until that returns another answer than
/// [`SuccessorStatus::NotYet`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SuccessorSearch {
    number: u64,
    at: After,
}

/// What a page told [`SuccessorSearch`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SuccessorStatus<N = Epoch> {
    /// Greater epochs exist.
    Yes {
        /// The least of the page.
        least: N,
        /// The greatest of the page.
        greatest: N,
        /// True if no page follows.
        complete: bool,
    },
    /// There is none.
    No,
    /// Only foreign keys so far: list on.
    NotYet,
}

impl SuccessorSearch {
    /// The question about numbers greater than this one.
    pub fn new(number: u64) -> SuccessorSearch {
        SuccessorSearch { number, at: After::Number(number) }
    }

    /// Where the next page starts.
    pub fn next_page(&self) -> &After {
        &self.at
    }

    /// Takes the page that was asked for last.
    pub fn handle<N>(&mut self, listing: Listing<N>) -> SuccessorStatus<N> {
        match (listing.epochs, listing.rest) {
            (Some((least, greatest)), rest) => {
                SuccessorStatus::Yes { least, greatest, complete: rest.is_none() }
            }
            (None, None) => SuccessorStatus::No,
            (None, Some(rest)) => {
                self.at = rest;
                SuccessorStatus::NotYet
            }
        }
    }
}

/// The search for the newest epoch.
///
/// The driver lists one page from [`next_page`](Search::next_page) and passes it to
/// [`handle`](Search::handle), until that returns the newest epoch. A page that fails is listed
/// again; a search never has two pages under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Search<N = Epoch> {
    /// The greatest epoch known to have existed; it must show unless a greater one does.
    known: Option<N>,
    /// The greatest epoch that this search has seen.
    lower: Option<N>,
    /// No epoch greater than this exists.
    upper: u64,
    /// How far to leap next, while the end has not been passed.
    stride: u64,
    query: SuccessorSearch,
}

/// What a page told [`Search`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Progress<N = Epoch> {
    /// List on, from [`Search::next_page`].
    More,
    /// This is the newest; `None` if there never was one.
    Newest(Option<N>),
    /// The known epoch is gone and nothing greater exists.
    KnownIsGone(N),
}

const FIRST_STRIDE: u64 = 1_000;

impl<N: Number> Search<N> {
    /// Starts one below the epoch known, so that a healthy store shows it.
    pub fn new(known: Option<N>) -> Search<N> {
        let start = known.map_or(0, |known| known.number() - 1);
        Search { known, lower: None, upper: N::LAST, stride: 0, query: SuccessorSearch::new(start) }
    }

    /// Where the next page starts.
    pub fn next_page(&self) -> &After {
        self.query.next_page()
    }

    /// Takes the page that was asked for last.
    pub fn handle(&mut self, listing: Listing<N>) -> Progress<N> {
        match self.query.handle(listing) {
            SuccessorStatus::NotYet => return Progress::More,
            SuccessorStatus::Yes { greatest, complete, .. } => {
                self.lower = self.lower.max(Some(greatest));
                if complete {
                    return Progress::Newest(self.lower);
                }
            }
            SuccessorStatus::No => self.upper = self.query.number,
        }
        let Some(lower) = self.lower else {
            return self.known.map_or(Progress::Newest(None), Progress::KnownIsGone);
        };
        if lower.number() >= self.upper {
            return Progress::Newest(Some(lower));
        }
        self.query = SuccessorSearch::new(self.leap(lower.number()));
        Progress::More
    }

    /// The next X to ask about: `lower <= X < upper`, so that every answer narrows the two.
    fn leap(&mut self, lower: u64) -> u64 {
        let end_is_unknown = self.upper == N::LAST;
        let leap = lower.saturating_add(self.stride);
        if end_is_unknown && leap < self.upper {
            self.stride = self.stride.saturating_mul(2).max(FIRST_STRIDE);
            leap
        } else {
            lower + (self.upper - lower) / 2
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Answers from a set of epoch numbers, with pages of at most `page` keys.
    fn page_of(epochs: &BTreeSet<u64>, after: &After, page: usize) -> Listing {
        let After::Number(after) = after else { panic!("no foreign keys here") };
        let keys: Vec<u64> = epochs.range(after + 1..).take(page).copied().collect();
        let last = keys.last().copied();
        let more = last.is_some_and(|last| epochs.range(last + 1..).next().is_some());
        let epoch = |number: u64| Epoch::new(number).unwrap();
        Listing {
            epochs: keys.first().map(|first| (epoch(*first), epoch(last.unwrap()))),
            rest: if more { last.map(After::Number) } else { None },
        }
    }

    fn find(epochs: &BTreeSet<u64>, known: Option<u64>, page: usize) -> (Progress, usize) {
        let mut search = Search::new(known.and_then(Epoch::new));
        for requests in 1..200 {
            let listing = page_of(epochs, search.next_page(), page);
            match search.handle(listing) {
                Progress::More => {}
                done => return (done, requests),
            }
        }
        panic!("no end in sight: {search:?}");
    }

    #[test]
    fn finds_the_greatest_whatever_the_gaps() {
        let mut rng = fastrand::Rng::with_seed(1);
        for round in 0..2_000 {
            let bits = rng.u32(1..34);
            let count = rng.usize(1..40);
            let top = (1u64 << bits).min(Epoch::MAX.get());
            let epochs: BTreeSet<u64> = (0..count).map(|_| rng.u64(1..=top)).collect();
            let newest = epochs.last().copied().unwrap();
            let known = [None, Some(newest), epochs.first().copied(), Some(rng.u64(1..=newest))];
            let known = known[round % 4];
            let (found, requests) = find(&epochs, known, rng.usize(1..9));
            assert_eq!(found, Progress::Newest(Epoch::new(newest)), "{epochs:?} from {known:?}");
            assert!(requests < 80, "{requests} requests for {} keys", epochs.len());
        }
    }

    #[test]
    fn a_million_epochs_cost_tens_of_requests() {
        let epochs: BTreeSet<u64> = (1..=1_000_000).collect();
        let (found, requests) = find(&epochs, None, 1_000);
        assert_eq!(found, Progress::Newest(Epoch::new(1_000_000)));
        assert!(requests <= 30, "{requests}");
    }

    /// While the end is unknown the search leaps from page to page; it bisects only what it passed.
    #[test]
    fn a_few_pages_cost_about_a_request_each() {
        for (count, expected) in [(999, 1), (1_000, 1), (1_999, 2), (2_500, 5)] {
            let epochs: BTreeSet<u64> = (1..=count).collect();
            let (found, requests) = find(&epochs, None, 1_000);
            assert_eq!(found, Progress::Newest(Epoch::new(count)));
            assert_eq!(requests, expected, "{count} epochs");
        }
    }

    #[test]
    fn numbers_of_64_bits_are_found_in_tens_of_requests_too() {
        for newest in [1, 999, 1_000_000, u64::MAX - 1, u64::MAX] {
            let newest = NonZeroU64::new(newest).unwrap();
            let mut search = Search::new(None);
            let mut requests = 0;
            let found = loop {
                let After::Number(after) = *search.next_page() else { panic!("no foreign keys") };
                requests += 1;
                // The keys of one page: all that there are below 1,000, and then the newest alone.
                let next = NonZeroU64::new(after.saturating_add(1)).unwrap();
                let more = newest.get() - after.min(newest.get()) > 1_000;
                let listing = match (after < newest.get(), more) {
                    (false, _) => Listing { epochs: None, rest: None },
                    (true, false) => Listing { epochs: Some((next, newest)), rest: None },
                    (true, true) => {
                        let last = NonZeroU64::new(after + 1_000).unwrap();
                        let rest = Some(After::Number(last.get()));
                        Listing { epochs: Some((next, last)), rest }
                    }
                };
                match search.handle(listing) {
                    Progress::More => assert!(requests < 200, "{search:?}"),
                    done => break done,
                }
            };
            assert_eq!(found, Progress::Newest(Some(newest)));
            assert!(requests <= 120, "{requests} for {newest}");
        }
    }

    #[test]
    fn the_steady_state_is_one_request() {
        let epochs: BTreeSet<u64> = (41..=50).collect();
        assert_eq!(find(&epochs, Some(50), 1_000), (Progress::Newest(Epoch::new(50)), 1));
        assert_eq!(find(&BTreeSet::new(), None, 1_000), (Progress::Newest(None), 1));
    }

    #[test]
    fn a_known_epoch_must_show_unless_a_greater_one_does() {
        let gone = Progress::KnownIsGone(Epoch::new(7).unwrap());
        assert_eq!(find(&BTreeSet::new(), Some(7), 10).0, gone);
        assert_eq!(find(&BTreeSet::from([5, 6]), Some(7), 10).0, gone);
        let newest = Progress::Newest(Epoch::new(9));
        assert_eq!(find(&BTreeSet::from([5, 6, 9]), Some(7), 10).0, newest);
    }

    #[test]
    fn foreign_keys_are_listed_past_not_taken_for_the_end() {
        let mut beyond = SuccessorSearch::new(1);
        let backup = After::Key("lock-0000000002.json.bak".into());
        let page: Listing = Listing { epochs: None, rest: Some(backup.clone()) };
        assert_eq!(beyond.handle(page), SuccessorStatus::NotYet);
        assert_eq!(beyond.next_page(), &backup);
        let three = Epoch::new(3).unwrap();
        let page = Listing { epochs: Some((three, three)), rest: None };
        let yes = SuccessorStatus::Yes { least: three, greatest: three, complete: true };
        assert_eq!(beyond.handle(page), yes);
    }

    /// The mistake that "does epoch X exist?" would make; the check above must be able to see it.
    #[test]
    fn broken_bisecting_on_existence_misses_the_newest() {
        let epochs = BTreeSet::from([1, 2, 3, 4, 900]);
        let (mut low, mut high) = (4u64, 1_024u64);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if epochs.contains(&middle) { low = middle } else { high = middle }
        }
        assert_ne!(low, 900);
        assert_eq!(find(&epochs, None, 3).0, Progress::Newest(Epoch::new(900)));
    }
}
