//! Checks the files of `deploy`: they are valid, and their jobs work, also as concurrent processes.
#![cfg(unix)]

mod files;
mod lifecycle;
mod overlap;
mod sidecar;
