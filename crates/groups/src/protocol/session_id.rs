//! The id of a session.

use std::fmt;

/// The id of a session: 128 random bits, drawn for each join. The key of the session's object
/// contains the id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u128);

impl SessionId {
    pub const fn from_bits(bits: u128) -> SessionId {
        SessionId(bits)
    }

    #[cfg(any(test, feature = "internals"))]
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// Parses an id in the format of [`Display`](fmt::Display). Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<SessionId> {
        let digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let hex = text.len() == 32 && text.bytes().all(digit);
        u128::from_str_radix(text, 16).ok().filter(|_| hex).map(SessionId)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({:x})", self.0)
    }
}
