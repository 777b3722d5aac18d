//! Five `tenure run` on one election, whose children write one manifest, and a `tenure compact`,
//! while processes are killed and stopped, and requests, connections and the server go wrong.
//!
//! ```sh
//! cargo test --test chaos -- --nocapture
//! CHAOS_SECONDS=600 cargo test --test chaos on_a_server_with_faults -- --nocapture
//! scripts/faketime.sh -- cargo test --test chaos stepped -- --ignored --nocapture
//! scripts/ceph.sh -- cargo test --test chaos that_is_not_ours -- --ignored --nocapture
//! ```
//!
//! `CHAOS_SEED` chooses what is done to them; when, the machine decides too.
#![cfg(all(feature = "s3", target_os = "linux"))]

use std::collections::BTreeMap;
use std::time::Duration;

use backend::{Backend, Harm};
use checker::Story;
use child::{Line, nap, now_ns};
use clocks::Clocks;
use fleet::{Deed, Fleet};
use schedule::Schedule;
use stalls::Stalls;
use watch::Watch;

mod backend;
mod checker;
mod child;
mod clocks;
mod fleet;
mod history;
mod proxy;
mod schedule;
mod stalls;
mod watch;

const VALIDITY: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(15);
/// Far longer than anything here takes, even on a busy machine.
const PATIENCE_NS: u64 = 180_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Not a test: what the candidates run.
#[test]
#[ignore = "run by the candidates of the tests"]
fn child() {
    if std::env::var_os(child::FOLDER).is_some() {
        child::run();
    }
}

#[test]
fn on_a_server_with_faults() {
    chaos(Backend::server(), 25);
}

#[test]
fn on_a_directory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    chaos(Backend::dir(dir.path()), 25);
}

/// What was acknowledged is also in what a power loss would leave.
#[test]
#[ignore = "needs a disk: scripts/failing-disk.sh -- cargo test --test chaos on_a_disk_that_fails"]
fn on_a_disk_that_fails() {
    chaos(Backend::disk(), 40);
}

/// On Ceph, OSDs and gateways are killed as well.
#[test]
#[ignore = "needs a server: scripts/ceph.sh -- cargo test --test chaos that_is_not_ours"]
fn on_a_server_that_is_not_ours() {
    chaos(Backend::environment(), 120);
}

/// The wall clock of each candidate is stepped both ways, by up to three leases.
#[test]
#[ignore = "needs libfaketime: scripts/faketime.sh -- cargo test --test chaos stepped"]
fn on_a_directory_with_stepped_clocks() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    chaos_with(Backend::dir(dir.path()), 25, Some(Clocks::of_the_environment()));
}

fn chaos(backend: Backend, seconds: u64) {
    chaos_with(backend, seconds, None);
}

fn chaos_with(mut backend: Backend, seconds: u64, clocks: Option<Clocks>) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seconds = number("CHAOS_SECONDS").unwrap_or(seconds);
    let seed = number("CHAOS_SEED").unwrap_or_else(now_ns);
    // Kept if the test fails, as the logs say why.
    let folder = tempfile::tempdir().expect("a temporary directory").keep();
    println!("CHAOS_SEED={seed} CHAOS_SECONDS={seconds} on {}", backend.url());
    println!("logs in {}", folder.display());
    let stalls = Stalls::watch();
    let mut watch = Watch::default();
    // Before there is anything to see, so that the first epoch, too, is known to be new.
    watch.look(&backend, &[]);
    let deeds = if clocks.is_some() { &Deed::ALL[..] } else { Deed::without_clocks() };
    let mut fleet = Fleet::start(5, &folder, &backend, VALIDITY, clocks);
    let mut rampage = Rampage::new(seconds, seed, &backend, deeds);
    rampage.run(&mut backend, &mut fleet, &mut watch);
    let met = backend.faults_met();
    settle(&mut backend, &mut fleet, &mut watch);

    let story = Story::of(&backend, &fleet, watch, stalls, VALIDITY);
    println!("done: {:?}", rampage.done);
    println!("requests that met a fault: {met:?}");
    match story.check() {
        Ok(said) => println!("{said}"),
        Err(why) => panic!("CHAOS_SEED={seed}, logs in {}: {why}", folder.display()),
    }
    assert!(backend.all_met(&met), "a kind of fault met no request: {met:?}");
    std::fs::remove_dir_all(folder).expect("the logs can be removed");
}

/// What is done to the processes, to the backend, and to the parts of a cluster.
struct Rampage {
    rng: fastrand::Rng,
    start_ns: u64,
    end_ns: u64,
    deeds: Schedule<Deed>,
    harms: Schedule<Harm>,
    parts: Option<tenure_testkit::harm::Harm>,
    /// How often each thing was done.
    done: BTreeMap<String, usize>,
}

impl Rampage {
    fn new(seconds: u64, seed: u64, backend: &Backend, deeds: &[Deed]) -> Rampage {
        let start_ns = now_ns();
        let of_ceph = backend.is_of_the_environment() && tenure_testkit::harm::Harm::is_possible();
        Rampage {
            rng: fastrand::Rng::with_seed(seed),
            start_ns,
            end_ns: start_ns + seconds * SECOND_NS,
            deeds: Schedule::new(deeds.to_vec()),
            harms: Schedule::new(backend.harms()),
            parts: of_ceph.then(tenure_testkit::harm::Harm::of_the_cluster),
            done: BTreeMap::new(),
        }
    }

    /// Goes on until the time is over, everything has been done at least once, and leaders had time
    /// to renew.
    fn run(&mut self, backend: &mut Backend, fleet: &mut Fleet, watch: &mut Watch) {
        let start_ns = self.start_ns;
        let mut deed_ns = start_ns + 2 * SECOND_NS;
        let mut harm_ns = start_ns + 2 * SECOND_NS;
        let mut part_ns = start_ns + 8 * SECOND_NS;
        let give_up_ns = self.end_ns + PATIENCE_NS;
        let few = |watch: &Watch| watch.renewals() < checker::ENOUGH_RENEWALS;
        while now_ns() < self.end_ns || !self.all_done() || few(watch) {
            assert!(now_ns() < give_up_ns, "not everything could be done: {:?}", self.done);
            backend.tend();
            fleet.tend(backend);
            watch.look(backend, &fleet.children());
            if now_ns() > deed_ns {
                deed_ns = now_ns() + self.rng.u64(SECOND_NS / 3..SECOND_NS * 3 / 2);
                let Rampage { deeds, rng, .. } = self;
                let done = deeds.next(rng, |deed, rng| Some((deed, fleet.harm(deed, rng)?)));
                if let Some((deed, said)) = done {
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

    fn note(&mut self, what: String, said: &str) {
        let at = (now_ns() - self.start_ns) as f64 / 1e9;
        println!("{at:7.3} s: {what}: {said}");
        *self.done.entry(what).or_default() += 1;
    }
}

/// Once nothing goes wrong any more somebody leads and writes; then all are told to end.
fn settle(backend: &mut Backend, fleet: &mut Fleet, watch: &mut Watch) {
    backend.calm();
    fleet.calm();
    let calm_ns = now_ns();
    let give_up_ns = calm_ns + PATIENCE_NS;
    let written = |fleet: &Fleet| {
        fleet.children().pop().is_some_and(|newest| {
            let appended = |line: &Line| matches!(line, Line::Appended(at, ..) if *at > calm_ns);
            newest.lines().iter().filter(|line| appended(line)).count() >= 5
        })
    };
    while !written(fleet) {
        assert!(now_ns() < give_up_ns, "nobody writes, although nothing goes wrong any more");
        fleet.tend(backend);
        watch.look(backend, &fleet.children());
        nap(LOOK_EVERY);
    }
    let mut told_ns = 0;
    while !fleet.ended() {
        assert!(now_ns() < give_up_ns, "a candidate does not end");
        if now_ns() > told_ns + SECOND_NS {
            told_ns = now_ns();
            fleet.tell_to_end();
        }
        watch.look(backend, &fleet.children());
        nap(LOOK_EVERY);
    }
    while !watch.look(backend, &[]) {
        assert!(now_ns() < give_up_ns, "the store does not answer");
    }
}
