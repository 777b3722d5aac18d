//! Tests of the verbs that show and change one election.

mod compact;
mod depose_restore;
mod history;
mod single_object;
pub mod status_watch;
