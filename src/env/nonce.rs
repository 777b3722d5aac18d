//! The nonce of a create attempt.

use std::fmt;

/// 128 random bits that identify one create attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(u128);

impl Nonce {
    /// Creates a nonce from these bits.
    pub const fn from_bits(bits: u128) -> Nonce {
        Nonce(bits)
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({:x})", self.0)
    }
}
