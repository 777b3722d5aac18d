//! Tests each verb of the command on an election with `--layout single-object`.

use std::fs;
use std::io::{BufRead as _, BufReader};

use crate::bench::{Bench, spawn, without_checks};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure_testkit::command::{ended, with_deadline};

const SINGLE: [&str; 2] = ["--layout", "single-object"];
/// A lock with only the two fields that other programs write. These programs follow a blog post on
/// If-Match (docs/how-to/upgrade.md). The lock expires long after the test.
const FOREIGN: &str = r#"{"expires_at": 7258118400.0, "token": 4}"#;

impl Bench {
    pub fn lock(&self, body: &str) {
        fs::write(self.path("aside"), body).expect("a file");
        fs::rename(self.path("aside"), self.path("store").join("lock.json")).expect("a rename");
    }
}

#[test]
fn run_increases_the_token_and_leaves_one_object() {
    let bench = Bench::new();
    for token in 1..=3 {
        let said =
            bench.run("run", &[&SINGLE[..], &["--", "sh", "-c", "echo $TENURE_EPOCH"]].concat());
        assert_eq!((said.code, said.out), (0, format!("{token}\n")));
    }
    assert_eq!(without_checks(bench.objects()), ["lock.json"]);
    let body = fs::read_to_string(bench.path("store").join("lock.json")).expect("the lock");
    assert!(body.contains("\"expires_at\": 0.0,\n  \"token\": 3,\n"), "{body}");
    let status = bench.json("status", &[&SINGLE[..], &["--json"]].concat());
    assert_eq!((&status["state"], &status["epoch"]), (&"vacant".into(), &3.into()));
}

#[test]
fn status_shows_the_content_of_the_object() {
    let bench = Bench::new();
    assert_eq!(bench.json("status", &[&SINGLE[..], &["--json"]].concat())["state"], "vacant");
    bench.lock(FOREIGN);
    let status = bench.json("status", &[&SINGLE[..], &["--json"]].concat());
    assert_eq!((&status["state"], &status["epoch"]), (&"held".into(), &4.into()));
    assert_eq!(status["expires_at"], "2200-01-01T00:00:00.000Z");
    let said = bench.run("status", &SINGLE);
    let expected =
        "validity   not in the record\nexpires    2200-01-01T00:00:00Z by the leader's clock\n";
    assert!(said.out.contains(expected), "{said:?}");
    bench.lock(r#"{"expires_at": 0, "token": 4}"#);
    let said = bench.run("status", &SINGLE);
    assert!(said.out.starts_with("state      vacant: resigned\n"), "{said:?}");
    bench.lock("{}");
    bench.run("status", &SINGLE).fails(70, &["lock.json"]);
}

#[test]
fn watch_shows_the_holder() {
    let bench = Bench::new();
    let url = bench.url();
    let line = ["watch", "--store", &url, "--poll", "50ms", "--layout", "single-object"];
    let mut child = spawn(&[], &line);
    let id = child.id();
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut tells = |end: &str| {
        let line = with_deadline(id, || lines.next()).expect("a line").expect("text");
        assert!(line.ends_with(end), "{line:?} does not end with {end:?}");
    };
    tells("vacant");
    bench.lock(FOREIGN);
    tells("- leads epoch 4");
    bench.lock(r#"{"expires_at": 0, "token": 4}"#);
    tells("vacant: somebody without a name resigned epoch 4");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("the command runs");
    assert_eq!(ended(&mut child).code(), Some(0));
}

#[test]
fn compact_refuses_with_the_reason() {
    let bench = Bench::new();
    bench.lock(FOREIGN);
    let words = ["nothing to compact", "tokens"];
    bench.run("compact", &SINGLE).fails(64, &words);
    assert_eq!(without_checks(bench.objects()), ["lock.json"]);
}

/// If the command accepted the wrong layout, its verbs would report a vacant election, or elect a
/// second leader.
#[test]
fn an_election_in_the_other_layout_is_refused() {
    let bench = Bench::new();
    bench.lock(FOREIGN);
    // Without `--layout single-object`, the errors of these verbs name this option.
    for verb in ["status", "watch", "compact"] {
        bench.run(verb, &[]).fails(64, &["--layout single-object"]);
    }
    bench.run("compact", &["--every", "1h"]).fails(64, &["--layout single-object"]);
    let said = bench.run("run", &["--", "true"]);
    assert_eq!(said.code, 64, "{said:?}");
    assert!(said.err.contains("--layout single-object"), "{said:?}");
    let bench = Bench::new();
    bench.epoch(3, r#"{"expired":true,"validity_ms":30000}"#);
    for verb in ["status", "watch"] {
        bench.run(verb, &SINGLE).fails(64, &["--layout epoch-files"]);
    }
    let said = bench.run("run", &[&SINGLE[..], &["--", "true"]].concat());
    assert_eq!(said.code, 64, "{said:?}");
    assert!(said.err.contains("--layout epoch-files"), "{said:?}");
}
