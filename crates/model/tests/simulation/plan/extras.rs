//! What is drawn on top of a plan, each with dice of its own, so that the rest of a seed stays what
//! it was; and what makes a plan favour one kind of trouble.

use std::time::Duration;

use fastrand::Rng;

use super::latency::phases;
use super::{CompactorKnobs, Network, Plan, Stops};

impl Plan {
    /// What a candidate may wish beyond the rules.
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

    /// Time daemons that correct clocks by their rate, in phases; and machines of which it is known
    /// that nobody pauses them.
    pub(super) fn add_slewing(&mut self) {
        let rng = &mut Rng::with_seed(self.seed ^ 0x51e3_5ca1);
        if rng.f64() < 0.3 {
            self.slew(rng);
        }
        self.never_paused = rng.f64() < 0.3 && self.stops.machine_pause == 0;
    }

    pub(super) fn slew(&mut self, rng: &mut Rng) {
        self.stops.slew = rng.u32(4..=8);
        // A leader that cannot renew believes to the end of its lease, of which a part may pass in
        // a suspend or a pause.
        self.stops.outage += 3;
        self.stops.blackout += 1;
        self.stops.suspend += 2;
        if rng.bool() {
            self.show_slewing();
        }
    }

    /// A clock that is a twelfth too fast is hidden by the drift, and by polls that are rare.
    fn show_slewing(&mut self) {
        self.drift = 0.0;
        for candidate in &mut self.candidates {
            candidate.rate = 1_000_000;
            candidate.poll = candidate.validity / 20;
            candidate.takeover_delay = Duration::ZERO;
        }
    }

    /// Applications that make every call beside their campaigns; and who is left at the end.
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
            self.leave_one_beside_a_foreign_peer(rng.bool());
        }
    }

    /// A lone candidate shows best what its own calls do to it: nobody else, no restart and no
    /// deletion brings its campaign on its way again.
    fn leave_one_beside_a_foreign_peer(&mut self, watches: bool) {
        self.candidates.truncate(1);
        self.candidates[0].calls = Some(self.candidates[0].validity / 2);
        self.candidates[0].doubled = false;
        self.candidates[0].watches |= watches;
        self.candidates[0].store_clock_margin = None;
        self.compactors.clear();
        self.stops.crash = 0;
        self.survivor = None;
    }

    /// An operator who has the counting go on higher, and is killed in between.
    pub(super) fn add_restores(&mut self) {
        let rng = &mut Rng::with_seed(self.seed ^ 0x4e57_04ed);
        if self.follows_section_4() && !self.steady && rng.f64() < 0.15 {
            self.favour_restores(rng);
        }
    }

    /// Beside a compactor whose `min_age` is shorter than the time between two renewals, and
    /// leaders that are cut off: they believe to the end of their leases.
    pub(super) fn favour_restores(&mut self, rng: &mut Rng) {
        (self.operator, self.restores) = (true, true);
        self.stops.restore = 3;
        self.stops.outage += 2;
        let validity = self.longest_validity();
        let min_age = if rng.bool() { Duration::ZERO } else { validity / 8 };
        self.compactors.push(CompactorKnobs { keep: 1, min_age, interval: validity / 8 });
    }

    /// And nothing else goes wrong.
    pub(super) fn restore_all_the_time(&mut self, rng: &mut Rng) {
        self.favour_restores(rng);
        let every = self.longest_validity() / 2;
        self.network = Network::default();
        self.stops = Stops { outage: 2, restore: 3, every, ..Stops::default() };
        self.length = every * 120;
    }

    /// Each fault of a write that the tests have, one write without an ETag among them.
    pub(super) fn add_spoiled_writes(&mut self) {
        let rng = &mut Rng::with_seed(self.seed ^ 0x5b01_1ed0);
        if !self.steady && rng.f64() < 0.3 {
            self.network.spoiled = 0.02 + 0.1 * rng.f64();
        }
    }

    /// Stores that are slow for a while, at some kinds of requests: up to a little beyond the
    /// timeout.
    pub(super) fn add_phases(&mut self) {
        let rng = &mut Rng::with_seed(self.seed ^ 0x1a7e_9c1e);
        if rng.bool() {
            let validity = self.longest_validity();
            let most = validity.mul_f64(0.22 * rng.f64());
            self.phases = phases(rng, validity, most, self.length);
        }
    }

    /// A foreign leader that touches its lock, and candidates that see each touch in time.
    pub(super) fn favour_foreign_leaders(&mut self) {
        self.network = Network::default();
        self.stops = Stops { every: self.stops.every, ..Stops::default() };
        for candidate in &mut self.candidates {
            candidate.store_clock_margin = None;
        }
    }

    /// A create meets its own repetition only if its epoch is compacted soon.
    pub(super) fn favour_repetition(&mut self) {
        self.network.twice = self.network.twice.max(0.3);
        let (min_age, interval) = (Duration::ZERO, self.longest_validity() / 4);
        self.compactors.push(CompactorKnobs { keep: 1, min_age, interval });
    }

    /// A timer that starts too early by one request's way is hidden by the drift, by the jitter
    /// before a seal and by every renewal: it shows when a slow poll meets a leader's last renewal.
    pub(super) fn favour_slow_polls(&mut self) {
        self.drift = 0.0;
        self.rtt /= 10;
        self.network = Network { tail: 0.15, ..Network::default() };
        self.stops = Stops { pause: 1, outage: 1, ..self.stops.clone() };
        self.stops.every = self.longest_validity() * 2;
        for candidate in &mut self.candidates {
            candidate.rate = 1_000_000;
            candidate.renew = Some(candidate.validity / 10);
            candidate.poll = candidate.validity / 20;
            candidate.takeover_delay = Duration::ZERO;
        }
    }
}
