//! A group with its guard, its gate and its tender, as `tenure run` uses it.
#![cfg(all(feature = "cli", target_os = "linux"))]

mod command;
#[allow(dead_code, unused_imports, reason = "the command uses all of it")]
#[path = "../src/cli/group/mod.rs"]
mod group;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use command::{TENURE, eventually, in_ms, number_in, runs, state};
use group::{Deadlines, Group, Stop, Tenure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::Mutex;

const HOUR: u64 = 3_600_000;

fn far() -> Deadlines {
    Deadlines { term_at: in_ms(HOUR), kill_at: in_ms(HOUR) }
}

async fn start(script: &str, argument: &Path) -> Group {
    start_with(script, argument, far()).await
}

async fn start_with(script: &str, argument: &Path, deadlines: Deadlines) -> Group {
    let argument = argument.as_os_str();
    start_command(
        &["sh".as_ref(), "-c".as_ref(), script.as_ref(), "sh".as_ref(), argument],
        deadlines,
    )
    .await
}

async fn start_command(command: &[&OsStr], deadlines: Deadlines) -> Group {
    // One at a time, so that no other guard starts between a guard and its group.
    static STARTING: Mutex<()> = Mutex::const_new(());
    let _starting = STARTING.lock().await;
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    let environment = [("TENURE_EPOCH", "7".to_owned())];
    let tenure = Tenure { binary: TENURE.into(), options: &[] };
    Group::start(&tenure, &command, &environment, deadlines).await.expect("it starts")
}

/// The guard of the group of this shell: the last one that was started before it.
fn guard_of(leader: u32) -> u32 {
    let ours = std::process::id();
    let children = fs::read_dir("/proc").expect("a /proc").flatten().filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        let command_line = fs::read(entry.path().join("cmdline")).ok()?;
        let parent = fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent: u32 = parent.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        (parent == ours && command_line == b"tenure\0__guard\0").then_some(number)
    });
    children.filter(|number| *number < leader).max().expect("the group has a guard")
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("process numbers are small"))
}

/// Its child ignores SIGTERM; the file has the child's number.
const STUBBORN: &str =
    r#"(trap '' TERM; exec sleep 1000) & echo $! > "$1"; trap '' TERM; wait; sleep 1000"#;

#[tokio::test]
async fn a_command_ends_by_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("epoch");
    let group = start(r#"echo $TENURE_EPOCH > "$1"; exit 3"#, &file).await;
    let end = group.wait().await;
    assert_eq!((end.exit_code(), end.stop), (3, None));
    assert_eq!(group.gone().await, end);
    assert_eq!(fs::read_to_string(&file).expect("it was written"), "7\n");
    // A number that was given up is not signalled: this must do nothing.
    group.kill();
}

#[tokio::test]
async fn a_signal_gives_128_and_its_number() {
    let group = start("kill -KILL $$", Path::new("")).await;
    let end = group.gone().await;
    assert_eq!((end.exit_code(), end.stop), (137, None));
}

#[tokio::test]
async fn signals_reach_the_whole_group() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let script = r#"sleep 1000 & echo $! > "$1"; trap 'exit 5' INT; while :; do sleep 0.02; done"#;
    let group = start(script, &file).await;
    let child = number_in(&file);
    group.forward(Signal::SIGTERM);
    let end = group.gone().await;
    assert_eq!((end.exit_code(), end.stop), (143, None));
    assert!(!runs(child));
}

#[tokio::test]
async fn the_group_is_not_gone_while_a_child_of_the_command_lives() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let group = start(r#"sleep 1000 & echo $! > "$1"; exit 0"#, &file).await;
    let end = group.wait().await;
    assert_eq!((end.exit_code(), end.stop), (0, None));
    let child = number_in(&file);
    assert!(runs(child));
    let gone = group.gone();
    tokio::pin!(gone);
    tokio::select! {
        _ = &mut gone => panic!("a process of the group lives"),
        () = pause(300) => {}
    }
    kill(pid(child), Signal::SIGKILL).expect("it lives");
    gone.await;
    assert!(!runs(child));
}

#[tokio::test]
async fn zombies_that_nobody_reaps_do_not_hold_the_group() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    // A process that leaves the group and never reaps the child that it has left behind.
    let script = r#"(sleep 0.1 & exec setsid sleep 1000) & echo $! > "$1""#;
    let group = start(script, &file).await;
    let outside = number_in(&file);
    group.gone().await;
    assert!(runs(outside), "whoever leaves the group is out of reach");
    kill(pid(outside), Signal::SIGKILL).expect("it lives");
}

#[tokio::test]
async fn a_lease_at_risk_terminates_then_kills() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let group = start(STUBBORN, &file).await;
    let child = number_in(&file);
    group.set_deadlines(Deadlines { term_at: in_ms(0), kill_at: in_ms(300) });
    let end = group.gone().await;
    assert_eq!((end.exit_code(), end.stop), (137, Some(Stop::Killed)));
    assert!(!runs(child));
}

#[tokio::test]
async fn a_command_that_obeys_is_only_terminated() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let script = r#"trap 'exit 0' TERM; echo $$ > "$1"; while :; do sleep 0.02; done"#;
    let group = start(script, &file).await;
    number_in(&file);
    group.set_deadlines(Deadlines { term_at: in_ms(0), kill_at: in_ms(HOUR) });
    let end = group.gone().await;
    assert_eq!((end.exit_code(), end.stop), (0, Some(Stop::Terminated)));
}

#[tokio::test]
async fn a_lease_that_ended_before_the_start_runs_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("ran");
    let past = Deadlines { term_at: in_ms(0), kill_at: in_ms(0) };
    let group = start_with(r#"echo > "$1""#, &file, past).await;
    let end = group.gone().await;
    assert_eq!((end.exit_code(), end.stop), (137, Some(Stop::Killed)));
    assert!(!file.exists());
}

#[tokio::test]
async fn the_group_dies_with_its_guard() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let script = format!(r#"echo $$ > "$1.leader"; {STUBBORN}"#);
    let group = start(&script, &file).await;
    let child = number_in(&file);
    let leader = number_in(&dir.path().join("pid.leader"));
    kill(pid(guard_of(leader)), Signal::SIGKILL).expect("the guard lives");
    let end = group.gone().await;
    assert_eq!((end.exit_code(), end.stop), (137, Some(Stop::Unguarded)));
    assert!(!runs(child));
}

#[tokio::test]
async fn a_stopped_guard_does_not_save_the_group() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let script = format!(r#"echo $$ > "$1.leader"; {STUBBORN}"#);
    let group = start(&script, &file).await;
    number_in(&file);
    let guard = guard_of(number_in(&dir.path().join("pid.leader")));
    kill(pid(guard), Signal::SIGSTOP).expect("the guard lives");
    eventually("the guard is stopped", || state(guard) == Some('T'));
    group.set_deadlines(Deadlines { term_at: in_ms(0), kill_at: in_ms(200) });
    let end = group.gone().await;
    assert_eq!((end.exit_code(), end.stop), (137, Some(Stop::Killed)));
    assert!(!runs(guard), "a stopped guard is left behind");
}

#[tokio::test]
async fn dropping_the_group_kills_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let group = start(STUBBORN, &file).await;
    let child = number_in(&file);
    drop(group);
    while runs(child) {
        pause(20).await;
    }
}

#[tokio::test]
async fn a_command_that_does_not_exist_ends_with_127() {
    let group = start_command(&["tenure-no-such-command".as_ref()], far()).await;
    assert_eq!(group.gone().await.exit_code(), 127);
}

#[allow(clippy::disallowed_methods, reason = "polls real processes")]
async fn pause(ms: u64) {
    tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
}
