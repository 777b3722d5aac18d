//! tenure: leader election on object storage.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod clock;
mod epoch;
mod error;
mod keys;
mod protocol;
mod record;
pub mod store;

pub use clock::{Clock, Moment, SystemClock};
pub use epoch::{Epoch, ParseEpochError};
pub use error::{Error, ErrorKind};
