//! Candidates and a compactor as processes, and the faults of these processes.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure_testkit::command::scene::{self, guard_of, standbys};

use crate::backend::Backend;
use crate::child::{self, Line, now_ns};
use crate::clocks::Clocks;
use crate::lines;
use crate::process::{Process, TENURE, code, compacted, compactor};
use crate::watch::Seen;

/// The exit codes that all processes may have: success, two signals, a store that does not answer,
/// and a lost lease. Any other code fails the test, for example the code for an unsafe store.
const EXPECTED: [i32; 5] = [0, 128 + 9, 128 + 15, 69, 75];
/// A service exits with this code if its child fails, regardless of the child's exit code.
const OF_SERVICES: i32 = 1;
/// The exit codes of candidates that are not services: the code of the child, or 71. The code is 71
/// if the guard was suspended (SIGSTOP) when the lease ended, and killed itself after its pause.
const OF_OTHERS: [i32; 2] = [child::FENCED, 71];

/// Returns whether this candidate is a service. Other candidates exit when their leases end, and
/// the test starts them again.
fn is_service(number: usize) -> bool {
    number.is_multiple_of(2)
}

/// The command of the candidates. Three of four children ignore SIGTERM, so their guards must kill
/// them. The epoch selects how the child runs: as CMD, as a descendant of CMD in another process
/// group or session, or as an orphan in another session.
const COMMAND: &str = r#"[ $((TENURE_EPOCH % 4)) = 0 ] || trap '' TERM
case $((TENURE_EPOCH % 5)) in
0 | 1) exec "$@" ;;
2) timeout 600 "$@" & wait $! ;;
3) setsid "$@" & wait $! ;;
4)
    child=$(setsid "$@" >&2 & echo $!)
    while kill -0 "$child" 2>/dev/null; do sleep 0.05; done
    ;;
esac"#;

/// Time from the end of the child's pause to the end of its guard's pause.
const ZOMBIE_NS: u64 = 400_000_000;

pub struct Fleet {
    candidates: Vec<Process>,
    compactor: Process,
    clocks: Option<Clocks>,
    folder: PathBuf,
    validity_ns: u64,
    /// Intervals, by epoch, in which a guard was suspended (SIGSTOP) together with its child, as if
    /// the whole machine was paused. After such a pause, only fencing by the epoch protects the
    /// manifest.
    pub guards_stopped: BTreeMap<u64, Seen>,
    pub unexpected: Vec<String>,
}

/// Faults of the candidates, their guards and children, and the compactor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    KillLeader,
    TermLeader,
    StopLeader,
    KillChild,
    StopChild,
    /// Pauses the leader, its guard and its child. The test continues the child first, and the
    /// guard [`ZOMBIE_NS`] later.
    PauseLeaderGuardAndChild,
    KillFollower,
    StopFollower,
    KillCompactor,
    StepClockOfLeader,
    StepClockOfFollower,
}

impl Deed {
    pub const ALL: [Deed; 11] = [
        Deed::KillLeader,
        Deed::TermLeader,
        Deed::StopLeader,
        Deed::KillChild,
        Deed::StopChild,
        Deed::PauseLeaderGuardAndChild,
        Deed::KillFollower,
        Deed::StopFollower,
        Deed::KillCompactor,
        Deed::StepClockOfLeader,
        Deed::StepClockOfFollower,
    ];

    /// Returns all faults that need no libfaketime.
    pub fn without_clocks() -> &'static [Deed] {
        &Deed::ALL[..9]
    }
}

/// A child (the command of a leader). `name` is the name of the candidate that started the child.
#[derive(Clone, Debug)]
pub struct ChildOf {
    pub epoch: u64,
    pub pid: Pid,
    pub name: String,
    pub log: PathBuf,
}

impl Fleet {
    pub fn start(
        count: usize,
        folder: &Path,
        backend: &Backend,
        validity: Duration,
        clocks: Option<Clocks>,
    ) -> Fleet {
        let mut fleet = Fleet {
            candidates: (0..count).map(|number| Process::new(format!("c{number}"))).collect(),
            compactor: Process::new("compactor".to_owned()),
            clocks,
            folder: folder.to_owned(),
            validity_ns: u64::try_from(validity.as_nanos()).expect("a short lease"),
            guards_stopped: BTreeMap::new(),
            unexpected: Vec::new(),
        };
        fleet.tend(backend);
        fleet
    }

    /// Starts exited processes, and continues suspended processes, as soon as their pauses are
    /// over.
    pub fn tend(&mut self, backend: &Backend) {
        self.let_go_on();
        self.reap();
        for number in 0..self.candidates.len() {
            if self.candidates[number].is_due() {
                let command = self.candidate(number, backend);
                self.candidates[number].start(command, &self.folder);
            }
        }
        if self.compactor.is_due() {
            let command = compactor(backend);
            self.compactor.start(command, &self.folder);
        }
    }

    fn let_go_on(&mut self) {
        for gone_on in self.candidates.iter_mut().flat_map(Process::let_go_on) {
            let guarded = gone_on.guards.and_then(|epoch| self.guards_stopped.get_mut(&epoch));
            if let Some(seen) = guarded {
                seen.until_ns = now_ns();
            }
        }
    }

    fn reap(&mut self) {
        let processes = self.candidates.iter_mut().chain([&mut self.compactor]).enumerate();
        for (number, process) in processes {
            let expected = |code: i32| {
                let own = if is_service(number) { &[OF_SERVICES][..] } else { &OF_OTHERS };
                EXPECTED.contains(&code) || own.contains(&code)
            };
            if let Some(status) = process.reap().filter(|it| !expected(code(*it))) {
                self.unexpected.push(format!("{} ended with {status}", process.name));
            }
        }
    }

    fn candidate(&self, number: usize, backend: &Backend) -> Command {
        let binary = std::env::current_exe().expect("this test has a path");
        let mut command = Command::new(TENURE);
        command.args(["run", "--store", &backend.url(), "--poll", "300ms"]);
        command.args(["--name", &self.candidates[number].name, "--validity"]);
        command.arg(format!("{}ms", self.validity_ns / 1_000_000));
        if is_service(number) {
            command.arg("--forever");
        }
        command.args(["--", "sh", "-c", COMMAND, "sh"]);
        command.arg(binary).args(["--exact", "child", "--ignored", "--nocapture"]);
        command.envs(backend.env(number)).env(child::FOLDER, &self.folder);
        if let Some(clocks) = &self.clocks {
            clocks.give(&mut command, &self.folder, &self.candidates[number].name);
        }
        command
    }

    /// Injects the fault and returns the affected process, or `None` if the fault is not possible
    /// now.
    pub fn harm(&mut self, deed: Deed, rng: &mut fastrand::Rng) -> Option<String> {
        let again_at_ns = now_ns() + rng.u64(0..2_000_000_000);
        if deed == Deed::KillCompactor {
            self.compactor.signal(Signal::SIGKILL)?;
            self.compactor.again_at_ns = again_at_ns;
            return Some("compactor".to_owned());
        }
        let leader = self.children().into_iter().rfind(|child| runs(child.pid));
        let of_leader = |one: &Process| leader.as_ref().is_some_and(|child| child.name == one.name);
        if deed == Deed::StepClockOfLeader {
            return self.step_clock(&leader?.name, rng);
        }
        if matches!(deed, Deed::KillFollower | Deed::StopFollower | Deed::StepClockOfFollower) {
            let candidates = self.candidates.iter_mut();
            let mut followers: Vec<_> =
                candidates.filter(|one| !of_leader(one) && one.is_free()).collect();
            let follower = rng.choice(&mut followers)?;
            if deed == Deed::StepClockOfFollower {
                let name = follower.name.clone();
                return self.step_clock(&name, rng);
            }
            if deed == Deed::KillFollower {
                follower.signal(Signal::SIGKILL)?;
                follower.again_at_ns = again_at_ns;
            } else {
                let until_ns = now_ns() + rng.u64(self.validity_ns / 8..self.validity_ns * 2);
                follower.stop(follower.pid()?, until_ns, None);
            }
            return Some(follower.name.clone());
        }
        let candidate = self.candidates.iter_mut().find(|one| of_leader(one) && one.is_free())?;
        let leader = leader?;
        if !leader.lines().iter().any(|line| matches!(line, Line::Appended(..))) {
            return None;
        }
        let pid = candidate.pid()?;
        candidate.again_at_ns = again_at_ns;
        let validity_ns = self.validity_ns;
        match deed {
            Deed::KillLeader => candidate.signal(Signal::SIGKILL)?,
            Deed::TermLeader if leader.epoch.is_multiple_of(4) => {
                candidate.signal(Signal::SIGTERM)?;
            }
            // The child of this leader ignores SIGTERM, so the test also sends SIGKILL to the
            // child.
            Deed::TermLeader => {
                candidate.signal(Signal::SIGTERM)?;
                kill(leader.pid, Signal::SIGKILL).ok()?;
            }
            Deed::KillChild => kill(leader.pid, Signal::SIGKILL).ok()?,
            Deed::StopChild => {
                let until_ns = now_ns() + rng.u64(validity_ns / 8..validity_ns);
                candidate.stop(leader.pid, until_ns, None);
            }
            Deed::PauseLeaderGuardAndChild => {
                let tenure = u32::try_from(pid.as_raw()).ok()?;
                let guard = scene::pid(standbys(tenure).next().and_then(guard_of)?);
                let until_ns = now_ns() + rng.u64(validity_ns * 3 / 2..validity_ns * 5 / 2);
                let stopped = Seen { from_ns: now_ns(), until_ns: u64::MAX };
                self.guards_stopped.insert(leader.epoch, stopped);
                candidate.stop(guard, until_ns + ZOMBIE_NS, Some(leader.epoch));
                candidate.stop(pid, until_ns + ZOMBIE_NS, None);
                candidate.stop(leader.pid, until_ns, None);
            }
            _ => candidate.stop(pid, now_ns() + rng.u64(validity_ns / 2..validity_ns * 2), None),
        }
        Some(format!("{}, epoch {}", leader.name, leader.epoch))
    }

    /// Steps the candidate's wall clock by up to three lease durations.
    fn step_clock(&self, candidate: &str, rng: &mut fastrand::Rng) -> Option<String> {
        let most = Duration::from_nanos(3 * self.validity_ns);
        Some(self.clocks.as_ref()?.step(&self.folder, candidate, most, rng))
    }

    /// Continues all suspended processes, and makes all exited candidates start again.
    pub fn calm(&mut self) {
        for process in &mut self.candidates {
            process.stopped.iter_mut().for_each(|stopped| stopped.until_ns = 0);
            process.again_at_ns = 0;
        }
        self.let_go_on();
    }

    pub fn tell_to_end(&mut self) {
        File::create(self.folder.join(child::END)).expect("a new file");
        for process in self.candidates.iter().chain([&self.compactor]) {
            let _ = process.signal(Signal::SIGTERM);
        }
    }

    /// Returns whether all processes have exited.
    pub fn ended(&mut self) -> bool {
        self.reap();
        let mut processes = self.candidates.iter().chain([&self.compactor]);
        !processes.any(Process::lives)
    }

    /// Returns the number of epoch objects that the compactor has reported as deleted.
    pub fn compacted(&self) -> u64 {
        compacted(&self.folder, "/deleted")
    }

    /// Returns all children of the run, by epoch.
    pub fn children(&self) -> Vec<ChildOf> {
        let mut children = Vec::new();
        for file in std::fs::read_dir(&self.folder).expect("the folder exists") {
            let log = file.expect("a file").path();
            let name = log.file_name().and_then(|name| name.to_str()).expect("our own names");
            let parts: Vec<_> = name.split('-').collect();
            if let ["child", epoch, number, name] = parts[..] {
                children.push(ChildOf {
                    epoch: epoch.parse().expect("our own names"),
                    pid: scene::pid(number.parse().expect("our own names")),
                    name: name.to_owned(),
                    log: log.clone(),
                });
            }
        }
        children.sort_by_key(|child| child.epoch);
        children
    }
}

impl ChildOf {
    pub fn lines(&self) -> Vec<Line> {
        lines::read(&self.log)
    }
}

/// Returns whether this child process can still execute code, immediately or after a SIGCONT.
pub fn runs(pid: Pid) -> bool {
    let file = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
    // The kernel may have given this process ID to another process.
    let ours = file("cmdline").is_ok_and(|line| line.contains("\0child\0"));
    let Ok(status) = file("status") else { return false };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    // A process with a pending SIGKILL gets no more CPU time.
    let pending = field("SigPnd:").and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let dying = pending.is_none_or(|mask| mask & (1 << 8) != 0);
    let state = field("State:").and_then(|state| state.trim_start().chars().next());
    ours && !dying && !matches!(state, None | Some('Z' | 'X'))
}
