//! Tests of `--on-elected`, `--on-lost` and `--epoch-file`, with processes that the tests kill.
#![cfg(target_os = "linux")]

use std::fs;

use nix::sys::signal::{Signal, kill};

use crate::TENURE;
use tenure_testkit::command::scene::{self, Scene, pid};
use tenure_testkit::command::{eventually, runs};

/// A CMD that ends one second after SIGTERM.
const SLOW: &str = "trap 'echo > term; sleep 1; exit 0' TERM; echo $$ > cmd; \
                    while :; do sleep 0.02; done";
const STUBBORN: &str = "trap '' TERM; echo $$ > cmd; while :; do sleep 0.02; done";

#[test]
fn hooks_run_at_the_start_and_at_the_end_of_a_leadership() {
    let scene = Scene::new(TENURE);
    let elected = r#"echo "$TENURE_EPOCH $TENURE_NAME $TENURE_STORE" > elected; cat"#;
    let lost =
        r#"echo "$TENURE_EPOCH $TENURE_NAME $TENURE_LOSS" > lost; [ -e cmd.runs ] || echo gone"#;
    let options = ["--on-elected", elected, "--on-lost", lost];
    let script = "echo > cmd.runs; until [ -s elected ]; do sleep 0.02; done; rm cmd.runs; exit 3";
    let mut a = scene.script("a", &options, script);
    assert_eq!(a.code(), 3, "a hook does not change the exit code");
    assert_eq!(scene.wait_for_file("elected"), format!("1 a {}\n", scene.url()));
    assert_eq!(scene.wait_for_file("lost"), "1 a resigned\n");
    assert_eq!(scene.status()["ended"], "resigned");
    assert!(!a.said().contains("failed"), "{}", a.said());
    assert!(a.said().contains("\ngone\n"), "{}", a.said());
}

#[test]
fn a_failing_hook_is_logged_and_has_no_effect() {
    let scene = Scene::new(TENURE);
    let options = ["--on-elected", "exit 4", "--on-lost", "kill -KILL $$"];
    let mut a = scene.script("a", &options, "echo > ready; read x < go; exit 0");
    scene.wait_for_file("ready");
    a.says("--on-elected failed: exit status: 4");
    fs::write(scene.path("go"), "\n").expect("a file");
    assert_eq!(a.code(), 0);
    assert!(a.said().contains("--on-lost failed: signal: 9"), "{}", a.said());
}

#[test]
fn hooks_that_do_not_end_are_killed() {
    let scene = Scene::new(TENURE);
    let hang = |name: &str| format!("trap '' TERM; echo $$ > {name}; while :; do sleep 0.02; done");
    let (elected, lost) = (hang("elected"), hang("lost"));
    let options =
        ["--on-elected", &elected, "--on-lost", &lost, "--hook-timeout", "1s", "--validity", "60s"];
    let mut a = scene.script("a", &options, "echo > ready; until [ -s go ]; do sleep 0.02; done");
    let elected = scene.number("elected");
    a.says("--on-elected failed: signal: 9");
    assert!(!runs(elected));
    fs::write(scene.path("go"), "\n").expect("a file");
    assert_eq!(a.code(), 0);
    assert!(!runs(scene.number("lost")));
    assert!(a.said().contains("--on-lost did not end within 1s"), "{}", a.said());
}

/// A hook may act on behalf of the epoch, as CMD does. So no process resigns the epoch while the
/// hook runs.
#[test]
fn no_resignation_while_a_hook_runs() {
    let scene = Scene::new(TENURE);
    let hook = "trap '' TERM; echo $$ > hook; while :; do sleep 0.02; done";
    let options = ["--on-elected", hook, "--grace", "5s", "--validity", "60s"];
    let mut a = scene.script("a", &options, "echo > ready; until [ -s go ]; do sleep 0.02; done");
    let hook = scene.number("hook");
    let script = format!("cat /proc/{hook}/stat > stat; echo > b");
    let mut b = scene.script("b", &["--poll", "100ms"], &script);
    b.says("waiting: a leads epoch 1");
    fs::write(scene.path("go"), "\n").expect("a file");
    a.says("the processes that it left behind get SIGTERM");
    // This kill fails if the grace has ended, because the guard has then killed the hook.
    let _ = kill(pid(hook), Signal::SIGKILL);
    assert_eq!(a.code(), 0);
    assert_eq!(b.code(), 0);
    assert_eq!(fs::read_to_string(scene.path("stat")).expect("b wrote the file"), "");
}

#[test]
fn if_tenure_is_killed_its_hook_dies_before_the_resignation() {
    let scene = Scene::new(TENURE);
    let hook = "trap '' TERM; echo $$ > hook; while :; do sleep 0.02; done";
    let options = ["--on-elected", hook, "--grace", "500ms", "--validity", "10m"];
    let mut a = scene.script("a", &options, "exec sleep 1000");
    let hook = scene.number("hook");
    let script = format!("cat /proc/{hook}/stat > stat; echo > b");
    let mut b = scene.script("b", &["--poll", "100ms"], &script);
    b.says("waiting: a leads epoch 1");
    a.signal(Signal::SIGKILL);
    assert_eq!((a.code(), b.code()), (137, 0));
    assert_eq!(fs::read_to_string(scene.path("stat")).expect("b wrote the file"), "");
}

/// A signal during a hook ends the hook and `tenure`. `tenure` does not campaign again, even with
/// `--forever`.
#[test]
fn a_signal_ends_a_hook_and_tenure() {
    let scene = Scene::new(TENURE);
    let lost = "echo $$ > lost; exec sleep 1000";
    let options = ["--forever", "--on-lost", lost, "--hook-timeout", "10m", "--validity", "3s"];
    let mut a = scene.script("a", &options, "echo > ready; exec sleep 1000");
    scene.wait_for_file("ready");
    let guard = a.guard();
    a.signal(Signal::SIGSTOP);
    eventually("the guard has ended CMD", || !runs(guard));
    a.signal(Signal::SIGCONT);
    let lost = scene.number("lost");
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 75, "{}", a.said());
    assert!(!runs(lost) && a.said().contains("SIGTERM: --on-lost was killed"), "{}", a.said());
}

#[test]
fn the_epoch_file_exists_while_cmd_runs() {
    let scene = Scene::new(TENURE);
    fs::write(scene.path("epoch"), "99\n").expect("an old file exists");
    let script = "cat epoch > seen; exit 0";
    let mut a = scene.script("a", &["--epoch-file", "epoch"], script);
    assert_eq!(a.code(), 0, "{}", a.said());
    assert_eq!(scene.wait_for_file("seen"), "1\n");
    assert!(!scene.exists("epoch"));
    // A candidate that does not lead does not write the file.
    let _b = scene.script("b", &["--epoch-file", "epoch"], "echo > ready; exec sleep 1000");
    scene.wait_for_file("ready");
    let mut c = scene.script("c", &["--epoch-file", "epoch-of-c"], "exit 0");
    c.says("waiting: b leads epoch 2");
    assert!(scene.exists("epoch") && !scene.exists("epoch-of-c"));
    c.signal(Signal::SIGTERM);
    assert_eq!(c.code(), 143);
}

#[test]
fn the_epoch_file_is_removed_after_tenure_is_killed() {
    let scene = Scene::new(TENURE);
    let options = ["--epoch-file", "epoch", "--validity", "10m", "--grace", "60s"];
    let mut a = scene.script("a", &options, STUBBORN);
    let cmd = scene.number("cmd");
    assert_eq!(scene.wait_for_file("epoch"), "1\n");
    a.signal(Signal::SIGKILL);
    assert_eq!(a.code(), 137);
    eventually("the file is removed", || !scene.exists("epoch"));
    assert!(runs(cmd), "the file is removed long before CMD and the lease end");
    kill(pid(cmd), Signal::SIGKILL).expect("the process is alive");
}

#[test]
fn the_epoch_file_is_removed_when_cmd_gets_sigterm_before_the_lease_ends() {
    let scene = Scene::new(TENURE);
    let mut a = scene.script("a", &["--epoch-file", "epoch", "--validity", "6s"], SLOW);
    scene.number("cmd");
    assert!(scene.exists("epoch"));
    a.signal(Signal::SIGSTOP);
    scene.wait_for_file("term");
    eventually("the file is removed", || !scene.exists("epoch"));
    a.signal(Signal::SIGCONT);
    assert_eq!(a.code(), 75);
}

#[test]
fn the_epoch_file_is_removed_if_the_guard_is_killed() {
    for tenure_too in [false, true] {
        let scene = Scene::new(TENURE);
        let options = ["--epoch-file", "epoch", "--validity", "10m"];
        let mut a = scene.script("a", &options, STUBBORN);
        scene.number("cmd");
        let standby = a.standby();
        match tenure_too {
            true => scene::kill_at_once([a.id(), a.guard()]),
            false => kill(pid(a.guard()), Signal::SIGKILL).expect("the process is alive"),
        }
        assert_eq!(a.code(), if tenure_too { 137 } else { 71 });
        eventually("the standby has ended", || !runs(standby));
        assert!(!scene.exists("epoch"), "{tenure_too}");
    }
}

#[test]
fn regression_an_epoch_file_may_begin_with_a_dash() {
    let scene = Scene::new(TENURE);
    let mut a = scene.script("a", &["--epoch-file=-e"], "cat ./-e > seen; exit 0");
    assert_eq!(a.code(), 0, "{}", a.said());
    assert_eq!(scene.wait_for_file("seen"), "1\n");
    assert!(!scene.exists("-e"));
}

#[test]
fn an_unwritable_epoch_file_is_refused_before_the_campaign() {
    let scene = Scene::new(TENURE);
    fs::write(scene.path("mine"), "my text\n").expect("a file");
    for (path, why) in [
        ("mine", "mine exists and contains no epoch"),
        (".", "exists and contains no epoch"),
        ("no/epoch", "No such file"),
    ] {
        let mut a = scene.script("a", &["--epoch-file", path], "exit 0");
        assert_eq!(a.code(), 64, "{path}");
        assert!(a.said().contains(why), "{}", a.said());
    }
    assert_eq!(fs::read_to_string(scene.path("mine")).expect("the object exists"), "my text\n");
    assert!(!scene.exists("store"), "the store was opened");
}

/// The test removes the directory of the epoch file before `tenure` writes the file.
#[test]
fn cmd_does_not_start_without_its_epoch_file() {
    let scene = Scene::new(TENURE);
    fs::create_dir(scene.path("run")).expect("a directory");
    let _b = scene.script("b", &[], "echo > ready; until [ -s go ]; do sleep 0.02; done");
    scene.wait_for_file("ready");
    let options = ["--epoch-file", "run/epoch", "--poll", "100ms"];
    let mut a = scene.script("a", &options, "echo > ran");
    a.says("waiting: b leads epoch 1");
    fs::remove_dir(scene.path("run")).expect("the directory is empty");
    fs::write(scene.path("go"), "\n").expect("a file");
    assert_eq!(a.code(), 71, "{}", a.said());
    assert!(a.said().contains("--epoch-file: No such file"), "{}", a.said());
    assert!(!scene.exists("ran"));
    assert_eq!(scene.status()["ended"], "resigned");
}
