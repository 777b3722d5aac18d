//! Runs that have only faults that a leader must survive. The checker `kept` requires that the
//! leader keeps its leadership.
//!
//! A round trip has a maximum duration, and each process loses at most one answer within 1.25 times
//! the longest validity. If one answer is lost, the time between two successful renewals must still
//! be less than the validity. This condition limits the duration of a round trip. Let R be the
//! renew interval, T = validity / 5 the request timeout, and L the longest round trip. The time
//! between two successful renewals consists of:
//!
//! - R until the next renewal, and L for a pending GET of the next epoch;
//! - T for the renewal whose answer is lost, and validity / 50 for the pause after this renewal;
//! - 2 L for abandoned attempts in the second half of the lease. The time limit of each attempt is
//!   twice the limit of the previous attempt;
//! - L for the refused renewal, L for reading the record back, and L for a LIST that verifies the
//!   renewal.
//!
//! So R + T + validity / 50 + 6 L must be less than the validity. A limit of L = T for each round
//! trip is not sufficient, because the sum then exceeds the validity.

use std::time::Duration;

use fastrand::Rng;
use tenure_model::faults::Frequencies;

use super::latency::phases;
use super::{Knobs, Network, Plan};

/// Maximum rate of a clock relative to simulated time. The rate includes half of the drift, and the
/// slewing.
const FASTER: f64 = 1.2;
/// Maximum number of requests that a leader abandons early before it extends its lease.
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
        self.faults = Frequencies { slew: self.faults.slew, ..Frequencies::default() };
        for candidate in &mut self.candidates {
            let third = candidate.validity / 3;
            candidate.renew = candidate.renew.filter(|renew| *renew < third);
            candidate.rate = candidate.rate.clamp(980_000, 1_020_000);
        }
        let longest = self.candidates.iter().map(Knobs::longest_round_trip).min();
        let longest = longest.expect("the plan has candidates");
        // A round trip outside of the phases takes up to one and a half times `rtt`. With the
        // additional latency of a phase, it takes at most `longest`.
        self.rtt = self.rtt.min(longest / 3);
        let (validity, most) = (self.longest_validity(), longest - self.rtt.mul_f64(1.5));
        self.phases = phases(rng, validity, most, self.length);
    }
}

impl Knobs {
    fn renew_interval(&self) -> Duration {
        self.renew.unwrap_or(self.validity / 3)
    }

    /// Returns the longest permitted round trip: L in the module's documentation. The result leaves
    /// a twentieth of the validity in reserve.
    fn longest_round_trip(&self) -> Duration {
        let validity = self.validity;
        let used = self.renew_interval() + validity / 5 + validity / 50 + validity / 20;
        (validity - used).div_f64(6.0 * FASTER)
    }

    /// Returns the maximum number of requests that a leader sends during one validity of a steady
    /// run.
    ///
    /// In a validity without a lost answer, the leader sends its renewals and two GETs of the next
    /// epoch. If renewals are verified, each renewal adds a LIST. At most two answers are lost in a
    /// validity. For each lost answer, the leader sends another renewal and another GET, and
    /// abandons some requests of both kinds early.
    pub fn most_requests(&self) -> usize {
        let renewals = self.validity.div_duration_f64(self.renew_interval()).ceil() as usize + 1;
        let renewals = renewals * if self.verify_renewals { 2 } else { 1 };
        let for_a_loss = 2 * (1 + SHORT_ATTEMPTS + 1);
        renewals + 2 + 2 * for_a_loss
    }

    /// Returns the shortest simulated time in which one validity passes on the clocks of this
    /// candidate.
    pub fn shortest_validity(&self) -> Duration {
        self.validity.div_f64(FASTER)
    }
}
