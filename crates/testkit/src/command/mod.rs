//! Helpers for tests that start real processes.

pub mod scene;

use std::fs;
use std::path::Path;
use std::process::{Child, ExitStatus, Output};
use std::sync::Once;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure::{Moment, Process};
use tokio::signal::unix::{self, SignalKind};

/// Time limit of every poll. Each step of a test takes less time, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn now() -> Moment {
    Process::system().now()
}

pub fn later(by: Duration) -> Moment {
    now().plus(by)
}

pub fn in_ms(ms: u64) -> Moment {
    later(Duration::from_millis(ms))
}

/// Polls until `holds` returns true. After [`PATIENCE`], panics with the text of the condition.
pub fn eventually(condition: &str, mut holds: impl FnMut() -> bool) {
    let give_up_at = later(PATIENCE).boot;
    while !holds() {
        assert!(now().boot < give_up_at, "timeout while waiting until {condition}");
        pause(20);
    }
}

#[allow(clippy::disallowed_methods, reason = "polls real processes")]
pub fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Returns the state letter of a process, such as S or Z, or `None` if the process does not exist.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses can contain any character, even a parenthesis.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns whether the process exists and is not a zombie.
pub fn runs(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// Waits until a process has written a number into the file, and returns the number.
pub fn number_in(path: &Path) -> u32 {
    let mut number = None;
    eventually("a process has written its number", || {
        let text = fs::read_to_string(path).unwrap_or_default();
        number = text.strip_suffix('\n').and_then(|text| text.parse().ok());
        number.is_some()
    });
    number.expect("the poll ends with a number")
}

/// Runs `wait`, which must wait for the end of the process `child`. Kills the process if `wait` has
/// not returned after [`PATIENCE`].
pub fn with_deadline<T>(child: u32, wait: impl FnOnce() -> T) -> T {
    let child = Pid::from_raw(i32::try_from(child).expect("a small number"));
    let (done, is_done) = mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            eprintln!("timeout: the process {child} has not ended");
            // `wait` has not reaped the child, so its process ID is still valid.
            let _ = kill(child, Signal::SIGKILL);
        }
    });
    let outcome = wait();
    drop(done);
    watch.join().expect("the thread does not panic");
    outcome
}

/// Waits for the end of a child, and returns its output.
pub fn output(child: Child) -> Output {
    with_deadline(child.id(), || child.wait_with_output()).expect("this process started the child")
}

/// Waits for the end of a child, and returns its status.
pub fn ended(child: &mut Child) -> ExitStatus {
    with_deadline(child.id(), || child.wait()).expect("this process started the child")
}

/// Sets the default disposition of the termination signals for all later children. A shell makes
/// its background jobs ignore SIGINT and SIGQUIT, and `nohup` ignores SIGHUP. A child inherits an
/// ignored signal, but not a handler. So this function installs a handler for each ignored signal.
pub fn default_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let _inside = runtime.enter();
        for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
            if mask & (1 << (signal as i32 - 1)) != 0 {
                // The handler remains after its stream is dropped.
                drop(unix::signal(SignalKind::from_raw(signal as i32)).expect("a handler"));
            }
        }
    });
}
