//! `run --wait`: a bounded wait for the lease. A unit test shows that the bound is exact.

use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_testkit::command::scene::Scene;
use tenure_testkit::command::{later, now};

use crate::TENURE;
use crate::bench::tenure;

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
fn regression_the_bound_includes_the_work_before_the_campaign() {
    let scene = Scene::new(TENURE);
    let mut leader = scene.script("a", &["--validity", "60s"], "echo >leads; sleep 300");
    scene.wait_for_file("leads");
    // Without the bound, the wait for the CMD of a predecessor takes 13 s.
    let deadline = later(Duration::from_secs(8));
    let unique = ["--unique-name", "--validity", "60s", "--wait", "500ms"];
    let mut second = scene.script("a", &unique, "echo >ran");
    assert_eq!(second.code(), 76, "{}", second.said());
    assert!(second.said().contains("waited for 500ms"), "{}", second.said());
    // Without the bound, the store is retried for 10 s.
    let file = format!("file://{}", scene.path("leads").display());
    tenure(&["run", "--store", &file, "--wait", "500ms", "true"]).fails(69, &["leads"]);
    assert!(now().boot < deadline.boot, "the waits are not bounded");
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.code(), 143, "{}", leader.said());
    assert!(!scene.exists("ran"));
}
