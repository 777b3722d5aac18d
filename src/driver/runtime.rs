//! The check for a Tokio runtime with timers.

use std::panic::catch_unwind;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::error::{Error, ErrorKind};

/// Refuses a call outside a Tokio runtime with timers, before the call sends its first request.
/// Without this check, a campaign would create its epoch and then panic.
pub fn require_timers() -> Result<(), Error> {
    if Handle::try_current().is_err() {
        return refuse(
            "this call needs a Tokio runtime and runs outside a runtime: call it from a task of a \
             runtime, or within Runtime::block_on or Runtime::enter",
        );
    }
    // Tokio has no function that shows whether timers are enabled. Without timers, `sleep` panics.
    #[allow(clippy::disallowed_methods, reason = "the timer is dropped immediately")]
    let timer = catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO)));
    timer.or_else(|_| {
        refuse(
            "this Tokio runtime has no timers: build it with enable_time or enable_all of \
             tokio::runtime::Builder",
        )
    })
}

fn refuse(why: &str) -> Result<(), Error> {
    Err(Error::new(ErrorKind::NoRuntime, why))
}
