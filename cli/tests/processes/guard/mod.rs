//! Tests the type `Group` of `tenure run`: CMD with its supervisor, standby, guard and gate.
#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use crate::TENURE;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure::store::DirStore;
use tenure::{Election, EpochEnd};
use tenure_cli::guard::{Deadlines, Extras, Group, GroupEnd, Left, Resignation, Stop, Tenure};
use tenure_testkit::command::{in_ms, number_in, runs};

mod guards;

const HOUR: u64 = 3_600_000;

fn far() -> Deadlines {
    Deadlines { term_at: in_ms(HOUR), kill_at: in_ms(HOUR) }
}

async fn start(script: &str, argument: &Path) -> Group {
    start_with(script, argument, far()).await
}

async fn start_with(script: &str, argument: &Path, deadlines: Deadlines) -> Group {
    let command = ["sh", "-c", script, "sh"].map(OsString::from);
    let command = [&command[..], &[argument.into()]].concat();
    let environment = [("TENURE_EPOCH", "7".to_owned())];
    let tenure = Tenure { binary: TENURE.into(), options: &[] };
    Group::start(&tenure, &command, &environment, deadlines, Extras::default())
        .await
        .expect("the process starts")
}

#[allow(clippy::disallowed_methods, reason = "polls real processes, with a deadline")]
async fn gone(group: &Group) -> GroupEnd {
    let deadline = std::time::Duration::from_secs(60);
    let gone = tokio::time::timeout(deadline, group.gone()).await;
    let (end, left) = gone.expect("the group ends in time");
    assert_eq!(left, Left::Nothing);
    end
}

/// Asserts that the guard does not report the end of the group within 300 ms. A wrong report would
/// arrive much sooner, directly after the report of CMD's end on the same pipe. On a slow machine,
/// the assertion may miss a wrong report, but it never fails without a wrong report.
async fn stays_pending(gone: Pin<&mut impl Future<Output = (GroupEnd, Left)>>) {
    tokio::select! {
        (_, left) = gone => panic!("a process is alive, but reported as ended: {left:?}"),
        () = pause(300) => {}
    }
}

/// Returns the process ID of the guard. The guard is the parent process of the shell `leader`.
fn guard_of(leader: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{leader}/stat")).expect("the shell runs");
    let parent = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(1));
    parent.and_then(|parent| parent.parse().ok()).expect("the file has the format of proc(5)")
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("a process ID fits into an i32"))
}

/// A command that ignores SIGTERM, with a child that also ignores SIGTERM. The command writes the
/// child's process ID to the file that its argument names.
const STUBBORN: &str =
    r#"(trap '' TERM; exec sleep 1000) & echo $! > "$1"; trap '' TERM; wait; sleep 1000"#;

#[tokio::test]
async fn signals_reach_the_whole_process_group() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let script = r#"sleep 1000 & echo $! > "$1"; trap 'exit 5' INT; while :; do sleep 0.02; done"#;
    let group = start(script, &file).await;
    let child = number_in(&file);
    group.forward(Signal::SIGTERM);
    let end = gone(&group).await;
    assert_eq!((end.exit_code(), end.stop), (143, None));
    assert!(!runs(child));
}

#[tokio::test]
async fn the_process_group_lives_while_a_child_of_the_command_lives() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let group = start(r#"sleep 1000 & echo $! > "$1"; exit 0"#, &file).await;
    let end = group.wait().await;
    assert_eq!((end.exit_code(), end.stop), (0, None));
    let child = number_in(&file);
    assert!(runs(child));
    let gone = group.gone();
    tokio::pin!(gone);
    stays_pending(gone.as_mut()).await;
    kill(pid(child), Signal::SIGKILL).expect("the process is alive");
    gone.await;
    assert!(!runs(child));
}

#[tokio::test]
async fn regression_cmd_is_alive_while_a_descendant_lives_outside_of_its_process_group() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let script = r#"(exec setsid sleep 1000) & echo $! > "$1""#;
    let group = start(script, &file).await;
    let outside = number_in(&file);
    assert_eq!(group.wait().await.exit_code(), 0);
    let gone = group.gone();
    tokio::pin!(gone);
    stays_pending(gone.as_mut()).await;
    assert!(runs(outside));
    group.end_rest();
    assert_eq!(gone.await.1, Left::Nothing);
    assert!(!runs(outside));
}

#[tokio::test]
async fn an_ended_lease_starts_no_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("ran");
    let past = Deadlines { term_at: in_ms(0), kill_at: in_ms(0) };
    let group = start_with(r#"echo > "$1""#, &file, past).await;
    let end = gone(&group).await;
    assert_eq!((end.exit_code(), end.stop), (137, Some(Stop::Killed)));
    assert!(!file.exists());
}

#[tokio::test]
async fn a_dropped_process_group_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let group = start(STUBBORN, &file).await;
    let child = number_in(&file);
    drop(group);
    while runs(child) {
        pause(20).await;
    }
}

/// When the process `tenure` drops the group, `tenure` is alive and decides how the epoch ends. So
/// the guard must not resign the epoch.
#[tokio::test]
async fn a_dropped_process_group_does_not_resign() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, place) = (dir.path().join("pid"), dir.path().join("store"));
    let store = Arc::new(DirStore::open(&place).expect("a directory"));
    let election = Election::builder(store, "").name("a").build().expect("valid settings");
    let leadership = election.campaign().await.expect("no other candidate campaigns");
    let resignation = Resignation {
        store: format!("file://{}", place.display()),
        layout: "epoch-files".to_owned(),
        candidate: "a".to_owned(),
        validity_ms: 30_000,
        request_timeout_ms: 6_000,
        key: leadership.resign_key().to_string(),
        successor: None,
        kill_margin_ms: 0,
    };
    let extras = Extras { resignation: Some(resignation), ..Extras::default() };
    let tenure = Tenure { binary: TENURE.into(), options: &[] };
    let command = ["sh", "-c", r#"echo $$ > "$0"; exec sleep 1000"#].map(OsString::from);
    let command = [&command[..], &[file.clone().into()]].concat();
    let group = Group::start(&tenure, &command, &[], far(), extras).await;
    let guard = guard_of(number_in(&file));
    drop(group);
    while runs(guard) {
        pause(20).await;
    }
    let end = election.snapshot().await.expect("the read succeeds").end;
    assert!(end != Some(EpochEnd::Resigned), "{end:?}");
}

#[allow(clippy::disallowed_methods, reason = "polls real processes")]
async fn pause(ms: u64) {
    tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
}
