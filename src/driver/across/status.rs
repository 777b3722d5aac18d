//! The stores of a leadership across stores.

use crate::error::Error;

/// One store of a leadership across stores ([`Leadership::stores`](crate::Leadership::stores)).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreHold {
    /// Name of the store.
    pub store: String,
    /// Whether the leadership holds its epoch in this store.
    pub state: HoldState,
    /// The error of the last request, if it failed.
    pub last_error: Option<Error>,
}

/// Whether a leadership holds its epoch in one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldState {
    /// The last renewal in this store succeeded.
    Held,
    /// The store does not answer, or does not count towards the majority. The leader renews its
    /// lease or creates its epoch there once the store answers.
    Down,
    /// Another process has closed the epoch in this store. Only a resignation corrects this: the
    /// next leadership holds all stores.
    Lost,
}

impl HoldState {
    /// Returns the state as one word, for logs. The words never change.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            HoldState::Held => "held",
            HoldState::Down => "down",
            HoldState::Lost => "lost",
        }
    }
}
