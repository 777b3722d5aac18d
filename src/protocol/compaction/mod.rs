//! Decides which epoch objects a compaction may delete.
//!
//! A compaction proposes an epoch for deletion only after it has seen `keep_epochs` (at least 1)
//! greater epochs. So a compaction never proposes the newest epoch (I3). The newest epoch never
//! decreases, so a proposed epoch stays superseded, even if the store deletes it late or twice. So
//! any number of compactors may run concurrently without coordination (C6).
//!
//! The newest epoch may be held by an unfinished restore. A held epoch supersedes no epoch, because
//! the epoch right below it may have a leader (C4). So a compaction proposes the epoch right below
//! the newest only after the driver has read the newest epoch and found that no restore holds it.
//! Restores may hold several epochs, so the driver reads the newest listed epoch before each
//! deletion (C3).

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::Duration;

use crate::epoch::Epoch;

/// The plan of one compaction. Its input is a listing in ascending order.
///
/// The plan remembers only the newest `keep_epochs` epochs, and at least 2. So its size does not
/// depend on the length of the listing.
///
/// The driver passes each listed epoch to [`handle_listed`](Compaction::handle_listed), which may
/// return an older epoch. The driver deletes that epoch in two steps:
///
/// 1. If [`newest_unread`](Compaction::newest_unread) returns an epoch, read this epoch, and pass
///    its body to [`handle_read`](Compaction::handle_read).
/// 2. If [`may_go`](Compaction::may_go) returns `true`, delete the older epoch.
///
/// After the last page, [`handle_end`](Compaction::handle_end) may return one more epoch to delete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Compaction {
    // These fields are the settings. Each record that is read may raise `min_age`.
    keep_epochs: NonZeroUsize,
    min_age: Duration,

    // These fields describe the listing so far.
    newest: VecDeque<Listed>,
    stopped: bool,
    /// The epoch whose object was read last, and the result of the read.
    read: Option<(Epoch, NewestBody)>,
}

/// The facts that a compaction needs from the body of the newest epoch object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NewestBody {
    /// An unfinished restore holds the epoch.
    Held,
    /// No restore holds the epoch. The value is the validity of the record, if the record has one.
    Validity(Option<Duration>),
    /// The object was deleted after the listing, so its epoch is superseded.
    Gone,
}

/// An epoch object in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    pub epoch: Epoch,
    /// The body length in bytes.
    pub size: u64,
    /// The object's age by the store's clock, or `None` if the store did not send both dates.
    pub age: Option<Duration>,
}

/// The error of a listing that is not in ascending order of the epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutOfOrder {
    pub before: Epoch,
    pub then: Epoch,
}

impl Compaction {
    pub fn new(keep_epochs: NonZeroUsize, min_age: Duration) -> Compaction {
        Compaction { keep_epochs, min_age, newest: VecDeque::new(), stopped: false, read: None }
    }

    /// Takes the next epoch of the listing. Returns an older epoch if that epoch may be deleted.
    ///
    /// After [`Epoch::MAX`], and after an error, this method returns no more epochs.
    pub fn handle_listed(&mut self, listed: Listed) -> Result<Option<Listed>, OutOfOrder> {
        if let Some(before) = self.newest().filter(|before| *before >= listed.epoch) {
            self.stopped = true;
            return Err(OutOfOrder { before, then: listed.epoch });
        }
        // Only an accident or malice creates the last epoch, and an operator may remove it later.
        // The election then continues from the lower epochs, so a compaction must keep them.
        self.stopped |= listed.epoch == Epoch::MAX;
        self.newest.push_back(listed);
        // Keep the epoch right below the newest until the driver has read the newest.
        if self.newest.len() <= self.keep_epochs.get().max(2) {
            return Ok(None);
        }
        let oldest = self.newest.pop_front();
        Ok(oldest.filter(|oldest| self.may_go(*oldest)))
    }

    /// Takes the facts in the body of a listed epoch. Call [`may_go`](Self::may_go) again before
    /// each later deletion.
    ///
    /// This method raises `min_age` above each validity that was read (C5). A leader renews at
    /// least once per validity, so the object of an active leader never reaches this age. A
    /// `min_age` of 0 switches this rule off.
    pub fn handle_read(&mut self, epoch: Epoch, body: NewestBody) {
        self.read = Some((epoch, body));
        match body {
            NewestBody::Held => self.stopped = true,
            NewestBody::Validity(Some(validity)) if !self.min_age.is_zero() => {
                self.min_age = self.min_age.max(validity.saturating_add(RESOLUTION));
            }
            NewestBody::Validity(_) | NewestBody::Gone => {}
        }
    }

    /// Returns whether an epoch that this plan returned may still be deleted.
    pub fn may_go(&self, listed: Listed) -> bool {
        // An epoch of unknown age counts as new, so a store without dates keeps all its epochs.
        !self.stopped && listed.age.unwrap_or_default() >= self.min_age
    }

    /// Ends the listing. While the newest epoch was unread, the plan may have kept one more epoch
    /// than necessary. Returns this epoch if it may be deleted.
    pub fn handle_end(&mut self) -> Option<Listed> {
        if self.newest.len() <= self.keep_epochs.get() {
            return None;
        }
        let (newest, read) = (self.newest(), self.read);
        let known = matches!(read, Some((epoch, NewestBody::Validity(_))) if Some(epoch) == newest);
        let oldest = self.newest.pop_front();
        oldest.filter(|oldest| known && self.may_go(*oldest))
    }

    /// Returns whether the plan still keeps a superseded epoch that is old enough to be deleted.
    pub fn has_held_back(&self) -> bool {
        let superseded = self.newest.len() > self.keep_epochs.get();
        superseded && self.newest.front().is_some_and(|oldest| self.may_go(*oldest))
    }

    /// Returns the greatest epoch seen, if the driver still has to read its object. Returns `None`
    /// after the read, or if the plan has stopped.
    pub fn newest_unread(&self) -> Option<Epoch> {
        let read = self.read.map(|(epoch, _)| epoch);
        self.newest().filter(|newest| !self.stopped && read != Some(*newest))
    }

    /// Returns whether an unfinished restore holds the newest epoch.
    pub fn is_held(&self) -> bool {
        matches!(self.read, Some((_, NewestBody::Held)))
    }

    /// Returns the minimum age at which an epoch may be deleted. A long validity in a record that
    /// was read raises this age.
    pub fn min_age(&self) -> Duration {
        self.min_age
    }

    /// Returns the greatest epoch seen.
    pub fn newest(&self) -> Option<Epoch> {
        self.newest.back().map(|listed| listed.epoch)
    }

    /// Returns true if no more epochs may be deleted, not even epochs that this plan has already
    /// returned.
    pub fn stopped(&self) -> bool {
        self.stopped
    }
}

/// The precision of a store's dates, which are in whole seconds.
const RESOLUTION: Duration = Duration::from_secs(1);

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
        let deletable = |listed: &Listed| plan.handle_listed(*listed).unwrap();
        let mut deleted: Vec<Listed> = listing.iter().filter_map(deletable).collect();
        if let Some(newest) = plan.newest() {
            plan.handle_read(newest, NO_VALIDITY);
        }
        deleted.extend(plan.handle_end());
        deleted.iter().map(|listed| listed.epoch).collect()
    }

    /// The body of a record without a validity.
    const NO_VALIDITY: NewestBody = NewestBody::Validity(None);

    /// Returns the first wrong decision of a plan that deletes exactly `deleted` from this listing,
    /// or `None` if each decision is right.
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

    /// Returns every listing of up to five epochs. Each epoch is missing, old, too young or of
    /// unknown age.
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
    fn exactly_the_old_epochs_beyond_the_newest_are_deleted() {
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

    /// Returns the epochs that a broken plan deletes. This plan keeps one epoch less than `keep`.
    fn broken_plan(listing: &[Listed], keep: usize) -> Vec<Epoch> {
        let mut newest = VecDeque::new();
        let deletable = |listed: &Listed| {
            newest.push_back(listed.epoch);
            if newest.len() < keep { None } else { newest.pop_front() }
        };
        listing.iter().filter_map(deletable).collect()
    }

    #[test]
    fn a_plan_that_deletes_the_newest_is_detected() {
        let listing = [listed(1, Some(HOUR)), listed(2, Some(HOUR))];
        let wrong = violation(&listing, &broken_plan(&listing, 1), 1, HOUR);
        assert_eq!(wrong.as_deref(), Some("I3: 2 is the newest"));
        let wrong = violation(&listing, &broken_plan(&listing, 2), 2, HOUR);
        assert_eq!(wrong.as_deref(), Some("1 deleted: true"));
    }

    #[test]
    fn memory_is_bounded_by_keep_epochs() {
        let mut plan = plan(3, HOUR);
        for number in 1..=10_000 {
            plan.handle_listed(listed(number, None)).unwrap();
            assert!(plan.newest.len() <= 3);
            assert_eq!(plan.newest(), Epoch::new(number));
        }
    }

    #[test]
    fn a_repeated_or_lower_epoch_is_an_error_and_ends_the_plan() {
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
    fn the_last_epoch_supersedes_no_epoch() {
        let listing = [listed(1, None), listed(2, None), listed(Epoch::MAX.get(), None)];
        assert_eq!(handed_out(plan(1, Duration::ZERO), &listing), []);
        let listing = [listed(7, None), listed(Epoch::MAX.get(), None)];
        let mut plan = plan(1, Duration::ZERO);
        for listed in listing {
            assert_eq!(plan.handle_listed(listed), Ok(None));
        }
        assert!(plan.stopped());
    }

    #[test]
    fn the_newest_is_read_once_and_not_after_the_plan_has_stopped() {
        let mut plan = plan(1, HOUR);
        for number in 1..=2 {
            plan.handle_listed(listed(number, None)).unwrap();
            assert_eq!(plan.newest_unread(), Epoch::new(number));
            plan.handle_read(epoch(number), NO_VALIDITY);
            assert_eq!(plan.newest_unread(), None);
        }
        plan.handle_read(epoch(2), NewestBody::Held);
        plan.handle_listed(listed(3, None)).unwrap();
        assert_eq!(plan.newest_unread(), None);
    }

    #[test]
    fn plans_with_the_same_newest_epochs_are_equal() {
        let mut long = plan(1, HOUR);
        let mut short = plan(1, HOUR);
        for number in 1..=3 {
            long.handle_listed(listed(number, None)).unwrap();
        }
        for number in 2..=3 {
            short.handle_listed(listed(number, None)).unwrap();
        }
        assert_eq!(long, short);
    }

    /// The listing has three old epochs. The plan always returns the first epoch. With a
    /// `keep_epochs` of 1, the plan returns the second epoch only if the newest epoch was read and
    /// its body allows this.
    #[test]
    fn the_epoch_below_the_newest_is_deleted_only_if_the_newest_is_valid() {
        for (read, goes) in [
            (None, false),
            (Some((2, NO_VALIDITY)), false),
            (Some((3, NewestBody::Held)), false),
            (Some((3, NewestBody::Gone)), false),
            (Some((3, NO_VALIDITY)), true),
            (Some((3, NewestBody::Validity(Some(HOUR)))), true),
        ] {
            for keep in [1, 2] {
                let mut plan = plan(keep, Duration::ZERO);
                let mut gone = Vec::new();
                for number in 1..=3 {
                    gone.extend(plan.handle_listed(listed(number, Some(HOUR))).unwrap());
                }
                assert_eq!(gone, [listed(1, Some(HOUR))]);
                assert_eq!(plan.has_held_back(), keep == 1);
                if let Some((number, body)) = read {
                    plan.handle_read(epoch(number), body);
                }
                assert_eq!(plan.may_go(gone[0]), !matches!(read, Some((_, NewestBody::Held))));
                let last = plan.handle_end().map(|listed| listed.epoch);
                assert_eq!(last, (goes && keep == 1).then_some(epoch(2)), "{read:?}, keep {keep}");
            }
        }
    }

    #[test]
    fn a_positive_min_age_stays_above_the_longest_validity() {
        let mut plan = plan(1, HOUR);
        for (validity, min_age) in [
            (None, HOUR),
            (Some(HOUR / 2), HOUR),
            (Some(HOUR - RESOLUTION), HOUR),
            (Some(12 * HOUR), 12 * HOUR + RESOLUTION),
            (Some(HOUR), 12 * HOUR + RESOLUTION),
        ] {
            plan.handle_read(epoch(1), NewestBody::Validity(validity));
            assert_eq!(plan.min_age(), min_age, "{validity:?}");
        }
        assert!(!plan.may_go(listed(1, Some(12 * HOUR))));
        assert!(plan.may_go(listed(1, Some(12 * HOUR + RESOLUTION))));
        let mut plan = Compaction::new(NonZeroUsize::MIN, Duration::ZERO);
        plan.handle_read(epoch(1), NewestBody::Validity(Some(12 * HOUR)));
        assert!(plan.may_go(listed(1, None)));
    }
}
