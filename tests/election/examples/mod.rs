//! Runs the examples with a directory as their store, by the commands that the documentation gives.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use assert_cmd::assert::OutputAssertExt as _;
use tenure::Process;

#[cfg(feature = "s3")]
mod quick_start;

/// Time limit for one example on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn compact_job_keeps_young_epochs() {
    let folder = tempfile::tempdir().unwrap();
    let url = file_url(folder.path(), "job");
    done("manifest_writer", &[&url]);
    let leader = format!("{url}/database/leader");
    assert!(done("compact_job", &[&leader, "--dry-run"]).contains("would delete 0 of 1"));
    assert!(done("compact_job", &[&leader]).contains("deleted 0 of 1"));
    let usage = Command::new(built("compact_job")).assert().failure();
    assert!(String::from_utf8_lossy(&usage.get_output().stderr).contains("usage: compact_job"));
}

#[test]
fn manifest_writer_continues_from_the_newest_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let url = file_url(folder.path(), "database");
    assert!(done("manifest_writer", &[&url]).ends_with(": 3 files\n"));
    assert!(done("manifest_writer", &[&url]).ends_with(": 6 files\n"));
}

#[test]
fn fenced_sqlite_adds_to_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let (url, ledger) = (file_url(folder.path(), "ledger"), folder.path().join("ledger.db"));
    let arguments = [url.as_str(), ledger.to_str().unwrap()];
    assert_eq!(done("fenced_sqlite", &arguments), "the balance is 1500\n");
    assert_eq!(done("fenced_sqlite", &arguments), "the balance is 3000\n");
}

#[test]
fn stream_processor_continues_at_the_committed_offset() {
    let folder = tempfile::tempdir().unwrap();
    let url = file_url(folder.path(), "bucket");
    for runs in 1..=2 {
        let mut worker = Program::start("stream_processor", &[&url]);
        let before = (0..12).map(|log| objects(folder.path(), log)).min().unwrap();
        // In each run, a log gets at least two objects: the claim of a writer, and an entry.
        let commits = |log| objects(folder.path(), log) >= before + 2;
        worker.until("the worker commits to all logs", || (0..12).all(commits));
        worker.signal("INT");
        let output = worker.rest();
        let mut lines = output.iter();
        let line = lines.find_map(|line| line.strip_prefix("partition 7 released at offset "));
        let offset: usize = line.expect("the worker releases the partition").parse().unwrap();
        // Each run adds one claim. All other objects of the log are entries with ten records.
        assert_eq!(offset, 10 * (objects(folder.path(), 7) - runs));
    }
}

/// Returns the number of objects in the log of a partition.
fn objects(folder: &Path, log: usize) -> usize {
    let log = folder.join(format!("bucket/orders/log-{log}"));
    log.read_dir().map_or(0, Iterator::count)
}

#[test]
fn leader_task_resigns_on_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    for (epoch, signal) in [(1, "INT"), (2, "TERM")] {
        let mut service = Program::start("leader_task", &[&file_url(folder.path(), "reports")]);
        let address = service.line_after("serving on ");
        service.line_after(&format!("report with token {epoch}"));
        assert!(http(&address, "GET /leader HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 200 OK"));
        service.signal(signal);
        service.rest();
        let record = folder.path().join(format!("reports/lock-{epoch:010}.json"));
        assert!(std::fs::read_to_string(record).unwrap().contains("resigned"), "{signal}");
    }
}

#[test]
fn fenced_api_refuses_an_older_token() {
    let service = Program::start("fenced_api", &["127.0.0.1:0"]);
    let address = service.line_after("serving on ");
    let put = |token: u64| {
        let head = "PUT /board HTTP/1.0\r\nContent-Type: text/plain\r\nContent-Length: 4";
        http(&address, &format!("{head}\r\nFencing-Token: {token}\r\n\r\ntext"))
    };
    assert!(put(2).starts_with("HTTP/1.0 200 OK"));
    assert!(put(1).starts_with("HTTP/1.0 412 "));
    assert!(http(&address, "GET /board HTTP/1.0\r\n\r\n").ends_with("epoch 2: text"));
}

fn file_url(folder: &Path, prefix: &str) -> String {
    format!("file://{}/{prefix}", folder.display())
}

/// Runs an example until it exits, and returns its output.
fn done(name: &str, arguments: &[&str]) -> String {
    let done = assert_cmd::Command::new(built(name)).args(arguments).timeout(PATIENCE).assert();
    String::from_utf8(done.success().get_output().stdout.clone()).unwrap()
}

fn http(address: &str, request: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

/// An example that runs until a signal ends it. It is killed on drop.
struct Program {
    child: Child,
    /// Lines of stdout. The channel is closed when the example exits.
    lines: mpsc::Receiver<String>,
}

impl Program {
    fn start(name: &str, arguments: &[&str]) -> Program {
        let mut command = Command::new(built(name));
        command.args(arguments);
        Program::spawn(command)
    }

    fn spawn(mut command: Command) -> Program {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the example starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = stdout.lines().map_while(Result::ok);
            // The send fails if the test has ended. Then this thread also ends.
            lines.try_for_each(|line| sender.send(line).ok())
        });
        Program { child, lines }
    }

    /// Waits for a line that begins with `start`, and returns the rest of the line.
    fn line_after(&self, start: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect(start);
            if let Some(rest) = line.strip_prefix(start) {
                return rest.to_owned();
            }
        }
    }

    /// Waits until `holds` returns true. The example must not exit earlier.
    fn until(&mut self, condition: &str, mut holds: impl FnMut() -> bool) {
        let end = Process::system().now().boot + PATIENCE;
        while !holds() {
            let ended = self.child.try_wait().expect("the test can wait for the child");
            assert!(
                ended.is_none(),
                "the example exited ({ended:?}) before the condition: {condition}"
            );
            assert!(Process::system().now().boot < end, "not within {PATIENCE:?}: {condition}");
            pause();
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-s", name, &pid]).assert().success();
    }

    /// Waits until the example succeeds, and returns the rest of the output.
    fn rest(&mut self) -> Vec<String> {
        let mut output = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => output.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(timeout) => panic!("{timeout}: {output:?}"),
            }
        }
        assert!(self.child.wait().unwrap().success(), "{output:?}");
        output
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // `kill` fails if the example has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[allow(clippy::disallowed_methods, reason = "between two polls of a child")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// Returns the path of the program of this example. A plain `cargo test` has built the examples, but
/// `cargo test --test` builds none. In that case, or after a change, this function builds them.
fn built(name: &str) -> PathBuf {
    static EXAMPLES: LazyLock<()> = LazyLock::new(build);
    let this = std::env::current_exe().unwrap();
    let program = this.ancestors().nth(2).unwrap().join("examples").join(name);
    if is_newest(&program).is_none() {
        LazyLock::force(&EXAMPLES);
    }
    program
}

/// Returns `Some` if the program is newer than all its sources, as Cargo lists them next to it.
fn is_newest(program: &Path) -> Option<()> {
    let built_at = program.metadata().ok()?.modified().ok()?;
    let sources = std::fs::read_to_string(program.with_extension("d")).ok()?;
    for source in sources.split_once(':')?.1.split_whitespace() {
        let changed_at = std::fs::metadata(source).ok()?.modified().ok()?;
        (changed_at <= built_at).then_some(())?;
    }
    Some(())
}

/// Builds the examples with the profile and features of this test program. So Cargo reuses most of
/// the compiled code.
fn build() {
    let this = std::env::current_exe().unwrap();
    let folder = this.ancestors().nth(2).unwrap();
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    // With other features, Cargo would build the library and all examples again.
    let features: &[&str] = match (cfg!(feature = "default"), cfg!(feature = "s3")) {
        (true, _) => &[],
        (false, true) => &["--no-default-features", "--features", "s3"],
        (false, false) => &["--no-default-features"],
    };
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars() {
        // Cargo has set these variables for this package. The build script of `ring` depends on
        // these variables, so Cargo would build `ring` again.
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    cargo
        .args(["build", "--quiet", "--examples", "--profile", profile])
        .args(features)
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(folder.parent().unwrap())
        .assert()
        .success();
}
