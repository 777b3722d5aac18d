//! The entity tag identifies a stored body. Conditional requests compare this tag.

use std::fmt;
use std::sync::Arc;

use crate::store::escape::plain;

/// An entity tag, as the store sent it. Two bodies with the same tag are equal.
///
/// A weak tag (`W/"…"`) is stored as the strong tag that it names, because no store accepts a weak
/// tag as a condition. Proxies that compress responses weaken the tags of reads but not of writes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ETag(Arc<str>);

impl ETag {
    /// Creates a tag from the text that the store sent, quotes included. The prefix `W/` of a weak
    /// tag is removed.
    pub fn new(text: impl Into<Arc<str>>) -> ETag {
        let text = text.into();
        match text.strip_prefix("W/").filter(|rest| rest.starts_with('"')) {
            Some(strong) => ETag(strong.into()),
            None => ETag(text),
        }
    }

    /// Returns the text as received, except the prefix `W/` of a weak tag.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if two tags of one object name the same version. This method is for comparisons
    /// in which at least one tag is from a listing.
    ///
    /// Listings format tags differently from reads. Azure and some S3 servers omit the quotes. If a
    /// version has two names (`"tag"|version`, as on Cloud Storage), a listing shows only the
    /// first. The second names are compared only if both tags have a second name.
    ///
    /// ```
    /// # use tenure::store::ETag;
    /// let read = ETag::new("\"5d41\"|17");
    /// assert!(read.names_the_same(&ETag::new("5d41")));
    /// assert!(!read.names_the_same(&ETag::new("\"5d41\"|18")));
    /// ```
    ///
    /// Use a listed tag only for comparisons. In a condition, use the tag that a read or a write
    /// returned.
    #[must_use]
    pub fn names_the_same(&self, other: &ETag) -> bool {
        let ((tag, version), (other_tag, other_version)) = (self.names(), other.names());
        let both = version.is_some() && other_version.is_some();
        tag == other_tag && (!both || version == other_version)
    }

    /// Returns the tag without its quotes, and the second name if the tag has one.
    fn names(&self) -> (&str, Option<&str>) {
        let text = self.as_str();
        match text.strip_prefix('"').and_then(|text| text.split_once('"')) {
            Some((tag, "")) => (tag, None),
            Some((tag, rest)) if rest.starts_with('|') => (tag, Some(&rest[1..])),
            _ => text.split_once('|').map_or((text, None), |(tag, version)| (tag, Some(version))),
        }
    }
}

impl fmt::Debug for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ETag({})", plain(&self.0))
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str) -> bool {
        let (one, other) = (ETag::new(one), ETag::new(other));
        assert_eq!(one.names_the_same(&other), other.names_the_same(&one), "{one} {other}");
        assert!(one.names_the_same(&one) && other.names_the_same(&other));
        one.names_the_same(&other)
    }

    #[test]
    fn a_listed_tag_names_the_version_that_is_read() {
        assert!(same("\"abc\"", "\"abc\""));
        assert!(same("abc", "\"abc\""), "Azure, some servers of S3");
        assert!(same("W/\"abc\"", "abc"), "behind a proxy that compresses");
        assert!(same("\"abc\"", "\"abc\"|17"), "Cloud Storage");
        assert!(same("0x8D", "\"0x8D\"|2026"), "Azure with versions");
        assert!(same("abc", "abc|17"));
        assert!(same("W/\"abc\"|17", "\"abc\"|17"));
        assert!(same("\"a|b\"", "\"a|b\"|17"), "a bar within the quotes is part of the tag");
        assert!(same("\"a\\|b\"", "\"a\\|b\"|17"));
    }

    #[test]
    fn different_versions_have_different_tags() {
        for (one, other) in [
            ("\"abc\"", "\"abd\""),
            ("abc", "ab"),
            ("\"abc\"", "\"ABC\""),
            ("\"abc\"|17", "\"abc\"|18"),
            ("\"abc\"|17", "\"abd\"|17"),
            ("|17", "|18"),
            ("17", "\"abc\"|17"),
            ("\"a|b\"", "\"a|c\""),
            ("\"a|b\"", "\"a\""),
            // The first text of each of these pairs is not a valid tag.
            ("\"abc", "\"abc\""),
            ("\"abc\"x", "\"abc\""),
            ("W/abc", "abc"),
        ] {
            assert!(!same(one, other), "{one} {other}");
        }
    }
}
