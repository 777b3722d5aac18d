//! Tests of the operator's calls on an election across stores.

mod depose;
mod init;
mod live;
mod refusals;
mod relocate;
mod replace;
mod scene;
mod status;
mod walk;
