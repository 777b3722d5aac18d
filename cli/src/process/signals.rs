//! The signals that ask the command to end, and which of them `run` forwards.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::exit::{self, Failure};

/// Those that `run` and `group run` forward to CMD.
pub const FORWARDED: [Signal; 4] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// The signals that end the other verbs. SIGHUP says that the terminal is gone.
pub const ENDING: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];

/// Waits for signals. From its making on they no longer end the process by themselves.
#[derive(Debug)]
pub struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Those of the given signals that were not ignored when this process was started: `nohup`, and
    /// a shell that starts a background job, ask for that.
    pub fn listen(to: &[Signal]) -> Result<Signals, Failure> {
        let ignored = ignored();
        let streams = to.iter().filter(|signal| ignored & bit(**signal) == 0).map(|signal| {
            unix::signal(SignalKind::from_raw(*signal as i32)).map(|stream| (*signal, stream))
        });
        let streams = streams
            .collect::<io::Result<_>>()
            .map_err(|error| Failure::new(exit::OS, format!("cannot handle signals: {error}")))?;
        Ok(Signals(streams))
    }

    /// The next signal. Cancel-safe.
    pub async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// The exit code of a process that a signal has ended, as a shell gives it.
pub fn exit_code(signal: Signal) -> u8 {
    u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)
}

/// The place of the signal in a mask of the kernel's.
fn bit(signal: Signal) -> u64 {
    1 << (signal as i32 - 1)
}

/// The mask of the signals that this process was started to ignore, as far as the system says.
fn ignored() -> u64 {
    // Asking the kernel directly would itself need unsafe code.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
