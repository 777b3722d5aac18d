//! Processes of their own, and what they print.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::Result;
use crate::place::Place;

/// Longer than any step of the example takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a process prints.
pub type Output = Lines<BufReader<ChildStdout>>;

/// Starts this program once more, as a process that does what `verb` says.
pub fn start(verb: &str, place: &Place, name: &str, options: &[&str]) -> Result<(Child, Output)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(verb).arg(place.to_string()).args(["--name", name]).args(options);
    let mut process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let stdout = process.stdout.take().ok_or("the process has no output")?;
    Ok((process, BufReader::new(stdout).lines()))
}

/// Sends it a signal.
pub fn signal(process: &Child, signal: Signal) -> Result<()> {
    let id = process.id().ok_or("the process has ended")?;
    Ok(kill(Pid::from_raw(i32::try_from(id)?), signal)?)
}

pub struct Writer {
    pub name: &'static str,
    process: Child,
    lines: Output,
    /// The keys that it has reported as acknowledged.
    pub acked: Vec<String>,
}

impl Writer {
    pub fn start(place: &Place, name: &'static str, late_write: bool) -> Result<Writer> {
        let late_write = late_write.then_some("--late-write");
        let (process, lines) = start("write", place, name, late_write.as_slice())?;
        Ok(Writer { name, process, lines, acked: Vec::new() })
    }

    /// Reads on until a line that starts so, and gives the rest of it.
    pub async fn says(&mut self, start: &str) -> Result<String> {
        let name = self.name;
        let heard = tokio::time::timeout(PATIENCE, self.hear(start)).await;
        heard.map_err(|_| format!("{name} did not say {start:?} within {PATIENCE:?}"))?
    }

    async fn hear(&mut self, start: &str) -> Result<String> {
        while let Some(line) = self.lines.next_line().await? {
            if let Some(key) = line.strip_prefix("acked ") {
                self.acked.push(key.to_owned());
            }
            if let Some(rest) = line.strip_prefix(start) {
                return Ok(rest.trim().to_owned());
            }
        }
        Err(format!("{} ended before it said {start:?}", self.name).into())
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        self::signal(&self.process, signal)
    }

    /// Asks it to end, and reads what it still has to say.
    pub async fn end(&mut self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        while let Some(line) = tokio::time::timeout(PATIENCE, self.lines.next_line()).await?? {
            if let Some(key) = line.strip_prefix("acked ") {
                self.acked.push(key.to_owned());
            }
        }
        let status = tokio::time::timeout(PATIENCE, self.process.wait()).await??;
        if status.success() { Ok(()) } else { Err(format!("{} ended: {status}", self.name).into()) }
    }
}
