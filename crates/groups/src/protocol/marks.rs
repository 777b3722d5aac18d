//! The marks of operators on a partition.

use std::sync::Arc;

/// The marks of operators on a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Marks {
    /// Only a member of this name may own it.
    pub pinned: Option<Arc<str>>,
    /// No member of this name may own it.
    pub barred: Option<Arc<str>>,
    /// No member may own it for now.
    pub paused: bool,
    /// No member may own it again; it will be removed.
    pub retiring: bool,
}

impl Marks {
    /// Returns whether a member of this name may own the partition.
    pub fn allow(&self, name: &str) -> bool {
        !self.paused && !self.retiring && self.names(name)
    }

    /// Returns whether the pin and the bar admit a member of this name.
    pub fn names(&self, name: &str) -> bool {
        self.pinned.as_deref().is_none_or(|pinned| pinned == name)
            && self.barred.as_deref() != Some(name)
    }
}
