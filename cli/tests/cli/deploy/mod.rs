//! What lies under `deploy`: its files parse, and the jobs in them do what they should, as
//! processes that overlap, too.
#![cfg(unix)]

mod files;
mod lifecycle;
mod overlap;
mod sidecar;
