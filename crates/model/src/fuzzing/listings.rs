//! Checks pages of listings, both from stores that list their keys in order and from stores that do
//! not. Each page is converted to an [`EpochsOfPage`], and a [`Search`] or a [`Compaction`]
//! receives the epochs of the page. The driver and the compactor of the library convert pages in
//! the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::time::Duration;

use chrono::{DateTime, TimeDelta};

use super::Reader;
use tenure::Epoch;
use tenure::protocol::compaction::{Compaction, Listed, NewestBody};
use tenure::protocol::find::{After, Progress, Search};
use tenure::record::keys::Keys;
use tenure::record::listing::{EpochsOfPage, key_of};
use tenure::store::{Entry, Page, StoreErrorKind};

const PREFIX: &str = "app";
/// Maximum number of requests of a search in a store without foreign objects. A search first skips
/// ahead at most 25 times, by distances that double. It then bisects an interval of numbers with up
/// to ten digits.
const MAX_QUESTIONS: usize = 64;

/// A store that lists its keys in order. The value of each key is the age of its object in seconds,
/// if the store shows an age. `page_sizes` contains the lengths of consecutive pages.
#[derive(Debug, Clone)]
pub struct Shelf {
    pub keys: Keys,
    pub objects: BTreeMap<String, Option<u32>>,
    pub page_sizes: Vec<usize>,
    pub pages_served: usize,
}

impl Shelf {
    pub fn new(page_sizes: Vec<usize>) -> Shelf {
        let keys = Keys::new(PREFIX).expect("the prefix is valid");
        Shelf { keys, objects: BTreeMap::new(), page_sizes, pages_served: 0 }
    }

    pub fn put(&mut self, epoch: Epoch, age: Option<u32>) {
        self.objects.insert(self.keys.epoch(epoch), age);
    }

    pub fn epochs(&self) -> BTreeSet<Epoch> {
        self.objects.keys().filter_map(|key| number_of(key)).collect()
    }

    pub fn page(&mut self, after: &After) -> Page {
        let size = match self.page_sizes.len() {
            0 => 1_000,
            sizes => self.page_sizes[self.pages_served % sizes].clamp(1, 1_000),
        };
        self.pages_served += 1;
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(365_000);
        let start = key_of(&self.keys, after);
        let mut later = self.objects.iter().filter(|(key, _)| **key > start);
        let entry = |(key, age): (&String, &Option<u32>)| {
            let written = age.map(|age| now - TimeDelta::seconds(age.into()));
            Entry::new(key, 1).with_last_modified(written)
        };
        let entries = later.by_ref().take(size).map(entry).collect();
        let mut page = Page::new(entries, later.next().is_some());
        page.served_at = Some(now);
        page
    }
}

/// Asserts that a search finds the newest epoch with a bounded number of requests.
pub fn check_search(shelf: &mut Shelf, known: Option<Epoch>) {
    let epochs = shelf.epochs();
    let foreign = shelf.objects.len() - epochs.len();
    let mut search = Search::new(known);
    let mut requests = 0;
    let found = loop {
        requests += 1;
        assert!(requests <= MAX_QUESTIONS * (foreign + 1), "{requests} requests: {search:?}");
        let after = search.next_page().clone();
        let page = shelf.page(&after);
        let page = EpochsOfPage::of(&shelf.keys, &after, &page)
            .expect("the shelf lists its keys in order");
        match search.handle(page.listing()) {
            Progress::More => {}
            done => break done,
        }
    };
    let newest = epochs.last().copied();
    let expected = match known {
        Some(known) if newest < Some(known) => Progress::KnownIsGone(known),
        _ => Progress::Newest(newest),
    };
    assert_eq!(found, expected, "known: {known:?}, epochs: {epochs:?}");
}

/// Passes all pages of the listing to a compaction. Returns the epochs that the compaction may
/// delete.
pub fn compact(shelf: &mut Shelf, plan: &mut Compaction) -> Vec<Listed> {
    let mut deletable = Vec::new();
    let mut next = Some(After::Number(0));
    while let Some(after) = next {
        let page = shelf.page(&after);
        let page = EpochsOfPage::of(&shelf.keys, &after, &page)
            .expect("the shelf lists its keys in order");
        for listed in page.epochs {
            deletable.extend(plan.handle_listed(listed).expect("the epochs ascend"));
        }
        next = page.rest;
    }
    if let Some(newest) = plan.newest() {
        plan.handle_read(newest, NewestBody::Validity(None));
    }
    deletable.extend(plan.handle_end());
    deletable
}

/// Asserts that [`EpochsOfPage`] refuses a page with a defect. For any other page, it must contain
/// exactly the epochs of the page.
pub fn check_page(keys: &Keys, after: &After, page: &Page) -> Option<EpochsOfPage> {
    let start = key_of(keys, after);
    let mut order = vec![&start];
    order.extend(page.entries.iter().map(|entry| &entry.key));
    let in_order = order.is_sorted_by(|before, then| before < then);
    let within = page.entries.iter().all(|entry| entry.key.starts_with(keys.epoch_prefix()));
    let endless = page.truncated && page.entries.is_empty();
    let judged = match EpochsOfPage::of(keys, after, page) {
        Err(why) => {
            let expected = if endless && in_order && within {
                StoreErrorKind::Transient
            } else {
                StoreErrorKind::Unsupported
            };
            assert!(endless || !in_order || !within, "a valid page was refused: {why}");
            assert_eq!(why.kind(), expected);
            return None;
        }
        Ok(judged) => judged,
    };
    assert!(in_order && within && !endless, "an invalid page was accepted: {page:?}");
    let epochs: Vec<String> = judged.epochs.iter().map(|listed| keys.epoch(listed.epoch)).collect();
    let shown = page.entries.iter().map(|entry| &entry.key);
    let shown: Vec<&String> = shown.filter(|key| number_of(key).is_some()).collect();
    assert_eq!(epochs.iter().collect::<Vec<_>>(), shown);
    if let Some(rest) = &judged.rest {
        assert_eq!(Some(&key_of(keys, rest)), page.entries.last().map(|entry| &entry.key));
        assert!(page.truncated, "expected a truncated page");
    }
    Some(judged)
}

/// Checks the listings that the fuzzer's bytes describe: pages of a store that lists its keys in
/// order, or arbitrary pages.
pub fn listing(bytes: &[u8]) {
    let mut reader = Reader(bytes);
    let mode = reader.byte();
    let known = Epoch::new(number(&mut reader));
    let keep = NonZeroUsize::MIN.saturating_add(usize::from(reader.byte() % 8));
    let plan = Compaction::new(keep, Duration::from_secs(u64::from(reader.byte())));
    if mode.is_multiple_of(2) {
        in_order(reader, known, keep, plan);
    } else {
        of_any_kind(reader, known, plan);
    }
}

fn in_order(mut reader: Reader<'_>, known: Option<Epoch>, keep: NonZeroUsize, plan: Compaction) {
    let sizes = (0..reader.byte() % 8).map(|_| usize::from(reader.byte())).collect();
    let mut shelf = Shelf::new(sizes);
    while !reader.is_empty() && shelf.objects.len() < 200 {
        let age = Some(u32::from(reader.byte())).filter(|age| *age < 200);
        let key = key(&mut reader, &shelf.keys);
        if key.starts_with(shelf.keys.epoch_prefix()) {
            shelf.objects.insert(key, age);
        }
    }
    check_search(&mut shelf, known);
    let mut plan = plan;
    let deletable = compact(&mut shelf, &mut plan);
    let epochs = shelf.epochs();
    let kept: BTreeSet<Epoch> = epochs.iter().rev().take(keep.get()).copied().collect();
    assert_eq!(plan.newest(), epochs.last().copied());
    for listed in deletable {
        assert!(epochs.contains(&listed.epoch) && !kept.contains(&listed.epoch), "I3: {listed:?}");
    }
}

fn of_any_kind(mut reader: Reader<'_>, known: Option<Epoch>, mut plan: Compaction) {
    let keys = Keys::new(PREFIX).expect("the prefix is valid");
    let mut search = Search::new(known);
    let mut searching = true;
    let mut after = After::Number(0);
    while !reader.is_empty() {
        let flags = reader.byte();
        let mut names: Vec<String> = (0..flags >> 3).map(|_| key(&mut reader, &keys)).collect();
        // Sort about half of the pages. Random pages are rarely in order, so without the sort the
        // checks would rarely reach the second page.
        if flags & 1 == 0 {
            names.sort_unstable();
        }
        let entries = names.into_iter().map(|key| Entry::new(key, 1)).collect();
        let page = Page::new(entries, flags & 2 == 0);
        if searching {
            let asked = search.next_page().clone();
            if let Some(judged) = check_page(&keys, &asked, &page) {
                searching = search.handle(judged.listing()) == Progress::More;
            }
        }
        let Some(judged) = check_page(&keys, &after, &page) else { continue };
        for listed in &judged.epochs {
            // The keys of a page may be in order, but smaller than the keys of the previous page.
            // In this case the compaction `plan` must refuse the epoch.
            let before = plan.newest();
            match plan.handle_listed(*listed) {
                Ok(handed) => assert!(handed.map(|handed| handed.epoch) < plan.newest(), "I3"),
                Err(_) => assert!(before >= Some(listed.epoch) && plan.stopped()),
            }
        }
        after = judged.rest.unwrap_or(After::Number(0));
    }
}

/// Parses the epoch of a key. This function does not use the code that the checks test.
pub fn number_of(key: &str) -> Option<Epoch> {
    let bytes = key.strip_prefix("app/lock-")?.as_bytes();
    let (digits, tail) = bytes.split_at_checked(10)?;
    let number = digits.iter().try_fold(0, |number, digit| match digit {
        b'0'..=b'9' => Some(number * 10 + u64::from(digit - b'0')),
        _ => None,
    })?;
    Epoch::new(number).filter(|_| tail == b".json")
}

/// Reads a number of any size, up to slightly more than the last epoch.
fn number(reader: &mut Reader<'_>) -> u64 {
    match reader.byte() {
        0 => 0,
        1 => Epoch::MAX.get() - u64::from(reader.byte()),
        2 => Epoch::MAX.get() + u64::from(reader.byte()),
        3..=80 => reader.number(1),
        81..=140 => reader.number(2),
        141..=200 => reader.number(4),
        _ => reader.number(5) % (Epoch::MAX.get() + 2),
    }
}

fn key(reader: &mut Reader<'_>, keys: &Keys) -> String {
    const TAILS: [&str; 6] = ["", ".bak", "/x", "1.json", "\u{7f}", "0"];
    let tail = match reader.byte() {
        0 => return reader.text(24),
        1 => return format!("{}{}", keys.epoch_prefix(), reader.text(24)),
        choice @ 2..=64 => TAILS[usize::from(choice) % TAILS.len()],
        _ => "",
    };
    format!("{}{tail}", keys.numbered(number(reader)))
}
