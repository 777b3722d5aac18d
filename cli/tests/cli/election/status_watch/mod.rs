//! Tests of `tenure status` and `tenure watch`.

mod exec;
mod field;
mod wait;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::bench::{Bench, spawn};
use tenure_testkit::command::{ended, with_deadline};

const HELD: &str = r#"{"expired":false,"validity_ms":30000,"format":1,"candidate":"a","nonce":
    "0123456789abcdef0123456789abcdef","heartbeat":4,"elected_at":"2026-11-20T23:12:00Z",
    "data":{"address":"10.0.0.7"}}"#;
const SEALED: &str = r#"{"expired":true,"validity_ms":30000,"format":1,"candidate":"a","nonce":
    "0123456789abcdef0123456789abcdef","heartbeat":5,"ended":"lapsed","sealed_by":"b"}"#;
/// A record that a program writes if it follows Morling's blog post on leader election
/// (docs/design/protocol.md). The record has only the two fields that the post describes.
const FOREIGN: &str = r#"{"expired":false,"validity_ms":60000}"#;

/// Returns the status, and separately its `age_ms`, which differs in each run.
fn status(bench: &Bench) -> (Value, Option<u64>) {
    let mut status = bench.json("status", &["--json"]);
    let age = status["age_ms"].take().as_u64();
    (status, age)
}

#[test]
fn status_of_a_vacant_election() {
    let bench = Bench::new();
    let said = bench.run("status", &["--json"]);
    let line = r#"{"state":"vacant","epoch":null,"candidate":null,"validity_ms":null,"heartbeat":null,"ended":null,"sealed_by":null,"lapsed":false,"age_ms":null,"data":null}"#;
    assert_eq!((said.code, said.out), (0, format!("{line}\n")));
    let said = bench.run("status", &[]);
    assert_eq!(said.out, "state      vacant: no process has led\n");
    assert_eq!(bench.objects(), [""; 0]);
}

#[test]
fn status_of_a_held_epoch() {
    let bench = Bench::new();
    bench.epoch(3, HELD);
    let said = bench.run("status", &["--json"]);
    let start = r#"{"state":"held","epoch":3,"candidate":"a","validity_ms":30000,"heartbeat":4,"ended":null,"sealed_by":null,"lapsed":false,"age_ms":"#;
    assert!(said.out.starts_with(start), "{said:?}");
    assert!(said.out.ends_with(",\"data\":{\"address\":\"10.0.0.7\"}}\n"), "{said:?}");
    let (_, age) = status(&bench);
    assert!(age.is_some_and(|age| age < 30_000));
    let said = bench.run("status", &[]);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "state      held",
            "leader     a",
            "epoch      3",
            "validity   30s",
            "elected    2026-11-20T23:12:00Z by the leader's clock",
        ]
    );
    assert!(lines[5].starts_with("written    ") && lines[5].ends_with(" ago"), "{said:?}");
    assert_eq!(lines[6..], ["heartbeat  4", "data       {\"address\":\"10.0.0.7\"}"]);
}

#[test]
fn status_of_a_sealed_epoch() {
    let bench = Bench::new();
    bench.epoch(3, SEALED);
    let (value, _) = status(&bench);
    let expected = json!({
        "state": "vacant", "epoch": 3, "candidate": "a", "validity_ms": 30000, "heartbeat": 5,
        "ended": "lapsed", "sealed_by": "b", "lapsed": false, "age_ms": null, "data": null,
    });
    assert_eq!(value, expected);
    let said = bench.run("status", &[]);
    assert!(
        said.out.starts_with("state      vacant: lapsed; sealed by b\nlast       a\n"),
        "{said:?}"
    );
}

#[test]
fn status_of_an_epoch_of_a_foreign_peer() {
    let bench = Bench::new();
    bench.epoch(12, FOREIGN);
    let (value, _) = status(&bench);
    let expected = json!({
        "state": "held", "epoch": 12, "candidate": null, "validity_ms": 60000, "heartbeat": 0,
        "ended": null, "sealed_by": null, "lapsed": false, "age_ms": null, "data": null,
    });
    assert_eq!(value, expected);
    assert!(bench.run("status", &[]).out.contains("leader     -\n"));
}

#[test]
fn status_reports_a_lapse_by_the_clock_of_the_store() {
    let bench = Bench::new();
    bench.epoch(1, &HELD.replace("30000", "1"));
    let (value, age) = status(&bench);
    // The validity is 1 ms. If the date of the answer is at most 1 ms later than the date of the
    // file, the lease has not lapsed yet.
    assert!(value["lapsed"] == true || age.is_some_and(|age| age <= 1), "{value}");
}

#[test]
fn long_data_is_truncated_in_text_and_whole_in_json() {
    let bench = Bench::new();
    let long = "x".repeat(5_000);
    bench.epoch(1, &HELD.replace("10.0.0.7", &long));
    assert_eq!(status(&bench).0["data"]["address"], long.as_str());
    let said = bench.run("status", &[]);
    assert!(said.out.len() < 600, "{said:?}");
    assert!(said.out.ends_with("\n…  shortened; --json prints the whole text\n"), "{said:?}");
}

#[test]
fn an_unreadable_object_exits_with_70_and_names_the_key() {
    for (body, word) in [
        ("", "empty"),
        ("<html>", "not a record"),
        (r#"{"expired":false,"validity_ms":-1}"#, "not a record"),
        (r#"{"expired":false,"format":3}"#, "format 3"),
        (&"x".repeat(1 << 20), "1048576 bytes"),
    ] {
        let bench = Bench::new();
        bench.epoch(7, body);
        bench.run("status", &[]).fails(70, &["lock-0000000007.json", word]);
        bench.run("status", &["--json"]).fails(70, &["lock-0000000007.json", word]);
        // `watch` ends only if a newer version of tenure wrote the object. If an object is
        // unreadable for another reason, `watch` waits until the object is repaired.
        if word == "format 3" {
            bench.run("watch", &[]).fails(70, &["lock-0000000007.json", word]);
        }
        let run = bench.run("run", &["--", "echo", "elected"]);
        run.fails(70, &["lock-0000000007.json", word]);
        assert_eq!(bench.objects().last().map(String::as_str), Some("lock-0000000007.json"));
    }
}

#[test]
fn run_exits_with_70_if_no_greater_epoch_is_possible() {
    let bench = Bench::new();
    bench.epoch(9_999_999_999, SEALED);
    bench.run("run", &["--", "echo", "elected"]).fails(70, &["lock-9999999999.json", "prefix"]);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let bench = Bench::new();
    bench.epoch(1, HELD);
    for line in [
        &["status"][..],
        &["status", "--json"],
        &["watch"],
        &["compact"],
        &["history"],
        &["history", "--json"],
    ] {
        let url = bench.url();
        let mut command = std::process::Command::new(crate::TENURE);
        command.args(line).args(["--store", &url]).env_remove("RUST_LOG");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output =
            command.stdout(writer).stderr(Stdio::piped()).output().expect("the command runs");
        assert_eq!(output.status.code(), Some(0), "{line:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{line:?}: {output:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let bench = Bench::new();
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has /dev/full");
    let mut command = std::process::Command::new(crate::TENURE);
    command.args(["status", "--store", &bench.url()]).stdout(full);
    let output = command.stderr(Stdio::piped()).output().expect("the command runs");
    assert_eq!(output.status.code(), Some(71));
    assert!(output.stderr.starts_with(b"tenure: cannot write to stdout: No space"), "{output:?}");
}

/// A running `tenure watch`. It is killed on drop.
pub struct Watching(Child, BufReader<ChildStdout>);

impl Watching {
    fn start(bench: &Bench, options: &[&str]) -> Watching {
        Watching::with(&[], &bench.url(), options)
    }

    pub fn with(env: &[(&'static str, String)], store: &str, options: &[&str]) -> Watching {
        let line = [&["watch", "--store", store, "--poll", "100ms"], options].concat();
        let mut child = spawn(env, &line);
        let stdout = child.stdout.take().expect("the output is a pipe");
        Watching(child, BufReader::new(stdout))
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        with_deadline(self.0.id(), || self.1.read_line(&mut line)).expect("the output is text");
        line.trim_end().to_owned()
    }

    /// Asserts that the next line is `message`. A reason may follow "vacant".
    pub fn tells(&mut self, message: &str) {
        let line = self.line();
        let with_reason = message == "vacant" && line.contains("Z  vacant: ");
        let told = line.ends_with(&format!("Z  {message}"));
        assert!(told || with_reason, "{line:?} does not report {message:?}");
    }

    /// Sends a signal, and asserts that the watch exits with 0 and without more output.
    pub fn ends(mut self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).expect("a small number"));
        kill(pid, signal).expect("the guard is alive");
        let mut rest = String::new();
        with_deadline(self.0.id(), || self.1.read_to_string(&mut rest))
            .expect("the output is text");
        assert_eq!(rest, "");
        assert_eq!(ended(&mut self.0).code(), Some(0));
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `tenure watch | head -1` closes the pipe after one line. The watch must then end, although no
/// later change of the election makes it write to the pipe.
#[test]
fn regression_watch_ends_when_its_reader_closes_the_pipe() {
    let bench = Bench::new();
    bench.epoch(1, HELD);
    let mut child = spawn(&[], &["watch", "--store", &bench.url()]);
    let mut out = BufReader::new(child.stdout.take().expect("the output is a pipe"));
    let mut line = String::new();
    with_deadline(child.id(), || out.read_line(&mut line)).expect("text");
    assert!(line.ends_with("Z  a leads epoch 1\n"), "{line:?}");
    // The election does not change, so the watch prints no more lines. Even so, the watch must
    // notice the closed pipe.
    drop(out);
    assert_eq!(ended(&mut child).code(), Some(0));
}

#[test]
fn watch_prints_each_change() {
    let bench = Bench::new();
    let mut watching = Watching::start(&bench, &[]);
    watching.tells("vacant");
    bench.epoch(3, HELD);
    watching.tells("a leads epoch 3");
    // A renewal changes only the heartbeat, so the watch reports no change.
    bench.epoch(3, &HELD.replace(r#""heartbeat":4"#, r#""heartbeat":5"#));
    bench.epoch(3, SEALED);
    watching.tells("vacant: epoch 3 of a lapsed");
    bench.epoch(4, &HELD.replace(r#""a""#, r#""b""#));
    watching.tells("b leads epoch 4");
    watching.ends(Signal::SIGTERM);
}

/// Before the fix, SIGHUP killed only `tenure watch`, and the processes of its `--exec` command
/// continued.
#[test]
fn regression_sighup_ends_watch_as_sigterm_does() {
    let bench = Bench::new();
    let mut watching = Watching::start(&bench, &[]);
    watching.tells("vacant");
    watching.ends(Signal::SIGHUP);
}

#[test]
fn watch_prints_one_object_per_line() {
    let bench = Bench::new();
    bench.epoch(3, HELD);
    let mut watching = Watching::start(&bench, &["--json"]);
    let mut change: Value =
        serde_json::from_str(&watching.line()).expect("each line is one JSON object");
    let at = change["at"].take();
    assert!(at.as_str().is_some_and(|at| at.len() == "2026-11-20T23:12:00Z".len()));
    let expected = json!({
        "at": null, "state": "held", "epoch": 3, "candidate": "a", "validity_ms": 30000,
        "data": {"address": "10.0.0.7"}, "last": null,
    });
    assert_eq!(change, expected);
    bench.epoch(3, SEALED);
    let line = watching.line();
    let rest = r#""state":"vacant","epoch":null,"candidate":null,"validity_ms":null,"data":null,"last":{"epoch":3,"candidate":"a","ended":"lapsed","sealed_by":"b"}}"#;
    assert!(line.starts_with("{\"at\":\"") && line.ends_with(rest), "{line}");
    watching.ends(Signal::SIGINT);
}

/// Before the fix, `tenure watch` printed "no process leads" without the reason why the last epoch
/// ended.
#[test]
fn regression_watch_shows_why_no_process_leads() {
    let bench = Bench::new();
    let mut watching = Watching::start(&bench, &[]);
    watching.tells("vacant");
    let ends = [
        ("resigned", "a", "a resigned epoch"),
        ("deposed", "an op\u{202e}", "an op\\u{202e} deposed a from epoch"),
        ("restored", "op", "op restored epoch"),
        ("later word", "op", "of a has ended"),
    ];
    for (epoch, (ended, by, reason)) in (1..).zip(ends) {
        bench.epoch(epoch, HELD);
        watching.tells(&format!("a leads epoch {epoch}"));
        let sealed = SEALED.replace("lapsed", ended).replace(r#""b""#, &format!("{by:?}"));
        bench.epoch(epoch, &sealed.replace("\\u{202e}", "\\u202e"));
        let line = watching.line();
        assert!(line.contains("Z  vacant: ") && line.contains(reason), "{line}");
    }
    watching.ends(Signal::SIGTERM);
}
