//! Checks the pages of a listing before their use (N1, N2 in docs/design/protocol.md).
//!
//! The keys of a page must be in ascending order, under the prefix and after the requested key. A
//! page that violates one of these rules is an error, and no epoch of this page is used. The
//! compactor, fenced logs, generations and the search for the newest epoch use these rules.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::epoch::Epoch;
use crate::protocol::compaction::Listed;
use crate::protocol::find::{After, Listing};
use crate::record::keys::{Keys, SetKey};
use crate::store::{Entry, Page, StoreError, check_any_page, check_ascending, check_order};

/// The epochs of one page, which has passed the checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochsOfPage {
    /// Epochs of the page in ascending order.
    pub epochs: Vec<Listed>,
    /// Start of the next page, or `None` if no epoch can follow. Even a page with few keys may have
    /// a next page.
    pub rest: Option<After>,
}

impl EpochsOfPage {
    /// Checks a page that has the smallest keys greater than `after`. Refuses the page if the store
    /// read its keys at different moments.
    pub fn of(keys: &Keys, after: &After, page: &Page) -> Result<EpochsOfPage, StoreError> {
        check_order(keys.epoch_prefix(), &key_of(keys, after), page)?;
        EpochsOfPage::of_any(keys, after, page)
    }

    /// Checks a page as [`of`](Self::of) does, but also accepts a page whose keys the store read at
    /// different moments (N8).
    pub fn of_any(keys: &Keys, after: &After, page: &Page) -> Result<EpochsOfPage, StoreError> {
        let start = key_of(keys, after);
        let last = check_any_page(keys.epoch_prefix(), &start, page)?;
        let epochs = epochs(keys, page);
        let ended = !page.truncated || last >= keys.epoch(Epoch::MAX).as_str();
        let rest = (!ended).then(|| match keys.parse(last) {
            Some(epoch) => After::Number(epoch.get()),
            None => After::Key(last.to_owned()),
        });
        Ok(EpochsOfPage { epochs, rest })
    }

    /// Checks a page that has the greatest keys, all of them greater than `after`. If the keys of
    /// other objects fill the page, returns `None`, because the page then does not show the
    /// greatest epoch.
    pub fn of_last(
        keys: &Keys,
        after: &After,
        page: &Page,
    ) -> Result<Option<EpochsOfPage>, StoreError> {
        check_ascending(keys.epoch_prefix(), &key_of(keys, after), page)?;
        let epochs = epochs(keys, page);
        // The page has the greatest keys. So if the page shows an epoch, it also shows all greater
        // epochs.
        let is_known = !epochs.is_empty() || !page.truncated;
        Ok(is_known.then_some(EpochsOfPage { epochs, rest: None }))
    }

    /// Returns the part of the page that the search for the newest epoch needs.
    pub fn listing(&self) -> Listing {
        let ends = self.epochs.first().zip(self.epochs.last());
        let epochs = ends.map(|(least, greatest)| (least.epoch, greatest.epoch));
        Listing { epochs, rest: self.rest.clone() }
    }
}

/// One page of a listing of an election across stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOfSet {
    pub listing: Listing,
    /// The markers and the notes of the page.
    pub names: Vec<SetKey>,
}

impl PageOfSet {
    /// Checks a page that has the smallest keys greater than `after`.
    pub fn of(keys: &Keys, after: &After, page: &Page) -> Result<PageOfSet, StoreError> {
        let mut listing = EpochsOfPage::of(keys, after, page)?.listing();
        // The markers and the notes lie after the last epoch.
        if page.truncated && listing.rest.is_none() {
            listing.rest = page.entries.last().map(|last| After::Key(last.key.clone()));
        }
        let names = page.entries.iter().filter_map(|entry| keys.parse_set(&entry.key)).collect();
        Ok(PageOfSet { listing, names })
    }
}

fn epochs(keys: &Keys, page: &Page) -> Vec<Listed> {
    let listed = |entry: &Entry| {
        let age = age(page.served_at, entry.last_modified);
        keys.parse(&entry.key).map(|epoch| Listed { epoch, size: entry.size, age })
    };
    page.entries.iter().filter_map(listed).collect()
}

/// Returns the key after which a listing starts.
pub fn key_of(keys: &Keys, after: &After) -> String {
    match after {
        After::Number(number) => keys.numbered(*number),
        After::Key(key) => key.clone(),
    }
}

/// Returns the age of an object from two dates of the store. If `modified` is later than
/// `served_at`, the age is 0.
pub fn age(served_at: Option<DateTime<Utc>>, modified: Option<DateTime<Utc>>) -> Option<Duration> {
    Some((served_at? - modified?).to_std().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreErrorKind;

    fn page(names: &[&str], truncated: bool) -> Page {
        let entry = |name: &&str| Entry::new(format!("a/{name}"), 1);
        Page::new(names.iter().map(entry).collect(), truncated)
    }

    fn last(names: &[&str], truncated: bool) -> Result<Option<Listing>, StoreErrorKind> {
        let keys = Keys::new("a").unwrap();
        let checked = EpochsOfPage::of_last(&keys, &After::Number(4), &page(names, truncated));
        checked.map(|page| page.map(|page| page.listing())).map_err(|error| error.kind())
    }

    #[test]
    fn a_page_of_the_greatest_keys_shows_the_newest_epoch_or_leaves_it_unknown() {
        let (five, seven) = (Epoch::new(5).unwrap(), Epoch::new(7).unwrap());
        let listing = |epochs| Ok(Some(Listing { epochs, rest: None }));
        let names = ["lock-0000000005.json", "lock-0000000007.json", "lock-0000000007.json.bak"];
        for truncated in [false, true] {
            assert_eq!(last(&names, truncated), listing(Some((five, seven))));
        }
        assert_eq!(last(&[], false), listing(None));
        assert_eq!(last(&["lock-x"], false), listing(None));
        // The keys of other objects fill the page, and the keys of epochs may sort before them. So
        // the newest epoch is unknown.
        assert_eq!(last(&["lock-x", "lock-y"], true), Ok(None));
        assert_eq!(last(&[], true), Ok(None));
    }

    #[test]
    fn a_page_of_the_greatest_keys_is_unsafe_if_it_is_out_of_order() {
        let (four, five, six) =
            ("lock-0000000004.json", "lock-0000000005.json", "lock-0000000006.json");
        for names in [&[six, five][..], &[four, five], &[five, five], &["other"]] {
            assert_eq!(last(names, false), Err(StoreErrorKind::Unsupported), "{names:?}");
        }
    }
}
