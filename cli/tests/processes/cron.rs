//! Tests of `tenure run --try` and `--once-per` as processes of several hosts. The tests kill some
//! of the processes.
#![cfg(target_os = "linux")]

use std::fs;

use nix::sys::signal::Signal;

use crate::TENURE;
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::{Candidate, Scene, kill_at_once};

/// A period that lasts from 1970 to 2069, so that a test stays in one period.
const LONG: &[&str] = &["--once-per", "36500d"];

/// Options for tests that wait until a lease has lapsed.
const SHORT: &[&str] = &["--validity", "3s", "--poll", "200ms"];

/// A job that writes a line at its start, in each iteration of its loop, and at its end. The job
/// exits with 0 when the file `go` exists.
const JOB: &str =
    "say() { echo \"$TENURE_PERIOD_START $TENURE_EPOCH ${TENURE_ATTEMPT:-0} $1\" >>jobs; }
    say start; while [ ! -e go ]; do sleep 0.02; say beat; done; say end";

/// A line that the job has written to the file `jobs`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    period: String,
    epoch: u64,
    attempt: u32,
    what: String,
}

fn lines(scene: &Scene) -> Vec<Line> {
    let text = fs::read_to_string(scene.path("jobs")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let [period, epoch, attempt, what] = words[..] else { panic!("a torn line: {line:?}") };
        let (epoch, attempt) = (epoch.parse(), attempt.parse());
        Line {
            period: period.to_owned(),
            epoch: epoch.expect("a number"),
            attempt: attempt.expect("a number"),
            what: what.to_owned(),
        }
    };
    whole.lines().map(parse).collect()
}

/// Returns the first line of each attempt, in order. Asserts that the lines of one epoch are
/// consecutive, because no two attempts may run at the same time.
fn starts(scene: &Scene) -> Vec<Line> {
    let lines = lines(scene);
    for pair in lines.windows(2) {
        let [before, after] = pair else { unreachable!("each window has two entries") };
        assert!(before.epoch <= after.epoch, "{before:?} precedes {after:?}");
        assert_eq!(before.epoch < after.epoch, after.what == "start", "{before:?} {after:?}");
    }
    lines.into_iter().filter(|line| line.what == "start").collect()
}

fn host(scene: &Scene, name: &str, options: &[&[&str]]) -> Candidate {
    scene.script(name, &options.concat(), JOB)
}

/// Waits until this attempt of the job runs, and returns the index of its host in `hosts`.
fn running(scene: &Scene, hosts: &[Candidate], attempt: u32) -> usize {
    eventually(&format!("attempt {attempt} runs"), || {
        lines(scene).last().is_some_and(|line| line.attempt == attempt)
    });
    let says = format!("elected: epoch {};", lines(scene).last().expect("a line").epoch);
    let mut found = None;
    eventually("a host reports that it leads", || {
        found = hosts.iter().position(|host| host.said().contains(&says));
        found.is_some()
    });
    found.expect("the poll ends when a host is found")
}

#[test]
fn try_does_not_wait_for_a_live_leader() {
    let scene = Scene::new(TENURE);
    let mut leader = host(&scene, "a", &[&["--validity", "60s"]]);
    eventually("the command runs", || !lines(&scene).is_empty());
    for (name, options, code) in [
        ("b", &["--try"][..], 76),
        ("c", &["--no-wait", "--busy-exit-code", "0"], 0),
        ("d", &["--try", "--busy-exit-code", "255", "--validity", "60s"], 255),
    ] {
        let mut other = scene.script(name, options, "echo >other");
        assert_eq!(other.code(), code, "{}", other.said());
        let says = format!("not waiting: a leads epoch 1; exit code {code}");
        assert!(other.said().contains(&says), "{}", other.said());
    }
    assert!(!scene.exists("other"), "a command ran together with the leader's command");
    fs::write(scene.path("go"), "").expect("a file");
    assert_eq!(leader.code(), 0);
    // When the leader's command ended, the leader resigned, so the next candidate leads without a
    // wait.
    let mut next = scene.script("e", &["--try"], "echo >other");
    assert_eq!((next.code(), scene.exists("other")), (0, true), "{}", next.said());
}

/// The candidate that takes over is a new process, which has never seen the leader alive.
#[test]
fn try_takes_over_from_a_killed_leader() {
    let scene = Scene::new(TENURE);
    let leader = host(&scene, "a", &[SHORT]);
    eventually("the command runs", || !lines(&scene).is_empty());
    // Also kill the guard and its standby, because they would resign the epoch of the killed
    // leader.
    let guards = [leader.guard(), leader.standby()];
    leader.signal(Signal::SIGSTOP);
    kill_at_once(guards);
    leader.signal(Signal::SIGKILL);
    eventually("the lease has lapsed", || scene.status()["lapsed"] == true);
    let mut next = scene.script("b", &[SHORT, &["--try"]].concat(), "echo >other");
    assert_eq!((next.code(), scene.exists("other")), (0, true), "{}", next.said());
    assert!(next.said().contains("a holds epoch 1 and seems to be dead"), "{}", next.said());
}

#[test]
fn only_one_of_three_hosts_runs_the_job_in_a_period() {
    let scene = Scene::new(TENURE);
    let mut hosts = ["a", "b", "c"].map(|name| host(&scene, name, &[LONG]));
    eventually("one host runs", || !lines(&scene).is_empty());
    fs::write(scene.path("go"), "").expect("a file");
    for host in &mut hosts {
        assert_eq!(host.code(), 0, "{}", host.said());
        assert!(host.said().contains("completed"), "{}", host.said());
    }
    assert_eq!(starts(&scene).len(), 1);
}

#[test]
fn an_attempt_on_a_killed_host_counts() {
    let scene = Scene::new(TENURE);
    let mut hosts = ["a", "b", "c"].map(|name| host(&scene, name, &[LONG, SHORT]));
    let leader = running(&scene, &hosts, 1);
    hosts[leader].signal(Signal::SIGKILL);
    for (number, host) in hosts.iter_mut().enumerate() {
        assert_eq!(host.code(), if number == leader { 137 } else { 0 }, "{}", host.said());
        let said = host.said().contains("its host died or lost its lease");
        assert_eq!(said, number != leader, "{}", host.said());
    }
    assert_eq!(starts(&scene).len(), 1, "the job ran more than once");
}

#[test]
fn retries_run_on_other_hosts_and_never_overlap() {
    let scene = Scene::new(TENURE);
    let retries: &[&str] = &["--retries", "2"];
    let mut hosts = ["a", "b", "c"].map(|name| host(&scene, name, &[LONG, SHORT, retries]));
    let first = running(&scene, &hosts, 1);
    hosts[first].signal(Signal::SIGKILL);
    // Suspend the second host (SIGSTOP) until it has lost its lease. Then continue it.
    let second = running(&scene, &hosts, 2);
    hosts[second].stop();
    let third = running(&scene, &hosts, 3);
    hosts[second].signal(Signal::SIGCONT);
    hosts[second].says("lost epoch");
    fs::write(scene.path("go"), "").expect("a file");
    for (host, code) in [(first, 137), (second, 75), (third, 0)] {
        assert_eq!(hosts[host].code(), code, "{}", hosts[host].said());
    }
    assert_eq!(starts(&scene).iter().map(|line| line.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    let mut late = host(&scene, "d", &[LONG, SHORT, retries]);
    assert_eq!(late.code(), 0);
    assert!(late.said().contains("was completed by"), "{}", late.said());
    assert_eq!(starts(&scene).len(), 3);
}

/// After the job has failed on one host, this host waits for two poll intervals, which are two
/// minutes in this test. Another host may make the next attempt during this time.
#[test]
fn after_a_failed_attempt_another_host_may_retry_first() {
    let scene = Scene::new(TENURE);
    let slow: &[&str] = &["--retries", "1", "--validity", "60s", "--poll", "60s"];
    let mut failed = scene.script("a", &[LONG, slow].concat(), "exit 9");
    failed.says("resigned epoch 1");
    let script = "echo $TENURE_ATTEMPT >attempt";
    let mut other = scene.script("b", &[LONG, slow, &["--try"]].concat(), script);
    assert_eq!(other.code(), 0, "{}", other.said());
    assert_eq!(scene.wait_for_file("attempt"), "2\n", "{}", failed.said());
    failed.signal(Signal::SIGTERM);
    assert_eq!(failed.code(), 143);
}

/// A host whose job has failed exits with the code of the job, and not with 76, even if another
/// host makes the next attempt. On a slow machine, the other host may be too late for the next
/// attempt. In this case the first host makes both attempts, and exits with the same code.
#[test]
fn a_host_exits_with_the_code_of_its_failed_job() {
    let scene = Scene::new(TENURE);
    let retries: &[&str] = &["--retries", "1", "--poll", "1s"];
    let script = "while [ ! -e fail ]; do sleep 0.02; done; exit 9";
    let mut failed = scene.script("a", &[LONG, retries, &["--try"]].concat(), script);
    failed.says("elected: epoch 1");
    let mut other = host(&scene, "b", &[LONG, &["--retries", "1", "--poll", "50ms"]]);
    other.says("waiting: a leads epoch 1");
    fs::write(scene.path("fail"), "").expect("a file");
    assert_eq!(failed.code(), 9, "{}", failed.said());
    fs::write(scene.path("go"), "").expect("a file");
    assert_eq!(other.code(), 0, "{}", other.said());
}
