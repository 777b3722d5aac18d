//! The verbs that show and change one election.

pub mod compact;
pub mod depose;
mod end;
pub mod history;
pub mod operator;
pub mod restore;
mod state;
pub mod status;
pub mod wait;
pub mod watch;

pub use state::LeaseState;
