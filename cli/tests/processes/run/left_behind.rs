//! Tests that all descendants of CMD end before another candidate leads.

use super::*;

/// A script that has a child in another process group, a child in another session, and an orphan in
/// a third session. Each of the three ignores SIGTERM, and writes its process ID to a file.
const ESCAPING: &str = r#"
    one='trap "" TERM; echo $$ > $0; while :; do sleep 0.02; done'
    timeout 1000 sh -c "$one" group &
    setsid sh -c "$one" session &
    (setsid sh -c "$one" daemon &)
    wait"#;

#[test]
fn regression_after_a_kill_of_tenure_no_descendant_overlaps_with_the_next_leader() {
    let scene = Scene::new(TENURE);
    // On a loaded machine the guard can miss the deadline of a short lease. Then the guard's alarm
    // kills the guard.
    let mut a = scene.script("a", &["--validity", "20s", "--grace", "500ms"], ESCAPING);
    let escaped = ["group", "session", "daemon"].map(|name| scene.number(name));
    let stats = "for one in group session daemon; do cat /proc/$(cat $one)/stat; done > stats";
    let _b = scene.script("b", &[], &format!("{stats}; echo > b; sleep 1000"));
    a.signal(Signal::SIGKILL);
    assert_eq!(a.code(), 137);
    scene.wait_for_file("b");
    let stats = fs::read_to_string(scene.path("stats")).unwrap_or_default();
    assert_eq!(stats, "", "no escaped process runs while the next candidate leads");
    assert!(!escaped.iter().any(|one| runs(*one)));
    a.says("all processes of CMD have ended");
}

#[test]
fn regression_no_descendant_outlives_a_resignation() {
    let scene = Scene::new(TENURE);
    let mut a = scene.script("a", &["--grace", "500ms"], ESCAPING);
    let escaped = ["group", "session", "daemon"].map(|name| scene.number(name));
    let stats = "for one in group session daemon; do cat /proc/$(cat $one)/stat; done > stats";
    let mut b = scene.script("b", &[], &format!("{stats}; exit 0"));
    b.says("waiting: a leads epoch 1");
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 143);
    assert!(!escaped.iter().any(|one| runs(*one)), "{}", a.said());
    assert!(
        a.said().contains("a process that CMD left behind was killed (SIGKILL)"),
        "{}",
        a.said()
    );
    assert!(a.said().contains("resigned epoch 1"), "{}", a.said());
    assert_eq!(b.code(), 0);
    assert_eq!(fs::read_to_string(scene.path("stats")).expect("b wrote the file"), "");
}

#[test]
fn regression_after_a_kill_of_tenure_the_command_may_end_on_sigterm() {
    let scene = Scene::new(TENURE);
    let script = "trap 'echo > term; exit 0' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let mut a = scene.script("a", &["--validity", "20s"], script);
    let command = scene.number("pid");
    a.signal(Signal::SIGKILL);
    assert_eq!(a.code(), 137);
    scene.wait_for_file("term");
    eventually("the command has ended", || !runs(command));
    a.says("tenure has died: CMD gets SIGTERM now");
    assert!(!a.said().contains("was killed") && !a.said().contains("were killed"), "{}", a.said());
}

#[test]
fn no_candidate_leads_while_a_process_of_the_last_leader_lives() {
    let scene = Scene::new(TENURE);
    // The command ends, and leaves a child that ignores SIGTERM.
    let script = "(trap '' TERM; exec sleep 1000) & echo $! > child; \
                  while [ ! -e go ]; do sleep 0.02; done; exit 4";
    let mut a = scene.script("a", &["--grace", "1s", "--validity", "10s"], script);
    let child = scene.number("child");
    let stat = format!("cat /proc/{child}/stat > stat; echo > b");
    let mut b = scene.script("b", &[], &stat);
    b.says("waiting: a leads epoch 1");
    fs::write(scene.path("go"), "").expect("a new file");
    a.says("the processes that it left behind get SIGTERM");
    assert_eq!(a.code(), 4, "{}", a.said());
    assert!(!runs(child), "resigned while {child} is alive");
    scene.wait_for_file("b");
    let stat = fs::read_to_string(scene.path("stat")).unwrap_or_default();
    assert!(
        stat.is_empty() || stat.contains(") Z "),
        "the child runs while the next candidate leads: {stat}"
    );
    assert_eq!(b.code(), 0);
    assert_eq!(scene.status()["epoch"], 2);
}

#[test]
fn a_leftover_of_the_command_may_end_on_sigterm() {
    let scene = Scene::new(TENURE);
    let script = "(trap 'echo > ended; exit' TERM; echo > ready; while :; do sleep 0.02; done) & \
                  while [ ! -e ready ]; do sleep 0.02; done; exit 0";
    let mut a = scene.script("a", &["--grace", "3s", "--validity", "20s"], script);
    assert_eq!(a.code(), 0);
    assert!(scene.exists("ended"), "{}", a.said());
}

#[test]
fn a_dead_guard_ends_the_command_with_exit_code_71() {
    let scene = Scene::new(TENURE);
    let mut a = scene.script("a", &[], STUBBORN);
    let child = scene.number("child");
    kill(pid(a.guard()), Signal::SIGKILL).expect("the guard is alive");
    assert_eq!(a.code(), 71);
    assert!(!runs(child));
    assert_eq!(scene.status()["ended"], "resigned");
}

#[test]
fn no_epoch_is_resigned_if_the_leftovers_are_unknown() {
    let scene = Scene::new(TENURE);
    let mut a = scene.script("a", &[], STUBBORN);
    let child = scene.number("child");
    scene::kill_at_once([a.guard(), a.standby()]);
    assert_eq!(a.code(), 71, "{}", a.said());
    assert!(!runs(child));
    assert!(a.said().contains("epoch 1 is not resigned"), "{}", a.said());
    assert_eq!(scene.status()["ended"], serde_json::Value::Null);
}
