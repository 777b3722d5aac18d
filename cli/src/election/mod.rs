//! The verbs that show and change one election.

pub mod compact;
pub mod depose;
pub mod history;
pub mod operator;
pub mod restore;
pub mod status;
pub mod watch;
