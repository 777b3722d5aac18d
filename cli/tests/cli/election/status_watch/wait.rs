//! Tests of `tenure wait`, which returns as soon as the election is held or vacant.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure_testkit::command::{output, pause};

use super::{HELD, SEALED};
use crate::bench::{Bench, said, spawn, tenure};

#[test]
fn wait_returns_immediately_if_the_election_has_the_state() {
    let bench = Bench::new();
    let vacant = bench.run("wait", &["--for", "vacant"]);
    assert!(vacant.code == 0 && vacant.out.ends_with("vacant\n"), "{vacant:?}");
    bench.epoch(1, HELD);
    let held = bench.json("wait", &["--for", "held", "--json", "--timeout", "1m"]);
    assert_eq!([&held["state"], &held["candidate"]], ["held", "a"]);
}

#[test]
fn wait_returns_when_the_state_changes() {
    let bench = Bench::new();
    bench.epoch(1, HELD);
    let url = bench.url();
    let line = ["wait", "--store", &url, "--for", "vacant", "--poll", "50ms"];
    let child = spawn(&[], &line);
    bench.epoch(1, SEALED);
    let vacant = said(output(child));
    assert_eq!(vacant.code, 0, "{vacant:?}");
    assert_eq!(vacant.out.lines().count(), 1, "only the requested state is printed: {vacant:?}");
    assert!(vacant.out.contains("epoch 1 of a lapsed"), "{vacant:?}");
}

#[test]
fn a_timeout_names_the_state() {
    let bench = Bench::new();
    let wait = |target| bench.run("wait", &["--for", target, "--timeout", "300ms"]);
    wait("held").fails(1, &["not held within 300ms: vacant"]);
    bench.epoch(1, HELD);
    wait("vacant").fails(1, &["not vacant within 300ms: held"]);
    assert_eq!(bench.objects(), ["lock-0000000001.json"], "the wait only reads");
    assert_eq!(bench.run("wait", &["--for", "unknown"]).code, 64);
}

#[test]
fn a_wait_exits_with_the_code_of_the_signal_that_ends_it() {
    let bench = Bench::new();
    let child = spawn(&[], &["wait", "--store", &bench.url(), "--for", "held"]);
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a small number")), Signal::SIGTERM)
        .expect("the command runs");
    assert!(matches!(output(child).status.code(), None | Some(143)));
}

/// Before the fix, if the directory of the store was missing, `tenure wait` reported that the store
/// did not answer.
#[test]
fn regression_a_wait_reports_a_missing_directory() {
    let none = format!("{}-none", Bench::new().url());
    for target in ["held", "vacant"] {
        let said = tenure(&["wait", "-q", "--store", &none, "--for", target, "--timeout", "300ms"]);
        said.fails(69, &[&format!("not {target} within 300ms"), "the directory does not exist"]);
    }
}

#[test]
fn regression_a_wait_reports_the_failure_of_the_store() {
    let bench = Bench::new();
    let line = ["-q", "--for", "vacant", "--poll", "50ms", "--timeout", "1s"];
    bench.epoch(1, "{");
    bench.run("wait", &line).fails(70, &["not vacant within 1s", "cannot be read"]);
    bench.epoch(1, HELD);
    let url = bench.url();
    let child = spawn(&[], &[&["wait", "--store", &url][..], &line].concat());
    // During this pause, the command reads the valid epoch object. If the machine is too slow, the
    // first read finds the broken object, and the result is the same.
    pause(500);
    bench.epoch(1, "{");
    said(output(child)).fails(70, &["not vacant within 1s", "cannot be read"]);
}
