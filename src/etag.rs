//! The entity tag: which body a store holds, and what a condition names.

use std::fmt;
use std::sync::Arc;

use crate::escape::plain;

/// An entity tag, as the store sent it. Two bodies with the same tag are the same body.
///
/// A weak tag (`W/"…"`) counts as the strong one that it names: proxies that compress answers
/// weaken the tags of reads and not those of writes, and no store replaces on a weak one.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ETag(Arc<str>);

impl ETag {
    /// The tag with this text, quotes included where the store sends them; without the mark of a
    /// weak one.
    pub fn new(text: impl Into<Arc<str>>) -> ETag {
        let text = text.into();
        match text.strip_prefix("W/").filter(|rest| rest.starts_with('"')) {
            Some(strong) => ETag(strong.into()),
            None => ETag(text),
        }
    }

    /// The text, as received but for the mark of a weak tag.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
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
