//! The marks of operators on a partition.

use std::sync::Arc;

/// The marks of operators on a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Marks {
    /// Required name: only members of this name may own the partition.
    pub pinned: Option<Arc<str>>,
    /// Excluded name: members of this name must not own the partition.
    pub barred: Option<Arc<str>>,
    /// Whether the partition is paused: no member may own it until an operator resumes it.
    pub paused: bool,
    /// Whether the partition retires: no member may become its owner, and the group removes the
    /// partition once its owner has released it.
    pub retiring: bool,
}

impl Marks {
    /// Returns whether a member of this name may own the partition.
    pub fn allow(&self, name: &str) -> bool {
        !self.paused && !self.retiring && self.names(name)
    }

    /// Returns whether the pin and the bar permit a member of this name.
    pub fn names(&self, name: &str) -> bool {
        self.pinned.as_deref().is_none_or(|pinned| pinned == name)
            && self.barred.as_deref() != Some(name)
    }
}
