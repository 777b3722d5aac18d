//! The plan of a seed: the participants, their settings, and the faults.

mod broken;
mod extras;
mod latency;
mod steady;

use std::time::Duration;

use fastrand::Rng;
use tenure::Layout;
use tenure_history::drawing::Drawing;
use tenure_model::faults::Frequencies;
use tenure_model::sim::suite;

pub use broken::Broken;
pub use latency::Phase;

/// The plan of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub layout: Layout,
    pub broken: Broken,
    pub traced: bool,
    /// Names of the active checkers. An empty list means all checkers.
    pub only: &'static [&'static str],
    pub candidates: Vec<Knobs>,
    /// Drift in the settings of the candidates.
    pub drift: f64,
    /// True if the rates of the clocks differ by more than the drift.
    pub beyond_drift: bool,
    /// True if the candidates assume that no host pauses their machines. These candidates ignore
    /// the wall clock.
    pub never_paused: bool,
    pub compactors: Vec<CompactorKnobs>,
    pub observers: usize,
    /// True if a peer that does not use tenure takes part. With epoch objects, the peer follows
    /// Morling's post: it creates the next epoch without sealing the newest one, and rewrites its
    /// lock file unconditionally.
    pub foreign: bool,
    /// The only candidate that survives the faults. `None` if no candidate is killed at the end of
    /// the faults.
    pub survivor: Option<usize>,
    pub operator: bool,
    /// True if the operator also restores the election. A restore suspends the guarantees I4 to I6
    /// (docs/design/protocol.md).
    pub restores: bool,
    /// True if a create may be applied again after its epoch was compacted.
    pub twice_after_compaction: bool,
    pub foreign_keys: bool,
    pub page_max: usize,
    /// True if the store lists keys in no order, so some listings take several pages.
    pub unordered: bool,
    /// Usual duration of a round trip to the store.
    pub rtt: Duration,
    /// Phases in which some kinds of requests have longer round trips.
    pub phases: Vec<Phase>,
    /// True if the run has only faults that a leader must survive. `plan/steady.rs` lists them.
    pub steady: bool,
    pub network: Network,
    /// Relative frequency of each fault of a process.
    pub faults: Frequencies,
    /// Average time between two faults of processes.
    pub every: Duration,
    /// Duration of the faults.
    pub length: Duration,
}

impl suite::Plan for Plan {
    type Broken = Broken;
    /// The leaderships, from each grant until the leader no longer believes that it leads. Present
    /// only after a failure.
    type Drawing = Option<Drawing>;

    fn draw(seed: u64, broken: Broken) -> Plan {
        Plan::draw(seed, broken)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn with(self, broken: Broken, only: &'static [&'static str]) -> Plan {
        Plan { broken, only, ..self }
    }

    fn traced(self) -> Plan {
        Plan { traced: true, ..self }
    }

    fn run(self) -> super::Outcome {
        super::run(self)
    }

    fn save(outcome: &super::Outcome) -> String {
        format!("; {} shows the leaders", super::picture::save(outcome).display())
    }
}

/// The settings of one candidate.
#[derive(Debug, Clone)]
pub struct Knobs {
    /// Index of the candidate in the plan.
    pub number: usize,
    pub name: String,
    pub name_is_unique: bool,
    pub validity: Duration,
    pub renew: Option<Duration>,
    pub poll: Duration,
    /// True if the candidate polls less and less often while the leader stays the same, down to
    /// once per validity.
    pub backs_off: bool,
    /// True if the candidate polls only when the lease may have lapsed.
    pub at_lapse: bool,
    pub priority_delay: Duration,
    /// True if the candidate names a successor in its resignation. The named process may not exist.
    pub names: bool,
    /// True if the application requests a poll from time to time.
    pub hears: bool,
    pub takeover_delay: Duration,
    pub store_clock_margin: Option<Duration>,
    pub verify_renewals: bool,
    pub check_store: bool,
    pub resign_on_drop: bool,
    /// Rate of the candidate's clock, in microseconds per simulated second.
    pub rate: u64,
    /// True if the application calls `try_campaign` in a loop instead of `campaign`.
    pub tries: bool,
    /// True if the candidate runs two concurrent campaigns of one `Election`. The two campaigns
    /// share their knowledge of the store.
    pub doubled: bool,
    /// True if the candidate observes the election during its campaign, with the same `Election`.
    pub watches: bool,
    /// Maximum time between two random calls that the application makes during its campaigns.
    /// `None` means no random calls.
    pub calls: Option<Duration>,
}

#[derive(Debug, Clone)]
pub struct CompactorKnobs {
    pub keep: usize,
    pub min_age: Duration,
    pub interval: Duration,
}

/// Probabilities of the events of one request.
#[derive(Debug, Clone, Default)]
pub struct Network {
    pub tail: f64,
    pub late: f64,
    pub request_lost: f64,
    pub answer_lost: f64,
    pub cut: f64,
    pub twice: f64,
    pub conflict: f64,
    pub unavailable_before: f64,
    pub unavailable_after: f64,
    /// Probability that one of the testkit's write faults affects a write.
    pub spoiled: f64,
    /// Probability that a process stops just before it sends a request, or just after the answer to
    /// a request has arrived.
    pub stop_here: f64,
    /// Probability that a process stops when one of its tasks is polled. So the process may stop
    /// between any two waits.
    pub stop_anywhere: f64,
}

impl Plan {
    pub fn draw(seed: u64, broken: Broken) -> Plan {
        let rng = &mut Rng::with_seed(seed);
        let validity = Duration::from_millis(rng.u64(1..=10) * 1_000);
        let drift = *rng.choice([0.0, 0.01, 0.01, 0.05, 0.2].iter()).expect("not empty");
        let beyond_drift = broken == Broken::Nothing && rng.f64() < 0.06;
        let foreign = broken == Broken::DatesStand || broken == Broken::Nothing && rng.f64() < 0.15;
        let twice_after_compaction = rng.f64() < 0.1;
        let verify = rng.f64() < if twice_after_compaction { 0.5 } else { 0.1 };
        let rtt = validity.mul_f64(0.002 + 0.02 * rng.f64());
        let mut plan = Plan {
            seed,
            layout: Layout::EpochFiles,
            broken,
            traced: false,
            only: &[],
            candidates: Vec::new(),
            drift,
            beyond_drift,
            never_paused: false,
            compactors: compactors(rng, validity),
            observers: usize::from(broken == Broken::ObserverBehindACache || rng.f64() < 0.2),
            foreign,
            survivor: None,
            operator: favours_depositions(broken) || rng.f64() < 0.3,
            restores: false,
            twice_after_compaction,
            foreign_keys: rng.f64() < 0.2,
            unordered: broken == Broken::TornListing,
            page_max: *rng.choice([1, 2, 3, 10, 1_000].iter()).expect("not empty"),
            rtt,
            phases: Vec::new(),
            steady: false,
            network: network(rng),
            every: validity.mul_f64(0.5 + 4.0 * rng.f64()),
            faults: faults(rng, broken),
            length: validity * rng.u32(20..60),
        };
        if !plan.operator {
            plan.faults.depose = 0;
        }
        let delayed = rng.f64() < 0.1 || broken == Broken::TakeoverDelayIgnored;
        let takeover = if delayed { validity.mul_f64(rng.f64()) } else { Duration::ZERO };
        for number in 0..rng.usize(2..=4) {
            let candidate = plan.candidate(rng, number, validity, verify, takeover);
            plan.candidates.push(candidate);
        }
        if twice_after_compaction {
            plan.favour_repetition();
        }
        match broken {
            Broken::Nothing => {
                plan.add_preferences();
                plan.add_slewing();
                plan.add_calls();
                plan.add_phases();
                plan.make_some_steady();
                plan.add_restores();
                plan.add_spoiled_writes();
                plan.add_torn_listings();
            }
            Broken::HeldSaysNothing => plan.restore_all_the_time(rng),
            Broken::RawRepeatsBoot => plan.slew(rng),
            Broken::DatesStand => plan.favour_foreign_leaders(),
            Broken::ReadsGivenUp => plan.make_steady(),
            Broken::TimerFromRequest => plan.favour_slow_polls(),
            // The store check would detect both variants, so the check is switched off.
            Broken::StoreCreatesAgain | Broken::StoreReplacesBlindly => {
                plan.candidates.iter_mut().for_each(|candidate| candidate.check_store = false);
            }
            _ => {}
        }
        plan
    }

    /// Changes the layout of the plan to [`Layout::SingleObject`]. A single object is never
    /// compacted, so a repeated create has no effect. A foreign peer follows the If-Match post.
    pub fn on_a_single_object(mut self) -> Plan {
        self.layout = Layout::SingleObject;
        self.compactors.clear();
        self.twice_after_compaction = false;
        (self.restores, self.faults.restore) = (false, 0);
        self
    }

    fn candidate(
        &self,
        rng: &mut Rng,
        number: usize,
        validity: Duration,
        verify_renewals: bool,
        takeover_delay: Duration,
    ) -> Knobs {
        // Some candidates have a longer validity. An observer must use the validity in the record,
        // and not its own validity.
        let validity = if rng.f64() < 0.2 { validity.mul_f64(2.0) } else { validity };
        // Two processes may share a name, but only if the name is not declared unique.
        let name_is_unique = rng.f64() < 0.3;
        let shared = !name_is_unique && rng.f64() < 0.3;
        Knobs {
            number,
            name: if shared { "twin".to_owned() } else { format!("c{number}") },
            name_is_unique,
            validity,
            renew: (rng.f64() < 0.3).then(|| validity.mul_f64(0.1 + 0.5 * rng.f64())),
            poll: validity.mul_f64(0.05 + 0.3 * rng.f64()),
            backs_off: false,
            at_lapse: false,
            priority_delay: Duration::ZERO,
            names: false,
            hears: false,
            takeover_delay,
            store_clock_margin: (rng.f64() < 0.1).then_some(Duration::from_secs(2)),
            verify_renewals,
            check_store: rng.f64() < 0.2,
            resign_on_drop: rng.f64() < 0.3,
            rate: self.rate(rng),
            tries: rng.f64() < 0.2,
            doubled: rng.f64() < 0.1,
            watches: rng.f64() < 0.1,
            calls: None,
        }
    }

    /// Returns a random rate of a clock. Two rates differ by less than the drift, unless the plan
    /// exceeds the drift.
    fn rate(&self, rng: &mut Rng) -> u64 {
        let ratio = if self.beyond_drift { 3.0 } else { 1.0 + self.drift };
        let exponent = rng.f64() - 0.5;
        (1e6 * f64::powf(ratio, exponent)).round() as u64
    }

    /// Returns whether the invariants I4 to I6 (docs/design/protocol.md) are guaranteed. They hold
    /// if no peer creates an epoch before the previous epoch is sealed, and if no create is
    /// repeated after the deletion of its epoch. With the layout `SingleObject` they always hold,
    /// because a peer that follows the If-Match post also writes only by compare-and-swap.
    pub fn ordered(&self) -> bool {
        self.layout == Layout::SingleObject || self.follows_section_4()
    }

    /// Returns whether all writers wait for the leases of others, and no create is repeated after
    /// the deletion of its epoch.
    pub fn follows_section_4(&self) -> bool {
        !self.foreign && !self.twice_after_compaction
    }

    /// Returns whether the run guarantees that the leases of two leaders do not overlap (I8).
    pub fn timed(&self) -> bool {
        let verified = self.candidates.iter().all(|candidate| candidate.verify_renewals);
        !self.foreign && !self.beyond_drift && (!self.twice_after_compaction || verified)
    }

    /// Returns the maximum delay between the two effects of a repeated request, in validities.
    pub fn repeats_within(&self) -> u32 {
        if self.twice_after_compaction { 12 } else { 3 }
    }

    pub fn longest_validity(&self) -> Duration {
        self.candidates.iter().map(|c| c.validity).max().expect("the plan has candidates")
    }
}

fn compactors(rng: &mut Rng, validity: Duration) -> Vec<CompactorKnobs> {
    let number = *rng.choice([0, 0, 1, 1, 2].iter()).expect("not empty");
    let mut draw = || CompactorKnobs {
        keep: rng.usize(1..=3),
        min_age: if rng.bool() { Duration::ZERO } else { validity * rng.u32(1..5) },
        interval: validity.mul_f64(0.2 + 3.0 * rng.f64()),
    };
    (0..number).map(|_| draw()).collect()
}

/// Returns whether only a deposition at a certain moment reveals the error of this broken variant.
fn favours_depositions(broken: Broken) -> bool {
    matches!(
        broken,
        Broken::DepositionNotWaited | Broken::RefusalIgnored | Broken::RefusedSealCounts
    )
}

fn network(rng: &mut Rng) -> Network {
    if rng.f64() < 0.1 {
        return Network::default();
    }
    // Each run has only some kinds of faults, but many faults of each kind, so that faults of these
    // kinds often coincide.
    let mut chance = |most: f64| if rng.bool() { most * rng.f64() } else { 0.0 };
    Network {
        tail: chance(0.2),
        late: chance(0.05),
        request_lost: chance(0.1),
        answer_lost: chance(0.2),
        cut: chance(0.1),
        twice: chance(0.2),
        conflict: chance(0.1),
        unavailable_before: chance(0.1),
        unavailable_after: chance(0.1),
        spoiled: 0.0,
        stop_here: chance(0.02),
        stop_anywhere: chance(0.004),
    }
}

fn faults(rng: &mut Rng, broken: Broken) -> Frequencies {
    let mut weight = || if rng.bool() { rng.u32(1..=4) } else { 0 };
    let mut faults = Frequencies {
        pause: weight(),
        suspend: weight(),
        machine_pause: weight(),
        crash: weight(),
        outage: weight(),
        blackout: weight() / 2,
        wall_forward: weight() / 2,
        wall_back: weight() / 2,
        depose: 3,
        ..Frequencies::default()
    };
    match broken {
        Broken::ClockStopsInSuspend => faults.suspend += 4,
        broken if favours_depositions(broken) => faults.depose += 4,
        _ => {}
    }
    if faults.machine_pause > 0 {
        // While the host pauses a machine, only its wall clock continues and can end a lease. So
        // the plan must not set this clock back.
        faults.wall_back = 0;
    }
    faults
}
