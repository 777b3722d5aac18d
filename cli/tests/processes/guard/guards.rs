//! Tests that CMD and its descendants end if the guard or its standby is killed or suspended.

use super::*;
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::kill_at_once;
use tenure_testkit::command::state;

#[tokio::test]
async fn a_killed_guard_and_standby_do_not_report_an_empty_process_group() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let script = format!(r#"echo $$ > "$1.leader"; {STUBBORN}"#);
    let group = start(&script, &file).await;
    let child = number_in(&file);
    let guard = guard_of(number_in(&dir.path().join("pid.leader")));
    let standby = guard_of(guard);
    kill_at_once([guard, standby]);
    let (end, left) = group.gone().await;
    assert_eq!((end.exit_code(), end.stop, left), (137, Some(Stop::Unguarded), Left::Unknown));
    assert!(!runs(child), "the kill reached the child");
}

#[tokio::test]
async fn the_guard_kills_the_process_group_after_the_death_of_its_standby() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let script = format!(r#"echo $$ > "$1.leader"; {STUBBORN}"#);
    let group = start(&script, &file).await;
    let child = number_in(&file);
    let standby = guard_of(guard_of(number_in(&dir.path().join("pid.leader"))));
    kill(pid(standby), Signal::SIGKILL).expect("the process is alive");
    let end = gone(&group).await;
    assert_eq!((end.exit_code(), end.stop), (137, Some(Stop::Unguarded)));
    assert!(!runs(child));
}

#[tokio::test]
async fn the_process_group_dies_with_its_guard() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let script = format!(r#"echo $$ > "$1.leader"; {STUBBORN}"#);
    let group = start(&script, &file).await;
    let child = number_in(&file);
    let leader = number_in(&dir.path().join("pid.leader"));
    kill(pid(guard_of(leader)), Signal::SIGKILL).expect("the guard is alive");
    let end = gone(&group).await;
    assert_eq!((end.exit_code(), end.stop), (137, Some(Stop::Unguarded)));
    assert!(!runs(child));
}

/// The guard and the standby fail at the same time. Before the fix, CMD ran past the end of the
/// lease if the guard was suspended (SIGSTOP) and the standby was killed. If the standby was
/// suspended and the guard was killed, `tenure` renewed the lease forever.
#[tokio::test(flavor = "multi_thread")]
async fn regression_no_two_faults_of_guard_and_standby_keep_a_process_alive() {
    let faults = [None, Some(Signal::SIGSTOP), Some(Signal::SIGKILL)];
    let pairs = faults.iter().flat_map(|standby| faults.iter().map(move |guard| (standby, guard)));
    // Omit the case in which both are killed, because then no process knows the descendants outside
    // of the process group.
    let pairs = pairs.filter(|pair| *pair != (&Some(Signal::SIGKILL), &Some(Signal::SIGKILL)));
    let stories = pairs.map(async |(to_standby, to_guard)| {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("pid");
        let script = format!(
            r#"echo $$ > "$1.leader"
            setsid sh -c 'echo $$ > "$1.away"; exec sleep 600' sh "$1" &
            {STUBBORN}"#
        );
        let group = start(&script, &file).await;
        let [child, away, leader] =
            ["pid", "pid.away", "pid.leader"].map(|name| number_in(&dir.path().join(name)));
        let guard = guard_of(leader);
        let standby = guard_of(guard);
        for (process, fault) in [(guard, to_guard), (standby, to_standby)] {
            if *fault == Some(Signal::SIGSTOP) {
                kill(pid(process), Signal::SIGSTOP).expect("the process is alive");
                eventually("the process is stopped", || state(process) == Some('T'));
            }
        }
        for (process, fault) in [(guard, to_guard), (standby, to_standby)] {
            if *fault == Some(Signal::SIGKILL) {
                kill(pid(process), Signal::SIGKILL).expect("the process is alive");
            }
        }
        group.set_deadlines(Deadlines { term_at: in_ms(0), kill_at: in_ms(200) });
        let end = gone(&group).await;
        let story = format!("standby: {to_standby:?}, guard: {to_guard:?}");
        assert_eq!(end.exit_code(), 137, "{story}");
        for process in [child, away, leader] {
            assert!(!runs(process), "{story}: {process} is alive");
        }
        for process in [guard, standby] {
            let what = format!("{story}: {process} has ended too");
            eventually(&what, || !runs(process));
        }
    });
    futures::future::join_all(stories).await;
}

/// `tenure` sends signals through a pipe to the guard. Before the fix, a thousand signals filled
/// the pipe to a suspended guard, and then no process killed CMD.
#[tokio::test]
async fn regression_signals_to_a_stopped_guard_do_not_save_the_process_group() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let script = format!(r#"trap '' HUP; echo $$ > "$1.leader"; {STUBBORN}"#);
    let group = start(&script, &file).await;
    let child = number_in(&file);
    let guard = guard_of(number_in(&dir.path().join("pid.leader")));
    kill(pid(guard), Signal::SIGSTOP).expect("the guard is alive");
    eventually("the guard is stopped", || state(guard) == Some('T'));
    for _ in 0..20_000 {
        group.forward(Signal::SIGHUP);
    }
    group.set_deadlines(Deadlines { term_at: in_ms(0), kill_at: in_ms(200) });
    let end = gone(&group).await;
    assert_eq!((end.exit_code(), end.stop), (137, Some(Stop::Killed)));
    assert!(!runs(child));
}

/// Before the fix, if CMD ended while its guard was suspended, `tenure` renewed the lease forever.
#[tokio::test]
async fn regression_the_end_of_cmd_is_detected_despite_a_stopped_guard() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let group = start(r#"echo $$ > "$1"; exec sleep 600"#, &file).await;
    let leader = number_in(&file);
    let guard = guard_of(leader);
    kill(pid(guard), Signal::SIGSTOP).expect("the guard is alive");
    eventually("the guard is stopped", || state(guard) == Some('T'));
    kill(pid(leader), Signal::SIGKILL).expect("the process is alive");
    // Renew the lease repeatedly. A lease at risk would also end the process group of CMD, and hide
    // the fault.
    let renewals = async {
        loop {
            group.set_deadlines(far());
            pause(100).await;
        }
    };
    let end = tokio::select! {
        end = gone(&group) => end,
        () = renewals => unreachable!("the loop of renewals never ends"),
    };
    assert_eq!((end.exit_code(), end.stop), (137, Some(Stop::Unguarded)));
    eventually("the stopped guard has ended too", || !runs(guard));
}
