//! The key with which another process resigns an epoch.

use std::fmt;
use std::str::FromStr;

use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::message::Nonce;

/// Identifies one leadership by its epoch and the nonce of its grant.
///
/// After the holder's death another process passes the key to
/// [`Election::resign_dead`](crate::Election::resign_dead). The key is not secret, because the
/// record of the epoch contains both parts. Its text form is one word, such as
/// `7-5f0c0123456789abcdef0123456789ab`.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Election, ResignKey, Resigned, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// # let process = |name| Election::builder(store.clone(), "orders/leader").name(name).build();
/// let leadership = process("worker-7")?.campaign().await?;
/// let key = leadership.resign_key().to_string(); // for the supervisor of this process
/// drop(leadership); // the process dies without a resignation
///
/// // All processes of the worker have ended, so the supervisor resigns for it:
/// let key: ResignKey = key.parse()?;
/// assert_eq!(process("supervisor")?.resign_dead(key, None).await?, Resigned::Sealed);
/// let next = process("worker-8")?.campaign().await?; // without waiting for a lapse
/// assert!(next.epoch() > key.epoch());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResignKey {
    pub(crate) epoch: Epoch,
    pub(crate) nonce: Nonce,
}

impl ResignKey {
    /// Returns the epoch of the leadership.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

impl fmt::Display for ResignKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.nonce)
    }
}

impl FromStr for ResignKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<ResignKey, Error> {
        let parse = || {
            let (epoch, nonce) = text.split_once('-')?;
            let is_nonce = nonce.len() == 32 && nonce.bytes().all(|b| b.is_ascii_hexdigit());
            let bits = u128::from_str_radix(nonce, 16).ok().filter(|_| is_nonce)?;
            Some(ResignKey { epoch: epoch.parse().ok()?, nonce: Nonce::from_bits(bits) })
        };
        let why = "a resign key must be an epoch, a dash and a nonce of 32 hexadecimal digits";
        parse().ok_or_else(|| Error::new(ErrorKind::InvalidInput, why.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_parsed_from_its_text_form_and_other_texts_are_refused() {
        let key = ResignKey { epoch: Epoch::MAX, nonce: Nonce::from_bits(0x5f0c) };
        let text = "9999999999-00000000000000000000000000005f0c";
        assert_eq!(key.to_string(), text);
        assert_eq!(text.parse::<ResignKey>().unwrap(), key);
        let longer = format!("{text}0");
        for wrong in ["", "7", "7-", "0-0", "7-5f0c", "-1-5f0c", &text[..42], &longer] {
            let error = wrong.parse::<ResignKey>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}");
        }
    }
}
