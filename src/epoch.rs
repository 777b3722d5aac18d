//! The epoch: the number of a leadership, and its fencing token.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};

/// The number of an epoch object, and the fencing token that a leader sends with each write.
///
/// Epochs start at 1 and only grow. Each epoch is granted to at most one campaign (I1). A resource
/// that remembers the greatest epoch it has seen and refuses lower epochs is safe from former
/// leaders.
///
/// # Examples
///
/// ```
/// # use tenure::Epoch;
/// let epoch: Epoch = "7".parse()?;
/// assert!(epoch < Epoch::MAX);
/// assert_eq!(epoch.get(), 7);
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Epoch(u64);

impl Epoch {
    /// The first epoch of an election.
    pub const FIRST: Epoch = Epoch(1);
    /// The last epoch: the greatest number of ten digits. After this epoch an election fails with
    /// [`EpochsExhausted`](crate::ErrorKind::EpochsExhausted).
    pub const MAX: Epoch = Epoch(9_999_999_999);

    /// Returns the epoch with this number, or `None` if the number is not from 1 to 9,999,999,999.
    #[must_use]
    pub const fn new(number: u64) -> Option<Epoch> {
        if number >= Self::FIRST.0 && number <= Self::MAX.0 { Some(Epoch(number)) } else { None }
    }

    /// Returns the epoch of a token in a [single object](crate::Layout::SingleObject). Peers that
    /// follow the post *Leader election with S3 and If-Match* may start their tokens at 0. This
    /// library never grants 0 to a candidate.
    #[doc(hidden)]
    #[must_use]
    pub const fn token(number: u64) -> Option<Epoch> {
        if number == 0 { Some(Epoch(0)) } else { Epoch::new(number) }
    }

    /// Returns the number of this epoch, from 1 to 9,999,999,999. The number is 0 only if a peer
    /// holds a [single object](crate::Layout::SingleObject) with the token 0.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the next epoch, or `None` after [`Epoch::MAX`].
    #[must_use]
    pub const fn next(self) -> Option<Epoch> {
        Epoch::new(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({})", self.0)
    }
}

impl From<Epoch> for u64 {
    fn from(epoch: Epoch) -> u64 {
        epoch.0
    }
}

impl TryFrom<u64> for Epoch {
    type Error = Error;

    fn try_from(number: u64) -> Result<Epoch, Error> {
        let why = || format!("an epoch must be between 1 and {}, got {number}", Epoch::MAX);
        Epoch::new(number).ok_or_else(|| Error::new(ErrorKind::InvalidInput, why()))
    }
}

impl FromStr for Epoch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Epoch, Error> {
        let number = text.parse::<u64>().map_err(|why| {
            Error::new(ErrorKind::InvalidInput, format!("an epoch must be a whole number: {why}"))
        })?;
        Epoch::try_from(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_eleven_digits_are_refused() {
        assert_eq!(Epoch::new(0), None);
        assert_eq!(Epoch::new(10_000_000_000), None);
        assert_eq!(Epoch::MAX.next(), None);
        assert_eq!(Epoch::FIRST.next(), Epoch::new(2));
        assert!(serde_json::from_str::<Epoch>("0").is_err());
        for (text, why) in [
            ("x", "an epoch must be a whole number: invalid digit found in string"),
            ("0", "an epoch must be between 1 and 9999999999, got 0"),
            ("10000000000", "an epoch must be between 1 and 9999999999, got 10000000000"),
        ] {
            let error = text.parse::<Epoch>().unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidInput, why));
        }
    }
}
