//! What one seed stands for: who takes part, with which settings, and what goes wrong.

mod broken;
mod extras;
mod latency;
mod steady;

use std::time::Duration;

use fastrand::Rng;
use tenure::Layout;

pub use broken::Broken;
pub use latency::Phase;

/// A whole run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub layout: Layout,
    pub broken: Broken,
    pub traced: bool,
    /// The checkers that count; none stands for all.
    pub only: &'static [&'static str],
    pub candidates: Vec<Knobs>,
    /// The ratio that the candidates are told.
    pub drift: f64,
    /// True if clocks really keep to it.
    pub beyond_drift: bool,
    /// Candidates are told that no host pauses their machine, so that the wall clock has no say.
    pub never_paused: bool,
    pub compactors: Vec<CompactorKnobs>,
    pub observers: usize,
    /// A peer of Morling's post: creates without sealing, touches unconditionally.
    pub foreign: bool,
    /// The only candidate that is not killed when the faults end, if not all are left.
    pub survivor: Option<usize>,
    pub operator: bool,
    /// The operator restores, too. Then I4 to I6 are not promised (docs/design/protocol.md, section
    /// 14).
    pub restores: bool,
    /// True if a create may be applied again when its epoch has been compacted.
    pub twice_after_compaction: bool,
    pub foreign_keys: bool,
    pub page_max: usize,
    /// A usual round trip.
    pub rtt: Duration,
    /// When requests of some kinds take longer than that.
    pub phases: Vec<Phase>,
    /// Nothing goes wrong but what a leader is to survive: see `plan/steady.rs`.
    pub steady: bool,
    pub network: Network,
    pub stops: Stops,
    /// How long faults go on.
    pub length: Duration,
}

/// One candidate.
#[derive(Debug, Clone)]
pub struct Knobs {
    /// Its place in the plan.
    pub number: usize,
    pub name: String,
    pub name_is_unique: bool,
    pub validity: Duration,
    pub renew: Option<Duration>,
    pub poll: Duration,
    /// Backs off to a look a validity while one leader leads.
    pub backs_off: bool,
    /// Looks at the lapse alone.
    pub at_lapse: bool,
    pub priority_delay: Duration,
    /// Names a successor when it resigns, who may not exist.
    pub names: bool,
    /// Is told to look now and then.
    pub hears: bool,
    pub takeover_delay: Duration,
    pub store_clock_margin: Option<Duration>,
    pub verify_renewals: bool,
    pub check_store: bool,
    pub resign_on_drop: bool,
    /// Millionths of a local second in a simulated one.
    pub rate: u64,
    /// `try_campaign` in a loop instead of `campaign`.
    pub tries: bool,
    /// Two campaigns of one `Election` at once, which share what they know.
    pub doubled: bool,
    /// Observes while it campaigns, with the same `Election`.
    pub watches: bool,
    /// Makes all other calls, too, beside its campaigns: the next within so long.
    pub calls: Option<Duration>,
}

#[derive(Debug, Clone)]
pub struct CompactorKnobs {
    pub keep: usize,
    pub min_age: Duration,
    pub interval: Duration,
}

/// Chances of what may happen to one request.
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
    /// A write meets one of the testkit's faults of writes.
    pub spoiled: f64,
    /// A process stops right before a request leaves, or when its answer has arrived.
    pub stop_here: f64,
    /// It stops before any piece of code between two points where it waits.
    pub stop_anywhere: f64,
}

/// Weights of what may happen to a process, drawn from time to time.
#[derive(Debug, Clone, Default)]
pub struct Stops {
    pub pause: u32,
    pub suspend: u32,
    pub machine_pause: u32,
    pub crash: u32,
    pub outage: u32,
    pub blackout: u32,
    pub wall_forward: u32,
    pub wall_back: u32,
    pub slew: u32,
    pub depose: u32,
    pub restore: u32,
    /// Between two of them, on average.
    pub every: Duration,
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
            page_max: *rng.choice([1, 2, 3, 10, 1_000].iter()).expect("not empty"),
            rtt,
            phases: Vec::new(),
            steady: false,
            network: network(rng),
            stops: stops(rng, validity, broken),
            length: validity * rng.u32(20..60),
        };
        if !plan.operator {
            plan.stops.depose = 0;
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
            }
            Broken::HeldSaysNothing => plan.restore_all_the_time(rng),
            Broken::RawRepeatsBoot => plan.slew(rng),
            Broken::DatesStand => plan.favour_foreign_leaders(),
            Broken::ReadsGivenUp => plan.make_steady(),
            Broken::TimerFromRequest => plan.favour_slow_polls(),
            // The check of the store would find these two.
            Broken::StoreCreatesAgain | Broken::StoreReplacesBlindly => {
                plan.candidates.iter_mut().for_each(|candidate| candidate.check_store = false);
            }
            _ => {}
        }
        plan
    }

    /// The same on a single object. Nothing there is ever compacted, so no create comes twice; the
    /// peer, if there is one, is one of the If-Match post.
    pub fn on_a_single_object(mut self) -> Plan {
        self.layout = Layout::SingleObject;
        self.compactors.clear();
        self.twice_after_compaction = false;
        (self.restores, self.stops.restore) = (false, 0);
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
        // Now and then another validity: an observer goes by the record's, not by its own.
        let validity = if rng.f64() < 0.2 { validity.mul_f64(2.0) } else { validity };
        // Two processes may have one name; a unique one is the process's alone.
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

    /// Two rates drawn here differ by less than the drift, unless they are meant to.
    fn rate(&self, rng: &mut Rng) -> u64 {
        let ratio = if self.beyond_drift { 3.0 } else { 1.0 + self.drift };
        let exponent = rng.f64() - 0.5;
        (1e6 * f64::powf(ratio, exponent)).round() as u64
    }

    /// Whether I4 to I6 are promised: there is no peer that creates without sealing, and no create
    /// is repeated after its epoch is gone. A peer of the If-Match post writes by compare-and-swap.
    pub fn ordered(&self) -> bool {
        self.layout == Layout::SingleObject || self.follows_section_4()
    }

    /// Whether all who write keep to the leases of others, and no create is repeated after its
    /// epoch is gone.
    pub fn follows_section_4(&self) -> bool {
        !self.foreign && !self.twice_after_compaction
    }

    /// Whether I8 is.
    pub fn timed(&self) -> bool {
        let verified = self.candidates.iter().all(|candidate| candidate.verify_renewals);
        !self.foreign && !self.beyond_drift && (!self.twice_after_compaction || verified)
    }

    /// How much later than the first time a request may be applied again, in validities.
    pub fn repeats_within(&self) -> u32 {
        if self.twice_after_compaction { 12 } else { 3 }
    }

    pub fn longest_validity(&self) -> Duration {
        self.candidates.iter().map(|c| c.validity).max().expect("there are candidates")
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

/// What is wrong shows only when somebody is deposed at the right moment.
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
    // Most runs have a few kinds of trouble, and those often enough to meet each other.
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

fn stops(rng: &mut Rng, validity: Duration, broken: Broken) -> Stops {
    let every = validity.mul_f64(0.5 + 4.0 * rng.f64());
    let mut weight = || if rng.bool() { rng.u32(1..=4) } else { 0 };
    let mut stops = Stops {
        pause: weight(),
        suspend: weight(),
        machine_pause: weight(),
        crash: weight(),
        outage: weight(),
        blackout: weight() / 2,
        wall_forward: weight() / 2,
        wall_back: weight() / 2,
        slew: 0,
        depose: 3,
        restore: 0,
        every,
    };
    match broken {
        Broken::ClockStopsInSuspend => stops.suspend += 4,
        broken if favours_depositions(broken) => stops.depose += 4,
        _ => {}
    }
    if stops.machine_pause > 0 {
        // While its boot clock stands, the wall clock is all that a paused machine has.
        stops.wall_back = 0;
    }
    stops
}
