//! Tests guard, standby and gate as processes. The tests send the orders that `tenure run` would
//! send.
#![cfg(target_os = "linux")]

mod bench;
mod gate;
mod resign;

use std::fs;
use std::time::Duration;

use bench::{COUNTING, ESCAPING, Guard, POLITE, STUBBORN, escaped, lines, reached};
use nix::sys::signal::Signal;
use tenure_testkit::command::scene::{guard_of, kill_at_once};
use tenure_testkit::command::{eventually, in_ms, now, number_in, runs, state};

const HOUR: u64 = 3_600_000;

#[test]
fn the_whole_process_group_dies_at_its_deadline_and_not_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let mut guard = Guard::over(STUBBORN, &file);
    let child = number_in(&file);
    let kill_at = in_ms(400);
    guard.lease(in_ms(0), kill_at);
    // The lease is already at risk, so the guard sends SIGTERM before it answers the order.
    guard.hears(&["terminated", "watching", "killed"]);
    assert!(reached(kill_at), "killed while the lease was valid");
    guard.hears(&["ended 9", "gone"]);
    assert!(!runs(child) && !runs(guard.command));
    guard.leaves();
}

#[test]
fn a_renewal_moves_the_deadline_of_the_guard() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let mut guard = Guard::over(STUBBORN, &file);
    number_in(&file);
    let first = in_ms(1_500);
    guard.lease(in_ms(HOUR), first);
    guard.hears(&["watching"]);
    guard.lease(in_ms(HOUR), in_ms(HOUR));
    guard.hears(&["watching"]);
    assert!(!reached(first), "the machine is too slow for this test");
    eventually("the first lease has ended", || reached(first));
    guard.lease(in_ms(HOUR), in_ms(HOUR));
    guard.hears(&["watching"]);
    assert!(runs(guard.command));
}

#[test]
fn the_wall_clock_can_end_a_lease() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let mut guard = Guard::over(STUBBORN, &file);
    number_in(&file);
    let mut by_wall = in_ms(HOUR);
    by_wall.wall = now().wall;
    guard.lease(in_ms(HOUR), by_wall);
    guard.hears(&["killed", "watching", "ended 9", "gone"]);
}

#[test]
fn each_risk_sends_one_sigterm() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("log");
    let mut guard = Guard::over(COUNTING, &file);
    eventually("the trap is set", || lines(&file) == ["ready"]);
    guard.lease(in_ms(0), in_ms(HOUR));
    guard.hears(&["terminated", "watching"]);
    eventually("the shell received the signal", || lines(&file) == ["ready", "term"]);
    // The lease is still at risk, so the guard sends no second SIGTERM.
    guard.lease(now(), in_ms(HOUR));
    guard.hears(&["watching"]);
    // Renew the lease, and then put it at risk again.
    guard.lease(in_ms(HOUR), in_ms(HOUR));
    guard.hears(&["watching"]);
    guard.lease(now(), in_ms(HOUR));
    guard.hears(&["terminated", "watching"]);
    eventually("the shell received the signal", || lines(&file) == ["ready", "term", "term"]);
}

#[test]
fn a_stopped_process_group_gets_sigcont_so_that_it_can_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("log");
    let mut guard = Guard::over(COUNTING, &file);
    eventually("the trap is set", || lines(&file) == ["ready"]);
    let command = guard.command;
    bench::signal(command, Signal::SIGSTOP);
    eventually("the shell is stopped", || state(command) == Some('T'));
    guard.lease(in_ms(0), in_ms(HOUR));
    eventually("the shell received the signal", || lines(&file) == ["ready", "term"]);
}

#[test]
fn regression_cmd_keeps_its_grace_if_tenure_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("log");
    let mut guard = Guard::over(COUNTING, &file);
    eventually("the trap is set", || lines(&file) == ["ready"]);
    // The lease lasts for another hour, and its last two seconds are the grace.
    guard.lease(in_ms(HOUR - 2_000), in_ms(HOUR));
    guard.hears(&["watching"]);
    let killed = in_ms(2_000);
    guard.hang_up();
    eventually("the shell received SIGTERM", || lines(&file) == ["ready", "term"]);
    assert!(runs(guard.command), "killed without its grace");
    let command = guard.command;
    eventually("the shell is dead", || !runs(command));
    assert!(reached(killed), "killed before the end of the grace");
    let said = guard.says();
    for words in ["tenure has died", "SIGTERM", "SIGKILL", "all processes of CMD have ended"] {
        assert!(said.contains(words), "{words:?} is missing in {said}");
    }
}

#[test]
fn if_tenure_ends_the_process_group_ends_with_the_lease() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let mut guard = Guard::over(STUBBORN, &file);
    let child = number_in(&file);
    // The lease is at risk, and the grace of CMD has begun, before `tenure` ends.
    guard.lease(now(), in_ms(500));
    guard.hears(&["terminated", "watching"]);
    guard.hang_up();
    eventually("all processes are dead", || !runs(child));
    let said = guard.says();
    assert!(said.contains("killed (SIGKILL)"), "{said}");
}

/// Before the fix, the guard checked the deadline only after it had executed all pending orders,
/// and it scanned /proc for each order. With 2,000 orders to send a signal, CMD ran for seconds
/// after the end of the lease.
#[test]
fn regression_many_orders_do_not_delay_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let script = format!("trap '' HUP; {STUBBORN}");
    let mut guard = Guard::over(&script, &file);
    let child = number_in(&file);
    let kill_at = in_ms(200);
    guard.lease(now(), kill_at);
    guard.hears(&["terminated", "watching"]);
    // The guard needs at least 20 s for all these orders. So it must check the deadline between the
    // orders.
    for _ in 0..20_000 {
        // On a loaded machine, the guard may end before it has received all orders.
        if !guard.send_if_alive("signal SIGHUP") {
            break;
        }
    }
    guard.hang_up();
    eventually("all processes are dead", || !runs(child) && !runs(guard.command));
    let mut late = in_ms(HOUR);
    late.boot = kill_at.boot + Duration::from_secs(10);
    assert!(reached(kill_at) && !reached(late), "killed late");
}

#[test]
fn a_malformed_line_is_treated_as_the_end_of_tenure() {
    let dir = tempfile::tempdir().expect("a directory");
    for line in ["lease 1 2 3", "watch 1 2 3 4", "start", "\u{0}"] {
        let file = dir.path().join("pid");
        let _ = fs::remove_file(&file);
        let mut guard = Guard::over(STUBBORN, &file);
        number_in(&file);
        guard.tell(line);
        // In this lease, the deadlines for SIGTERM and SIGKILL are equal, so the guard kills CMD
        // without SIGTERM.
        guard.hears(&["killed", "ended 9", "gone"]);
        guard.leaves();
    }
}

#[test]
fn the_command_does_not_run_without_the_order_to_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("ran");
    for watch in [false, true] {
        let mut guard = Guard::waiting("__guard", &["sh", "-c", r#"echo > "$0""#], &file);
        if watch {
            guard.tell(&format!("watch {}", bench::deadlines(in_ms(HOUR), in_ms(HOUR))));
            guard.hears(&["watching"]);
        }
        guard.hang_up();
        guard.leaves();
        assert!(!file.exists());
    }
}

#[test]
fn signals_do_not_reach_the_guard() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let mut guard = Guard::over(STUBBORN, &file);
    number_in(&file);
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        guard.signal(signal);
    }
    guard.lease(in_ms(HOUR), in_ms(HOUR));
    guard.hears(&["watching"]);
    assert!(runs(guard.command));
}

#[test]
fn regression_killed_is_reported_only_for_living_processes() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    // The file exists only after the script has started `sleep`. If `sleep` started after the
    // SIGTERM, it would not get the signal, so the test waits for the file.
    let mut guard = Guard::over(r#"trap 'exit 5' TERM; sleep 1000 & echo $$ > "$1"; wait"#, &file);
    number_in(&file);
    guard.lease(now(), in_ms(HOUR));
    // 1280 is the wait status of exit(5).
    guard.hears(&["terminated", "watching", "ended 1280", "gone"]);
    guard.leaves();
}

#[test]
fn a_real_time_signal_is_reported_as_a_status() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut guard = Guard::over("kill -34 $$; sleep 1000", dir.path());
    guard.hears(&["ended 34", "gone"]);
}

/// Before the fix, descendants survived if they had left the process group of CMD. They leave it in
/// three ways: a new process group, a new session, and a double fork.
#[test]
fn regression_descendants_that_leave_the_process_group_are_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let stubborn = ESCAPING.replace("ON_TERM", "");
    let mut guard = Guard::over(&stubborn, dir.path());
    let escaped = escaped(dir.path());
    guard.lease(now(), in_ms(300));
    // CMD ends at SIGTERM, but the group ends only after the other processes have ended.
    guard.hears(&["terminated", "watching", "ended 15", "killed", "gone"]);
    assert!(!escaped.iter().any(|one| runs(*one)), "{escaped:?}");
    guard.leaves();
}

#[test]
fn regression_descendants_that_leave_the_process_group_get_sigterm() {
    let dir = tempfile::tempdir().expect("a directory");
    let polite = ESCAPING.replace("ON_TERM", POLITE);
    let mut guard = Guard::over(&polite, dir.path());
    let escaped = escaped(dir.path());
    guard.lease(now(), in_ms(HOUR));
    guard.hears(&["terminated", "watching", "ended 15", "gone"]);
    assert!(!escaped.iter().any(|one| runs(*one)), "{escaped:?}");
    for name in bench::ESCAPES {
        assert!(dir.path().join(format!("{name}.term")).exists(), "{name}");
    }
}

/// A supervisor terminates its children itself, in an order that the supervisor chooses. So the
/// guard sends SIGTERM to the supervisor, and not to the supervisor's child outside of the process
/// group.
#[test]
fn a_child_outside_of_the_process_group_is_terminated_by_its_parent() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = r#"trap 'sleep 0.5; kill -USR1 $(cat "$1"); wait; exit 0' TERM
        setsid sh -c 'trap "exit 3" TERM; trap "exit 0" USR1
            echo $$ > "$0"; while :; do sleep 0.02; done; ' "$1" &
        wait $!; echo $? > "$1.code"; wait $!; echo $? > "$1.code""#;
    let file = dir.path().join("pid");
    let mut guard = Guard::over(script, &file);
    number_in(&file);
    guard.lease(now(), in_ms(HOUR));
    guard.hears(&["terminated", "watching", "ended 0", "gone"]);
    assert!(
        !dir.path().join("pid.code").exists(),
        "the child ended before its parent signalled it"
    );
}

#[test]
fn descendants_that_cmd_left_behind_get_sigterm_on_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let polite = ESCAPING.replace("ON_TERM", POLITE);
    let mut guard = Guard::over(&polite.replace("wait", "exit 4"), dir.path());
    let escaped = escaped(dir.path());
    guard.hears(&["ended 1024"]);
    assert!(escaped.iter().all(|one| runs(*one)), "{escaped:?}");
    guard.tell("end-rest");
    guard.hears(&["gone"]);
    assert!(dir.path().join("daemon.term").exists());
}

/// Each process of CMD forks the next process and ends, so a list of all processes is soon
/// outdated.
#[test]
fn a_process_that_forks_and_ends_repeatedly_is_caught() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let script = r#"f=$1; next() { ( [ -s "$f" ] || echo $$ > "$f"; next ) & exit; }; next"#;
    let mut guard = Guard::over(script, &file);
    number_in(&file);
    guard.hears(&["ended 0"]);
    guard.lease(now(), now());
    // One scan of /proc may miss the newest process, so the guard repeats its scan.
    let heard = guard.hears_until("gone");
    assert!(heard.contains(&"killed".to_owned()), "{heard:?}");
    guard.leaves();
}

#[test]
fn regression_the_standby_kills_all_after_the_death_of_the_guard() {
    let dir = tempfile::tempdir().expect("a directory");
    let stubborn = ESCAPING.replace("ON_TERM", "");
    let mut standby = Guard::of("__standby", &stubborn, dir.path());
    let escaped = escaped(dir.path());
    let guard = guard_of(standby.id()).expect("the command runs");
    bench::signal(guard, Signal::SIGKILL);
    standby.leaves();
    assert!(!runs(standby.command));
    assert!(!escaped.iter().any(|one| runs(*one)), "{escaped:?}");
    let said = standby.says();
    assert!(said.contains("the guard has died"), "{said}");
}

#[test]
fn regression_the_command_dies_with_guard_and_standby() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let standby = Guard::of("__standby", STUBBORN, &file);
    number_in(&file);
    let guard = guard_of(standby.id()).expect("the command runs");
    kill_at_once([guard, standby.id()]);
    eventually("the command is dead", || !runs(standby.command));
    bench::signal(number_in(&file), Signal::SIGKILL);
}
