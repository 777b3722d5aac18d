//! Checks that the files of `deploy` are valid, and that their jobs work alone and as concurrent
//! processes.
#![cfg(unix)]

mod files;
mod lifecycle;
mod overlap;
mod sidecar;
mod systemd;
