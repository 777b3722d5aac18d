//! Real `tenure run` processes that contend for one directory, and what their commands write.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::{default_signals, eventually, runs, state};

/// A directory with a store in it, and the files of the commands beside it.
pub struct Scene {
    dir: TempDir,
    tenure: &'static str,
}

/// One `tenure run`. Killed in the end, and its command with it.
pub struct Candidate {
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Scene {
    /// `tenure`: the path of the command, which Cargo tells only the tests of its package.
    pub fn new(tenure: &'static str) -> Scene {
        Scene { dir: tempfile::tempdir().expect("a directory"), tenure }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.path("store").display())
    }

    /// `tenure run` of this scene's election, without a command. The validity is 10 s unless the
    /// options say otherwise: longer than a loaded machine keeps a renewal waiting.
    pub fn run(&self, name: &str, options: &[&str]) -> Command {
        self.verb(&["run"], name, options)
    }

    /// The same with `tenure group run`.
    pub fn group_run(&self, name: &str, options: &[&str]) -> Command {
        self.verb(&["group", "run"], name, options)
    }

    fn verb(&self, verb: &[&str], name: &str, options: &[&str]) -> Command {
        let mut command = Command::new(self.tenure);
        command.args(verb).args(["--store", &self.url(), "--name", name]).args(options);
        if !options.contains(&"--validity") {
            command.args(["--validity", "10s"]);
        }
        self.surround(&mut command);
        command
    }

    /// What every process of the scene gets.
    pub fn surround(&self, command: &mut Command) {
        command.stdin(Stdio::null()).current_dir(self.dir.path()).env_remove("RUST_LOG");
    }

    pub fn start(&self, name: &str, mut command: Command) -> Candidate {
        let log = self.path(&format!("{name}.log"));
        let open = || File::options().create(true).append(true).open(&log).expect("a new file");
        command.stdout(open()).stderr(open());
        self.start_as_it_is(name, command)
    }

    /// With the command's own stdout and stderr.
    pub fn start_as_it_is(&self, name: &str, mut command: Command) -> Candidate {
        let log = self.path(&format!("{name}.log"));
        default_signals();
        let child = command.spawn().expect("the command starts");
        Candidate { child, log, ended: None }
    }

    /// A candidate whose command is a shell script; `$0` in it is `sh`. It works in the scene's
    /// directory.
    pub fn script(&self, name: &str, options: &[&str], script: &str) -> Candidate {
        let mut command = self.run(name, options);
        command.args(["--", "sh", "-c", script]);
        self.start(name, command)
    }

    /// What `tenure status --json` says.
    pub fn status(&self) -> serde_json::Value {
        let mut command = Command::new(self.tenure);
        command.args(["status", "--json", "--store", &self.url()]);
        let output = command.output().expect("the command runs");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    }

    pub fn wait_for_file(&self, name: &str) -> String {
        let path = self.path(name);
        eventually(&format!("{name} is written"), || {
            fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n'))
        });
        fs::read_to_string(path).expect("it is there")
    }

    pub fn number(&self, name: &str) -> u32 {
        self.wait_for_file(name).trim().parse().expect("a number")
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }
}

impl Candidate {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill(pid(self.child.id()), signal).expect("it lives, or waits to be reaped");
    }

    /// Stops it while it holds no lock of the directory, where it would stop all others as well.
    pub fn stop(&self) {
        eventually("it is stopped without a lock", || {
            self.signal(Signal::SIGSTOP);
            eventually("it is stopped", || state(self.id()) == Some('T'));
            let is_free = !holds_a_lock(self.id());
            if !is_free {
                self.signal(Signal::SIGCONT);
            }
            is_free
        });
    }

    pub fn lives(&mut self) -> bool {
        self.look().is_none()
    }

    /// The exit code, once it has ended; 128 + n after signal n.
    pub fn code(&mut self) -> i32 {
        eventually("a candidate has ended", || self.look().is_some());
        let status = self.look().expect("the poll ends once it has");
        status.code().unwrap_or_else(|| 128 + status.signal().expect("a code or a signal"))
    }

    /// What it and its command said, on stdout and stderr.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn says(&self, what: &str) {
        eventually(&format!("a candidate says {what:?}"), || self.said().contains(what));
    }

    /// The guard of its group.
    pub fn guard(&self) -> u32 {
        let mut guard = None;
        eventually("a candidate has a guard", || {
            let mut standby = standbys(self.id());
            guard = standby.next().and_then(guard_of);
            guard.is_some()
        });
        guard.expect("the poll ends once there is one")
    }

    /// The parent of the guard.
    pub fn standby(&self) -> u32 {
        self.guard();
        standbys(self.id()).next().expect("a guard has a standby")
    }

    fn look(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("it is a child");
        }
        self.ended
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let guards: Vec<u32> = standbys(self.id()).collect();
        let _ = self.child.kill();
        let _ = self.child.wait();
        // It ends only when nothing of the command is left.
        eventually("the processes of a candidate are gone", || !guards.iter().any(|g| runs(*g)));
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), self.said());
        }
    }
}

pub fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("process numbers are small"))
}

fn holds_a_lock(process: u32) -> bool {
    let process = process.to_string();
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().any(|line| line.contains(" FLOCK ") && line.split(' ').any(|it| it == process))
}

/// Those of the guards of this `tenure`.
pub fn standbys(tenure: u32) -> impl Iterator<Item = u32> {
    let is_standby = |line: &[u8]| line.starts_with(b"tenure\0__standby\0");
    children(tenure).filter(move |(_, line)| is_standby(line)).map(|(number, _)| number)
}

/// Kills them, none of them with time to act on the death of another.
pub fn kill_at_once(processes: [u32; 2]) {
    for process in processes {
        kill(pid(process), Signal::SIGSTOP).expect("it lives");
        eventually("it is stopped", || state(process) == Some('T'));
    }
    for process in processes {
        kill(pid(process), Signal::SIGKILL).expect("it is stopped");
    }
}

/// The guard of this standby.
pub fn guard_of(standby: u32) -> Option<u32> {
    let is_guard = |line: &[u8]| line.starts_with(b"tenure\0__guard\0");
    children(standby).find(|(_, line)| is_guard(line)).map(|(number, _)| number)
}

pub fn children(parent: u32) -> impl Iterator<Item = (u32, Vec<u8>)> {
    fs::read_dir("/proc").expect("a /proc").flatten().filter_map(move |entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let ours: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        (ours == parent)
            .then(|| (number, fs::read(entry.path().join("cmdline")).unwrap_or_default()))
    })
}
