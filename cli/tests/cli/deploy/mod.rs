//! The files of `deploy`: they parse, and their jobs work, also as concurrent processes.
#![cfg(unix)]

mod files;
mod lifecycle;
mod overlap;
mod sidecar;
