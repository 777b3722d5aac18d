//! The keys of one election's epoch objects under its prefix.

mod stores;

use std::fmt::Write as _;
use std::sync::Arc;

pub use stores::{SetId, SetKey};

use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::layout::Layout;

/// The part of a key before the number of an epoch.
const EPOCH: &str = "lock-";
const MAX_PREFIX_BYTES: usize = 900;

/// The key prefix of an election. If a prefix is not empty and does not end with a slash, this type
/// adds the slash.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Keys {
    prefix: Arc<str>,
    epoch_prefix: Arc<str>,
}

impl Keys {
    /// Returns the keys of the election under `prefix`. `app` and `app/` are the prefix of the same
    /// election. The empty prefix is the root of the store.
    pub fn new(prefix: &str) -> Result<Keys, Error> {
        Keys::numbered_with(prefix, EPOCH)
    }

    /// Returns true if these are the keys of epoch objects, and not of other numbered objects.
    pub fn are_epochs(&self) -> bool {
        self.epoch_prefix.ends_with(EPOCH)
    }

    /// Returns the keys of other numbered objects. The keys are like the keys of epoch objects, but
    /// have `stem` before the number.
    pub fn numbered_with(prefix: &str, stem: &str) -> Result<Keys, Error> {
        let trimmed = prefix.strip_suffix('/').unwrap_or(prefix);
        let invalid = |why: String| Err(Error::new(ErrorKind::InvalidInput, why));
        if prefix == "/" || trimmed.starts_with('/') {
            return invalid(format!("the prefix {prefix:?} starts with a slash; remove the slash"));
        }
        if trimmed.len() > MAX_PREFIX_BYTES {
            let length = trimmed.len();
            return invalid(format!(
                "the prefix must have at most {MAX_PREFIX_BYTES} bytes, got {length}: object names \
                 need the rest"
            ));
        }
        if trimmed.chars().any(char::is_control) {
            return invalid(format!("the prefix {prefix:?} has a control character; remove it"));
        }
        if !trimmed.is_empty() && trimmed.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return invalid(format!(
                "the prefix {prefix:?} has an empty, `.` or `..` part; remove it"
            ));
        }
        let prefix = if trimmed.is_empty() { String::new() } else { format!("{trimmed}/") };
        Ok(Keys { epoch_prefix: format!("{prefix}{stem}").into(), prefix: prefix.into() })
    }

    /// Returns the prefix, which is empty or ends with a slash.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the first part of the key of every epoch object: the prefix of the election and
    /// `lock-`.
    pub fn epoch_prefix(&self) -> &str {
        &self.epoch_prefix
    }

    /// Returns the key of the object that has the record of this epoch.
    pub fn of(&self, layout: Layout, epoch: Epoch) -> String {
        match layout {
            Layout::EpochFiles => self.epoch(epoch),
            Layout::SingleObject => self.lock(),
        }
    }

    /// Returns the key of the one object of `Layout::SingleObject`. This key does not start with
    /// [`epoch_prefix`](Keys::epoch_prefix).
    pub fn lock(&self) -> String {
        format!("{}lock.json", self.prefix)
    }

    /// Returns the key of the object of `epoch`.
    pub fn epoch(&self, epoch: Epoch) -> String {
        self.numbered(epoch.get())
    }

    /// Returns the key of the epoch object with this number, which has up to ten digits. The number
    /// may be 0: no epoch has this number, but a listing may start after its key.
    pub fn numbered(&self, number: u64) -> String {
        let mut key = String::with_capacity(self.epoch_prefix.len() + 15);
        key.push_str(&self.epoch_prefix);
        // Writing to a String cannot fail.
        let _ = write!(key, "{number:010}.json");
        key
    }

    /// Returns the key of the object that a check of the store writes. The random number selects
    /// one of 256 keys. These keys sort before the keys of epoch objects and before `lock.json`.
    pub fn store_check(&self, random: u128) -> String {
        format!("{}.tenure-check-{:02x}", self.prefix, random & 0xff)
    }

    /// Returns the epoch in the key of an epoch object, or `None` for another key. An election
    /// ignores objects with other keys, and never deletes them.
    pub fn parse(&self, key: &str) -> Option<Epoch> {
        let digits = key.strip_prefix(&*self.epoch_prefix)?.strip_suffix(".json")?;
        if digits.len() != 10 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok()
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_final_slash_makes_no_difference() {
        assert_eq!(Keys::new("app").unwrap(), Keys::new("app/").unwrap());
        assert_eq!(Keys::new("").unwrap().epoch(Epoch::FIRST), "lock-0000000001.json");
        assert_eq!(Keys::new("a/b").unwrap().epoch(Epoch::MAX), "a/b/lock-9999999999.json");
        let keys = Keys::new("a").unwrap();
        let check = keys.store_check(0x0001_000f);
        assert_eq!(check, "a/.tenure-check-0f");
        assert!(check < keys.lock() && check < keys.epoch(Epoch::FIRST));
    }

    #[test]
    fn invalid_prefixes_are_refused() {
        for prefix in ["/", "/a", "a//b", "a/../b", "..", ".", "a\nb", &"x".repeat(901)] {
            let error = Keys::new(prefix).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{prefix:?}");
        }
    }

    #[test]
    fn foreign_keys_are_not_epochs() {
        let keys = Keys::new("app").unwrap();
        assert_eq!(keys.parse("app/lock-0000000012.json"), Epoch::new(12));
        for key in [
            "app/lock-0000000000.json",
            "app/lock-00000000001.json",
            "app/lock-000000001.json",
            "app/lock-0000000002.json.bak",
            "app/lock-000000000x.json",
            "app/lock-+000000001.json",
            "app/lock-0000000001.json/x",
            "app/.tenure-check",
            "app/lock.json",
            "lock-0000000001.json",
        ] {
            assert_eq!(keys.parse(key), None, "{key}");
        }
    }
}
