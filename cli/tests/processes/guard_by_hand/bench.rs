//! A guard process or a standby process that receives its orders from a test instead of `tenure
//! run`.

use std::fs;
use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure::Moment;

use crate::TENURE;
use tenure_testkit::command::{self, in_ms, now, number_in};

/// A script that ignores SIGTERM. Its child also ignores SIGTERM. Both are ready when the file `$1`
/// contains the child's process ID.
pub const STUBBORN: &str = r#"trap '' TERM; sleep 1000 & echo $! > "$1"; wait; sleep 1000"#;
/// A script that writes a line to a file at each SIGTERM, and continues.
pub const COUNTING: &str =
    r#"trap 'echo term >> "$1"' TERM; echo ready > "$1"; while :; do sleep 0.02; done"#;
/// A script that has a child in another process group, a child in another session, and an orphan in
/// a third session. Each of the three writes its process ID to a file in the directory. A test
/// replaces `ON_TERM` with the commands that each of the three runs at a SIGTERM.
pub const ESCAPING: &str = r#"export D="$1"
    one='trap "ON_TERM" TERM; echo $$ > "$D/$0"; while :; do sleep 0.02; done'
    timeout 1000 sh -c "$one" group &
    setsid sh -c "$one" session &
    (setsid sh -c "$one" daemon &)
    wait"#;
/// A value for `ON_TERM` in [`ESCAPING`]: each process writes a file at SIGTERM, and exits.
pub const POLITE: &str = "echo term > $D/$0.term; exit";
pub const ESCAPES: [&str; 3] = ["group", "session", "daemon"];

/// Waits until all processes of [`ESCAPING`] are ready, and returns their process IDs.
pub fn escaped(dir: &Path) -> [u32; 3] {
    ESCAPES.map(|name| number_in(&dir.join(name)))
}

pub struct Guard {
    child: Child,
    orders: Option<PipeWriter>,
    reports: BufReader<PipeReader>,
    /// Process ID of CMD; 0 until the guard has reported the start of CMD.
    pub command: u32,
    /// The guard's ends of the two pipes, as the links in /proc show them.
    pub pipes: [PathBuf; 2],
}

impl Guard {
    /// Starts a guard and its CMD, a shell with this script and argument. The lease is long, and
    /// CMD gets no grace before the lease ends.
    pub fn over(script: &str, argument: &Path) -> Guard {
        Guard::of("__guard", script, argument)
    }

    /// Starts the process that the verb selects, a guard or a standby, and its CMD.
    pub fn of(verb: &str, script: &str, argument: &Path) -> Guard {
        let mut guard = Guard::waiting(verb, &["sh", "-c", script, "sh"], argument);
        let hour = in_ms(3_600_000);
        guard.tell(&format!("watch {}", deadlines(hour, hour)));
        guard.hears(&["watching"]);
        guard.tell("start");
        guard.hears_started();
        guard
    }

    /// Starts a guard or a standby that waits for its first order.
    pub fn waiting(verb: &str, command: &[&str], argument: &Path) -> Guard {
        Guard::with(verb, &[], command, argument)
    }

    /// Starts a guard or a standby with these options. The process waits for its first order.
    pub fn with(verb: &str, options: &[&str], command: &[&str], argument: &Path) -> Guard {
        let (orders_in, orders) = std::io::pipe().expect("a pipe");
        let (reports, reports_out) = std::io::pipe().expect("a pipe");
        inherit(&orders_in);
        inherit(&reports_out);
        let link = |number| fs::read_link(format!("/proc/self/fd/{number}")).expect("an open file");
        let pipes = [link(orders_in.as_raw_fd()), link(reports_out.as_raw_fd())];
        let child = Command::new(TENURE)
            .arg0_of_tenure()
            .args([verb, "--orders", &orders_in.as_raw_fd().to_string()])
            .args(["--reports", &reports_out.as_raw_fd().to_string()])
            .args(options)
            .arg("--")
            .args(command)
            .arg(argument)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the guard starts");
        Guard { child, orders: Some(orders), reports: BufReader::new(reports), command: 0, pipes }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn tell(&mut self, line: &str) {
        assert!(self.send_if_alive(line), "the guard is alive");
    }

    /// Sends an order to the guard. Returns false if the guard has ended.
    pub fn send_if_alive(&mut self, line: &str) -> bool {
        let orders = self.orders.as_mut().expect("the pipe is open");
        writeln!(orders, "{line}").is_ok()
    }

    pub fn lease(&mut self, term_at: Moment, kill_at: Moment) {
        self.tell(&format!("lease {}", deadlines(term_at, kill_at)));
    }

    pub fn hears(&mut self, reports: &[&str]) {
        for report in reports {
            assert_eq!(self.hear(), *report);
        }
    }

    pub fn hears_started(&mut self) {
        let started = self.hear();
        let number = started.strip_prefix("started ").and_then(|number| number.parse().ok());
        self.command = number.expect("CMD was started");
    }

    pub fn hears_until(&mut self, last: &str) -> Vec<String> {
        let mut heard: Vec<String> = Vec::new();
        while heard.last().is_none_or(|report| report != last && !report.is_empty()) {
            heard.push(self.hear());
        }
        heard
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        let reports = &mut self.reports;
        command::with_deadline(self.child.id(), || reports.read_line(&mut line))
            .expect("the guard writes text");
        line.trim_end().to_owned()
    }

    pub fn hang_up(&mut self) {
        self.orders = None;
    }

    /// Waits until the guard exits, and asserts success.
    pub fn leaves(&mut self) {
        assert!(command::ended(&mut self.child).success());
    }

    /// Waits until the guard has closed its stderr, and returns the text that it wrote there.
    pub fn says(&mut self) -> String {
        let mut said = String::new();
        let id = self.child.id();
        let stderr = self.child.stderr.as_mut().expect("stderr is a pipe");
        command::with_deadline(id, || stderr.read_to_string(&mut said)).expect("text");
        said
    }

    pub fn signal(&self, of: Signal) {
        signal(self.child.id(), of);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(orders) = &mut self.orders {
            // The write fails if the guard has already ended, so an error is ignored.
            let _ = writeln!(orders, "lease 0 0 0 0 0 0");
        }
        self.hang_up();
        let _ = command::ended(&mut self.child);
    }
}

trait Arg0 {
    fn arg0_of_tenure(&mut self) -> &mut Self;
}

impl Arg0 for Command {
    fn arg0_of_tenure(&mut self) -> &mut Command {
        std::os::unix::process::CommandExt::arg0(self, "tenure")
    }
}

fn inherit(file: impl AsFd) {
    fcntl(file, FcntlArg::F_SETFD(FdFlag::empty())).expect("an open file");
}

pub fn signal(process: u32, signal: Signal) {
    kill(pid(process), signal).expect("the process is alive");
}

pub fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("a process ID fits into an i32"))
}

pub fn deadlines(term_at: Moment, kill_at: Moment) -> String {
    let clocks = |m: Moment| [m.boot, m.raw, m.wall].map(|clock| clock.as_nanos().to_string());
    let [a, b] = [term_at, kill_at].map(|moment| clocks(moment).join(" "));
    format!("{a} {b}")
}

pub fn reached(moment: Moment) -> bool {
    let now = now();
    now.until(moment).is_zero()
}

pub fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}
