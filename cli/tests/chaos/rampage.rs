//! One run with faults of the processes and of the backend. Each kind of fault occurs once before
//! any kind occurs again.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use crate::backend::{Backend, Harm};
use crate::child::{nap, now_ns};
use crate::schedule::Schedule;

pub const LOOK_EVERY: Duration = Duration::from_millis(15);
/// Time limit of each wait of a run, for example for a new leader. If tenure is correct, no wait
/// reaches this limit, even on a busy machine.
pub const PATIENCE_NS: u64 = 180_000_000_000;
pub const SECOND_NS: u64 = 1_000_000_000;

/// The seed, the duration and the log folder of a run. The environment may set the seed and the
/// duration.
pub struct Run {
    seconds: u64,
    seed: u64,
    /// Folder of the logs. A failed test keeps the folder, because the logs show the reason.
    pub folder: PathBuf,
}

impl Run {
    pub fn begin(backend: &Backend, seconds: u64) -> Run {
        let number =
            |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
        let seconds = number("CHAOS_SECONDS").unwrap_or(seconds);
        let seed = number("CHAOS_SEED").unwrap_or_else(now_ns);
        let folder = tempfile::tempdir().expect("a temporary directory").keep();
        println!("CHAOS_SEED={seed} CHAOS_SECONDS={seconds} on {}", backend.url());
        println!("logs in {}", folder.display());
        Run { seconds, seed, folder }
    }
}

/// The processes of an election or a group, into which the test injects faults.
pub trait Victims {
    type Deed: Copy + Debug;

    /// Starts exited processes, and continues suspended processes, as soon as their pauses are
    /// over. Also observes the processes.
    fn tend(&mut self, backend: &mut Backend);

    /// Injects the fault and returns the affected process, or `None` if the fault is not possible
    /// now.
    fn harm(
        &mut self,
        deed: Self::Deed,
        backend: &Backend,
        rng: &mut fastrand::Rng,
    ) -> Option<String>;

    /// Returns whether the run has shown enough renewals or assignments for a meaningful check.
    fn showed_enough(&self) -> bool;
}

/// A run that injects faults into the processes, the backend, and the parts of a cluster.
pub struct Rampage<D> {
    rng: fastrand::Rng,
    start_ns: u64,
    end_ns: u64,
    deeds: Schedule<D>,
    harms: Schedule<Harm>,
    parts: Option<tenure_testkit::harm::Harm>,
    /// Number of times that each fault was injected.
    done: BTreeMap<String, usize>,
}

impl<D: Copy + Debug> Rampage<D> {
    pub fn new(run: &Run, backend: &Backend, deeds: &[D]) -> Rampage<D> {
        let start_ns = now_ns();
        let of_ceph = backend.is_of_the_environment() && tenure_testkit::harm::Harm::is_possible();
        Rampage {
            rng: fastrand::Rng::with_seed(run.seed),
            start_ns,
            end_ns: start_ns + run.seconds * SECOND_NS,
            deeds: Schedule::new(deeds.to_vec()),
            harms: Schedule::new(backend.harms()),
            parts: of_ceph.then(tenure_testkit::harm::Harm::of_the_cluster),
            done: BTreeMap::new(),
        }
    }

    /// Injects faults until the run's time has passed, every fault has occurred, and the
    /// observations are sufficient.
    pub fn go_on(&mut self, backend: &mut Backend, victims: &mut impl Victims<Deed = D>) {
        let start_ns = self.start_ns;
        let mut deed_ns = start_ns + 2 * SECOND_NS;
        let mut harm_ns = start_ns + 2 * SECOND_NS;
        let mut part_ns = start_ns + 8 * SECOND_NS;
        let give_up_ns = self.end_ns + PATIENCE_NS;
        while now_ns() < self.end_ns || !self.all_done() || !victims.showed_enough() {
            assert!(now_ns() < give_up_ns, "some faults did not occur; these did: {:?}", self.done);
            backend.tend();
            victims.tend(backend);
            if now_ns() > deed_ns {
                deed_ns = now_ns() + self.rng.u64(SECOND_NS / 3..SECOND_NS * 3 / 2);
                let Rampage { deeds, rng, .. } = self;
                let harm = |deed, rng: &mut _| Some((deed, victims.harm(deed, backend, rng)?));
                if let Some((deed, said)) = deeds.next(rng, harm) {
                    self.note(format!("{deed:?}"), &said);
                }
            }
            if now_ns() > harm_ns {
                harm_ns = now_ns() + self.rng.u64(SECOND_NS / 3..SECOND_NS * 3 / 2);
                let Rampage { harms, rng, .. } = self;
                let done = harms.next(rng, |harm, rng| Some((harm, backend.harm(harm, rng)?)));
                if let Some((harm, said)) = done {
                    self.note(format!("{harm:?}"), &said);
                }
            }
            if let Some(parts) = self.parts.as_mut().filter(|_| now_ns() > part_ns) {
                part_ns = now_ns() + 9 * SECOND_NS;
                let part = parts.kill_the_next();
                self.note(format!("kill {part}"), part);
            }
            nap(LOOK_EVERY);
        }
    }

    fn all_done(&self) -> bool {
        self.deeds.is_through() && self.harms.is_through()
    }

    fn note(&mut self, fault: String, said: &str) {
        let at = (now_ns() - self.start_ns) as f64 / 1e9;
        println!("{at:7.3} s: {fault}: {said}");
        *self.done.entry(fault).or_default() += 1;
    }

    /// Prints the faults and the result of the check. Fails if a rule is broken, or if a kind of
    /// fault affected no request.
    pub fn end(
        self,
        run: Run,
        backend: &Backend,
        met: BTreeMap<String, usize>,
        found: Result<String, String>,
    ) {
        println!("done: {:?}", self.done);
        println!("requests that met a fault: {met:?}");
        match found {
            Ok(said) => println!("{said}"),
            Err(why) => {
                panic!("CHAOS_SEED={}, logs in {}: {why}", run.seed, run.folder.display())
            }
        }
        assert!(backend.all_met(&met), "a kind of fault met no request: {met:?}");
        std::fs::remove_dir_all(run.folder).expect("the logs can be removed");
    }
}
