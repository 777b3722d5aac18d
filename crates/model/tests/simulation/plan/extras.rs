//! Additions to a plan. Each addition has a separate generator of random numbers, so an addition
//! does not change the rest of a seed's plan. Some additions favour one kind of fault.

use std::time::Duration;

use fastrand::Rng;

use super::latency::phases;
use tenure_model::faults::Frequencies;

use super::{CompactorKnobs, Network, Plan};

impl Plan {
    /// Chooses optional settings of the candidates: the poll times, the priority and named
    /// successors.
    pub(super) fn add_preferences(&mut self) {
        let rng = &mut Rng::with_seed(self.seed ^ 0x0af7_e12c);
        for candidate in &mut self.candidates {
            candidate.at_lapse = rng.f64() < 0.1;
            candidate.names = rng.f64() < 0.3;
            candidate.hears = rng.f64() < 0.1;
            if rng.f64() < 0.1 {
                candidate.priority_delay = candidate.validity.mul_f64(rng.f64());
            }
        }
        for candidate in &mut self.candidates {
            candidate.backs_off = !candidate.at_lapse && rng.f64() < 0.1;
        }
    }

    /// Sometimes lets time daemons slew the clocks. Sometimes lets the candidates assume that no
    /// host pauses their machines.
    pub(super) fn add_slewing(&mut self) {
        let rng = &mut Rng::with_seed(self.seed ^ 0x51e3_5ca1);
        if rng.f64() < 0.3 {
            self.slew(rng);
        }
        self.never_paused = rng.f64() < 0.3 && self.faults.machine_pause == 0;
    }

    pub(super) fn slew(&mut self, rng: &mut Rng) {
        self.faults.slew = rng.u32(4..=8);
        // During an outage, a leader cannot renew its lease, and believes that it leads until the
        // end of the lease. A suspend or a pause then lets a part of this lease pass while the
        // leader does not run.
        self.faults.outage += 3;
        self.faults.blackout += 1;
        self.faults.suspend += 2;
        if rng.bool() {
            self.show_slewing();
        }
    }

    /// Makes the effect of slewed clocks visible. The drift, takeover delays and long poll
    /// intervals hide a clock that is one twelfth too fast. So this function removes the drift and
    /// the delays, and shortens the intervals.
    fn show_slewing(&mut self) {
        self.drift = 0.0;
        for candidate in &mut self.candidates {
            candidate.rate = 1_000_000;
            candidate.poll = candidate.validity / 20;
            candidate.takeover_delay = Duration::ZERO;
        }
    }

    /// Sometimes lets the store list keys in no order.
    pub(super) fn add_torn_listings(&mut self) {
        let rng = &mut Rng::with_seed(self.seed ^ 0x70e2_11a5);
        self.unordered = !self.steady && rng.f64() < 0.2;
    }

    /// Sometimes adds applications that make random calls during their campaigns. Sometimes lets
    /// only one candidate survive the faults.
    pub(super) fn add_calls(&mut self) {
        let rng = &mut Rng::with_seed(self.seed ^ 0xca11_ed01);
        let (run, survives) = if self.foreign { (0.8, 0.5) } else { (0.3, 0.2) };
        if rng.f64() < run {
            self.candidates.iter_mut().for_each(|candidate| {
                let every = candidate.validity * 2;
                candidate.calls = (rng.f64() < 0.7).then_some(every);
            });
        }
        if rng.f64() < survives {
            self.survivor = Some(rng.usize(..self.candidates.len()));
        }
        if self.foreign && rng.bool() {
            self.leave_one_candidate_and_a_foreign_peer(rng.bool());
        }
    }

    /// Removes all candidates but one. The remaining candidate competes only with a peer that does
    /// not use tenure. A single candidate shows the effects of its calls best, because no other
    /// process, restart or deletion helps its campaign.
    fn leave_one_candidate_and_a_foreign_peer(&mut self, watches: bool) {
        self.candidates.truncate(1);
        self.candidates[0].calls = Some(self.candidates[0].validity / 2);
        self.candidates[0].doubled = false;
        self.candidates[0].watches |= watches;
        self.candidates[0].store_clock_margin = None;
        self.compactors.clear();
        self.faults.crash = 0;
        self.survivor = None;
    }

    /// Sometimes adds an operator that restores the election. The operator is sometimes killed
    /// during a restore.
    pub(super) fn add_restores(&mut self) {
        let rng = &mut Rng::with_seed(self.seed ^ 0x4e57_04ed);
        if self.follows_section_4() && !self.steady && rng.f64() < 0.15 {
            self.favour_restores(rng);
        }
    }

    /// Adds an operator that restores the election, and a compactor with a `min_age` shorter than
    /// the renew interval. Also adds outages, during which a leader believes that it leads until
    /// the end of its lease.
    pub(super) fn favour_restores(&mut self, rng: &mut Rng) {
        (self.operator, self.restores) = (true, true);
        self.faults.restore = 3;
        self.faults.outage += 2;
        let validity = self.longest_validity();
        let min_age = if rng.bool() { Duration::ZERO } else { validity / 8 };
        self.compactors.push(CompactorKnobs { keep: 1, min_age, interval: validity / 8 });
    }

    /// Adds restores, and removes all faults except restores and outages.
    pub(super) fn restore_all_the_time(&mut self, rng: &mut Rng) {
        self.favour_restores(rng);
        self.every = self.longest_validity() / 2;
        self.network = Network::default();
        self.faults = Frequencies { outage: 2, restore: 3, ..Frequencies::default() };
        self.length = self.every * 120;
    }

    /// Sometimes adds all write faults of the testkit, including a write without an ETag.
    pub(super) fn add_spoiled_writes(&mut self) {
        let rng = &mut Rng::with_seed(self.seed ^ 0x5b01_1ed0);
        if !self.steady && rng.f64() < 0.3 {
            self.network.spoiled = 0.02 + 0.1 * rng.f64();
        }
    }

    /// Sometimes adds phases in which some kinds of requests are slow. A slow request takes at most
    /// slightly more than the request timeout.
    pub(super) fn add_phases(&mut self) {
        let rng = &mut Rng::with_seed(self.seed ^ 0x1a7e_9c1e);
        if rng.bool() {
            let validity = self.longest_validity();
            let most = validity.mul_f64(0.22 * rng.f64());
            self.phases = phases(rng, validity, most, self.length);
        }
    }

    /// Removes all faults. So a leader that does not use tenure rewrites its lock file many times,
    /// and candidates read each of these writes in time. Also removes the `store_clock_margin` of
    /// each candidate, because the checker of such leaders runs only without this setting.
    pub(super) fn favour_foreign_leaders(&mut self) {
        self.network = Network::default();
        self.faults = Frequencies::default();
        for candidate in &mut self.candidates {
            candidate.store_clock_margin = None;
        }
    }

    /// Favours compaction, because a repeated create takes effect only after its epoch was
    /// compacted.
    pub(super) fn favour_repetition(&mut self) {
        self.network.twice = self.network.twice.max(0.3);
        let (min_age, interval) = (Duration::ZERO, self.longest_validity() / 4);
        self.compactors.push(CompactorKnobs { keep: 1, min_age, interval });
    }

    /// Favours slow polls, in order to reveal a timer that starts too early by one round trip. The
    /// drift, the jitter before a seal and every further renewal hide this error. The error appears
    /// only if a slow poll reads the last renewal of a leader.
    pub(super) fn favour_slow_polls(&mut self) {
        self.drift = 0.0;
        self.rtt /= 10;
        self.network = Network { tail: 0.15, ..Network::default() };
        (self.faults.pause, self.faults.outage) = (1, 1);
        self.every = self.longest_validity() * 2;
        for candidate in &mut self.candidates {
            candidate.rate = 1_000_000;
            candidate.renew = Some(candidate.validity / 10);
            candidate.poll = candidate.validity / 20;
            candidate.takeover_delay = Duration::ZERO;
        }
    }
}
