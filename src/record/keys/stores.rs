//! The keys of the objects that identify the stores of an election across stores.

use std::fmt;

use super::Keys;

/// The name of one set of stores. A random number, drawn when the set is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetId(pub u64);

/// A key of an election across stores that is not an epoch. All these keys sort after the epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetKey {
    pub set: SetId,
    /// Index of the store that the key names, from 0. In the key, this number counts from 1.
    pub store: usize,
    /// Number of the contents of the named store: 1, and one more after each replacement.
    pub generation: u32,
    /// For a marker, which lies in the named store: the number of stores of the set. For a note,
    /// which lies in another store: `None`.
    pub of: Option<usize>,
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for SetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SetKey { set, store, generation, of } = self;
        let number = store + 1;
        match of {
            Some(stores) => write!(f, "set-{set}-{number}of{stores}-{generation:010}.json"),
            None => write!(f, "set-{set}-note-{number}-{generation:010}.json"),
        }
    }
}

impl Keys {
    /// Returns the key of a marker or a note.
    pub fn of_set(&self, name: SetKey) -> String {
        format!("{}{name}", self.epoch_prefix())
    }

    /// Returns the marker or the note with this key, or `None` for any other key.
    pub fn parse_set(&self, key: &str) -> Option<SetKey> {
        let rest = key.strip_prefix(self.epoch_prefix())?.strip_prefix("set-")?;
        let mut parts = rest.strip_suffix(".json")?.split('-');
        let set = SetId(u64::from_str_radix(parts.next()?, 16).ok()?);
        let (store, of) = match parts.next()? {
            "note" => (parts.next()?, None),
            marker => {
                let (store, of) = marker.split_once("of")?;
                (store, Some(of.parse().ok()?))
            }
        };
        let store = store.parse::<usize>().ok()?.checked_sub(1)?;
        let generation = parts.next()?.parse().ok().filter(|generation| *generation > 0)?;
        let name = SetKey { set, store, generation, of };
        // Each name has exactly one key. So a key with a sign or without its leading zeros is
        // refused.
        (self.of_set(name) == key).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::Epoch;

    #[test]
    fn keys_of_a_set_are_read_back_and_sort_after_all_epochs() {
        let keys = Keys::new("app").unwrap();
        for of in [Some(3), None] {
            let name = SetKey { set: SetId(0xab), store: 1, generation: 7, of };
            let key = keys.of_set(name);
            assert_eq!(keys.parse_set(&key), Some(name), "{key}");
            assert!(key > keys.epoch(Epoch::MAX) && keys.parse(&key).is_none());
        }
    }

    #[test]
    fn other_keys_are_not_of_a_set() {
        let keys = Keys::new("app").unwrap();
        for key in [
            "app/lock-0000000001.json",
            "app/lock-set-00000000000000ab-2of3-0000000000.json",
            "app/lock-set-00000000000000ab-0of3-0000000001.json",
            "app/lock-set-00000000000000ab-2of3-1.json",
            "app/lock-set-ab-2of3-0000000001.json",
            "app/lock-set-00000000000000AB-2of3-0000000001.json",
            "app/lock-set-00000000000000ab-2of3-0000000001-1.json",
            "app/lock-set-00000000000000ab-note-+2-0000000001.json",
            "b/lock-set-00000000000000ab-2of3-0000000001.json",
        ] {
            assert_eq!(keys.parse_set(key), None, "{key}");
        }
    }
}
