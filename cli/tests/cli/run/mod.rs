//! Tests of `tenure run`, and of services that survive transient failures.

mod hand_over;
mod health;
mod once_per;
#[cfg(feature = "s3")]
mod services;
mod wait;
