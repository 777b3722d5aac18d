//! Tests of `tenure run`: `--successor`, `--priority-delay` and `--wait`. The submodules test other
//! options, and services that survive transient failures.

mod health;
mod once_per;
#[cfg(feature = "s3")]
mod services;

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_testkit::command::scene::Scene;
use tenure_testkit::command::{later, now};

use crate::TENURE;
use crate::bench::{Bench, tenure};

/// Returns whether the object of this epoch contains these words.
fn says(bench: &Bench, epoch: u64, words: &str) -> bool {
    let path = bench.path("store").join(format!("lock-{epoch:010}.json"));
    fs::read_to_string(path).expect("the epoch object exists").contains(words)
}

#[test]
fn the_successor_in_the_seal_leads_next() {
    let bench = Bench::new();
    let run = |options: &[&str]| {
        let mut line = vec!["--validity", "3s"];
        line.extend(options);
        line.extend(["--", "true"]);
        let said = bench.run("run", &line);
        assert_eq!(said.code, 0, "{said:?}");
    };
    run(&["--name", "a", "--successor", "b"]);
    assert!(says(&bench, 1, r#""successor": "b""#));
    run(&["--name", "b", "--priority-delay", "1s"]);
    assert!(says(&bench, 2, r#""candidate": "b""#) && !says(&bench, 2, "successor"));
    // If the named successor does not campaign, other candidates wait for it only for a limited
    // time.
    run(&["--name", "c", "--priority-delay", "1s"]);
    assert!(says(&bench, 3, r#""candidate": "c""#));
}

#[test]
fn an_invalid_successor_is_refused_before_the_first_write() {
    let bench = Bench::new();
    let long = "x".repeat(257);
    for name in ["a\tb", long.as_str()] {
        bench.run("run", &["--successor", name, "--", "true"]).fails(64, &["256"]);
    }
    assert_eq!(bench.objects(), Vec::<String>::new());
}

/// Checks the exit codes of `--wait`. A unit test checks that `--wait` ends exactly at its limit.
#[test]
fn the_wait_for_the_lease_is_bounded() {
    let scene = Scene::new(TENURE);
    let mut leader = scene.script("a", &["--validity", "30s"], "echo >leads; sleep 300");
    scene.wait_for_file("leads");
    for (number, (options, code, waits)) in [
        (&["--wait", "1s"][..], 76, true),
        (&["--wait", "1s", "--busy-exit-code", "0"], 0, true),
        (&["--wait", "0"], 76, false),
        (&["--wait", "1s", "--try"], 64, false),
        (&["--busy-exit-code", "0"], 64, false),
    ]
    .into_iter()
    .enumerate()
    {
        let mut second = scene.script(&format!("b{number}"), options, "echo >ran");
        assert_eq!(second.code(), code, "{options:?}: {}", second.said());
        let said = "waited for 1s: a leads epoch 1; exit code";
        assert_eq!(second.said().contains(said), waits, "{options:?}: {}", second.said());
    }
    assert!(!scene.exists("ran"));
    let mut next = scene.script("b", &["--wait", "4m"], "echo >ran");
    next.says("waiting: a leads epoch 1");
    leader.signal(Signal::SIGTERM);
    assert_eq!(next.code(), 0, "{}", next.said());
    assert!(scene.exists("ran"));
    assert_eq!(leader.code(), 143, "{}", leader.said());
}

#[test]
fn regression_the_limit_of_wait_includes_the_work_before_the_campaign() {
    let scene = Scene::new(TENURE);
    let mut leader = scene.script("a", &["--validity", "60s"], "echo >leads; sleep 300");
    scene.wait_for_file("leads");
    // Both commands must exit within 8 s. Without `--wait`, the first command would give the CMD of
    // its predecessor 13 s to end.
    let deadline = later(Duration::from_secs(8));
    let unique = ["--unique-name", "--validity", "60s", "--wait", "500ms"];
    let mut second = scene.script("a", &unique, "echo >ran");
    assert_eq!(second.code(), 76, "{}", second.said());
    assert!(second.said().contains("waited for 500ms"), "{}", second.said());
    // Without `--wait`, this command would retry the missing store for 10 s.
    let file = format!("file://{}", scene.path("leads").display());
    tenure(&["run", "--store", &file, "--wait", "500ms", "true"]).fails(69, &["leads"]);
    assert!(now().boot < deadline.boot, "the waits are not bounded");
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.code(), 143, "{}", leader.said());
    assert!(!scene.exists("ran"));
}
