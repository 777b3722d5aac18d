//! `tenure watch --exec` and `group watch --exec`: run a command for each change, one at a time.

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
    /// Run `sh -c CMD` for the first state and for each change.
    ///
    /// CMD has TENURE_STATE, TENURE_EPOCH, TENURE_CANDIDATE, TENURE_DATA and TENURE_REASON in its
    /// environment, and the JSON object of --json on stdin.
    #[arg(long, value_name = "CMD", value_parser = command)]
    pub exec: Option<String>,
}

/// Parses the value of `--exec`.
pub fn command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("the command must have at least one word".to_owned());
    }
    Ok(text.to_owned())
}

/// The time from the SIGTERM for CMD to the SIGKILL when `watch` ends.
const GRACE: Duration = Duration::from_secs(10);
/// The interval between two checks of whether the process group of CMD has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum length of a variable's value in bytes. A longer value is replaced by an empty value,
/// because Linux cannot start a process with a value of 128 KiB.
const LONGEST_VALUE_BYTES: usize = 100_000;

/// A change that `watch` has observed. It contains the environment and the standard input with
/// which CMD runs for the change.
#[derive(Debug)]
pub struct ExecChange {
    /// Number of the partition that has changed. A watch of an election always uses the same
    /// number.
    pub of: u32,
    /// Short description of the change for log lines.
    pub what: String,
    pub environment: Vec<(&'static str, String)>,
    /// JSON of the change. CMD gets it on its standard input.
    pub json: String,
}

/// Runs CMD for the newest change of each partition. An election counts as one partition. If
/// several changes of one partition arrive while CMD runs, CMD runs only for the last of these
/// changes.
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
        // The send fails only if the task that runs CMD has ended, so the error is ignored.
        let _ = self.changes.send(change);
    }

    /// Ends a running CMD and waits for its end. Does not run CMD for the changes that are still
    /// queued.
    pub async fn end(self) {
        drop(self.changes);
        // The await fails only if the task has panicked. The panic hook has already logged the
        // panic.
        let _ = self.running.await;
    }
}

/// Changes for which CMD has not run. For each partition, only the newest change is kept. In the
/// queue, a newer change takes the position of the change that it replaces.
struct Waiting {
    changes: UnboundedReceiver<ExecChange>,
    order: VecDeque<u32>,
    newest: BTreeMap<u32, ExecChange>,
}

impl Waiting {
    /// Returns the change for which CMD runs next. Returns `None` when `watch` ends, even if
    /// changes are still queued.
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

    /// Collects later changes while CMD runs, and returns when `watch` ends.
    async fn over(&mut self) {
        while let Some(change) = self.changes.recv().await {
            self.add(change);
        }
    }
}

async fn run_all(command: String, changes: UnboundedReceiver<ExecChange>) {
    let mut waiting = Waiting { changes, order: VecDeque::new(), newest: BTreeMap::new() };
    while let Some(change) = waiting.next().await {
        let subject = &change.what;
        match run(&command, &change, &mut waiting).await {
            Ok(None) => return,
            Ok(Some(status)) if status.success() => {}
            Ok(Some(status)) => {
                warn!(outcome = "exec_failed", "CMD of --exec failed ({subject}): {status}");
            }
            Err(error) => {
                warn!(outcome = "exec_failed", "CMD of --exec did not run ({subject}): {error}");
            }
        }
    }
}

/// Runs CMD for this change and returns its exit status. Returns `None` if CMD was ended because
/// `watch` ends.
async fn run(
    command: &str,
    change: &ExecChange,
    waiting: &mut Waiting,
) -> io::Result<Option<ExitStatus>> {
    let mut child = start(command, change)?;
    let mut stdin = child.stdin.take().expect("stdin of CMD is piped");
    let line = format!("{}\n", change.json);
    let write_stdin = async move {
        // The error is ignored: the write fails only if CMD does not read its stdin, and CMD need
        // not read it.
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
        // The variable is set even if its value is too long. Otherwise CMD would inherit the
        // variable of this process.
        sh.env(name, if value.len() > LONGEST_VALUE_BYTES { "" } else { value.as_str() });
    }
    // CMD gets a new process group, so that `end` can signal all processes of CMD.
    sh.process_group(0).spawn()
}

async fn end(mut child: Child) -> io::Result<()> {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    // `killpg` fails only if the process group has ended, so its errors are ignored.
    let signal = |signal| group.map(|group| killpg(group, signal));
    signal(Signal::SIGTERM);
    let all_ended = async {
        let ended = child.wait().await;
        // Other processes of the group may outlive CMD, so the loop waits for them. The system does
        // not reuse the number of the group while the group exists.
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

/// Reaps the ended children of this process in the group. If this process is the init of a
/// container, the orphans of the group are its children.
fn reap(group: Pid) {
    let of_the_group = Pid::from_raw(-group.as_raw());
    while let Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) =
        waitpid(of_the_group, Some(WaitPidFlag::WNOHANG))
    {}
}
