//! Helpers for tests that start real processes.
#![allow(dead_code, reason = "each test file uses its own part of it")]

pub mod scene;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tenure::{Clock as _, Moment, SystemClock};

/// The command under test.
pub const TENURE: &str = env!("CARGO_BIN_EXE_tenure");

/// Far longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn now() -> Moment {
    SystemClock.now()
}

pub fn later(by: Duration) -> Moment {
    now().plus(by)
}

pub fn in_ms(ms: u64) -> Moment {
    later(Duration::from_millis(ms))
}

/// Polls until the condition holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up_at = later(PATIENCE).boot;
    while !holds() {
        assert!(now().boot < give_up_at, "gave up waiting until {what}");
        pause(20);
    }
}

#[allow(clippy::disallowed_methods, reason = "polls real processes")]
pub fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// The state letter of a process, such as S or Z; nothing if there is no such process.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, a parenthesis included.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether the process can still do anything.
pub fn runs(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// The number that a process wrote into a file, once it has.
pub fn number_in(path: &Path) -> u32 {
    let mut number = None;
    eventually("a process has written its number", || {
        let text = fs::read_to_string(path).unwrap_or_default();
        number = text.strip_suffix('\n').and_then(|text| text.parse().ok());
        number.is_some()
    });
    number.expect("the poll ends once there is a number")
}

/// A shell that leads a process group of its own; killed and reaped in the end.
pub struct Victim(pub Child);

impl Victim {
    pub fn shell(script: &str, argument: &Path) -> Victim {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(argument).process_group(0);
        Victim(command.stdin(Stdio::null()).spawn().expect("a shell starts"))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(i32::try_from(self.id()).expect("a small number"));
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.0.wait();
    }
}
