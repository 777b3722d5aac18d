//! Retries after temporary denials of access (E17). The cause is a rotation of keys, a new policy,
//! a wrong clock, or a bucket that is about to be created.

use std::time::Duration;

use super::Context;
use crate::driver::backoff::Backoff;
use crate::error::{Error, ErrorKind};

/// Maximum pause before the next attempt of a denied request.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Minimum time for which a request is retried after the machine's metadata service has refused the
/// credentials.
const METADATA: Duration = Duration::from_secs(60);

/// The consecutive denials of one call.
#[derive(Debug, Default)]
pub(crate) struct Denial {
    /// Time of the first denial, on the boot clock.
    since: Option<Duration>,
    times: u32,
}

impl Denial {
    /// Notes an error. Returns the pause before the next attempt, or `None` if the error is final
    /// or the denials have lasted too long.
    pub(crate) fn pause(&mut self, cx: &Context, error: &Error) -> Option<Duration> {
        let passes = match error.kind() {
            ErrorKind::AccessDenied | ErrorKind::NoSuchStore => true,
            // If an earlier request has succeeded with these settings, they are valid. A proxy may
            // have sent this response, so another attempt may succeed.
            ErrorKind::InvalidInput => cx.has_worked(),
            ErrorKind::UnsafeStore => cx.has_written(),
            _ => false,
        };
        if !passes {
            return None;
        }
        let now = cx.process.now().boot;
        let since = *self.since.get_or_insert(now);
        if now.saturating_sub(since) >= patience(cx.config.retry_denied, error.is_of_the_machine())
        {
            return None;
        }
        if self.times == 0 {
            let election = cx.keys.prefix();
            let outcome = "store_failed";
            tracing::warn!(target: "tenure::access", election, outcome, "trying again: {error}");
        }
        self.times = self.times.saturating_add(1);
        cx.failing(error);
        let first = cx.config.poll_interval.min(LONGEST_PAUSE) / 16;
        Some(Backoff { first, longest: LONGEST_PAUSE }.jittered(self.times, &cx.process))
    }

    /// Forgets the denials after a successful request.
    pub(crate) fn over(&mut self) {
        *self = Denial::default();
    }

    /// Time of the first denial, on the boot clock.
    pub(crate) fn since(&self) -> Option<Duration> {
        self.since
    }
}

/// Returns the time for which a denied request is retried.
fn patience(setting: Option<Duration>, of_the_machine: bool) -> Duration {
    match setting {
        Some(during) if of_the_machine && !during.is_zero() => during.max(METADATA),
        Some(during) => during,
        None => Duration::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_refusals_are_retried_for_at_least_a_minute() {
        let secs = Duration::from_secs;
        for (setting, of_the_machine, during) in [
            (Some(secs(10)), false, secs(10)),
            (Some(secs(10)), true, secs(60)),
            (Some(secs(90)), true, secs(90)),
            (Some(secs(0)), true, secs(0)),
            (None, false, Duration::MAX),
            (None, true, Duration::MAX),
        ] {
            assert_eq!(patience(setting, of_the_machine), during, "{setting:?} {of_the_machine}");
        }
    }
}
