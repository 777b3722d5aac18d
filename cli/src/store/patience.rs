//! Retries of temporary failures: denied access, and stores that are missing or unreachable.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::FutureExt as _;
use tenure::Process;
use tokio::task::spawn_blocking;
use tracing::{error, warn};

use crate::exit::Failure;
use crate::output::print::plain;
use crate::process::timer::pause;

/// Runs a part of a service. Returns false if the part panicked. The panic is logged, and does not
/// end the service.
pub async fn caught(part: impl Future<Output = ()>) -> bool {
    let ended = AssertUnwindSafe(part).catch_unwind().await;
    if let Err(panic) = &ended {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let why = plain(&text.unwrap_or_default());
        error!(outcome = "panicked", "a task panicked, and is started again: {why}");
    }
    ended.is_ok()
}

/// Runs `work`, which may wait for a disk, on a separate thread. Fails if the system cannot start a
/// thread. Tokio's `spawn_blocking` panics in this case.
pub async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let started = catch_unwind(AssertUnwindSafe(|| spawn_blocking(work)));
    let started = started.map_err(|_| "the system has no thread left".to_owned())?;
    started.await.map_err(|error| error.to_string())
}

/// Maximum time for which a verb retries after temporary failures at its start.
pub const AT_START: Duration = Duration::from_secs(10);
/// If the machine's metadata service has refused a request, the retries continue for at least this
/// time. Without retries, this value has no effect. The library uses the same value.
pub const OF_THE_MACHINE: Duration = Duration::from_secs(60);
/// Pause of a service before a retry after an error that an operator must correct.
pub const AFTER_A_FAILURE: Duration = Duration::from_secs(10);
/// Pause after the first failure. It doubles with each further failure, up to [`AFTER_A_FAILURE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Retries after temporary failures for the time `during`; `None` means no limit. Logs a failure
/// only if its exit code differs from the code of the previous failure. The texts of two equal
/// failures may differ in details, such as a key, so the texts are not compared.
pub async fn patiently<T>(
    during: Option<Duration>,
    mut attempt: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let now = || Process::system().now().boot;
    let (started, mut paused, mut reported) = (now(), Duration::ZERO, None);
    let mut next = FIRST_PAUSE;
    loop {
        let failure = match attempt().await {
            Ok(value) => return Ok(value),
            Err(failure) => failure,
        };
        let passed = now().saturating_sub(started).max(paused);
        let during = during.map_or(Duration::MAX, |during| match failure.of_the_machine {
            true if !during.is_zero() => during.max(OF_THE_MACHINE),
            _ => during,
        });
        let left = during.saturating_sub(passed);
        if left.is_zero() || !failure.may_pass() {
            return Err(failure);
        }
        if reported != Some(failure.code) {
            warn!(outcome = "store_failed", "trying again: {}", plain(&failure.why));
            reported = Some(failure.code);
        }
        let length = next.min(left);
        pause(length).await;
        paused += length;
        next = (next * 2).min(AFTER_A_FAILURE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn regression_a_panic_does_not_end_the_task_of_an_election() {
        assert!(!caught(async { panic!("OS can't spawn worker thread") }).await);
        assert!(caught(async {}).await);
    }

    #[tokio::test(start_paused = true)]
    async fn regression_the_metadata_service_is_retried_for_a_minute() {
        // The attempts begin after 0, 0.5, 1.5, 3.5, 7.5 and 15.5 s. Only the sixth attempt
        // succeeds.
        for (during, passes) in [(Duration::ZERO, false), (AT_START, true)] {
            let mut tried = 0;
            let ended = patiently(Some(during), async || {
                tried += 1;
                let refused = Failure { of_the_machine: true, ..Failure::new(77, "no role") };
                if tried == 6 { Ok(()) } else { Err(refused) }
            });
            assert_eq!(ended.await.is_ok(), passes, "{during:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn temporary_failures_are_retried_and_wrong_settings_are_final() {
        // With a limit of 5 s, the attempts begin after 0 s, 0.5 s, 1.5 s, 3.5 s, and 5 s.
        for (code, during, tries) in
            [(64, None, 1), (70, None, 1), (77, Some(5), 5), (69, None, 50)]
        {
            let mut tried = 0;
            let ended = patiently(during.map(Duration::from_secs), async || {
                tried += 1;
                if tried == 50 { Ok(()) } else { Err(Failure::new(code, "no")) }
            });
            assert_eq!(ended.await.is_ok(), tries == 50, "{code}");
            assert_eq!(tried, tries, "{code}");
        }
    }
}
