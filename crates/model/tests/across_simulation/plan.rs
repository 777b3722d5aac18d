//! The plan of a seed: the stores, the processes, and the frequency of the faults.

use std::time::Duration;

use fastrand::Rng;
use tenure_model::faults::Frequencies;
use tenure_model::sim::suite::{self, Outcome};

/// The part of the system that is broken on purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Broken {
    #[default]
    Nothing,
    /// A store accepts the create of an existing object.
    StoreCreatesAgain,
    /// A store ignores `If-Match`.
    StoreReplacesBlindly,
    /// All stores refuse the seals of lapsed epochs.
    SealsRefused,
    /// A leader treats a renewal that one store accepts as accepted by all stores. So the lease of
    /// the election lasts as long as the longest lease at one store.
    GreatestLease,
    /// A process uses the listing of a store that has lost its marker.
    MarkerForged,
    /// A replacement writes only the marker.
    ReplacedEmpty,
    /// The clocks of machines stop during a suspend.
    ClockStopsInSuspend,
}

/// A list of stores that differs from the markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Each store has another index than in its marker.
    Rotated,
    /// The list omits two of the five stores.
    ThreeOfFive,
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub broken: Broken,
    pub traced: bool,
    /// Names of the active checkers. An empty list means all checkers.
    pub only: &'static [&'static str],
    /// Usual duration of a round trip to each store.
    pub rtts: Vec<Duration>,
    pub validity: Duration,
    pub drift: f64,
    pub candidates: Vec<Knobs>,
    pub compacts: bool,
    pub wrong: Option<Wrong>,
    /// True if only the first candidate survives the faults.
    pub has_survivor: bool,
    /// Number of stores that are down after the faults. Always a minority.
    pub dead_stores: usize,
    pub page_max: usize,
    pub network: Network,
    /// [`Fault::Blackout`](tenure_model::faults::Fault::Blackout) makes one store fail for all
    /// processes, `Outage` makes all stores fail for one process, `Trouble` makes one store fail
    /// for one process, and `Restore` wipes a store and replaces it.
    pub faults: Frequencies,
    /// Average time between two faults.
    pub every: Duration,
    /// Duration of the faults.
    pub length: Duration,
}

impl suite::Plan for Plan {
    type Broken = Broken;
    type Drawing = ();

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

    fn run(self) -> Outcome<Plan> {
        super::world::run(self)
    }
}

/// The settings of one candidate.
#[derive(Debug, Clone)]
pub struct Knobs {
    pub name: String,
    pub validity: Duration,
    pub poll: Duration,
    pub resign_on_drop: bool,
    /// True if the application calls `try_campaign` in a loop.
    pub tries: bool,
    /// Rate of the clock, in microseconds per simulated second.
    pub rate: u64,
}

/// Probabilities of the events of one request.
#[derive(Debug, Clone, Default)]
pub struct Network {
    pub tail: f64,
    pub late: f64,
    pub request_lost: f64,
    pub answer_lost: f64,
    pub twice: f64,
    pub unavailable: f64,
    /// Probability that one of the testkit's write faults affects a write.
    pub spoiled: f64,
    /// Probability that a process stops before or after a request.
    pub stop_here: f64,
}

impl Plan {
    pub fn draw(seed: u64, broken: Broken) -> Plan {
        let rng = &mut Rng::with_seed(seed);
        let validity = Duration::from_secs(rng.u64(3..=12));
        let stores = if rng.f64() < 0.3 { 5 } else { 3 };
        let drift = *rng.choice([0.0, 0.01, 0.05, 0.2].iter()).expect("not empty");
        let rtt = |rng: &mut Rng| validity.mul_f64(0.002 + 0.02 * rng.f64());
        let wrongs = [Wrong::Rotated, Wrong::ThreeOfFive];
        let wrong = wrongs[rng.usize(..if stores == 5 { 2 } else { 1 })];
        let mut plan = Plan {
            seed,
            broken,
            traced: false,
            only: &[],
            rtts: (0..stores).map(|_| rtt(rng)).collect(),
            validity,
            drift,
            candidates: Vec::new(),
            compacts: rng.bool(),
            wrong: (rng.f64() < 0.2).then_some(wrong),
            has_survivor: rng.f64() < 0.3,
            dead_stores: rng.usize(0..=stores / 2),
            page_max: *rng.choice([1, 2, 3, 1_000, 1_000].iter()).expect("not empty"),
            network: network(rng),
            faults: faults(rng),
            every: validity.mul_f64(0.3 + 3.0 * rng.f64()),
            length: validity * rng.u32(15..40),
        };
        for number in 0..rng.usize(2..=4) {
            let long = if rng.f64() < 0.2 { 2.0 } else { 1.0 };
            let validity = validity.mul_f64(long);
            plan.candidates.push(Knobs {
                name: format!("c{number}"),
                validity,
                poll: validity.mul_f64(0.05 + 0.25 * rng.f64()),
                resign_on_drop: rng.bool(),
                tries: rng.f64() < 0.15,
                rate: (1e6 * f64::powf(1.0 + drift, rng.f64() - 0.5)).round() as u64,
            });
        }
        plan.favour(broken);
        plan
    }

    /// Raises the frequency of the faults that reveal the broken part.
    fn favour(&mut self, broken: Broken) {
        match broken {
            Broken::ClockStopsInSuspend => self.faults.suspend += 6,
            Broken::MarkerForged => {
                self.rtts.truncate(3);
                self.dead_stores = 0;
                self.wrong = None;
                self.network = Network::default();
                self.page_max = 1_000;
                self.length = self.validity * 60;
                self.every = self.validity;
                let (restore, crash, blackout, trouble) = (6, 6, 6, 4);
                self.faults =
                    Frequencies { restore, crash, blackout, trouble, ..Frequencies::default() };
            }
            Broken::ReplacedEmpty => {
                self.faults.restore += 8;
                self.faults.crash += 2;
            }
            Broken::GreatestLease => {
                self.faults.trouble += 8;
                self.faults.depose += 2;
            }
            _ => {}
        }
    }

    pub fn stores(&self) -> usize {
        self.rtts.len()
    }

    /// Returns the number of stores that may fail: f of 2f + 1.
    pub fn minority(&self) -> usize {
        self.stores() / 2
    }

    pub fn longest_validity(&self) -> Duration {
        self.candidates.iter().map(|it| it.validity).max().expect("the plan has candidates")
    }
}

fn network(rng: &mut Rng) -> Network {
    if rng.f64() < 0.15 {
        return Network::default();
    }
    // Each run has only some kinds of faults, so that faults of these kinds often coincide.
    let mut chance = |most: f64| if rng.bool() { most * rng.f64() } else { 0.0 };
    Network {
        tail: chance(0.2),
        late: chance(0.05),
        request_lost: chance(0.1),
        answer_lost: chance(0.2),
        twice: chance(0.2),
        unavailable: chance(0.1),
        spoiled: chance(0.2),
        stop_here: chance(0.02),
    }
}

fn faults(rng: &mut Rng) -> Frequencies {
    let mut weight = || if rng.bool() { rng.u32(1..=4) } else { 0 };
    let mut faults = Frequencies {
        pause: weight(),
        suspend: weight(),
        machine_pause: weight(),
        crash: weight(),
        outage: weight(),
        blackout: weight(),
        wall_forward: weight() / 2,
        wall_back: weight() / 2,
        depose: weight(),
        restore: weight(),
        trouble: weight() * 2,
        ..Frequencies::default()
    };
    if faults.machine_pause > 0 {
        // While the host pauses a machine, only its wall clock continues and can end a lease. So
        // the plan must not set this clock back.
        faults.wall_back = 0;
    }
    faults
}
