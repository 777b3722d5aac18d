//! Checks that the files of `deploy` are valid, and that their jobs work.
#![cfg(unix)]

mod files;
mod sidecar;
mod systemd;
