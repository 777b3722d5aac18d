//! tenure: leader election on object storage.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod clock;
mod compactor;
mod epoch;
mod error;
mod keys;
mod protocol;
pub mod store;

pub use clock::{Clock, Moment, SystemClock};
pub use compactor::{Compactor, CompactorBuilder, Report};
pub use epoch::{Epoch, ParseEpochError};
pub use error::{Error, ErrorKind};
