//! The modes in which a call locks a path, and which of them go together.

/// What a call locks a path for.
///
/// Four are the seed of this module; the fifth is two of them at once. They are those of Gray,
/// Lorie, Putzolu and Traiger (*Granularity of Locks and Degrees of Consistency in a Shared Data
/// Base*, 1976), in this order: IS, S, IX, SIX, X.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Mode {
    /// Something below is read.
    ReadAncestor,
    /// The folder is read.
    Read,
    /// Something below is written.
    WriteAncestor,
    /// The folder is read, and something below it is written.
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

    /// Returns the mode that excludes whatever either of them excludes, and nothing more.
    pub(super) fn and(self, other: Mode) -> Mode {
        let (weaker, stronger) = (self.min(other), self.max(other));
        match (weaker, stronger) {
            (Mode::Read, Mode::WriteAncestor) => Mode::ReadAndWriteAncestor,
            (_, stronger) => stronger,
        }
    }
}
