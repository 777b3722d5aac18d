//! The modes of locks, and the compatibility of modes.

/// The mode in which a call locks a path.
///
/// Four modes come from Charemza's post, which the [crate] cites. The fifth,
/// `ReadAndWriteAncestor`, combines two of them. In the order of this enum, the modes are IS, S,
/// IX, SIX and X of Gray, Lorie, Putzolu and Traiger (*Granularity of Locks and Degrees of
/// Consistency in a Shared Data Base*, 1976).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Mode {
    /// A descendant of the folder is read.
    ReadAncestor,
    /// The folder is read.
    Read,
    /// A descendant of the folder is written.
    WriteAncestor,
    /// The folder is read, and a descendant of it is written.
    ReadAndWriteAncestor,
    /// The folder is written.
    Write,
}

impl Mode {
    pub(super) const ALL: [Mode; 5] = [
        Mode::ReadAncestor,
        Mode::Read,
        Mode::WriteAncestor,
        Mode::ReadAndWriteAncestor,
        Mode::Write,
    ];

    /// Returns whether two calls may hold one path in these modes at the same time.
    pub(super) fn is_compatible(self, other: Mode) -> bool {
        use Mode::{Read, ReadAncestor, Write, WriteAncestor};
        match (self, other) {
            (Write, _) | (_, Write) => false,
            (ReadAncestor, _) | (_, ReadAncestor) => true,
            (Read, Read) | (WriteAncestor, WriteAncestor) => true,
            (_, _) => false,
        }
    }

    /// Returns the weakest mode that excludes all modes excluded by `self` or `other`.
    pub(super) fn and(self, other: Mode) -> Mode {
        let (weaker, stronger) = (self.min(other), self.max(other));
        match (weaker, stronger) {
            (Mode::Read, Mode::WriteAncestor) => Mode::ReadAndWriteAncestor,
            (_, stronger) => stronger,
        }
    }
}
