//! Candidates as processes, and what is done to them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::child::{self, now_ns};
use crate::place::Place;

const TENURE: &str = env!("CARGO_BIN_EXE_tenure");

/// What a candidate may end with: its child's codes, those of signals, a lost lease. Anything else,
/// an unsafe store above all, is a finding.
const EXPECTED: [i32; 6] = [0, child::FENCED, 75, 137, 143, 69];

pub struct Troop {
    candidates: Vec<Candidate>,
    folder: PathBuf,
    validity: Duration,
    /// Epochs whose guard was stopped together with what it guards, as on a machine that is paused
    /// as a whole. Their children can outlive the lease; only the epoch protects then.
    pub paused: Vec<u64>,
    pub unexpected: Vec<String>,
}

struct Candidate {
    name: String,
    process: Option<Child>,
    /// When to start it again, or to let go on what was stopped, in the order of the list.
    again_at_ns: u64,
    stopped: Vec<(u64, Pid)>,
}

/// A child by its log's name.
#[derive(Clone, Debug)]
pub struct ChildOf {
    pub epoch: u64,
    pub pid: Pid,
    pub name: String,
    pub log: PathBuf,
}

impl Troop {
    pub fn start(count: usize, folder: &Path, place: &Place, validity: Duration) -> Troop {
        let candidate = |number| Candidate {
            name: format!("c{number}"),
            process: None,
            again_at_ns: 0,
            stopped: Vec::new(),
        };
        let mut troop = Troop {
            candidates: (0..count).map(candidate).collect(),
            folder: folder.to_owned(),
            validity,
            paused: Vec::new(),
            unexpected: Vec::new(),
        };
        troop.tend(place);
        troop
    }

    /// Starts who has ended, and lets go on who was stopped, when their time has come.
    pub fn tend(&mut self, place: &Place) {
        for number in 0..self.candidates.len() {
            let candidate = &mut self.candidates[number];
            candidate.stopped.retain(|(until_ns, pid)| {
                let stays = *until_ns > now_ns();
                if !stays {
                    let _ = kill(*pid, Signal::SIGCONT);
                }
                stays
            });
            if let Some(process) = &mut candidate.process {
                let Some(status) = process.try_wait().expect("a child can be waited for") else {
                    continue;
                };
                candidate.process = None;
                if status.code().is_some_and(|code| !EXPECTED.contains(&code)) {
                    self.unexpected.push(format!("{} ended with {status}", candidate.name));
                }
            } else if candidate.again_at_ns <= now_ns() {
                self.spawn(number, place);
            }
        }
    }

    fn spawn(&mut self, number: usize, place: &Place) {
        let candidate = &mut self.candidates[number];
        let log = self.folder.join(format!("said-{}", candidate.name));
        let log = File::options().create(true).append(true).open(log).expect("a log");
        let binary = std::env::current_exe().expect("this test has a file");
        let mut command = Command::new(TENURE);
        command
            .args(["run", "--store", &place.url(), "--name", &candidate.name, "--validity"])
            .arg(format!("{}ms", self.validity.as_millis()))
            .args(["--poll", "300ms"]);
        if number % 2 == 0 {
            command.arg("--forever");
        }
        command.arg("--").arg(binary).args(["--exact", "child", "--ignored", "--nocapture"]);
        command.envs(place.env(number)).env(child::FOLDER, &self.folder);
        let output = log.try_clone().expect("a file can be shared");
        command.stdin(Stdio::null()).stdout(output).stderr(log);
        candidate.process = Some(command.spawn().expect("the command starts"));
    }

    /// Does something to a candidate, most often to the leader; says what.
    pub fn harm(&mut self, rng: &mut fastrand::Rng) -> Option<String> {
        let leader = self.children().into_iter().rfind(|child| runs(child.pid));
        let of = |name: &str| self.candidates.iter().position(|one| one.name == name);
        let leading = leader.as_ref().and_then(|leader| of(&leader.name));
        let number = match leading {
            Some(leading) if rng.u8(..) < 180 => leading,
            _ => rng.usize(..self.candidates.len()),
        };
        let leader = leader.filter(|_| leading == Some(number));
        let candidate = &mut self.candidates[number];
        let pid = pid(candidate.process.as_ref()?.id());
        if !candidate.stopped.is_empty() {
            return None;
        }
        candidate.again_at_ns = now_ns() + rng.u64(0..2_000_000_000);
        let validity_ns = u64::try_from(self.validity.as_nanos()).expect("a short lease");
        let until_ns = now_ns() + rng.u64(validity_ns / 8..validity_ns * 2);
        let name = candidate.name.clone();
        match (rng.u8(0..8), leader) {
            (0 | 1, _) => {
                let _ = kill(pid, Signal::SIGKILL);
                Some(format!("SIGKILL to {name}"))
            }
            (2, _) => {
                let _ = kill(pid, Signal::SIGTERM);
                Some(format!("SIGTERM to {name}"))
            }
            (3, Some(leader)) => {
                let _ = kill(leader.pid, Signal::SIGKILL);
                Some(format!("SIGKILL to the child of {name}"))
            }
            (4, Some(leader)) => {
                candidate.stop(leader.pid, until_ns);
                Some(format!("SIGSTOP to the child of {name}"))
            }
            (5 | 6, Some(leader)) => {
                // The guard first, and last to go on, so that the child has a moment of its own.
                let guard = guard_of(pid)?;
                self.paused.push(leader.epoch);
                let until_ns = now_ns() + rng.u64(validity_ns..validity_ns * 2);
                candidate.stop(guard, until_ns + 300_000_000);
                candidate.stop(pid, until_ns + 300_000_000);
                candidate.stop(leader.pid, until_ns);
                Some(format!("{name}, its guard and its child are paused"))
            }
            _ => {
                candidate.stop(pid, until_ns);
                Some(format!("SIGSTOP to {name}"))
            }
        }
    }

    /// Lets everybody go on.
    pub fn calm(&mut self) {
        for candidate in &mut self.candidates {
            candidate.stopped.iter_mut().for_each(|(until_ns, _)| *until_ns = 0);
            candidate.again_at_ns = 0;
        }
    }

    /// Whether all have ended, having been told to.
    pub fn ended(&mut self) -> bool {
        let mut ended = true;
        for candidate in &mut self.candidates {
            let Some(process) = &mut candidate.process else { continue };
            if process.try_wait().expect("a child can be waited for").is_none() {
                let _ = kill(pid(process.id()), Signal::SIGTERM);
                ended = false;
            }
        }
        ended
    }

    /// All children there ever were, by epoch.
    pub fn children(&self) -> Vec<ChildOf> {
        let mut children = Vec::new();
        for file in std::fs::read_dir(&self.folder).expect("the folder is there") {
            let log = file.expect("a file").path();
            let name = log.file_name().and_then(|name| name.to_str()).expect("our own names");
            let parts: Vec<_> = name.split('-').collect();
            if let ["child", epoch, number, name] = parts[..] {
                children.push(ChildOf {
                    epoch: epoch.parse().expect("our own names"),
                    pid: pid(number.parse().expect("our own names")),
                    name: name.to_owned(),
                    log: log.clone(),
                });
            }
        }
        children.sort_by_key(|child| child.epoch);
        children
    }
}

impl Candidate {
    fn stop(&mut self, pid: Pid, until_ns: u64) {
        let _ = kill(pid, Signal::SIGSTOP);
        self.stopped.push((until_ns, pid));
    }
}

impl Drop for Troop {
    fn drop(&mut self) {
        self.calm();
        for candidate in &mut self.candidates {
            for (_, pid) in candidate.stopped.drain(..) {
                let _ = kill(pid, Signal::SIGCONT);
            }
            if let Some(mut process) = candidate.process.take() {
                // Its guard kills the child.
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

/// Whether this process of ours can still do anything, now or once it is let go on.
pub fn runs(pid: Pid) -> bool {
    let file = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
    let Ok(stat) = file("stat") else { return false };
    // The name in parentheses may hold anything, a parenthesis included.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    // The number may belong to another process by now.
    let ours = file("cmdline").is_ok_and(|line| line.contains("\0child\0"));
    ours && !matches!(state, None | Some('Z' | 'X'))
}

fn guard_of(tenure: Pid) -> Option<Pid> {
    let children = std::fs::read_to_string(format!("/proc/{tenure}/task/{tenure}/children"));
    let others = std::fs::read_dir(format!("/proc/{tenure}/task"))
        .ok()?
        .flatten()
        .map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let all = others.fold(children.unwrap_or_default(), |all, one| all + " " + &one);
    let guard = all.split_whitespace().find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.contains("__guard"))
    });
    guard.map(|guard| pid(guard.parse().expect("a number")))
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("numbers of processes are small"))
}
