//! tenure: leader election on object storage.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

// The support of the integration tests serves the unit tests, too.
#[cfg(test)]
extern crate self as tenure;

mod check;
mod clock;
mod compactor;
mod config;
mod driver;
mod election;
mod entropy;
mod epoch;
mod error;
mod keys;
mod leader;
mod leadership;
mod process;
mod protocol;
mod record;
pub mod store;

pub use clock::{Clock, Moment, SystemClock};
pub use compactor::{Compactor, CompactorBuilder, Report};
pub use election::{Attempt, Election, ElectionBuilder};
pub use entropy::{Entropy, SystemEntropy};
pub use epoch::{Epoch, ParseEpochError};
pub use error::{Error, ErrorKind};
pub use leader::{CampaignEvent, Leader, Observation, Snapshot, SnapshotState};
pub use leadership::{Leadership, LeadershipEvent, Loss, Ran};
pub use process::Process;
pub use protocol::message::Ended;
pub use store::Store;
