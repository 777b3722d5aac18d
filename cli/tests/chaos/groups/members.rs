//! The members of a group and a compactor as processes, and the faults of these processes.

use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use super::assignments::Assignments;
use super::checker;
use super::worker::{self, Line};
use super::{MEMBERS, VALIDITY};
use crate::backend::Backend;
use crate::child::{self, now_ns};
use crate::lines;
use crate::process::{Process, code, compacted, compactor};
use crate::rampage::Victims;

/// The allowed exit codes: 0, two codes for a process that a signal has killed, and 69. A member
/// that has left exits with 0. A compactor exits with 69 if its store does not answer. A panic, or
/// a member that cannot join, fails the test.
const EXPECTED: [i32; 4] = [0, 128 + 9, 128 + 15, 69];

/// Minimum number of members that own a partition and have no injected fault. The test injects no
/// further fault if fewer such members would remain.
const LEFT_ALONE: usize = 2;

pub struct Members {
    members: Vec<Process>,
    compactor: Process,
    /// Members with a cut or silent connection, each with the time at which this fault ends.
    cut: Vec<(usize, u64)>,
    folder: PathBuf,
    broken: bool,
    pub assignments: Assignments,
    pub unexpected: Vec<String>,
}

/// Faults of the members, of their connections, and of the compactor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    Kill,
    KillCoordinator,
    /// Suspends a member (SIGSTOP) for longer than the validity of its session.
    Stop,
    StopCoordinator,
    /// Suspends a member for less than the validity of its session.
    StopBriefly,
    /// Sends SIGTERM to a member, which then leaves. Some leaving members ask the group to reserve
    /// their partitions.
    Leave,
    KillCompactor,
    /// Cuts all connections of a member, and refuses new connections.
    Cut,
    /// Delays the requests and answers of a member until the end of this fault.
    Silence,
}

impl Deed {
    const ALL: [Deed; 9] = [
        Deed::Kill,
        Deed::KillCoordinator,
        Deed::Stop,
        Deed::StopCoordinator,
        Deed::StopBriefly,
        Deed::Leave,
        Deed::KillCompactor,
        Deed::Cut,
        Deed::Silence,
    ];

    /// Returns the faults that are possible on this backend. A directory has no connections to cut.
    pub fn of(backend: &Backend) -> &'static [Deed] {
        if backend.line(0).is_some() { &Deed::ALL } else { &Deed::ALL[..7] }
    }
}

impl Members {
    pub fn start(folder: &Path, backend: &Backend, broken: bool) -> Members {
        let mut members = Members {
            members: (0..MEMBERS).map(|number| Process::new(format!("m{number}"))).collect(),
            compactor: Process::new("compactor".to_owned()),
            cut: Vec::new(),
            folder: folder.to_owned(),
            broken,
            assignments: Assignments::default(),
            unexpected: Vec::new(),
        };
        // The first poll precedes the start of the members. So the watch knows the interval in
        // which the first assignment is created.
        members.assignments.look(backend);
        members.start_due(backend);
        members
    }

    fn start_due(&mut self, backend: &Backend) {
        for member in &mut self.members {
            member.let_go_on();
        }
        self.cut.retain(|(member, until_ns)| {
            let over = *until_ns <= now_ns();
            if let Some(line) = backend.line(*member).filter(|_| over) {
                line.calm();
            }
            !over
        });
        self.reap();
        for number in 0..self.members.len() {
            if self.members[number].is_due() {
                let command = self.member(number, backend);
                self.members[number].start(command, &self.folder);
            }
        }
        if self.compactor.is_due() {
            let mut command = compactor(backend);
            command.arg("--group");
            self.compactor.start(command, &self.folder);
        }
    }

    fn reap(&mut self) {
        for process in self.members.iter_mut().chain([&mut self.compactor]) {
            if let Some(status) = process.reap().filter(|it| !EXPECTED.contains(&code(*it))) {
                self.unexpected.push(format!("{} ended with {status}", process.name));
            }
        }
    }

    fn member(&self, number: usize, backend: &Backend) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this test has a path"));
        command.args(["--exact", "groups::member", "--ignored", "--nocapture"]);
        command.envs(backend.env(number)).env(child::FOLDER, &self.folder);
        command.env(worker::GROUP, backend.home());
        command.env(worker::MEMBER, &self.members[number].name);
        if self.broken {
            command.env(worker::BROKEN, "1");
        }
        command
    }

    /// Returns the running members that own a partition and have no injected fault now.
    fn at_work(&self) -> Vec<usize> {
        let Some(newest) = &self.assignments.newest else { return Vec::new() };
        let free = |number: &usize| {
            let member = &self.members[*number];
            member.is_free()
                && self.cut.iter().all(|(cut, _)| cut != number)
                && newest.owns(&member.name)
        };
        (0..self.members.len()).filter(free).collect()
    }

    /// Returns whether this number of members own all partitions, in equal shares.
    pub fn share_all(&self, members: usize) -> bool {
        self.assignments.newest.as_ref().is_some_and(|it| it.is_balanced(members))
    }

    pub fn owns(&self, member: &str) -> bool {
        self.assignments.newest.as_ref().is_some_and(|it| it.owns(member))
    }

    /// Suspends one of the members that own a partition, and returns its name. The member stays
    /// suspended until the end of the run.
    pub fn stop_one(&mut self) -> Option<String> {
        let number = *self.at_work().first()?;
        let member = &mut self.members[number];
        member.stop(member.pid()?, u64::MAX, None);
        Some(member.name.clone())
    }

    /// Continues all suspended processes, and ends the faults of all connections.
    pub fn calm(&mut self, backend: &Backend) {
        for process in self.members.iter_mut().chain([&mut self.compactor]) {
            process.stopped.iter_mut().for_each(|stopped| stopped.until_ns = 0);
            process.again_at_ns = 0;
        }
        self.cut.iter_mut().for_each(|(_, until_ns)| *until_ns = 0);
        self.start_due(backend);
    }

    pub fn tell_to_leave(&mut self) {
        for process in self.members.iter().chain([&self.compactor]) {
            let _ = process.signal(Signal::SIGTERM);
        }
    }

    /// Returns whether all processes have exited.
    pub fn ended(&mut self) -> bool {
        self.reap();
        !self.members.iter().chain([&self.compactor]).any(Process::lives)
    }

    /// Returns the log lines of each worker process of the run.
    pub fn lines(&self) -> Vec<Vec<Line>> {
        let files = std::fs::read_dir(&self.folder).expect("the folder exists");
        let paths = files.map(|file| file.expect("a file").path());
        let of_worker = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("worker-"))
        };
        paths.filter(of_worker).map(|path| lines::read(&path)).collect()
    }

    /// Returns the numbers of assignments and sessions that the compactor has deleted.
    pub fn compacted(&self) -> (u64, u64) {
        let compacted = |pointer| compacted(&self.folder, pointer);
        (compacted("/deleted"), compacted("/sessions/deleted"))
    }
}

impl Victims for Members {
    type Deed = Deed;

    fn tend(&mut self, backend: &mut Backend) {
        self.start_due(backend);
        self.assignments.look(backend);
    }

    fn harm(&mut self, deed: Deed, backend: &Backend, rng: &mut fastrand::Rng) -> Option<String> {
        let again_at_ns = now_ns() + rng.u64(0..3_000_000_000);
        if deed == Deed::KillCompactor {
            self.compactor.signal(Signal::SIGKILL)?;
            self.compactor.again_at_ns = again_at_ns;
            return Some("compactor".to_owned());
        }
        let at_work = self.at_work();
        if at_work.len() <= LEFT_ALONE {
            return None;
        }
        let number = match deed {
            Deed::KillCoordinator | Deed::StopCoordinator => {
                let name = self.assignments.newest.as_ref()?.coordinator()?;
                at_work.into_iter().find(|number| self.members[*number].name == name)?
            }
            _ => *rng.choice(&at_work)?,
        };
        let validity_ns = u64::try_from(VALIDITY.as_nanos()).expect("a short lease");
        let long_ns = now_ns() + rng.u64(validity_ns * 2..validity_ns * 3);
        let member = &mut self.members[number];
        match deed {
            Deed::Kill | Deed::KillCoordinator => member.signal(Signal::SIGKILL)?,
            Deed::Leave => member.signal(Signal::SIGTERM)?,
            Deed::Stop | Deed::StopCoordinator => member.stop(member.pid()?, long_ns, None),
            Deed::StopBriefly => {
                let until_ns = now_ns() + rng.u64(validity_ns / 8..validity_ns * 2 / 3);
                member.stop(member.pid()?, until_ns, None);
            }
            Deed::Cut => {
                backend.line(number)?.go_away(true);
                self.cut.push((number, now_ns() + rng.u64(validity_ns / 4..validity_ns * 2)));
            }
            Deed::Silence => {
                backend.line(number)?.fall_silent(true);
                // This fault delays requests. The delay must be shorter than the `--min-age` of the
                // compactor, because a create must not take effect after the compaction of its
                // object.
                self.cut.push((number, now_ns() + rng.u64(validity_ns / 4..validity_ns * 3 / 2)));
            }
            Deed::KillCompactor => {}
        }
        member.again_at_ns = again_at_ns;
        Some(member.name.clone())
    }

    fn showed_enough(&self) -> bool {
        let (tokens, appends) = checker::fewest(self.lines().iter().flatten());
        self.assignments.made.len() >= checker::ENOUGH_ASSIGNMENTS
            && tokens >= checker::ENOUGH_TOKENS
            && appends >= checker::ENOUGH_APPENDS
    }
}
