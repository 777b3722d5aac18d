//! Tests of `tenure run` as processes. The tests kill, suspend and terminate these processes.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter, Write as _};
use std::process::{Command, Stdio};

use crate::TENURE;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use tenure::store::{DirStore, GetOutcome, PutOutcome, Store as _};
use tenure_testkit::command::scene::{self, Scene, pid};
use tenure_testkit::command::{eventually, pause, runs};

mod beat;
mod left_behind;

use beat::{BEATS, Beat, beat_above, beating, beats as beats_of};

/// Options for tests that wait until a lease has lapsed.
const SHORT: &[&str] = &["--validity", "3s"];

/// Not a test: the command that [`beating`] runs as CMD.
#[test]
fn beats() {
    if let Some(dir) = std::env::var_os(BEATS) {
        beat::beat(dir);
    }
}

/// Asserts that epochs only increase, and that no epoch has a beat after the first beat of the next
/// epoch.
fn check_order(beats: &[Beat]) {
    for pair in beats.windows(2) {
        let [before, after] = pair else { unreachable!("each window has two entries") };
        assert!(before.epoch <= after.epoch, "{before:?} precedes {after:?}");
        if before.epoch == after.epoch {
            assert_eq!(before.name, after.name, "an epoch has two leaders");
        } else {
            assert!(before.at_ns < after.at_ns, "{before:?} is later than {after:?}");
        }
    }
}

#[test]
fn at_most_one_of_three_candidates_runs_cmd_despite_kills_and_stops() {
    let scene = Scene::new(TENURE);
    let mut candidates =
        ["a", "b", "c"].map(|name| beating(&scene, name, &["--forever", "--validity", "3s"]));
    let of = |name: &str| usize::from(name.as_bytes()[0] - b'a');

    let first = beat_above(&scene, 0);
    let killed = of(&first.name);
    candidates[killed].signal(Signal::SIGKILL);
    assert_eq!(candidates[killed].code(), 137);

    let second = beat_above(&scene, first.epoch);
    assert_ne!(second.name, first.name);
    let stopped = of(&second.name);
    candidates[stopped].stop();
    let third = beat_above(&scene, second.epoch);
    assert_ne!(third.name, second.name);
    // The suspended candidate continues after the end of its lease, and must report that it has
    // lost the leadership.
    candidates[stopped].signal(Signal::SIGCONT);
    candidates[stopped].says(&format!("lost epoch {}", second.epoch));
    assert!(candidates[stopped].lives(), "{}", candidates[stopped].said());

    // After the leader of the third epoch has ended, only the continued candidate remains. This
    // candidate is elected again.
    let last = of(&third.name);
    candidates[last].signal(Signal::SIGTERM);
    // A service exits with 0 after SIGTERM, and not with the exit code of CMD.
    assert_eq!(candidates[last].code(), 0, "{}", candidates[last].said());
    let fourth = beat_above(&scene, third.epoch);
    assert_eq!(of(&fourth.name), stopped);
    candidates[stopped].signal(Signal::SIGTERM);
    assert_eq!(candidates[stopped].code(), 0);

    check_order(&beats_of(&scene, "beats"));
    check_order(&beats_of(&scene, "fenced"));
    assert!(!scene.exists("refused"), "a command ran during a greater epoch");
    let status = scene.status();
    assert_eq!((&status["state"], &status["ended"]), (&"vacant".into(), &"resigned".into()));
}

#[test]
fn a_stopped_leader_exits_with_75_after_it_continues() {
    let scene = Scene::new(TENURE);
    let mut a = beating(&scene, "a", SHORT);
    let first = beat_above(&scene, 0);
    a.signal(Signal::SIGSTOP);
    // No other candidate exists, so no process seals the epoch. The guard must end the command
    // because the lease ends.
    let guard = a.guard();
    let mut last = None;
    eventually("the command is dead", || {
        let before = last.replace(beats_of(&scene, "beats").pop());
        pause(300);
        before == Some(beats_of(&scene, "beats").pop())
    });
    eventually("the guard has ended all processes", || !runs(guard));
    // On an idle machine, the guard exits some time before the end of the lease. So also wait for
    // the lapse.
    eventually("the lease has lapsed", || scene.status()["lapsed"] == true);
    let status = scene.status();
    assert_eq!((&status["state"], &status["epoch"]), (&"vacant".into(), &first.epoch.into()));
    a.signal(Signal::SIGCONT);
    assert_eq!(a.code(), 75);
    assert!(a.said().contains("lost epoch 1"), "{}", a.said());
}

/// Before the fix, the log reported that a command was killed, although the command had ended at
/// SIGTERM. On a slow machine, the command may not end within its grace. In this case the test
/// repeats with a longer grace.
#[test]
fn regression_killed_is_reported_only_for_a_killed_command() {
    let script = "trap 'echo > term; exit 0' TERM; echo > ready; while :; do sleep 0.02; done";
    let ended_in_its_grace = ["3s", "9s", "27s"].into_iter().any(|validity| {
        let scene = Scene::new(TENURE);
        let mut a = scene.script("a", &["--validity", validity], script);
        scene.wait_for_file("ready");
        let guard = a.guard();
        a.signal(Signal::SIGSTOP);
        eventually("the guard has ended all processes", || !runs(guard));
        a.signal(Signal::SIGCONT);
        assert_eq!(a.code(), 75);
        let was_killed = !scene.exists("term");
        assert_eq!(a.said().contains("(SIGKILL)"), was_killed, "{}", a.said());
        assert!(was_killed || a.said().contains("sent SIGTERM to CMD"), "{}", a.said());
        !was_killed
    });
    assert!(ended_in_its_grace);
}

/// A script that ignores SIGTERM. Its child also ignores SIGTERM. The script writes the child's
/// process ID to the file `child`.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & echo $! > child; wait; sleep 1000";

#[test]
fn a_command_that_ignores_sigterm_dies_with_tenure() {
    let scene = Scene::new(TENURE);
    let mut a = scene.script("a", SHORT, STUBBORN);
    let child = scene.number("child");
    let _b =
        scene.script("b", &[], &format!("cat /proc/{child}/stat > stat; echo > b; sleep 1000"));
    a.signal(Signal::SIGKILL);
    assert_eq!(a.code(), 137);
    scene.wait_for_file("b");
    let stat = fs::read_to_string(scene.path("stat")).unwrap_or_default();
    assert!(
        stat.is_empty() || stat.contains(") Z "),
        "the child runs while the next candidate leads: {stat}"
    );
    assert!(!runs(child));
}

#[test]
fn the_exit_code_of_the_command_is_forwarded() {
    let scene = Scene::new(TENURE);
    assert_eq!(scene.script("a", &[], "exit 3").code(), 3);
    assert_eq!(scene.status()["ended"], "resigned");
    assert_eq!(scene.script("b", &[], "kill -KILL $$").code(), 137);
    assert_eq!(scene.status()["ended"], "resigned");
    let mut missing = scene.run("c", &[]);
    missing.args(["--", "sh", "-c", "exec /no/such/command"]);
    assert_eq!(scene.start("c", missing).code(), 127);
    assert_eq!(scene.status()["epoch"], 3);
}

#[test]
fn regression_a_command_that_cannot_run_starts_no_campaign() {
    let scene = Scene::new(TENURE);
    for (command, code) in [("/no/such/command", 127), ("no-such-command", 127), ("/dev/null", 126)]
    {
        let mut run = scene.run("a", &[]);
        run.args(["--", command]);
        let mut a = scene.start("a", run);
        assert_eq!(a.code(), code, "{}", a.said());
        assert!(a.said().lines().last().is_some_and(|line| line.contains(command)), "{}", a.said());
    }
    assert!(!scene.exists("store"), "the store was opened");
}

#[test]
fn the_command_has_its_epoch_its_name_and_its_store() {
    let scene = Scene::new(TENURE);
    let script = r#"echo "$TENURE_EPOCH $TENURE_NAME $TENURE_STORE" > env"#;
    assert_eq!(scene.script("worker-7", &[], script).code(), 0);
    assert_eq!(scene.wait_for_file("env"), format!("1 worker-7 {}\n", scene.url()));
}

#[test]
fn repeated_signals_are_forwarded() {
    let scene = Scene::new(TENURE);
    let script = "n=0; trap 'n=$((n+1)); echo $n > n; [ $n -lt 2 ] || exit 5' TERM; \
                  echo > ready; while :; do sleep 0.02; done";
    let mut a = scene.script("a", &[], script);
    scene.wait_for_file("ready");
    a.signal(Signal::SIGTERM);
    assert_eq!(scene.wait_for_file("n"), "1\n");
    // CMD has not ended at the first SIGTERM, so the candidate still leads.
    let before = scene.status()["heartbeat"].as_u64();
    eventually("the lease is renewed", || scene.status()["heartbeat"].as_u64() > before);
    assert_eq!(scene.status()["state"], "held");
    assert!(a.lives());
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 5);
    assert_eq!(scene.status()["ended"], "resigned");
}

#[test]
fn other_terminating_signals_are_forwarded() {
    for (signal, name, code) in
        [(Signal::SIGHUP, "HUP", 6), (Signal::SIGINT, "INT", 7), (Signal::SIGQUIT, "QUIT", 8)]
    {
        let scene = Scene::new(TENURE);
        let script =
            format!("trap 'exit {code}' {name}; echo > ready; while :; do sleep 0.02; done");
        let mut a = scene.script("a", &[], &script);
        scene.wait_for_file("ready");
        a.signal(signal);
        assert_eq!(a.code(), code, "{}", a.said());
    }
}

#[test]
fn a_waiting_candidate_ends_immediately() {
    let scene = Scene::new(TENURE);
    let _a = scene.script("a", &[], "echo > ready; sleep 1000");
    scene.wait_for_file("ready");
    for (signal, code) in [
        (Signal::SIGHUP, 129),
        (Signal::SIGINT, 130),
        (Signal::SIGQUIT, 131),
        (Signal::SIGTERM, 143),
    ] {
        let name = format!("b{code}");
        let mut b = scene.script(&name, &["--forever"], "echo > never");
        b.says("waiting: a leads epoch 1");
        b.signal(signal);
        assert_eq!(b.code(), code);
        assert!(!scene.exists("never"));
        let help = Command::new(TENURE).args(["run", "--help"]).output().expect("the command runs");
        let help = String::from_utf8(help.stdout).expect("text");
        assert!(help.contains(&format!("{code} ")) && help.contains(signal.as_str()), "{help}");
    }
    assert_eq!(scene.status()["candidate"], "a");
}

#[test]
fn signals_ignored_by_nohup_stay_ignored() {
    let scene = Scene::new(TENURE);
    let mut command = Command::new("sh");
    let script = r#"trap '' HUP; exec "$@""#;
    command.args(["-c", script, "sh", TENURE, "run", "--store", &scene.url(), "--validity", "3s"]);
    command.args(["--", "sh", "-c", "echo > ready; exec sleep 1000"]);
    scene.surround(&mut command);
    let mut a = scene.start("a", command);
    scene.wait_for_file("ready");
    a.signal(Signal::SIGHUP);
    // Wait for two renewals, because the first renewal may have begun before the signal.
    for _ in 0..2 {
        let record = || fs::read(scene.path("store/lock-0000000001.json")).expect("the record");
        let before = record();
        eventually("it renews", || record() != before);
    }
    assert!(a.lives() && !a.said().contains("SIGHUP"), "{}", a.said());
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 143);
}

#[test]
fn an_ignored_sigchld_does_not_hide_the_status_of_the_command() {
    let scene = Scene::new(TENURE);
    let mut command = Command::new("sh");
    let script = r#"trap '' CHLD; exec "$@""#;
    command.args(["-c", script, "sh", TENURE, "run", "--store", &scene.url(), "--validity", "3s"]);
    command.args(["--", "sh", "-c", "exit 3"]);
    scene.surround(&mut command);
    assert_eq!(scene.start("a", command).code(), 3);
    assert_eq!(scene.status()["ended"], "resigned");
}

/// If no process reads the stderr of `tenure` and its pipe is full, `tenure` must still renew its
/// lease and kill CMD in time.
#[test]
fn regression_a_full_stderr_delays_no_kill() {
    let scene = Scene::new(TENURE);
    let (_reader, writer) = full_pipe();
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let mut command = scene.run("a", &["--validity", "20s", "--grace", "1s"]);
    command.args(["--", "sh", "-c", script]).stdout(Stdio::null()).stderr(writer);
    let mut a = scene.start_with_its_streams("a", command);
    let pid = scene.number("pid");
    seal(&scene, "lapsed");
    eventually("CMD is killed", || !runs(pid));
    // `tenure` must exit although the pipe on its stderr is still full.
    assert_eq!(a.code(), 75);
}

/// Returns a pipe whose buffer is full, so that a further write blocks.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let nonblocking = |on| {
        let flags = if on { OFlag::O_NONBLOCK } else { OFlag::empty() };
        fcntl(&writer, FcntlArg::F_SETFL(flags)).expect("an open file");
    };
    nonblocking(true);
    while (&writer).write(&[b'x'; 4096]).is_ok() {}
    while (&writer).write(b"x").is_ok() {}
    nonblocking(false);
    (reader, writer)
}

#[test]
fn a_failing_store_ends_the_command_in_time_and_a_service_recovers() {
    let scene = Scene::new(TENURE);
    let script = "trap 'echo > term.$TENURE_EPOCH; exit 0' TERM; \
                  echo $$ > pid.$TENURE_EPOCH; while :; do sleep 0.02; done";
    // This validity gives CMD a grace of 2 s, which is sufficient on a loaded machine.
    let mut a = scene.script("a", &["--forever", "--validity", "12s"], script);
    let first = scene.number("pid.1");
    // While the test holds the lock of the store, `tenure` cannot write.
    let lock = File::options().write(true).open(scene.path("store/.tenure/lock")).expect("a file");
    lock.lock().expect("a lock");
    eventually("the command got SIGTERM", || scene.exists("term.1"));
    eventually("the command has ended", || !runs(first));
    a.says("epoch 1");
    drop(lock);
    let second: Vec<_> = (2..9).map(|epoch| format!("pid.{epoch}")).collect();
    eventually("the candidate is elected again", || second.iter().any(|file| scene.exists(file)));
    assert!(a.lives(), "{}", a.said());
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 0);
}

#[test]
fn a_deleted_store_exits_with_75() {
    let scene = Scene::new(TENURE);
    let mut a = scene.script("a", SHORT, "echo $$ > pid; exec sleep 1000");
    let command = scene.number("pid");
    fs::rename(scene.path("store"), scene.path("away")).expect("the store exists");
    eventually("the command has ended", || !runs(command));
    assert_eq!(a.code(), 75, "{}", a.said());
}

/// Seals the current epoch object as an operator does, with this value in the field `ended` of the
/// record.
fn seal(scene: &Scene, ended: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store = DirStore::open(scene.path("store")).expect("the store of the scene opens");
        let key = format!("lock-{:010}.json", scene.status()["epoch"].as_u64().expect("an epoch"));
        loop {
            let found = store.get(&key, None, 1 << 16).await.expect("the read succeeds");
            let GetOutcome::Found(object) = found else { panic!("no {key}: {found:?}") };
            let mut record: serde_json::Value =
                serde_json::from_slice(&object.body).expect("the record is JSON");
            record["expired"] = true.into();
            record["ended"] = ended.into();
            record["sealed_by"] = "an operator".into();
            let sealed = store.replace(&key, record.to_string().into(), object.etag).await;
            match sealed.expect("the write succeeds") {
                PutOutcome::Done { .. } => return,
                // The store refused the seal, because the leader has renewed its lease between the
                // read and the write.
                _ => pause(1),
            }
        }
    });
}

#[test]
fn a_deposed_leader_terminates_its_command() {
    let scene = Scene::new(TENURE);
    let script = "trap 'echo > term; exit 0' TERM; echo > ready; while :; do sleep 0.02; done";
    let mut a = scene.script("a", &["--validity", "20s"], script);
    scene.wait_for_file("ready");
    seal(&scene, "deposed");
    assert_eq!(a.code(), 75, "{}", a.said());
    assert!(scene.exists("term"), "{}", a.said());
    assert!(a.said().contains("lost epoch 1: an operator sealed the epoch"), "{}", a.said());
}

#[test]
fn a_leader_deposed_as_dead_kills_its_command_immediately() {
    let scene = Scene::new(TENURE);
    let script = "trap 'echo > term' TERM; echo $$ > pid; while :; do sleep 0.02; done";
    let mut a = scene.script("a", &["--validity", "20s", "--grace", "2s"], script);
    let command = scene.number("pid");
    seal(&scene, "lapsed");
    assert_eq!(a.code(), 75, "{}", a.said());
    assert!(!runs(command) && !scene.exists("term"), "{}", a.said());
}
