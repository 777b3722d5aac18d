//! `tenure watch --exec`: a command for each change of the leader, one at a time.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::warn;

use super::Change;
use crate::print::{json_line, plain};
use crate::timer::pause;

#[derive(Debug, clap::Args)]
pub struct ExecArg {
    /// Run `sh -c CMD` for the leader that is found first and for each change, with TENURE_STATE,
    /// TENURE_EPOCH, TENURE_CANDIDATE and TENURE_DATA, and the object of --json on stdin
    #[arg(long, value_name = "CMD", value_parser = command)]
    pub exec: Option<String>,
}

fn command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("a command has at least one word".to_owned());
    }
    Ok(text.to_owned())
}

/// Between SIGTERM and SIGKILL when `watch` ends.
const GRACE: Duration = Duration::from_secs(10);
/// How often it is looked whether the group has ended.
const LOOK: Duration = Duration::from_millis(20);
/// A longer value is left out of the environment: Linux starts nothing with one of 128 KiB.
const LONGEST_VALUE_BYTES: usize = 100_000;

impl ExecArg {
    pub fn start(self) -> Option<Exec> {
        let (changes, new_changes) = watch::channel(None);
        let run = |command| tokio::spawn(run_all(command, new_changes));
        self.exec.map(|command| Exec { changes, running: run(command) })
    }
}

/// Runs CMD for the newest change. Those that come while CMD runs are left out, but for the last.
#[derive(Debug)]
pub struct Exec {
    changes: watch::Sender<Option<Change>>,
    running: JoinHandle<()>,
}

impl Exec {
    pub fn handle(&self, change: &Change) {
        self.changes.send_replace(Some(change.clone()));
    }

    /// Starts CMD no more, ends the one that runs, and waits for its end.
    pub async fn end(self) {
        drop(self.changes);
        // An error is a panic, which has been reported.
        let _ = self.running.await;
    }
}

async fn run_all(command: String, mut changes: watch::Receiver<Option<Change>>) {
    // The second is an error once `watch` ends, also where a change is left.
    while changes.changed().await.is_ok() && changes.has_changed().is_ok() {
        let Some(change) = changes.borrow_and_update().clone() else { continue };
        let what = change.epoch.map_or(change.state.to_owned(), |epoch| format!("epoch {epoch}"));
        match run(&command, &change, &changes).await {
            Ok(None) => return,
            Ok(Some(status)) if status.success() => {}
            Ok(Some(status)) => {
                warn!(outcome = "exec_failed", "CMD of --exec failed ({what}): {status}");
            }
            Err(error) => {
                warn!(outcome = "exec_failed", "CMD of --exec did not run ({what}): {error}");
            }
        }
    }
}

/// How CMD ended; nothing if it was ended as `watch` ends.
async fn run(
    command: &str,
    change: &Change,
    changes: &watch::Receiver<Option<Change>>,
) -> io::Result<Option<ExitStatus>> {
    let mut child = start(command, change)?;
    let mut stdin = child.stdin.take().expect("it is piped");
    let mut line = json_line(change);
    line.push('\n');
    let tell = async move {
        // CMD need not read it.
        drop(stdin.write_all(line.as_bytes()).await);
        drop(stdin);
        std::future::pending().await
    };
    let ended = tokio::select! {
        ended = child.wait() => Some(ended),
        () = over(changes) => None,
        () = tell => None,
    };
    match ended {
        Some(ended) => ended.map(Some),
        None => end(child).await.map(|()| None),
    }
}

fn start(command: &str, change: &Change) -> io::Result<Child> {
    let data = if change.data.is_null() { String::new() } else { json_line(&change.data) };
    let environment = [
        ("TENURE_STATE", change.state.to_owned()),
        ("TENURE_EPOCH", change.epoch.map(|epoch| epoch.to_string()).unwrap_or_default()),
        ("TENURE_CANDIDATE", change.candidate.as_deref().map(plain).unwrap_or_default()),
        ("TENURE_DATA", data),
    ];
    let mut sh = Command::new("sh");
    sh.args(["-c", command]).stdin(Stdio::piped()).kill_on_drop(true);
    for (name, value) in environment {
        // Also where it is too long, so that CMD never sees one of another origin.
        sh.env(name, if value.len() > LONGEST_VALUE_BYTES { "" } else { value.as_str() });
    }
    // A group of its own, to end all of it.
    sh.process_group(0).spawn()
}

/// Returns when `watch` ends.
async fn over(changes: &watch::Receiver<Option<Change>>) {
    let mut changes = changes.clone();
    while changes.changed().await.is_ok() {}
}

async fn end(mut child: Child) -> io::Result<()> {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    // An error says that there is nothing left to signal.
    let signal = |signal| group.map(|group| killpg(group, signal));
    signal(Signal::SIGTERM);
    let all_ended = async {
        let ended = child.wait().await;
        // What CMD has started may outlive it. Its number is nobody else's while the group exists.
        while let Some(group) = group.filter(|group| killpg(*group, None).is_ok()) {
            reap(group);
            pause(LOOK).await;
        }
        ended.map(drop)
    };
    tokio::select! {
        ended = all_ended => ended,
        () = pause(GRACE) => {
            signal(Signal::SIGKILL);
            child.kill().await
        }
    }
}

/// In a container without another init, what has lost its parent is this process's child.
fn reap(group: Pid) {
    let of_the_group = Pid::from_raw(-group.as_raw());
    while let Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) =
        waitpid(of_the_group, Some(WaitPidFlag::WNOHANG))
    {}
}
