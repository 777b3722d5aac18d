//! An object that a writer is creating.

use super::message::Header;

/// An object that the writer requests the store to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Draft {
    pub(super) number: u64,
    pub(super) header: Header,
}
