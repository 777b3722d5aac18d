//! Which epoch objects a compaction may delete.
//!
//! An epoch is handed out only once `keep_epochs` (at least 1) greater ones were seen, so the
//! newest never is (I3). It stays superseded whenever the deletion is carried out, however late and
//! however often: the newest of that moment is at least as great as the newest seen here. So any
//! number of compactors may run at once, and none needs to know of the others.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::Duration;

use crate::epoch::Epoch;

/// The plan of one compaction, fed with a listing in ascending order.
///
/// It remembers the newest `keep_epochs` and nothing else, whatever the length of the listing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Compaction {
    keep_epochs: NonZeroUsize,
    min_age: Duration,
    newest: VecDeque<Listed>,
    stopped: bool,
}

/// An epoch object as a listing shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    pub epoch: Epoch,
    /// Of its body, in bytes.
    pub size: u64,
    /// By the store's clock when it answered; `None` where the store did not tell both times.
    pub age: Option<Duration>,
}

/// The listing showed an epoch at or below one that it had shown before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutOfOrder {
    pub before: Epoch,
    pub then: Epoch,
}

impl Compaction {
    pub fn new(keep_epochs: NonZeroUsize, min_age: Duration) -> Compaction {
        Compaction { keep_epochs, min_age, newest: VecDeque::new(), stopped: false }
    }

    /// The next epoch of the listing. Answers with one that may be deleted: another, older one.
    ///
    /// After [`Epoch::MAX`], and after an error, nothing is handed out any more.
    pub fn handle_listed(&mut self, listed: Listed) -> Result<Option<Listed>, OutOfOrder> {
        if let Some(before) = self.newest().filter(|before| *before >= listed.epoch) {
            self.stopped = true;
            return Err(OutOfOrder { before, then: listed.epoch });
        }
        // Only an accident or malice creates the last epoch. Whoever repairs that by removing it
        // needs the epochs below it, so it supersedes nothing here.
        self.stopped |= listed.epoch == Epoch::MAX;
        self.newest.push_back(listed);
        if self.newest.len() <= self.keep_epochs.get() {
            return Ok(None);
        }
        let oldest = self.newest.pop_front();
        Ok(oldest.filter(|oldest| !self.stopped && self.is_old_enough(*oldest)))
    }

    /// The greatest epoch seen so far.
    pub fn newest(&self) -> Option<Epoch> {
        self.newest.back().map(|listed| listed.epoch)
    }

    /// Whether nothing more may be deleted, not even what was handed out and is not yet sent.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    fn is_old_enough(&self, listed: Listed) -> bool {
        // An unknown age is no age, so that a store without dates never loses its history early.
        listed.age.unwrap_or_default() >= self.min_age
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn epoch(number: u64) -> Epoch {
        Epoch::new(number).unwrap()
    }

    fn listed(number: u64, age: Option<Duration>) -> Listed {
        Listed { epoch: epoch(number), size: 100, age }
    }

    fn plan(keep: usize, min_age: Duration) -> Compaction {
        Compaction::new(NonZeroUsize::new(keep).unwrap(), min_age)
    }

    fn handed_out(mut plan: Compaction, listing: &[Listed]) -> Vec<Epoch> {
        let deletable = |listed| plan.handle_listed(listed).unwrap().map(|listed| listed.epoch);
        listing.iter().copied().filter_map(deletable).collect()
    }

    /// What is wrong with deleting `deleted` out of this listing: the checker of every test here.
    fn violation(
        listing: &[Listed],
        deleted: &[Epoch],
        keep: usize,
        min_age: Duration,
    ) -> Option<String> {
        let newest = listing.last().map(|listed| listed.epoch);
        if let Some(newest) = newest.filter(|newest| deleted.contains(newest)) {
            return Some(format!("I3: {newest} is the newest"));
        }
        for (index, listed) in listing.iter().enumerate() {
            let superseded_by = listing.len() - 1 - index;
            let old = min_age.is_zero() || listed.age.is_some_and(|age| age >= min_age);
            let wanted = superseded_by >= keep && old;
            if deleted.contains(&listed.epoch) != wanted {
                return Some(format!("{} deleted: {}", listed.epoch, !wanted));
            }
        }
        None
    }

    /// Every listing of up to five epochs, each missing, old, too young or of unknown age.
    fn all_listings() -> impl Iterator<Item = Vec<Listed>> {
        let ages = [None, Some(None), Some(Some(HOUR)), Some(Some(HOUR / 2))];
        (0..4_usize.pow(5)).map(move |choice| {
            (0..5_u32)
                .filter_map(|place| {
                    let age = ages[choice / 4_usize.pow(place) % 4]?;
                    Some(listed(u64::from(place) * 3 + 1, age))
                })
                .collect()
        })
    }

    #[test]
    fn exactly_the_superseded_old_ones_beyond_the_newest_go() {
        for listing in all_listings() {
            for keep in 1..=6 {
                for min_age in [Duration::ZERO, HOUR] {
                    let deleted = handed_out(plan(keep, min_age), &listing);
                    let wrong = violation(&listing, &deleted, keep, min_age);
                    assert_eq!(wrong, None, "{listing:?}, keep {keep}, {min_age:?}");
                }
            }
        }
    }

    /// The plan as it would be if it let go of an epoch one too early.
    fn broken_plan(listing: &[Listed], keep: usize) -> Vec<Epoch> {
        let mut newest = VecDeque::new();
        let deletable = |listed: &Listed| {
            newest.push_back(listed.epoch);
            if newest.len() < keep { None } else { newest.pop_front() }
        };
        listing.iter().filter_map(deletable).collect()
    }

    #[test]
    fn a_plan_that_deletes_the_newest_is_caught() {
        let listing = [listed(1, Some(HOUR)), listed(2, Some(HOUR))];
        let wrong = violation(&listing, &broken_plan(&listing, 1), 1, HOUR);
        assert_eq!(wrong.as_deref(), Some("I3: 2 is the newest"));
        let wrong = violation(&listing, &broken_plan(&listing, 2), 2, HOUR);
        assert_eq!(wrong.as_deref(), Some("1 deleted: true"));
    }

    #[test]
    fn memory_is_bounded_by_what_is_kept() {
        let mut plan = plan(3, HOUR);
        for number in 1..=10_000 {
            plan.handle_listed(listed(number, None)).unwrap();
            assert!(plan.newest.len() <= 3);
            assert_eq!(plan.newest(), Epoch::new(number));
        }
    }

    #[test]
    fn a_repeated_or_falling_epoch_is_an_error_and_ends_the_plan() {
        for (before, then) in [(2, 2), (3, 2), (Epoch::MAX.get(), 1)] {
            let mut plan = plan(1, Duration::ZERO);
            plan.handle_listed(listed(before, None)).unwrap();
            let error = plan.handle_listed(listed(then, None)).unwrap_err();
            assert_eq!(error, OutOfOrder { before: epoch(before), then: epoch(then) });
            assert!(plan.stopped());
            if before < 10 {
                assert_eq!(plan.handle_listed(listed(10, None)), Ok(None));
            }
        }
    }

    #[test]
    fn the_last_epoch_supersedes_nothing() {
        let listing = [listed(1, None), listed(2, None), listed(Epoch::MAX.get(), None)];
        assert_eq!(handed_out(plan(1, Duration::ZERO), &listing), [epoch(1)]);
        let listing = [listed(7, None), listed(Epoch::MAX.get(), None)];
        let mut plan = plan(1, Duration::ZERO);
        for listed in listing {
            assert_eq!(plan.handle_listed(listed), Ok(None));
        }
        assert!(plan.stopped());
    }

    #[test]
    fn plans_compare_by_what_they_remember() {
        let mut long = plan(1, HOUR);
        let mut short = plan(1, HOUR);
        long.handle_listed(listed(1, None)).unwrap();
        long.handle_listed(listed(2, None)).unwrap();
        short.handle_listed(listed(2, None)).unwrap();
        assert_eq!(long, short);
    }
}
