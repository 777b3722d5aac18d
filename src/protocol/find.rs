//! The search for the newest epoch, in a store that can only list the keys after a given key (N1 to
//! N4).
//!
//! The question "is there an epoch greater than X?" is monotone in X, even if some epochs below the
//! newest are missing. So a galloping search and a bisection with this question are exact for any
//! set of keys (N3). The question "does epoch X exist?" is not monotone, so the search does not use
//! this question. The same search finds the end of a fenced log, where the numbers have more
//! digits.

use std::num::NonZeroU64;

use crate::epoch::Epoch;

/// A number, at least 1, that is part of a key under a prefix.
pub trait Number: Copy + Ord {
    /// The greatest number that a key can have.
    const LAST: u64;

    /// Returns the number as an integer, at least 1.
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

/// The start of a listing: the listing shows only keys after this key or number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum After {
    /// Start after the key of this number, even if this key does not exist. 0 means the start of
    /// the prefix.
    Number(u64),
    /// Start after this key of an object that is not an epoch (a foreign key).
    Key(String),
}

/// The epochs of one page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Listing<N = Epoch> {
    /// Least and greatest epoch on the page.
    pub epochs: Option<(N, N)>,
    /// Start of the next page, or `None` if no epoch can follow.
    pub rest: Option<After>,
}

/// A search for any epoch greater than a given number. The search skips the keys of objects that
/// are not epochs.
///
/// The driver lists one page from [`next_page`](SuccessorSearch::next_page), and passes this page
/// to [`handle`](SuccessorSearch::handle). It repeats both steps while `handle` returns
/// [`SuccessorStatus::NotYet`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SuccessorSearch {
    number: u64,
    at: After,
}

/// The state of a [`SuccessorSearch`] after a page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SuccessorStatus<N = Epoch> {
    /// Greater epochs exist.
    Yes {
        /// Least epoch of the page.
        least: N,
        /// Greatest epoch of the page.
        greatest: N,
        /// True if no page follows.
        complete: bool,
    },
    /// No greater epoch exists.
    No,
    /// The pages so far had only keys of objects that are not epochs. List the next page.
    NotYet,
}

impl SuccessorSearch {
    /// Creates a search for any epoch greater than `number`.
    pub fn new(number: u64) -> SuccessorSearch {
        SuccessorSearch { number, at: After::Number(number) }
    }

    /// Returns the start of the next page.
    pub fn next_page(&self) -> &After {
        &self.at
    }

    /// Takes the page that was requested last.
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
/// The driver lists one page from [`next_page`](Search::next_page), and passes this page to
/// [`handle`](Search::handle). It repeats both steps until `handle` returns the newest epoch. If
/// the LIST of a page fails, the driver sends this LIST again. A search never has two pages under
/// way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Search<N = Epoch> {
    /// Greatest epoch that the process has seen before this search. The listing must show this
    /// epoch or a greater one.
    known: Option<N>,
    /// Greatest epoch that this search has seen.
    lower: Option<N>,
    /// Number above which no epoch exists.
    upper: u64,
    /// Length of the next leap in the galloping search. Once a leap has passed the newest epoch,
    /// the search bisects and ignores this length.
    stride: u64,
    query: SuccessorSearch,
}

/// The state of a [`Search`] after a page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Progress<N = Epoch> {
    /// List the next page, from [`Search::next_page`].
    More,
    /// The newest epoch, or `None` if no epoch was ever created.
    Newest(Option<N>),
    /// The epoch that the process has seen before is missing, and no greater epoch exists.
    KnownIsGone(N),
}

const FIRST_STRIDE: u64 = 1_000;

impl<N: Number> Search<N> {
    /// Creates a search. The first page starts at the epoch `known`, so it shows this epoch if the
    /// store still has it.
    pub fn new(known: Option<N>) -> Search<N> {
        let start = known.map_or(0, |known| known.number() - 1);
        Search { known, lower: None, upper: N::LAST, stride: 0, query: SuccessorSearch::new(start) }
    }

    /// Returns the start of the next page.
    pub fn next_page(&self) -> &After {
        self.query.next_page()
    }

    /// Takes the page that was requested last.
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

    /// Returns the number X for the next question "is there an epoch greater than X?". X is in
    /// `lower <= X < upper`, so every answer narrows this interval.
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

    /// Returns the page that a store with these epochs lists after `after`. The page has at most
    /// `page` keys.
    fn page_of(epochs: &BTreeSet<u64>, after: &After, page: usize) -> Listing {
        let After::Number(after) = after else {
            panic!("the store of this test has no foreign keys")
        };
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
        panic!("the search does not end: {search:?}");
    }

    #[test]
    fn a_million_epochs_cost_tens_of_requests() {
        let epochs: BTreeSet<u64> = (1..=1_000_000).collect();
        let (found, requests) = find(&epochs, None, 1_000);
        assert_eq!(found, Progress::Newest(Epoch::new(1_000_000)));
        assert!(requests <= 30, "{requests}");
    }

    /// The search leaps from page to page until a leap passes the newest epoch. It then bisects the
    /// last leap.
    #[test]
    fn a_listing_of_a_few_pages_costs_about_one_request_a_page() {
        for (count, expected) in [(999, 1), (1_000, 1), (1_999, 2), (2_500, 5)] {
            let epochs: BTreeSet<u64> = (1..=count).collect();
            let (found, requests) = find(&epochs, None, 1_000);
            assert_eq!(found, Progress::Newest(Epoch::new(count)));
            assert_eq!(requests, expected, "{count} epochs");
        }
    }

    #[test]
    fn numbers_of_64_bits_are_found_in_at_most_120_requests() {
        for newest in [1, 999, 1_000_000, u64::MAX - 1, u64::MAX] {
            let newest = NonZeroU64::new(newest).unwrap();
            let mut search = Search::new(None);
            let mut requests = 0;
            let found = loop {
                let After::Number(after) = *search.next_page() else { panic!("no foreign keys") };
                requests += 1;
                // Keys exist for all numbers up to the newest. A page shows 1,000 keys.
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
            assert!(requests <= 120, "{requests} requests for {newest}");
        }
    }

    #[test]
    fn a_search_from_the_newest_epoch_costs_one_request() {
        let epochs: BTreeSet<u64> = (41..=50).collect();
        assert_eq!(find(&epochs, Some(50), 1_000), (Progress::Newest(Epoch::new(50)), 1));
        assert_eq!(find(&BTreeSet::new(), None, 1_000), (Progress::Newest(None), 1));
    }

    #[test]
    fn a_listing_must_show_the_known_epoch_or_a_greater_one() {
        let gone = Progress::KnownIsGone(Epoch::new(7).unwrap());
        assert_eq!(find(&BTreeSet::new(), Some(7), 10).0, gone);
        assert_eq!(find(&BTreeSet::from([5, 6]), Some(7), 10).0, gone);
        let newest = Progress::Newest(Epoch::new(9));
        assert_eq!(find(&BTreeSet::from([5, 6, 9]), Some(7), 10).0, newest);
    }

    #[test]
    fn foreign_keys_do_not_end_a_listing() {
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

    /// This broken search bisects with the question "does epoch X exist?". The check in the tests
    /// above must detect its wrong result.
    #[test]
    fn broken_search_that_bisects_on_existence_is_caught() {
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
