//! The public types of an election.

pub(crate) mod builder;
pub(crate) mod config;
pub(crate) mod election;
pub(crate) mod leader;
pub(crate) mod leadership;
pub(crate) mod operator;
pub(crate) mod term;
