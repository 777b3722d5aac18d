//! The signals that ask the command to end, and the signals that `run` forwards.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::exit::{self, Failure};

/// The signals that `run` and `group run` forward to CMD.
pub const FORWARDED: [Signal; 4] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// The signals that end all verbs except `run` and `group run`. SIGHUP means that the terminal has
/// closed.
pub const ENDING: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];

/// A stream of some kinds of signals. After the creation of the stream, signals of these kinds do
/// not end the process.
#[derive(Debug)]
pub struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Listens to the given signals, except signals that were already ignored when this process
    /// started. `nohup`, and a shell for a background job, start a process with ignored signals.
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

    /// Returns the next signal that has arrived. Cancel-safe.
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

/// Returns the exit code in the convention of shells for a process that this signal ended.
pub fn exit_code(signal: Signal) -> u8 {
    u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)
}

/// Returns the bit of the signal in a signal mask of the kernel.
fn bit(signal: Signal) -> u64 {
    1 << (signal as i32 - 1)
}

/// Returns the mask of the signals that were already ignored when this process started. Without
/// /proc the mask is empty.
fn ignored() -> u64 {
    // This reads the mask from /proc, because a system call for the mask needs unsafe code.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
