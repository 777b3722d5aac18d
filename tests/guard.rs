//! The guard and the gate as processes, driven by hand in the place of `tenure run`.
#![cfg(all(feature = "cli", target_os = "linux"))]

mod command;

use std::fs;
use std::io::{BufRead as _, BufReader, PipeWriter, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use command::{TENURE, Victim, eventually, in_ms, now, number_in, pause, runs, state};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure::Moment;

const HOUR: u64 = 3_600_000;

struct Guard {
    child: Child,
    orders: Option<ChildStdin>,
    reports: BufReader<ChildStdout>,
}

impl Guard {
    fn start() -> Guard {
        let mut child = Command::new(TENURE)
            .arg("__guard")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the guard starts");
        let orders = child.stdin.take();
        let reports = BufReader::new(child.stdout.take().expect("it was asked for as a pipe"));
        Guard { child, orders, reports }
    }

    /// A guard that watches over this group already.
    fn over(victim: &Victim, term_at: Moment, kill_at: Moment) -> Guard {
        let mut guard = Guard::start();
        guard.tell(&format!("watch {} {}", victim.id(), deadlines(term_at, kill_at)));
        guard
    }

    fn tell(&mut self, line: &str) {
        let orders = self.orders.as_mut().expect("the pipe is open");
        writeln!(orders, "{line}").expect("the guard lives");
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.reports.read_line(&mut line).expect("the guard writes text");
        line.trim_end().to_owned()
    }

    fn hang_up(&mut self) {
        self.orders = None;
    }

    fn leaves(&mut self) {
        assert!(self.child.wait().expect("it is a child").success());
    }

    fn signal(&self, signal: Signal) {
        kill(pid(self.child.id()), signal).expect("the guard lives");
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("process numbers are small"))
}

fn deadlines(term_at: Moment, kill_at: Moment) -> String {
    let [a, b] = [term_at, kill_at].map(|m| format!("{} {}", m.boot.as_nanos(), m.wall.as_nanos()));
    format!("{a} {b}")
}

fn reached(moment: Moment) -> bool {
    let now = now();
    now.boot >= moment.boot || now.wall >= moment.wall
}

/// Ignores SIGTERM, and so does its child; both are ready once the file has the child's number.
const STUBBORN: &str = r#"trap '' TERM; sleep 1000 & echo $! > "$1"; wait; sleep 1000"#;
/// Writes down each SIGTERM, and goes on.
const COUNTING: &str =
    r#"trap 'echo term >> "$1"' TERM; echo ready > "$1"; while :; do sleep 0.02; done"#;

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn the_whole_group_dies_at_kill_at_and_not_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let victim = Victim::shell(STUBBORN, &file);
    let child = number_in(&file);
    let kill_at = in_ms(400);
    let mut guard = Guard::over(&victim, in_ms(0), kill_at);
    // SIGTERM was due when the guard looked first, so before it answered.
    assert_eq!(guard.hear(), "terminated");
    assert_eq!(guard.hear(), "watching");
    assert_eq!(guard.hear(), "killed");
    assert!(reached(kill_at), "killed while the lease was valid");
    // Nobody reaps the shell yet, as if `tenure` were stopped.
    eventually("the shell is a zombie", || state(victim.id()) == Some('Z'));
    eventually("its child is dead", || !runs(child));
    guard.tell("done");
    guard.leaves();
}

#[test]
fn it_waits_for_the_later_lease() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let victim = Victim::shell(STUBBORN, &file);
    number_in(&file);
    let first = in_ms(1_500);
    let mut guard = Guard::over(&victim, in_ms(HOUR), first);
    assert_eq!(guard.hear(), "watching");
    guard.tell(&format!("lease {}", deadlines(in_ms(HOUR), in_ms(HOUR))));
    assert_eq!(guard.hear(), "watching");
    assert!(!reached(first), "the machine is too slow for this test");
    eventually("the first lease has ended", || reached(first));
    guard.tell("ping");
    assert_eq!(guard.hear(), "pong");
    assert!(runs(victim.id()));
}

#[test]
fn the_wall_clock_alone_ends_a_lease() {
    let dir = tempfile::tempdir().expect("a directory");
    let victim = Victim::shell(STUBBORN, &dir.path().join("pid"));
    let by_wall = Moment { wall: now().wall, ..in_ms(HOUR) };
    let mut guard = Guard::over(&victim, in_ms(HOUR), by_wall);
    assert_eq!(guard.hear(), "killed");
    eventually("the shell is dead", || !runs(victim.id()));
}

#[test]
fn each_risk_terminates_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("log");
    let victim = Victim::shell(COUNTING, &file);
    eventually("the trap is set", || lines(&file) == ["ready"]);
    let mut guard = Guard::over(&victim, in_ms(0), in_ms(HOUR));
    assert_eq!(guard.hear(), "terminated");
    assert_eq!(guard.hear(), "watching");
    eventually("the shell saw it", || lines(&file) == ["ready", "term"]);
    // Still at risk: it was told already.
    guard.tell(&format!("lease {}", deadlines(now(), in_ms(HOUR))));
    assert_eq!(guard.hear(), "watching");
    // Renewed, then at risk again.
    guard.tell(&format!("lease {}", deadlines(in_ms(HOUR), in_ms(HOUR))));
    assert_eq!(guard.hear(), "watching");
    guard.tell(&format!("lease {}", deadlines(now(), in_ms(HOUR))));
    assert_eq!(guard.hear(), "terminated");
    assert_eq!(guard.hear(), "watching");
    eventually("the shell saw it", || lines(&file) == ["ready", "term", "term"]);
}

#[test]
fn a_stopped_group_is_woken_to_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("log");
    let victim = Victim::shell(COUNTING, &file);
    eventually("the trap is set", || lines(&file) == ["ready"]);
    kill(pid(victim.id()), Signal::SIGSTOP).expect("the shell lives");
    eventually("the shell is stopped", || state(victim.id()) == Some('T'));
    let _guard = Guard::over(&victim, in_ms(0), in_ms(HOUR));
    eventually("the shell saw it", || lines(&file) == ["ready", "term"]);
}

#[test]
fn the_end_of_tenure_kills_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let mut victim = Victim::shell(STUBBORN, &file);
    let child = number_in(&file);
    let mut guard = Guard::over(&victim, in_ms(HOUR), in_ms(HOUR));
    assert_eq!(guard.hear(), "watching");
    guard.hang_up();
    assert_eq!(victim.0.wait().expect("it is a child").signal(), Some(Signal::SIGKILL as i32));
    eventually("its child is dead", || !runs(child));
    guard.leaves();
}

#[test]
fn a_line_that_makes_no_sense_kills() {
    let dir = tempfile::tempdir().expect("a directory");
    for line in ["lease 1 2 3", "watch 4711 1 2 3 4", "\u{0}"] {
        let mut victim = Victim::shell(STUBBORN, &dir.path().join("pid"));
        let mut guard = Guard::over(&victim, in_ms(HOUR), in_ms(HOUR));
        assert_eq!(guard.hear(), "watching");
        guard.tell(line);
        assert_eq!(victim.0.wait().expect("it is a child").signal(), Some(9), "{line:?}");
        guard.leaves();
    }
}

#[test]
fn a_guard_that_was_told_to_leave_leaves_the_group_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let victim = Victim::shell(STUBBORN, &file);
    let child = number_in(&file);
    let mut guard = Guard::over(&victim, in_ms(HOUR), in_ms(HOUR));
    assert_eq!(guard.hear(), "watching");
    guard.tell("done");
    guard.leaves();
    assert!(runs(victim.id()) && runs(child));
}

#[test]
fn a_guard_without_a_group_leaves_with_tenure() {
    let mut guard = Guard::start();
    guard.hang_up();
    guard.leaves();
}

#[test]
fn signals_do_not_reach_the_guard() {
    let dir = tempfile::tempdir().expect("a directory");
    let victim = Victim::shell(STUBBORN, &dir.path().join("pid"));
    let mut guard = Guard::over(&victim, in_ms(HOUR), in_ms(HOUR));
    assert_eq!(guard.hear(), "watching");
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        guard.signal(signal);
    }
    guard.tell("ping");
    assert_eq!(guard.hear(), "pong");
    assert!(runs(victim.id()));
}

#[test]
fn a_group_that_is_gone_is_never_signalled_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut victim = Victim::shell("exit 0", dir.path());
    victim.0.wait().expect("it is a child");
    let mut guard = Guard::over(&victim, in_ms(0), in_ms(0));
    // No `killed` comes before it.
    assert_eq!(guard.hear(), "watching");
    guard.tell("done");
    guard.leaves();
}

/// A gate that waits; `sh` script and argument are CMD.
fn gate(script: &str, argument: &Path) -> (Child, PipeWriter, String) {
    gate_for(&["sh", "-c", script, "sh", argument.to_str().expect("it is UTF-8")])
}

/// The gate, what opens it, and what a link to its pipe looks like in /proc.
fn gate_for(command: &[&str]) -> (Child, PipeWriter, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let link =
        fs::read_link(format!("/proc/self/fd/{}", reader.as_raw_fd())).expect("an open file");
    fcntl(&reader, FcntlArg::F_SETFD(FdFlag::empty())).expect("an open file");
    let child = Command::new(TENURE)
        .args(["__gate", "--fd", &reader.as_raw_fd().to_string(), "--"])
        .args(command)
        .stderr(Stdio::null())
        .spawn()
        .expect("the gate starts");
    (child, writer, link.to_string_lossy().into_owned())
}

fn open(mut gate: PipeWriter) {
    gate.write_all(b"g").expect("the gate waits");
}

#[test]
fn without_go_the_command_does_not_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("ran");
    let (mut child, go, _) = gate(r#"echo > "$1""#, &file);
    drop(go);
    assert_eq!(child.wait().expect("it is a child").code(), Some(126));
    assert!(!file.exists());
}

#[test]
fn the_gate_waits_for_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let (mut child, go, _) = gate(r#"echo $$ > "$1"; exit 7"#, &file);
    // Long enough for a gate that does not wait to show itself, most of the time.
    pause(300);
    assert!(!file.exists());
    open(go);
    assert_eq!(child.wait().expect("it is a child").code(), Some(7));
    assert_eq!(number_in(&file), child.id(), "CMD has another number than the gate");
}

#[test]
fn the_command_inherits_no_pipe_of_ours() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let (mut child, go, link) = gate(r#"echo $$ > "$1"; exec sleep 1000"#, &file);
    open(go);
    let cmd = number_in(&file);
    let open_files = fs::read_dir(format!("/proc/{cmd}/fd")).expect("the command runs");
    for open_file in open_files.flatten() {
        let target = fs::read_link(open_file.path()).unwrap_or_default();
        assert_ne!(target.to_string_lossy(), link, "inherited as {:?}", open_file.file_name());
    }
    child.kill().expect("it is a child");
    child.wait().expect("it is a child");
}

#[test]
fn a_command_that_cannot_be_executed_gives_the_codes_of_a_shell() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("not-executable");
    fs::write(&file, "x").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let file = file.to_str().expect("it is UTF-8");
    for (command, code) in [("tenure-no-such-command", 127), ("/no/such/file", 127), (file, 126)] {
        let (mut child, go, _) = gate_for(&[command]);
        open(go);
        assert_eq!(child.wait().expect("it is a child").code(), Some(code), "{command}");
    }
}
