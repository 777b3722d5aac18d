//! `run --wait`: a bounded wait for the lease. A unit test shows that the bound is exact.

use nix::sys::signal::Signal;
use tenure_testkit::command::scene::Scene;

use crate::TENURE;

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
