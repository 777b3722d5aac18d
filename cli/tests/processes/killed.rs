//! Kills `tenure run`, and tests that the guard resigns its epoch only after all processes of CMD
//! have ended.
#![cfg(target_os = "linux")]

use std::fs::{self, File};

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::TENURE;
use tenure_testkit::command::scene::{self, Candidate, Scene, children, pid};
use tenure_testkit::command::{eventually, runs};

/// A validity that is longer than any test, so that the lease does not lapse.
const LONG: [&str; 2] = ["--validity", "10m"];

/// Returns the record of the first epoch, in either layout.
fn record(scene: &Scene) -> Value {
    let texts = ["store/lock-0000000001.json", "store/lock.json"].map(|name| scene.path(name));
    let text = texts.iter().find_map(|path| fs::read_to_string(path).ok());
    let text = text.expect("the epoch exists");
    // The directory store prepends a line to each file, so the record begins after the first line.
    let (_, record) = text.split_once('\n').expect("the file has at least two lines");
    serde_json::from_str(record).expect("the record is whole")
}

fn is_sealed(scene: &Scene) -> bool {
    record(scene)["ended"] != Value::Null
}

/// A script that has a child in another process group, a child in another session, and an orphan in
/// a third session. Each of the three ignores SIGTERM, and writes its process ID to a file.
const ESCAPING: &str = r#"
    one='trap "" TERM; echo $$ > $0; while :; do sleep 0.02; done'
    timeout 1000 sh -c "$one" group &
    setsid sh -c "$one" session &
    (setsid sh -c "$one" daemon &)
    trap '' TERM; echo $$ > cmd; while :; do sleep 0.02; done"#;

fn escaping(scene: &Scene, options: &[&str]) -> (Candidate, [u32; 4]) {
    let a = scene.script("a", &[&LONG, options].concat(), ESCAPING);
    let processes = ["group", "session", "daemon", "cmd"].map(|name| scene.number(name));
    (a, processes)
}

#[test]
fn the_epoch_is_resigned_after_the_last_descendant() {
    for layout in ["epoch-files", "single-object"] {
        let scene = Scene::new(TENURE);
        let (mut a, processes) = escaping(&scene, &["--grace", "2s", "--layout", layout]);
        let stats = "for one in group session daemon cmd; do cat /proc/$(cat $one)/stat; done";
        let script = format!("{stats} > stats; echo $TENURE_EPOCH > b");
        let mut b = scene.script("b", &["--poll", "100ms", "--layout", layout], &script);
        b.says("waiting: a leads epoch 1");
        a.signal(Signal::SIGKILL);
        assert_eq!(a.code(), 137);
        eventually("the epoch is sealed", || {
            // Check for the seal before the processes are listed. If the epoch is sealed and a
            // process still runs, the seal was too early.
            let sealed = layout == "single-object" || is_sealed(&scene);
            let left: Vec<&u32> = processes.iter().filter(|one| runs(**one)).collect();
            assert!(!sealed || layout == "single-object" || left.is_empty(), "{left:?} still run");
            sealed
        });
        assert_eq!(b.code(), 0, "{}", b.said());
        assert_eq!(scene.wait_for_file("b"), "2\n");
        assert_eq!(fs::read_to_string(scene.path("stats")).expect("b wrote the file"), "");
        let said = a.said();
        let order =
            ["SIGTERM now", "(SIGKILL)", "all processes of CMD have ended", "resigned epoch 1"];
        let places =
            order.map(|words| said.find(words).unwrap_or_else(|| panic!("{words}: {said}")));
        assert!(places.is_sorted(), "{said}");
        if layout == "epoch-files" {
            assert_eq!(
                (&record(&scene)["ended"], &record(&scene)["sealed_by"]),
                (&"resigned".into(), &"a".into(),)
            );
        }
    }
}

/// An orphan of CMD ignores SIGTERM, so it lives until the end of the grace.
#[test]
fn the_epoch_is_not_resigned_while_one_process_lives() {
    let scene = Scene::new(TENURE);
    let mut a = scene.script("a", &[&LONG[..], &["--grace", "60s"]].concat(), STUBBORN_ORPHAN);
    let orphan = scene.number("orphan");
    let cmd = scene.number("cmd");
    let guard = a.guard();
    a.signal(Signal::SIGKILL);
    assert_eq!(a.code(), 137);
    eventually("CMD has ended", || !runs(cmd));
    a.says("SIGTERM now");
    assert!(runs(orphan) && runs(guard) && !is_sealed(&scene));
    kill(pid(orphan), Signal::SIGKILL).expect("the guard is alive");
    a.says("resigned epoch 1");
    assert!(is_sealed(&scene));
}

/// A CMD that ends at SIGTERM, and leaves an orphan that ignores SIGTERM.
const STUBBORN_ORPHAN: &str = r#"
    (setsid sh -c 'trap "" TERM; echo $$ > orphan; while :; do sleep 0.02; done' &)
    echo $$ > cmd; while :; do sleep 0.02; done"#;

/// After `tenure` and the guard were killed, no process can know whether all processes of CMD have
/// ended.
#[test]
fn no_epoch_is_resigned_if_the_guard_is_killed_too() {
    let scene = Scene::new(TENURE);
    let (mut a, processes) = escaping(&scene, &[]);
    let standby = a.standby();
    scene::kill_at_once([a.id(), a.guard()]);
    assert_eq!(a.code(), 137);
    eventually("the standby has ended all processes, and has exited", || !runs(standby));
    assert!(!processes.iter().any(|one| runs(*one)));
    assert!(!is_sealed(&scene), "{}", a.said());
}

/// Even without its standby, the guard is an ancestor of all processes of CMD, so it notices when
/// these processes end.
#[test]
fn a_guard_without_its_standby_resigns() {
    let scene = Scene::new(TENURE);
    let (mut a, processes) = escaping(&scene, &["--grace", "500ms"]);
    scene::kill_at_once([a.id(), a.standby()]);
    assert_eq!(a.code(), 137);
    a.says("resigned epoch 1");
    assert!(!processes.iter().any(|one| runs(*one)));
    assert_eq!(record(&scene)["ended"], "resigned");
}

/// If memory is exhausted, the kernel may kill CMD and `tenure` together. The guard must resign
/// even if it notices the end of CMD before the end of `tenure`.
#[test]
fn an_epoch_is_resigned_if_cmd_and_tenure_are_killed_together() {
    let scene = Scene::new(TENURE);
    let script = "echo $$ > cmd; exec sleep 1000";
    let mut a = scene.script("a", &LONG, script);
    let cmd = scene.number("cmd");
    // The guard is suspended (SIGSTOP) while CMD and `tenure` end. When the guard continues, it may
    // detect the two ends in either order.
    let guard = pid(a.guard());
    kill(guard, Signal::SIGSTOP).expect("the guard is alive");
    kill(pid(cmd), Signal::SIGKILL).expect("the guard is alive");
    a.signal(Signal::SIGKILL);
    kill(guard, Signal::SIGCONT).expect("the guard is stopped");
    assert_eq!(a.code(), 137);
    a.says("resigned epoch 1");
}

#[test]
fn the_named_successor_of_a_killed_leader_leads_first() {
    let scene = Scene::new(TENURE);
    let options = ["--successor", "c", "--log-format", "json"];
    let a = scene.script("a", &[&LONG[..], &options].concat(), "echo > ready; exec sleep 1000");
    scene.wait_for_file("ready");
    a.signal(Signal::SIGKILL);
    a.says(r#""outcome":"resigned""#);
    assert_eq!(record(&scene)["successor"], "c");
}

/// Before the fix, all log lines of the guard had the level ERROR, even the line about a
/// resignation.
#[test]
fn regression_a_resignation_by_the_guard_has_the_level_info() {
    let scene = Scene::new(TENURE);
    let options = [&LONG[..], &["--log-format", "json"]].concat();
    let a = scene.script("a", &options, "echo > ready; exec sleep 1000");
    scene.wait_for_file("ready");
    a.signal(Signal::SIGKILL);
    a.says(r#""outcome":"resigned""#);
    let said = a.said();
    let lines = said.lines().filter_map(|line| line.parse::<serde_json::Value>().ok());
    let levels = lines.filter(|line| line["fields"]["outcome"].is_string());
    let levels = levels.map(|line| {
        let [outcome, level] = [&line["fields"]["outcome"], &line["level"]];
        (outcome.to_string(), level.to_string())
    });
    let levels: std::collections::BTreeMap<_, _> = levels.collect();
    assert_eq!(levels["\"resigned\""], "\"INFO\"", "{said}");
    assert_eq!(levels["\"gone\""], "\"WARN\"", "{said}");
}

/// If the store does not answer, the guard tries to resign only until the end of the lease.
#[test]
fn the_guard_stops_trying_to_resign_when_the_lease_ends() {
    let scene = Scene::new(TENURE);
    let a = scene.script("a", &["--validity", "6s"], "echo > ready; exec sleep 1000");
    scene.wait_for_file("ready");
    let guard = a.guard();
    let lock = lock_of_the_store(&scene);
    a.signal(Signal::SIGKILL);
    eventually("the guard has ended", || !runs(guard));
    assert!(a.said().contains("epoch 1 is not resigned"), "{}", a.said());
    assert!(!is_sealed(&scene));
    drop(lock);
}

/// The guard blocks all signals, and starts the process that resigns. This process must not inherit
/// the signal mask of the guard.
#[test]
fn signals_end_the_process_that_resigns() {
    let scene = Scene::new(TENURE);
    let a = scene.script("a", &LONG, "echo > ready; exec sleep 1000");
    scene.wait_for_file("ready");
    let guard = a.guard();
    let lock = lock_of_the_store(&scene);
    a.signal(Signal::SIGKILL);
    let resigns = |line: &[u8]| line.starts_with(b"tenure\0__resign\0");
    eventually("a process that blocks no signal resigns", || {
        let process = children(guard).find(|(_, line)| resigns(line)).map(|(number, _)| number);
        let status = process.and_then(|one| fs::read_to_string(format!("/proc/{one}/status")).ok());
        status.is_some_and(|status| status.contains("SigBlk:\t0000000000000000\n"))
    });
    drop(lock);
    a.says("resigned epoch 1");
}

/// Locks the store. While the lock is held, no other process can write.
fn lock_of_the_store(scene: &Scene) -> File {
    let lock = File::open(scene.path("store/.tenure/lock")).expect("the store has a lock");
    lock.lock().expect("the file can be locked");
    lock
}

/// After a forced deposition, other candidates do not wait for the lapse of the lease. Before the
/// fix, the deposed leader nevertheless logged that the other candidates wait.
#[test]
fn regression_a_leader_deposed_as_dead_does_not_report_that_others_wait() {
    let scene = Scene::new(TENURE);
    let mut a = scene.script("a", &LONG, "echo > ready; exec sleep 1000");
    scene.wait_for_file("ready");
    let mut depose = std::process::Command::new(TENURE);
    depose.args(["depose", "--force", "--name", "ann", "--store", &scene.url()]);
    assert!(depose.output().expect("the command runs").status.success());
    a.signal(Signal::SIGTERM);
    a.code();
    let said = a.said();
    assert!(said.contains("epoch 1 is not resigned: ") && said.contains("ann sealed"), "{said}");
    assert!(said.contains("deposed_dead") && !said.contains("other candidates wait"), "{said}");
}
