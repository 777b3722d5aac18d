//! What one run is made of, drawn from its seed.

use std::time::Duration;

/// What is wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    /// `If-None-Match: *` is ignored.
    CreatesAgain,
    /// `If-Match` is ignored.
    ReplacesBlindly,
    ClockStopsInSuspend,
    /// The application works on with a token, without a check.
    TokenKept,
    /// The application releases a partition and works on.
    ReleasesEarly,
    NewestCompacted,
    /// One machine's clocks run at four times their rate.
    ClockRuns,
    /// No session can be ended by another.
    SealsRefused,
    /// A writer gives a partition to whom it likes.
    Takes,
    /// Work that was told to stop goes on for ever.
    NeverReturns,
    /// A write that is answered without an ETag counts as done.
    EtagNotNeeded,
    /// Others delete assignments although nothing that is left shows it.
    DeletedUnseen,
    /// A seal drops which assignment its member has seen.
    SealsForget,
    /// A read that fails counts as "not found".
    FailedReadFindsNothing,
    /// A listing that fails counts as an empty one.
    FailedListIsEmpty,
    /// A session that cannot be read makes the listings of the sessions fail.
    UnreadStopsRound,
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub broken: Broken,
    pub traced: bool,
    pub members: usize,
    pub partitions: u32,
    pub validity: Duration,
    pub poll: Duration,
    pub rebalance_delay: Duration,
    /// How long work takes to stop.
    pub stopping: Duration,
    pub rtt: Duration,
    /// Probabilities of what becomes of a request.
    pub lost: f64,
    pub late: f64,
    pub twice: f64,
    pub failing: f64,
    /// The probability that a write meets one of the testkit's faults of writes.
    pub spoiled: f64,
    /// Of each kind of fault, how often beside the others.
    pub faults: Faults,
    pub every: Duration,
    pub length: Duration,
    /// The store lists no tags.
    pub tagless: bool,
    pub page: usize,
    pub compacts: bool,
    pub operates: bool,
    /// Some work fails at times.
    pub fails: bool,
    /// No two living processes have one name, and they say so.
    pub unique: bool,
    /// The settings of the members differ: those here are the longest.
    pub mixed: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Faults {
    pub pause: u32,
    pub suspend: u32,
    pub machine_pause: u32,
    pub crash: u32,
    pub leave: u32,
    pub outage: u32,
    pub blackout: u32,
    pub wall: u32,
    pub slew: u32,
    /// Assignments are deleted by others.
    pub delete_assignments: u32,
    /// A session is.
    pub delete_session: u32,
    /// An operator restores the group.
    pub restore: u32,
    /// One object or one process meets faults for minutes.
    pub trouble: u32,
}

impl Faults {
    /// Returns true if an operator takes part and restores the group.
    pub fn have_restorer(&self) -> bool {
        self.delete_assignments + self.restore > 0
    }
}

impl Faults {
    fn of_objects(rng: &mut fastrand::Rng, broken: Broken) -> Faults {
        let mut some = |most: u32| if rng.u32(0..3) == 0 { rng.u32(1..=most) } else { 0 };
        let mut faults = Faults {
            delete_assignments: some(3),
            delete_session: some(2),
            restore: some(1),
            trouble: some(4),
            ..Faults::default()
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
}

impl Plan {
    pub fn draw(seed: u64, broken: Broken) -> Plan {
        let mut rng = fastrand::Rng::with_seed(seed);
        let ms = Duration::from_millis;
        let validity = ms(rng.u64(2_000..30_000));
        let mut some = |most: u32| if rng.bool() { rng.u32(1..=most) } else { 0 };
        let mut faults = Faults {
            pause: some(4),
            suspend: some(4),
            machine_pause: some(2),
            crash: some(4),
            leave: some(3),
            outage: some(3),
            blackout: some(1),
            wall: some(2),
            slew: some(2),
            // Drawn apart, so that each seed without these is the run that it was.
            ..Faults::of_objects(&mut fastrand::Rng::with_seed(seed ^ 0x5e551045), broken)
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
            // While its boot clock stands, the wall clock is all that a paused machine has.
            (faults.wall, faults.slew) = (0, 0);
        }
        let mut part = |most: f64| if rng.u32(0..3) == 0 { 0.0 } else { rng.f64() * most };
        let (lost, late, twice, failing) = (part(0.1), part(0.05), part(0.05), part(0.1));
        // Drawn apart, so that each seed without such faults is the run that it was.
        let mut apart = fastrand::Rng::with_seed(seed ^ 0xe7a6);
        let spoiled = match apart.u32(0..3) {
            _ if broken == Broken::EtagNotNeeded => 0.3,
            0 => 0.02 + apart.f64() * 0.1,
            _ => 0.0,
        };
        Plan {
            seed,
            broken,
            traced: false,
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
