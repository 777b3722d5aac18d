//! The lease settings that all elections and groups of a sidecar have in common.

use std::time::Duration;

use crate::args::common::{DAY, duration_up_to};
use crate::args::lease::ElectionArgs;
use crate::output::print::in_ms;

#[derive(Debug, Clone, clap::Args)]
pub struct ServeLeaseArgs {
    #[command(flatten)]
    pub election: ElectionArgs,
    /// Time that the application has from SIGTERM until the resignations [default: a sixth of the
    /// validity]
    ///
    /// At most 24h. After this time, the leaderships and the sessions are resigned.
    #[arg(long, value_name = "DURATION", value_parser = duration_up_to(DAY))]
    #[arg(env = "TENURE_GRACE", help_heading = "Timing")]
    grace: Option<Duration>,
}

const SHORTEST_MARGIN: Duration = Duration::from_millis(200);

impl ServeLeaseArgs {
    pub fn grace(&self) -> Duration {
        self.grace.unwrap_or(self.election.lease.validity / 6)
    }

    /// Returns the pause after a resignation: two poll intervals. Another candidate polls within
    /// this time, unless its own interval is longer.
    pub fn defer_for(&self) -> Duration {
        self.election.lease.look_every().saturating_mul(2)
    }

    /// Returns the margin: the time between the reported end of a leadership and the end of its
    /// lease, in which the application can react. Fails if the validity is too short for a renewal
    /// and its retry.
    pub fn margin(&self) -> Result<Duration, String> {
        let validity = self.election.lease.validity;
        let margin = SHORTEST_MARGIN.max(validity / 20);
        let (renew_interval, request_timeout) =
            (self.election.lease.renew_interval(), self.election.lease.request_timeout());
        let total =
            renew_interval.saturating_add(request_timeout.saturating_mul(2)).saturating_add(margin);
        if total <= validity {
            return Ok(margin);
        }
        Err(format!(
            "a validity of {} is too short: {} until a renewal, 2 × {} for the renewal and its \
             retry, and {} between `lost` and the end of the lease make {}; use a longer \
             --validity, or a shorter --renew or --request-timeout",
            in_ms(validity),
            in_ms(renew_interval),
            in_ms(request_timeout),
            in_ms(margin),
            in_ms(total),
        ))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct LeaseLine {
        #[command(flatten)]
        lease: ServeLeaseArgs,
    }

    fn margin(validity_ms: u64) -> Result<Duration, String> {
        let validity = format!("--validity={validity_ms}ms");
        let line = LeaseLine::try_parse_from(["tenure", &validity]).expect("settings");
        line.lease.margin()
    }

    #[test]
    fn a_short_validity_is_refused_with_its_parts() {
        assert_eq!(margin(30_000), Ok(Duration::from_millis(1_500)));
        assert_eq!(margin(750), Ok(Duration::from_millis(200)));
        let why = margin(700).expect_err("233 + 2 × 140 + 200 ms are more than 700 ms");
        for part in ["700ms", "233ms", "2 × 140ms", "200ms", "713ms"] {
            assert!(why.contains(part), "{part} is not in: {why}");
        }
    }
}
