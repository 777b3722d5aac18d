//! Makes the keys of the log's objects, and reads the objects' numbers from the keys of a listing.

use std::num::NonZeroU64;
use std::sync::Arc;

use tenure::internals::fencing::{After, check_order};
use tenure::store::{Page, StoreError};

/// Makes the keys of a log from its prefix.
#[derive(Debug, Clone)]
pub(super) struct LogKeys(pub(super) Arc<str>);

impl LogKeys {
    pub(super) fn numbered(&self, number: u64) -> String {
        format!("{}{number:020}", self.0)
    }

    pub(super) fn marker(&self) -> String {
        format!("{}trim", self.0)
    }

    pub(super) fn start(&self, after: &After) -> String {
        match after {
            After::Number(number) => self.numbered(*number),
            After::Key(key) => key.clone(),
        }
    }

    fn parse(&self, key: &str) -> Option<NonZeroU64> {
        let digits = key.strip_prefix(&*self.0)?;
        let exact = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
        // A number of twenty digits may exceed 64 bits. A key with such a number does not belong to
        // the log.
        if exact { digits.parse().ok() } else { None }
    }

    pub(super) fn check(
        &self,
        start: &str,
        page: &Page,
    ) -> Result<(Vec<NonZeroU64>, Option<After>), StoreError> {
        let last = check_order(&self.0, start, page)?;
        let numbers = page.entries.iter().filter_map(|entry| self.parse(&entry.key)).collect();
        let ended = !page.truncated || last >= self.numbered(u64::MAX).as_str();
        let rest = (!ended).then(|| match self.parse(last) {
            Some(number) => After::Number(number.get()),
            None => After::Key(last.to_owned()),
        });
        Ok((numbers, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_twenty_digits_are_numbers() {
        let keys = LogKeys("log/".into());
        assert_eq!(keys.numbered(7), "log/00000000000000000007");
        assert_eq!(keys.parse(&keys.numbered(u64::MAX)).map(NonZeroU64::get), Some(u64::MAX));
        for foreign in [
            "log/00000000000000000000",
            "log/99999999999999999999",
            "log/000000000000000000001",
            "log/0000000000000000001",
            "log/+0000000000000000001",
            "log/00000000000000000001/x",
            "log/trim",
            "00000000000000000001",
        ] {
            assert_eq!(keys.parse(foreign), None, "{foreign}");
        }
    }
}
