//! Maps the key of an object to the key of its item.

use crate::store::{Determinacy, StoreError, StoreErrorKind};

/// DynamoDB's limits for the two parts of a key, in bytes.
const MAX_PARTITION: usize = 2_048;
const MAX_SORT: usize = 1_024;

/// The key of an item, or a prefix of an item's key. The partition key is the part before the first
/// slash, and the sort key is the rest.
///
/// So all keys with a prefix that contains a slash are in one partition, in order, and one `Query`
/// lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemKey<'a> {
    pub(super) partition: &'a str,
    pub(super) sort: &'a str,
}

impl<'a> ItemKey<'a> {
    /// Returns the item key of an object.
    pub(super) fn of_key(key: &'a str) -> Result<ItemKey<'a>, StoreError> {
        match ItemKey::split(key) {
            Some(place) if !place.sort.is_empty() => place.within_limits(key),
            _ => Err(invalid(
                key,
                "a key needs a name before its first slash and a name after it; give the election \
                 a prefix",
            )),
        }
    }

    /// Returns the common prefix of the item keys that a listing of `prefix` returns.
    pub(super) fn of_prefix(prefix: &'a str) -> Result<ItemKey<'a>, StoreError> {
        match ItemKey::split(prefix) {
            Some(place) => place.within_limits(prefix),
            None => Err(invalid(
                prefix,
                "a listing covers one partition, so its prefix must contain a name and a slash",
            )),
        }
    }

    /// Returns the key of the object whose item is in the partition of `self` and has the sort key
    /// `sort`.
    pub(super) fn key(self, sort: &str) -> String {
        format!("{}/{sort}", self.partition)
    }

    fn split(key: &'a str) -> Option<ItemKey<'a>> {
        let (partition, sort) = key.split_once('/')?;
        (!partition.is_empty()).then_some(ItemKey { partition, sort })
    }

    fn within_limits(self, key: &str) -> Result<ItemKey<'a>, StoreError> {
        if self.partition.len() > MAX_PARTITION || self.sort.len() > MAX_SORT {
            let why = format!(
                "DynamoDB accepts at most {MAX_PARTITION} bytes before the first slash and \
                 {MAX_SORT} bytes after it"
            );
            return Err(invalid(key, &why));
        }
        Ok(self)
    }
}

fn invalid(key: &str, why: &str) -> StoreError {
    let message = format!("DynamoDB cannot hold the key {key:?}: {why}");
    StoreError::new(StoreErrorKind::Invalid, Determinacy::Determinate, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partition_ends_at_the_first_slash() {
        let place = ItemKey::of_key("app/a/lock-0000000001.json").unwrap();
        assert_eq!((place.partition, place.sort), ("app", "a/lock-0000000001.json"));
        assert_eq!(place.key(place.sort), "app/a/lock-0000000001.json");
        let place = ItemKey::of_prefix("app/").unwrap();
        assert_eq!((place.partition, place.sort), ("app", ""));
    }

    #[test]
    fn a_key_without_a_partition_or_a_name_is_refused() {
        for key in ["", "lock-0000000001.json", "/x", "app/"] {
            let error = ItemKey::of_key(key).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Invalid, "{key:?}");
        }
        for prefix in ["", "lock-", "/", "/x"] {
            let error = ItemKey::of_prefix(prefix).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Invalid, "{prefix:?}");
        }
        let long = format!("app/{}", "x".repeat(1_025));
        assert!(ItemKey::of_key(&long).is_err());
        assert!(ItemKey::of_key(&long[..long.len() - 1]).is_ok());
        assert!(ItemKey::of_key(&format!("{}/a", "x".repeat(2_049))).is_err());
        assert!(ItemKey::of_key(&format!("{}/a", "x".repeat(2_048))).is_ok());
    }
}
