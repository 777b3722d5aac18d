//! Runs the fuzz targets' checks on listings that proptest generates.

use std::num::NonZeroUsize;
use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use tenure::Epoch;
use tenure::protocol::compaction::Compaction;
use tenure::protocol::find::After;
use tenure::record::keys::Keys;
use tenure::record::listing::EpochsOfPage;
use tenure::store::{Entry, Page, StoreErrorKind};
use tenure_model::fuzzing::listings::{Shelf, check_page, check_search, compact, number_of};
use tenure_testkit::properties::{any_epoch_number, cases};

fn any_epoch() -> impl Strategy<Value = Epoch> {
    any_epoch_number().prop_map(|number| Epoch::new(number).expect("the number is in range"))
}

/// Generates keys under the prefix that are not epoch objects. In the order of the keys, many of
/// them are next to an epoch object.
fn foreign_key() -> impl Strategy<Value = String> {
    let beside =
        (any_epoch(), "[ -~]{1,6}").prop_map(|(epoch, tail)| format!("{epoch:010}.json{tail}"));
    let digits = "0{0,8}[0-9+]{0,10}(\\.json)?";
    let signed = "\\+[0-9]{9}\\.json";
    let tail = prop_oneof![
        3 => beside,
        2 => digits,
        1 => signed,
        1 => Just("0000000000.json".to_owned()),
        1 => "\\PC{0,8}",
    ];
    tail.prop_map(|tail| format!("app/lock-{tail}"))
        .prop_filter("foreign", |key| number_of(key).is_none())
}

fn any_key() -> impl Strategy<Value = String> {
    let own = any_epoch().prop_map(|epoch| format!("app/lock-{epoch:010}.json"));
    prop_oneof![foreign_key(), own, ".{0,20}"]
}

fn shelf() -> impl Strategy<Value = Shelf> {
    let age = prop::option::weighted(0.9, 0..200_u32);
    let epochs = btree_map(any_epoch(), age.clone(), 0..40);
    let foreign = btree_map(foreign_key(), age, 0..12);
    (epochs, foreign, vec(1..6_usize, 0..5)).prop_map(|(epochs, foreign, sizes)| {
        let mut shelf = Shelf::new(sizes);
        shelf.objects = foreign;
        for (epoch, age) in epochs {
            shelf.put(epoch, age);
        }
        shelf
    })
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn the_newest_epoch_is_found_from_any_known_epoch(
        mut shelf in shelf(), known in prop::option::of(any_epoch()), choice: prop::sample::Index,
    ) {
        check_search(&mut shelf, known);
        check_search(&mut shelf, None);
        let epochs = shelf.epochs();
        if !epochs.is_empty() {
            check_search(&mut shelf, epochs.iter().nth(choice.index(epochs.len())).copied());
        }
    }

    #[test]
    fn only_old_superseded_epochs_are_compacted(
        mut shelf in shelf(), keep in 1..12_usize, min_age in 0..200_u32,
    ) {
        let keep_epochs = NonZeroUsize::new(keep).expect("at least 1");
        let mut plan = Compaction::new(keep_epochs, Duration::from_secs(min_age.into()));
        let epochs = shelf.epochs();
        let deleted: Vec<Epoch> = compact(&mut shelf, &mut plan).iter().map(|l| l.epoch).collect();
        prop_assert_eq!(plan.newest(), epochs.last().copied());
        prop_assert_eq!(plan.stopped(), epochs.contains(&Epoch::MAX));
        let old = |epoch: &&Epoch| {
            shelf.objects[&shelf.keys.epoch(**epoch)].unwrap_or_default() >= min_age
        };
        let superseded = epochs.iter().take(epochs.len().saturating_sub(keep)).filter(old);
        if plan.stopped() {
            // If the greatest possible epoch exists, the compactor stops early. So it may have
            // deleted fewer epochs than a complete run deletes.
            prop_assert!(deleted.iter().all(|epoch| epochs.contains(epoch)));
        } else {
            prop_assert_eq!(deleted, superseded.copied().collect::<Vec<_>>());
        }
    }

    #[test]
    fn foreign_keys_lie_between_the_epochs(key in foreign_key(), epoch in any_epoch()) {
        let keys = Keys::new("app").unwrap();
        prop_assert_eq!(keys.parse(&key), None);
        prop_assert_ne!(keys.epoch(epoch), key);
    }

    #[test]
    fn an_invalid_page_is_refused(
        mut shelf in shelf(),
        breakage in 0..5_u8,
        (at, with) in any::<(prop::sample::Index, prop::sample::Index)>(),
        after in prop_oneof![
            any_epoch().prop_map(|epoch| After::Number(epoch.get())),
            foreign_key().prop_map(After::Key),
        ],
    ) {
        shelf.page_sizes = vec![1_000];
        let mut page = shelf.page(&after);
        prop_assert!(check_page(&shelf.keys, &after, &page).is_some(), "in order");
        prop_assume!(!page.entries.is_empty());
        let (at, with) = (at.index(page.entries.len()), with.index(page.entries.len()));
        let entry = |key: String| Entry::new(key, 1);
        match breakage {
            0 => {
                prop_assume!(at != with);
                page.entries.swap(at, with);
            }
            1 => page.entries.insert(at, page.entries[with].clone()),
            2 => {
                let start = tenure::record::listing::key_of(&shelf.keys, &after);
                page.entries.insert(0, entry(start));
            }
            3 => page.entries.insert(at, entry("apq/lock-0000000001.json".to_owned())),
            _ => {
                page.entries.clear();
                page.truncated = true;
            }
        }
        let refused = EpochsOfPage::of(&shelf.keys, &after, &page).unwrap_err();
        let kind = match breakage {
            0..4 => StoreErrorKind::Unsupported,
            _ => StoreErrorKind::Transient,
        };
        prop_assert_eq!(refused.kind(), kind);
        prop_assert!(check_page(&shelf.keys, &after, &page).is_none());
    }

    #[test]
    fn arbitrary_pages_are_accepted_or_refused(
        names in vec(any_key(), 0..6),
        sorted: bool, truncated: bool, after in any_epoch(),
    ) {
        let mut names = names;
        if sorted {
            names.sort_unstable();
        }
        let entries = names.into_iter().map(|key| Entry::new(key, 1));
        let page = Page::new(entries.collect(), truncated);
        let keys = Keys::new("app").expect("a plain word");
        check_page(&keys, &After::Number(after.get() - 1), &page);
    }
}
