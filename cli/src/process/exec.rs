//! `tenure watch --exec` and `group watch --exec`: a command for each change, one at a time.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tracing::warn;

use super::timer::pause;

#[derive(Debug, clap::Args)]
pub struct ExecArg {
    /// Run `sh -c CMD` for the leader that is found first and for each change, with TENURE_STATE,
    /// TENURE_EPOCH, TENURE_CANDIDATE, TENURE_DATA and TENURE_REASON, and the object of --json on
    /// stdin
    #[arg(long, value_name = "CMD", value_parser = command)]
    pub exec: Option<String>,
}

/// A command, as an argument.
pub fn command(text: &str) -> Result<String, String> {
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

/// A change, as CMD gets it.
#[derive(Debug)]
pub struct ExecChange {
    /// What has changed, if a watch follows several.
    pub of: u32,
    /// For the log.
    pub what: String,
    pub environment: Vec<(&'static str, String)>,
    /// For stdin.
    pub json: String,
}

/// Runs CMD for the newest change of each. Those that come while CMD runs are left out, but for the
/// last.
#[derive(Debug)]
pub struct Exec {
    changes: UnboundedSender<ExecChange>,
    running: JoinHandle<()>,
}

impl Exec {
    pub fn start(command: Option<String>) -> Option<Exec> {
        let (changes, new_changes) = unbounded_channel();
        let run = |command| tokio::spawn(run_all(command, new_changes));
        command.map(|command| Exec { changes, running: run(command) })
    }

    pub fn handle(&self, change: ExecChange) {
        // An error is a panic of the task, which is reported at the end.
        let _ = self.changes.send(change);
    }

    /// Starts CMD no more, ends the one that runs, and waits for its end.
    pub async fn end(self) {
        drop(self.changes);
        // An error is a panic, which has been reported.
        let _ = self.running.await;
    }
}

/// Changes that wait for CMD: the newest of each, in the order in which the first of each came.
struct Waiting {
    changes: UnboundedReceiver<ExecChange>,
    order: VecDeque<u32>,
    newest: BTreeMap<u32, ExecChange>,
}

impl Waiting {
    /// The next for CMD; `None` once `watch` ends, also where some are left.
    async fn next(&mut self) -> Option<ExecChange> {
        while let Ok(change) = self.changes.try_recv() {
            self.add(change);
        }
        if self.order.is_empty() {
            let change = self.changes.recv().await?;
            self.add(change);
        }
        let of = self.order.pop_front().filter(|_| !self.changes.is_closed())?;
        self.newest.remove(&of)
    }

    fn add(&mut self, change: ExecChange) {
        let of = change.of;
        if self.newest.insert(of, change).is_none() {
            self.order.push_back(of);
        }
    }

    /// Gathers changes until `watch` ends.
    async fn over(&mut self) {
        while let Some(change) = self.changes.recv().await {
            self.add(change);
        }
    }
}

async fn run_all(command: String, changes: UnboundedReceiver<ExecChange>) {
    let mut waiting = Waiting { changes, order: VecDeque::new(), newest: BTreeMap::new() };
    while let Some(change) = waiting.next().await {
        let what = &change.what;
        match run(&command, &change, &mut waiting).await {
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
    change: &ExecChange,
    waiting: &mut Waiting,
) -> io::Result<Option<ExitStatus>> {
    let mut child = start(command, change)?;
    let mut stdin = child.stdin.take().expect("it is piped");
    let line = format!("{}\n", change.json);
    let write_stdin = async move {
        // CMD need not read it.
        drop(stdin.write_all(line.as_bytes()).await);
        drop(stdin);
        std::future::pending().await
    };
    let ended = tokio::select! {
        ended = child.wait() => Some(ended),
        () = waiting.over() => None,
        () = write_stdin => None,
    };
    match ended {
        Some(ended) => ended.map(Some),
        None => end(child).await.map(|()| None),
    }
}

fn start(command: &str, change: &ExecChange) -> io::Result<Child> {
    let mut sh = Command::new("sh");
    sh.args(["-c", command]).stdin(Stdio::piped()).kill_on_drop(true);
    for (name, value) in &change.environment {
        // Also where it is too long, so that CMD never sees one of another origin.
        sh.env(name, if value.len() > LONGEST_VALUE_BYTES { "" } else { value.as_str() });
    }
    // A group of its own, to end all of it.
    sh.process_group(0).spawn()
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
