use proptest::prelude::*;

use super::*;
use tenure_testkit::properties::{any_epoch_number, cases};

fn any_epoch() -> impl Strategy<Value = Epoch> {
    any_epoch_number().prop_map(|number| {
        Epoch::new(number).expect("`any_epoch_number` is the number of an epoch")
    })
}

/// Generates valid prefixes of elections, with and without a final slash.
fn prefix() -> impl Strategy<Value = String> {
    let parts = proptest::collection::vec("[a-zA-Z0-9 ä_-][a-z.ä-]{0,6}", 0..4);
    (parts, any::<bool>()).prop_map(|(parts, slash)| {
        let slash = if slash && !parts.is_empty() { "/" } else { "" };
        format!("{}{slash}", parts.join("/"))
    })
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn an_epochs_key_is_read_back_and_sorts_as_the_epoch(
        prefix in prefix(), epoch in any_epoch(), other in any_epoch(),
    ) {
        let keys = Keys::new(&prefix).unwrap();
        let key = keys.epoch(epoch);
        prop_assert_eq!(keys.parse(&key), Some(epoch));
        prop_assert!(key.starts_with(keys.epoch_prefix()) && key.starts_with(keys.prefix()));
        prop_assert_eq!(keys.epoch(other).cmp(&key), other.cmp(&epoch));
        prop_assert_eq!(keys.numbered(epoch.get()), key);
    }

    #[test]
    fn each_epoch_has_exactly_one_key(
        key in "(app/)?lock-?[0-9+ ]{8,12}(\\.json|\\.JSON)?.?",
    ) {
        let keys = Keys::new("app").unwrap();
        if let Some(epoch) = keys.parse(&key) {
            prop_assert_eq!(keys.epoch(epoch), key);
        }
    }

    #[test]
    fn each_text_is_a_foreign_key_or_the_key_of_an_epoch(key in "\\PC*", prefix in "\\PC*") {
        if let Ok(keys) = Keys::new(&prefix)
            && let Some(epoch) = keys.parse(&key)
        {
            prop_assert_eq!(keys.epoch(epoch), key);
        }
    }

    #[test]
    fn elections_of_different_prefixes_share_no_key(
        one in prefix(), other in prefix(), epoch in any_epoch(),
    ) {
        let (one, other) = (Keys::new(&one).unwrap(), Keys::new(&other).unwrap());
        prop_assume!(one != other);
        prop_assert_eq!(one.parse(&other.epoch(epoch)), None);
    }
}
