//! Real `tenure run` processes with one store in a directory, and the output of their commands.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::{default_signals, eventually, runs, state};

/// A directory that contains a store and the files of the commands.
pub struct Scene {
    dir: TempDir,
    tenure: &'static str,
}

/// A `tenure run` process. Dropping the value kills the process and its command.
pub struct Candidate {
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Scene {
    /// Creates a scene. `tenure` is the path of the executable. The caller gives the path, because
    /// Cargo sets it only for the tests of the package that builds the executable.
    pub fn new(tenure: &'static str) -> Scene {
        Scene { dir: tempfile::tempdir().expect("a directory"), tenure }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.path("store").display())
    }

    /// Returns `tenure run` for this scene's election, without the command that the candidate runs.
    /// The validity is 10 s unless the options set another validity. A renewal takes less than 10 s
    /// even on a busy machine.
    pub fn run(&self, name: &str, options: &[&str]) -> Command {
        self.verb(&["run"], name, options)
    }

    /// Returns a command `tenure group run` with the settings of [`run`](Scene::run).
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

    /// Sets the working directory, the environment and stdin for a process of the scene.
    pub fn surround(&self, command: &mut Command) {
        command.stdin(Stdio::null()).current_dir(self.dir.path()).env_remove("RUST_LOG");
    }

    pub fn start(&self, name: &str, mut command: Command) -> Candidate {
        let log = self.path(&format!("{name}.log"));
        let open = || File::options().create(true).append(true).open(&log).expect("a new file");
        command.stdout(open()).stderr(open());
        self.start_with_its_streams(name, command)
    }

    /// Starts a candidate with the stdout and stderr that `command` sets.
    pub fn start_with_its_streams(&self, name: &str, mut command: Command) -> Candidate {
        let log = self.path(&format!("{name}.log"));
        default_signals();
        let child = command.spawn().expect("the command starts");
        Candidate { child, log, ended: None }
    }

    /// Starts a candidate that runs a shell script in the scene's directory. `$0` in the script is
    /// `sh`.
    pub fn script(&self, name: &str, options: &[&str], script: &str) -> Candidate {
        let mut command = self.run(name, options);
        command.args(["--", "sh", "-c", script]);
        self.start(name, command)
    }

    /// Returns the output of `tenure status --json`.
    pub fn status(&self) -> serde_json::Value {
        let mut command = Command::new(self.tenure);
        command.args(["status", "--json", "--store", &self.url()]);
        let output = command.output().expect("the command runs");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    }

    pub fn wait_for_file(&self, name: &str) -> String {
        let path = self.path(name);
        eventually(&format!("{name} was written"), || {
            fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n'))
        });
        fs::read_to_string(path).expect("the file exists")
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
        kill(pid(self.child.id()), signal).expect("the process is alive or a zombie");
    }

    /// Suspends the process with SIGSTOP at a moment at which it has no file lock on the store. A
    /// suspended owner of a lock would block all other processes.
    pub fn stop(&self) {
        eventually("the process is stopped without a lock", || {
            self.signal(Signal::SIGSTOP);
            eventually("the process is stopped", || state(self.id()) == Some('T'));
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

    /// Waits for the end of the process, and returns its exit code, or 128 + n after signal n.
    pub fn code(&mut self) -> i32 {
        eventually("a candidate has ended", || self.look().is_some());
        let status = self.look().expect("the poll ends with a status");
        status.code().unwrap_or_else(|| 128 + status.signal().expect("a code or a signal"))
    }

    /// Returns the output of the process and its command, on stdout and stderr.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn says(&self, text: &str) {
        eventually(&format!("a candidate prints {text:?}"), || self.said().contains(text));
    }

    /// Returns the process ID of the guard of this candidate.
    pub fn guard(&self) -> u32 {
        let mut guard = None;
        eventually("a candidate has a guard", || {
            let mut standby = standbys(self.id());
            guard = standby.next().and_then(guard_of);
            guard.is_some()
        });
        guard.expect("the poll ends with a guard")
    }

    /// Returns the process ID of the guard's standby. The standby is the parent process of the
    /// guard.
    pub fn standby(&self) -> u32 {
        self.guard();
        standbys(self.id()).next().expect("a guard has a standby")
    }

    fn look(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("this process started the child");
        }
        self.ended
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let guards: Vec<u32> = standbys(self.id()).collect();
        let _ = self.child.kill();
        let _ = self.child.wait();
        // `guards` contains the standbys. A standby ends only after its guard and all processes of
        // the command have ended.
        eventually("the processes of a candidate have ended", || !guards.iter().any(|g| runs(*g)));
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), self.said());
        }
    }
}

pub fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("a process ID fits into an i32"))
}

fn holds_a_lock(process: u32) -> bool {
    let process = process.to_string();
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().any(|line| line.contains(" FLOCK ") && line.split(' ').any(|it| it == process))
}

/// Returns the standbys that this `tenure` process has started.
pub fn standbys(tenure: u32) -> impl Iterator<Item = u32> {
    let is_standby = |line: &[u8]| line.starts_with(b"tenure\0__standby\0");
    children(tenure).filter(move |(_, line)| is_standby(line)).map(|(number, _)| number)
}

/// Kills both processes. First suspends both processes with SIGSTOP, so that neither process can
/// react to the death of the other process.
pub fn kill_at_once(processes: [u32; 2]) {
    for process in processes {
        kill(pid(process), Signal::SIGSTOP).expect("the process is alive");
        eventually("the process is stopped", || state(process) == Some('T'));
    }
    for process in processes {
        kill(pid(process), Signal::SIGKILL).expect("the process is stopped");
    }
}

/// Returns the guard that this standby started.
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
