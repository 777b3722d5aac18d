//! Runs in which nothing goes wrong but what a leader is to survive, so that it must keep its
//! leadership: the checker `kept`.
//!
//! A round trip takes a limited time, and of a process at most one answer is lost in 1.25 of the
//! longest validity. How long a round trip may take follows from the longest way to the next
//! renewal that succeeds, in which at most one answer is lost. With the renew interval R, the
//! request timeout T = validity / 5, and the longest round trip L:
//!
//! - R, and L for a look at the next epoch that began just before;
//! - T for the renewal whose answer is lost, and validity / 50 for the pause after it;
//! - 2 L for attempts that are given up with half of the lease gone, as patience doubles each time;
//! - L for the renewal that is refused, L for the reading back, and L for a LIST that verifies it.
//!
//! So R + T + validity / 50 + 6 L is to be less than the validity. That every answer comes within
//! the request timeout does not suffice: with L = T that is more than a validity.

use std::time::Duration;

use fastrand::Rng;

use super::latency::phases;
use super::{Knobs, Network, Plan, Stops};

/// Clocks may be faster than simulated time: by half of the drift, and by slewing.
const FASTER: f64 = 1.2;
/// The most requests that a leader gives up early until its lease is extended.
const SHORT_ATTEMPTS: usize = 3;

impl Plan {
    pub(super) fn make_some_steady(&mut self) {
        if Rng::with_seed(self.seed ^ 0x57ea_d1e5).f64() < 0.1 {
            self.make_steady();
        }
    }

    pub(super) fn make_steady(&mut self) {
        let rng = &mut Rng::with_seed(self.seed ^ 0x57ea_d1e5);
        self.steady = true;
        (self.foreign, self.operator, self.survivor) = (false, false, None);
        (self.beyond_drift, self.twice_after_compaction) = (false, false);
        self.drift = self.drift.max(0.05);
        self.network = Network::default();
        self.stops = Stops { every: self.stops.every, slew: self.stops.slew, ..Stops::default() };
        for candidate in &mut self.candidates {
            let third = candidate.validity / 3;
            candidate.renew = candidate.renew.filter(|renew| *renew < third);
            candidate.rate = candidate.rate.clamp(980_000, 1_020_000);
        }
        let longest = self.candidates.iter().map(Knobs::longest_round_trip).min();
        let longest = longest.expect("there are candidates");
        // A usual one takes up to half as long again.
        self.rtt = self.rtt.min(longest / 3);
        let (validity, most) = (self.longest_validity(), longest - self.rtt.mul_f64(1.5));
        self.phases = phases(rng, validity, most, self.length);
    }
}

impl Knobs {
    fn renew_interval(&self) -> Duration {
        self.renew.unwrap_or(self.validity / 3)
    }

    /// L above, with a twentieth of the validity to spare.
    fn longest_round_trip(&self) -> Duration {
        let validity = self.validity;
        let used = self.renew_interval() + validity / 5 + validity / 50 + validity / 20;
        (validity - used).div_f64(6.0 * FASTER)
    }

    /// How many requests a leader of a steady run sends in one validity at most.
    ///
    /// Renewals, each with a LIST if it is verified, and two looks at the next epoch. At most two
    /// lost answers fall into a validity: each costs a renewal and a GET again, and as many of both
    /// as are given up early.
    pub fn most_requests(&self) -> usize {
        let renewals = self.validity.div_duration_f64(self.renew_interval()).ceil() as usize + 1;
        let renewals = renewals * if self.verify_renewals { 2 } else { 1 };
        let for_a_loss = 2 * (1 + SHORT_ATTEMPTS + 1);
        renewals + 2 + 2 * for_a_loss
    }

    /// The shortest time that one validity of this candidate's clocks takes.
    pub fn shortest_validity(&self) -> Duration {
        self.validity.div_f64(FASTER)
    }
}
