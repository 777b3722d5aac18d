//! Values for unit tests.

use std::time::Duration;

use crate::protocol::{Session, SessionId};
use tenure::internals::groups::Nonce;
use tenure::{Epoch, Moment};

/// Returns the moment that is `seconds` after the start of all clocks.
pub(crate) fn at(seconds: u64) -> Moment {
    let since = Duration::from_secs(seconds);
    Moment::new(since, since, since)
}

pub(crate) fn epoch(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

/// Returns a session. The nonce has the same bits as the id.
pub(crate) const fn session(id: u128) -> Session {
    Session { id: SessionId::from_bits(id), nonce: Nonce::from_bits(id) }
}
