//! Kills the processes of an election, and the processes of a group in [`groups`].
//!
//! Five `tenure run` processes share one election, and their children write one manifest. A `tenure
//! compact` process runs as well. Processes are killed and suspended (SIGSTOP), and requests,
//! connections and the server fail.
//!
//! ```sh
//! cargo test --test chaos -- --nocapture
//! CHAOS_SECONDS=600 cargo test --test chaos on_a_server_with_faults -- --nocapture
//! scripts/servers/faketime.sh -- cargo test --test chaos stepped -- --ignored --nocapture
//! scripts/servers/ceph.sh -- cargo test --test chaos on_the_server -- --ignored --nocapture
//! ```
//!
//! `CHAOS_SEED` selects the faults. The times of the faults also depend on the machine.
#![cfg(all(feature = "s3", target_os = "linux"))]

use std::time::Duration;

use backend::Backend;
use checker::Story;
use child::{Line, nap, now_ns};
use clocks::Clocks;
use fleet::{Deed, Fleet};
use rampage::{LOOK_EVERY, PATIENCE_NS, Rampage, Run, SECOND_NS, Victims};
use stalls::Stalls;
use watch::Watch;

mod backend;
mod checker;
mod child;
mod clocks;
mod fleet;
mod groups;
mod history;
mod lines;
mod process;
mod proxy;
mod rampage;
mod real_servers;
mod schedule;
mod stalls;
mod watch;

const VALIDITY: Duration = Duration::from_secs(3);

/// Not a test: the command that the candidates of the chaos tests run as CMD.
#[test]
#[ignore = "not a test: other tests start this program with --exact child --ignored"]
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

/// The store is on a disk whose syncs fail. Each acknowledged entry must survive a power loss.
#[test]
#[ignore = "needs a disk: scripts/servers/failing-disk.sh -- cargo test --test chaos on_a_disk_that_fails -- --ignored"]
fn on_a_disk_that_fails() {
    chaos(Backend::disk(), 40);
}

/// The server is the one that the environment names. On Ceph, the test also kills OSDs and
/// gateways.
#[test]
#[ignore = "needs a server: scripts/servers/ceph.sh -- cargo test --test chaos on_the_server -- --ignored"]
fn on_the_server_of_the_environment() {
    chaos(Backend::environment(), 120);
}

/// The wall clock of each candidate is stepped in both directions, by up to three validities.
#[test]
#[ignore = "needs libfaketime: scripts/servers/faketime.sh -- cargo test --test chaos stepped -- --ignored"]
fn on_a_directory_with_stepped_clocks() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    chaos_with(Backend::dir(dir.path()), 25, Some(Clocks::of_the_environment()));
}

fn chaos(backend: Backend, seconds: u64) {
    chaos_with(backend, seconds, None);
}

fn chaos_with(mut backend: Backend, seconds: u64, clocks: Option<Clocks>) {
    let run = Run::begin(&backend, seconds);
    let stalls = Stalls::watch();
    let mut watch = Watch::default();
    // The watch begins before the candidates start. So the watch knows the interval in which the
    // first epoch is created.
    watch.look(&backend, &[]);
    let deeds = if clocks.is_some() { &Deed::ALL[..] } else { Deed::without_clocks() };
    let fleet = Fleet::start(5, &run.folder, &backend, VALIDITY, clocks);
    let mut election = Election { fleet, watch };
    let mut rampage = Rampage::new(&run, &backend, deeds);
    rampage.go_on(&mut backend, &mut election);
    let met = backend.faults_met();
    let Election { mut fleet, mut watch } = election;
    settle(&mut backend, &mut fleet, &mut watch);
    let story = Story::of(&backend, &fleet, watch, stalls, VALIDITY);
    rampage.end(run, &backend, met, story.check());
}

/// The processes of the election, and the observations of the epochs.
struct Election {
    fleet: Fleet,
    watch: Watch,
}

impl Victims for Election {
    type Deed = Deed;

    fn tend(&mut self, backend: &mut Backend) {
        self.fleet.tend(backend);
        self.watch.look(backend, &self.fleet.children());
    }

    fn harm(&mut self, deed: Deed, _: &Backend, rng: &mut fastrand::Rng) -> Option<String> {
        self.fleet.harm(deed, rng)
    }

    fn showed_enough(&self) -> bool {
        self.watch.renewals() >= checker::ENOUGH_RENEWALS
    }
}

/// Ends all faults, and waits until a candidate leads and its child writes. Then ends all
/// processes.
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
        assert!(now_ns() < give_up_ns, "no candidate writes, although all faults have ended");
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
