//! Suspends `tenure run` together with the guard and the standby of its CMD, as `pkill -STOP
//! tenure` does.
#![cfg(target_os = "linux")]

use nix::sys::signal::{Signal, kill};

use crate::TENURE;
use tenure_testkit::command::scene::{Candidate, Scene, pid};
use tenure_testkit::command::{eventually, runs, state};

/// A long validity. Between CMD's deadline and the end of the lease, even a busy machine has enough
/// time to kill CMD.
const VALIDITY: [&str; 4] = ["--validity", "12s", "--poll", "500ms"];

/// Starts a leader and waits until CMD runs. Then suspends the leader and the processes that `of`
/// returns.
fn stopped(scene: &Scene, script: &str, of: impl FnOnce(&Candidate) -> Vec<u32>) -> Candidate {
    let a = scene.script("a", &VALIDITY, script);
    scene.wait_for_file("cmd");
    let processes = of(&a);
    a.stop();
    for process in processes {
        kill(pid(process), Signal::SIGSTOP).expect("the guard is alive");
        eventually("the process is stopped", || state(process) == Some('T'));
    }
    a
}

/// Before the fix, the standby waited for the end of the suspended guard. So the commands of both
/// leaders ran at the same time until the guard continued.
#[test]
fn regression_a_stopped_guard_of_a_stopped_tenure_does_not_save_its_command() {
    let scene = Scene::new(TENURE);
    let script = "sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.05; done' &
        trap '' TERM; echo $$ > cmd; while :; do sleep 0.05; done";
    let mut a = stopped(&scene, script, |a| vec![a.guard()]);
    let [cmd, child] = ["cmd", "child"].map(|name| scene.number(name));
    let look = format!("for one in {cmd} {child}; do cat /proc/$one/stat; done > stats 2>&1");
    let _b = scene.script("b", &VALIDITY, &format!("{look}; echo > b; sleep 1000"));
    scene.wait_for_file("b");
    let stats = std::fs::read_to_string(scene.path("stats")).expect("b wrote the file");
    assert!(!stats.contains(") S ") && !stats.contains(") R "), "both commands ran: {stats}");
    assert!(!runs(cmd) && !runs(child));
    a.signal(Signal::SIGCONT);
    a.code();
}

/// Before the lease ends, the kernel kills the suspended guard. When the guard dies, the kernel
/// also kills CMD. The standby of the guard is suspended as well, so it ends the descendants of CMD
/// only after a SIGCONT.
#[test]
fn regression_a_command_ends_with_its_lease_although_all_tenure_processes_are_stopped() {
    let scene = Scene::new(TENURE);
    let script = "trap '' TERM; echo $$ > cmd; while :; do sleep 0.05; done";
    let mut standby = 0;
    let mut a = stopped(&scene, script, |a| {
        standby = a.standby();
        vec![a.guard(), standby]
    });
    let cmd = scene.number("cmd");
    let _b = scene.script("b", &VALIDITY, &format!("cat /proc/{cmd}/stat > stats; echo > b"));
    scene.wait_for_file("b");
    let stats = std::fs::read_to_string(scene.path("stats")).unwrap_or_default();
    assert!(!stats.contains(") S ") && !stats.contains(") R "), "both commands ran: {stats}");
    kill(pid(standby), Signal::SIGCONT).expect("the process is stopped");
    a.signal(Signal::SIGCONT);
    a.code();
}
