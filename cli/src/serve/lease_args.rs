//! The settings of the leases.

use std::time::Duration;

use tenure::ElectionBuilder;

use crate::common_args::{duration, name, positive_duration};
use crate::print::in_ms;

#[derive(Debug, Clone, clap::Args)]
pub struct LeaseArgs {
    /// The name of this candidate; need not be unique, but clients that compare it with their own
    /// need it to be [default: HOSTNAME-PID]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub name: Option<String>,
    /// Length of the leases: how long others wait for a dead leader at most. At least 750ms
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = positive_duration)]
    pub validity: Duration,
    /// How often to look at the current leader while waiting [default: a sixth of the validity]
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub poll: Option<Duration>,
    /// How long the application has at SIGTERM until the leaderships are resigned [default: a sixth
    /// of the validity]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    grace: Option<Duration>,
    /// The machine is never paused from outside, so a wall clock that is set forward does not end
    /// the lease
    #[arg(long)]
    machine_never_paused: bool,
    /// The priority: how much longer than others to wait before taking over
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    priority_delay: Duration,
}

const SHORTEST_MARGIN: Duration = Duration::from_millis(200);

impl LeaseArgs {
    pub fn apply(&self, builder: ElectionBuilder) -> ElectionBuilder {
        let builder = builder
            .validity(self.validity)
            .machine_is_never_paused(self.machine_never_paused)
            .priority_delay(self.priority_delay);
        match self.poll {
            Some(poll) => builder.poll_interval(poll),
            None => builder,
        }
    }

    pub fn grace(&self) -> Duration {
        self.grace.unwrap_or(self.validity / 6)
    }

    /// Others look within this time, unless they look less often than this candidate.
    pub fn stand_back(&self) -> Duration {
        self.poll.unwrap_or(self.validity / 6).saturating_mul(2)
    }

    /// How long before the end of a lease its leadership is given up, so that the application hears
    /// of it in time. Refused if that leaves no room for a renewal and its retry.
    pub fn margin(&self) -> Result<Duration, String> {
        let validity = self.validity;
        let margin = SHORTEST_MARGIN.max(validity / 20);
        let (renew_interval, request_timeout) = (validity / 3, validity / 5);
        let total = renew_interval + request_timeout * 2 + margin;
        if total <= validity {
            return Ok(margin);
        }
        Err(format!(
            "a validity of {} leaves no room: {} until a renewal, 2 × {} for it and its retry, and \
             {} between `lost` and the end of the lease make {}; use a longer --validity",
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
    use super::*;

    fn margin(validity_ms: u64) -> Result<Duration, String> {
        LeaseArgs {
            name: None,
            validity: Duration::from_millis(validity_ms),
            poll: None,
            grace: None,
            machine_never_paused: false,
            priority_delay: Duration::ZERO,
        }
        .margin()
    }

    #[test]
    fn what_leaves_no_room_is_refused_with_the_numbers() {
        assert_eq!(margin(30_000), Ok(Duration::from_millis(1_500)));
        assert_eq!(margin(750), Ok(Duration::from_millis(200)));
        let why = margin(700).expect_err("233 + 2 × 140 + 200 ms are more than 700 ms");
        for part in ["700ms", "233ms", "2 × 140ms", "200ms", "713ms"] {
            assert!(why.contains(part), "{part} is not in: {why}");
        }
    }
}
