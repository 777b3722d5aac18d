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

use child::{Line, nap, now_ns};
use clocks::Clocks;
use deck::Deck;
use judge::Story;
use place::{Harm, Place};
use stalls::Stalls;
use troop::{Deed, Troop};
use watch::Watch;

mod child;
mod clocks;
mod deck;
mod history;
mod judge;
mod place;
mod proxy;
mod stalls;
mod troop;
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
    chaos(Place::server(), 25);
}

#[test]
fn on_a_directory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    chaos(Place::dir(dir.path()), 25);
}

/// What was acknowledged is also in what a power loss would leave.
#[test]
#[ignore = "needs a disk: scripts/failing-disk.sh -- cargo test --test chaos on_a_disk_that_fails"]
fn on_a_disk_that_fails() {
    chaos(Place::disk(), 40);
}

/// On Ceph, OSDs and gateways are killed as well.
#[test]
#[ignore = "needs a server: scripts/ceph.sh -- cargo test --test chaos that_is_not_ours"]
fn on_a_server_that_is_not_ours() {
    chaos(Place::environment(), 120);
}

/// The wall clock of each candidate is stepped both ways, by up to three leases.
#[test]
#[ignore = "needs libfaketime: scripts/faketime.sh -- cargo test --test chaos stepped"]
fn on_a_directory_with_stepped_clocks() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    chaos_with(Place::dir(dir.path()), 25, Some(Clocks::of_the_environment()));
}

fn chaos(place: Place, seconds: u64) {
    chaos_with(place, seconds, None);
}

fn chaos_with(mut place: Place, seconds: u64, clocks: Option<Clocks>) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seconds = number("CHAOS_SECONDS").unwrap_or(seconds);
    let seed = number("CHAOS_SEED").unwrap_or_else(now_ns);
    // Kept if the test fails, as the logs say why.
    let folder = tempfile::tempdir().expect("a temporary directory").keep();
    println!("CHAOS_SEED={seed} CHAOS_SECONDS={seconds} on {}", place.url());
    println!("logs in {}", folder.display());
    let stalls = Stalls::watch();
    let mut watch = Watch::default();
    // Before there is anything to see, so that the first epoch, too, is known to be new.
    watch.look(&place, &[]);
    let deeds = if clocks.is_some() { &Deed::ALL[..] } else { Deed::without_clocks() };
    let mut troop = Troop::start(5, &folder, &place, VALIDITY, clocks);
    let mut rampage = Rampage::new(seconds, seed, &place, deeds);
    rampage.run(&mut place, &mut troop, &mut watch);
    let met = place.faults_met();
    settle(&mut place, &mut troop, &mut watch);

    let story = Story::of(&place, &troop, watch, stalls, VALIDITY);
    println!("done: {:?}", rampage.done);
    println!("requests that met a fault: {met:?}");
    match story.judge() {
        Ok(said) => println!("{said}"),
        Err(why) => panic!("CHAOS_SEED={seed}, logs in {}: {why}", folder.display()),
    }
    assert!(place.all_met(&met), "a kind of fault met no request: {met:?}");
    std::fs::remove_dir_all(folder).expect("the logs can be removed");
}

/// What is done to the processes, to the place, and to the parts of a cluster.
struct Rampage {
    rng: fastrand::Rng,
    start_ns: u64,
    end_ns: u64,
    deeds: Deck<Deed>,
    harms: Deck<Harm>,
    parts: Option<tenure_testkit::harm::Harm>,
    /// How often each thing was done.
    done: BTreeMap<String, usize>,
}

impl Rampage {
    fn new(seconds: u64, seed: u64, place: &Place, deeds: &[Deed]) -> Rampage {
        let start_ns = now_ns();
        let of_ceph = place.is_of_the_environment() && tenure_testkit::harm::Harm::is_possible();
        Rampage {
            rng: fastrand::Rng::with_seed(seed),
            start_ns,
            end_ns: start_ns + seconds * SECOND_NS,
            deeds: Deck::new(deeds.to_vec()),
            harms: Deck::new(place.harms()),
            parts: of_ceph.then(tenure_testkit::harm::Harm::of_the_cluster),
            done: BTreeMap::new(),
        }
    }

    /// Goes on until the time is over, everything has been done at least once, and leaders had time
    /// to renew.
    fn run(&mut self, place: &mut Place, troop: &mut Troop, watch: &mut Watch) {
        let start_ns = self.start_ns;
        let mut deed_ns = start_ns + 2 * SECOND_NS;
        let mut harm_ns = start_ns + 2 * SECOND_NS;
        let mut part_ns = start_ns + 8 * SECOND_NS;
        let give_up_ns = self.end_ns + PATIENCE_NS;
        let few = |watch: &Watch| watch.renewals() < judge::ENOUGH_RENEWALS;
        while now_ns() < self.end_ns || !self.all_done() || few(watch) {
            assert!(now_ns() < give_up_ns, "not everything could be done: {:?}", self.done);
            place.tend();
            troop.tend(place);
            watch.look(place, &troop.children());
            if now_ns() > deed_ns {
                deed_ns = now_ns() + self.rng.u64(SECOND_NS / 3..SECOND_NS * 3 / 2);
                let Rampage { deeds, rng, .. } = self;
                let done = deeds.play(rng, |deed, rng| Some((deed, troop.harm(deed, rng)?)));
                if let Some((deed, said)) = done {
                    self.note(format!("{deed:?}"), &said);
                }
            }
            if now_ns() > harm_ns {
                harm_ns = now_ns() + self.rng.u64(SECOND_NS / 3..SECOND_NS * 3 / 2);
                let Rampage { harms, rng, .. } = self;
                let done = harms.play(rng, |harm, rng| Some((harm, place.harm(harm, rng)?)));
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
fn settle(place: &mut Place, troop: &mut Troop, watch: &mut Watch) {
    place.calm();
    troop.calm();
    let calm_ns = now_ns();
    let give_up_ns = calm_ns + PATIENCE_NS;
    let written = |troop: &Troop| {
        troop.children().pop().is_some_and(|newest| {
            let appended = |line: &Line| matches!(line, Line::Appended(at, ..) if *at > calm_ns);
            newest.lines().iter().filter(|line| appended(line)).count() >= 5
        })
    };
    while !written(troop) {
        assert!(now_ns() < give_up_ns, "nobody writes, although nothing goes wrong any more");
        troop.tend(place);
        watch.look(place, &troop.children());
        nap(LOOK_EVERY);
    }
    let mut told_ns = 0;
    while !troop.ended() {
        assert!(now_ns() < give_up_ns, "a candidate does not end");
        if now_ns() > told_ns + SECOND_NS {
            told_ns = now_ns();
            troop.tell_to_end();
        }
        watch.look(place, &troop.children());
        nap(LOOK_EVERY);
    }
    while !watch.look(place, &[]) {
        assert!(now_ns() < give_up_ns, "the store does not answer");
    }
}
