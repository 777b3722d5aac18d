//! The public types of an election.

pub(crate) mod builder;
pub(crate) mod campaign;
pub(crate) mod election;
pub(crate) mod leadership;
mod stores;
pub(crate) mod term;
