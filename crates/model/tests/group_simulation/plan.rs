//! The plan of one run: its settings, its faults and their frequencies, drawn from the seed.

use std::time::Duration;

use fastrand::Rng;
use tenure_model::faults::Frequencies;
use tenure_model::sim::suite::{self, Outcome};

/// A broken variant of the simulation: the part of the system that is wrong on purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Broken {
    #[default]
    Nothing,
    /// The store ignores `If-None-Match: *`.
    CreatesAgain,
    /// The store ignores `If-Match`.
    ReplacesBlindly,
    ClockStopsInSuspend,
    /// The application continues to write with its token although the check of its ownership fails.
    TokenKept,
    /// The application releases a partition and continues its work on the partition.
    ReleasesEarly,
    NewestCompacted,
    /// The clocks of one machine run at four times the correct rate.
    ClockRuns,
    /// The store refuses each seal of a lapsed session.
    SealsRefused,
    /// A writer grants all partitions to one member, against rule R1.
    Takes,
    /// The work on a partition ignores the request to stop.
    NeverReturns,
    /// The library treats a write as done although the answer has no ETag.
    EtagNotNeeded,
    /// Other programs delete assignments although no remaining object shows the deletion.
    DeletedUnseen,
    /// A seal drops the greatest assignment that the member has seen.
    SealsForget,
    /// The library treats a failed read as "not found".
    FailedReadFindsNothing,
    /// The library treats a failed listing as empty.
    FailedListIsEmpty,
    /// An unreadable session makes the listings of the sessions fail.
    UnreadStopsRound,
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub broken: Broken,
    pub traced: bool,
    /// Names of the active checkers. An empty list means all checkers.
    pub only: &'static [&'static str],
    pub members: usize,
    pub partitions: u32,
    pub validity: Duration,
    pub poll: Duration,
    pub rebalance_delay: Duration,
    /// The time that work needs to stop after the request to stop.
    pub stopping: Duration,
    pub rtt: Duration,
    /// Probabilities of faults of a request: it is lost, late or applied twice, or it fails.
    pub lost: f64,
    pub late: f64,
    pub twice: f64,
    pub failing: f64,
    /// Probability that a write has one of the write faults of the testkit.
    pub spoiled: f64,
    /// The relative frequency of each kind of fault.
    pub faults: Frequencies,
    pub every: Duration,
    pub length: Duration,
    /// True if the listings of the store contain no tags.
    pub tagless: bool,
    pub page: usize,
    pub compacts: bool,
    pub operates: bool,
    /// True if the work on a partition sometimes fails.
    pub fails: bool,
    /// True if the processes know that the names of live processes are unique (`name_is_unique`).
    pub unique: bool,
    /// True if the settings of the members differ. The validity, the poll interval and the
    /// rebalance delay of a member are then at most the values in this plan.
    pub mixed: bool,
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

impl Plan {
    /// Returns whether the run has an operator that restores the group.
    pub fn has_restorer(&self) -> bool {
        self.faults.delete_assignments + self.faults.restore > 0
    }

    pub fn draw(seed: u64, broken: Broken) -> Plan {
        let mut rng = Rng::with_seed(seed);
        let ms = Duration::from_millis;
        let validity = ms(rng.u64(2_000..30_000));
        let mut some = |most: u32| if rng.bool() { rng.u32(1..=most) } else { 0 };
        let mut faults = Frequencies {
            pause: some(4),
            suspend: some(4),
            machine_pause: some(2),
            crash: some(4),
            leave: some(3),
            outage: some(3),
            blackout: some(1),
            wall_forward: some(2),
            wall_back: some(2),
            slew: some(2),
            // A separate generator draws these faults. So they do not change the other random
            // numbers of a seed.
            ..faults_of_objects(&mut Rng::with_seed(seed ^ 0x5e551045), broken)
        };
        if broken == Broken::ClockStopsInSuspend {
            faults.suspend = 10;
        }
        if broken == Broken::ReplacesBlindly {
            faults.pause = 20;
        }
        if broken == Broken::SealsRefused {
            faults.crash = 10;
        }
        if faults.machine_pause > 0 {
            // While the host has stopped a machine, only the machine's wall clock continues and can
            // end a lease. So the plan must not slew this clock or set it back.
            (faults.wall_back, faults.slew) = (0, 0);
        }
        let mut part = |most: f64| if rng.u32(0..3) == 0 { 0.0 } else { rng.f64() * most };
        let (lost, late, twice, failing) = (part(0.1), part(0.05), part(0.05), part(0.1));
        // A separate generator draws these faults. So they do not change the other random numbers
        // of a seed.
        let mut apart = Rng::with_seed(seed ^ 0xe7a6);
        let spoiled = match apart.u32(0..3) {
            _ if broken == Broken::EtagNotNeeded => 0.3,
            0 => 0.02 + apart.f64() * 0.1,
            _ => 0.0,
        };
        Plan {
            seed,
            broken,
            traced: false,
            only: &[],
            members: rng.usize(2..=8),
            partitions: rng.u32(1..=40),
            validity,
            poll: validity / rng.u32(4..=12),
            rebalance_delay: ms(rng.u64(0..3_000)),
            stopping: validity.mul_f64(rng.f64() / 8.0),
            rtt: validity.mul_f64(0.001 + rng.f64() * 0.02),
            lost,
            late,
            twice,
            failing,
            spoiled,
            faults,
            every: validity.mul_f64(0.3 + rng.f64() * 2.0),
            length: validity * rng.u32(8..25),
            tagless: rng.u32(0..5) == 0,
            page: if rng.bool() { 1_000 } else { rng.usize(1..5) },
            compacts: rng.bool() || broken == Broken::NewestCompacted,
            operates: rng.bool(),
            fails: rng.u32(0..3) == 0,
            unique: rng.bool(),
            mixed: rng.bool(),
        }
    }
}

/// Returns the frequencies of the faults that affect objects: deletions, restores, and failing
/// requests for one object or one process.
fn faults_of_objects(rng: &mut Rng, broken: Broken) -> Frequencies {
    let mut some = |most: u32| if rng.u32(0..3) == 0 { rng.u32(1..=most) } else { 0 };
    let mut faults = Frequencies {
        delete_assignments: some(3),
        delete_session: some(2),
        restore: some(1),
        trouble: some(4),
        ..Frequencies::default()
    };
    match broken {
        Broken::DeletedUnseen | Broken::SealsForget => faults.delete_assignments = 20,
        Broken::FailedReadFindsNothing => {
            (faults.delete_assignments, faults.trouble) = (20, 20);
        }
        Broken::FailedListIsEmpty => faults.trouble = 20,
        Broken::UnreadStopsRound => faults.trouble = 1,
        _ => {}
    }
    faults
}
