//! Tests of `tenure compact`.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::bench::{Bench, spawn};
use tenure_testkit::command::{ended, with_deadline};

const RECORD: &str = r#"{"expired":true,"validity_ms":30000}"#;

fn with_epochs(count: u64) -> Bench {
    let bench = Bench::new();
    for epoch in 1..=count {
        bench.epoch(epoch, RECORD);
    }
    bench
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a small number"));
    kill(pid, signal).expect("the process is alive");
}

#[test]
fn compact_keeps_the_newest_epochs() {
    let bench = with_epochs(5);
    let said = bench.run("compact", &["--keep", "2", "--min-age", "0s"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let bytes = 3 * RECORD.len();
    let url = bench.url();
    let line = format!("deleted 3 of 5 epochs ({bytes} bytes), kept 2, newest 5; 4 requests\n");
    assert_eq!(said.out, format!("{url}: {line}"));
    assert_eq!(bench.objects(), ["lock-0000000004.json", "lock-0000000005.json"]);
}

/// The group has two superseded assignments, and an ended session that no assignment names.
#[test]
fn a_group_is_compacted() {
    let bench = Bench::new();
    for epoch in 1..=3 {
        let body = format!(
            r#"{{"format":1,"epoch":{epoch},"nonce":"{epoch:032x}","next_number":0,
               "members":[],"partitions":[]}}"#
        );
        bench.object(&format!("assignment-{epoch:010}.json"), &body);
    }
    bench.object(
        "members/00000000000000000000000000000001/lock.json",
        r#"{"expires_at":0.0,"token":1,"epoch":1,"validity_ms":30000,"candidate":"x",
           "nonce":"00000000000000000000000000000001","ended":"resigned"}"#,
    );
    let said = bench.run("compact", &["--group", "--keep", "1", "--min-age", "0s"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(said.out.contains(": deleted 2 of 3 assignments ("), "{said:?}");
    assert!(said.out.contains("newest 3; deleted 1 of 1 sessions, kept 0; "), "{said:?}");
    assert!(bench.objects().contains(&"assignment-0000000003.json".to_owned()));
    assert!(!bench.objects().contains(&"assignment-0000000002.json".to_owned()));
    let again = bench.json("compact", &["--group", "--min-age", "0s", "--json"]);
    assert_eq!((&again["deleted"], &again["sessions"]["listed"]), (&0.into(), &0.into()));
}

#[test]
fn compact_keeps_young_epochs() {
    let bench = with_epochs(20);
    let said = bench.run("compact", &[]);
    // The printed line must show why the command deleted no epoch.
    let line =
        "deleted 0 of 20 epochs (0 bytes), kept 20 (10 superseded, but too young to delete), ";
    assert!(said.out.contains(line), "{said:?}");
    assert!(!said.out.contains("raised"), "{said:?}");
    assert_eq!(bench.objects().len(), 20);
    let short = bench.run("compact", &["--min-age", "1ms"]).out;
    assert!(short.ends_with("; --min-age is raised to 31s, the validity plus 1s\n"), "{short}");
}

#[test]
fn a_report_is_one_json_object() {
    let bench = with_epochs(5);
    let said = bench.run("compact", &["--keep", "1", "--min-age", "0s", "--dry-run", "--json"]);
    let bytes = 4 * RECORD.len();
    let line = format!(
        r#"{{"listed":5,"deleted":4,"kept":1,"too_young":0,"failed":0,"bytes":{bytes},"requests":3,"newest":5,"held":false,"min_age_ms":0,"dry_run":true,"interrupted":false,"first_failure":null}}"#
    );
    assert_eq!((said.code, said.out, said.err.as_str()), (0, format!("{line}\n"), ""));
    assert_eq!(bench.objects().len(), 5);
    let said = bench.run("compact", &["--keep", "1", "--min-age", "0s", "--dry-run"]);
    assert!(said.out.contains(": would delete 4 of 5 epochs"), "{said:?}");
    assert!(with_epochs(0).run("compact", &[]).out.ends_with(": no epochs; 2 requests\n"));
}

#[test]
fn compact_repeats_until_a_signal() {
    for last in [Signal::SIGTERM, Signal::SIGINT] {
        let bench = with_epochs(3);
        let mut runs = Runs::start(&bench, &[]);
        assert_eq!(runs.next()["deleted"], 2);
        bench.epoch(4, RECORD);
        while runs.next()["deleted"] == 0 {}
        assert_eq!(bench.objects(), ["lock-0000000004.json"]);
        signal(&runs.child, last);
        assert_eq!(ended(&mut runs.child).code(), Some(0));
    }
}

/// Before the fix, `compact --group --every` compacted only once, and then waited for a signal.
#[test]
fn regression_the_compaction_of_a_group_repeats() {
    let bench = Bench::new();
    let mut runs = Runs::start(&bench, &["--group"]);
    for _ in 0..2 {
        assert_eq!(runs.next()["sessions"]["deleted"], 0);
    }
}

/// A running `tenure compact --every`, and the lines of its reports.
struct Runs {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Runs {
    fn start(bench: &Bench, options: &[&str]) -> Runs {
        let url = bench.url();
        let line = ["compact", "--store", &url, "--keep", "1", "--min-age", "0s"];
        let mut child = spawn(&[], &[&line, &["--every", "50ms", "--json"][..], options].concat());
        let lines = BufReader::new(child.stdout.take().expect("the output is a pipe")).lines();
        Runs { child, lines }
    }

    fn next(&mut self) -> Value {
        let line = with_deadline(self.child.id(), || self.lines.next());
        let line = line.expect("a line").expect("text");
        serde_json::from_str(&line).expect("the output is one JSON object")
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// If a LIST hangs, the first signal ends the command. If a deletion hangs, the second signal ends
/// the command.
#[cfg(feature = "s3")]
#[test]
fn a_hanging_store_does_not_prevent_the_exit() {
    use crate::bench;
    use tenure_testkit::command::{eventually, output};
    use tenure_testkit::s3_server::{Op, S3Server, ServerFault};

    let line = ["compact", "--store", "s3://tenure-test/app", "--keep", "1", "--min-age", "0s"];
    let server = S3Server::start_blocking();
    for epoch in 1..=3 {
        server.put_raw(&format!("app/lock-{epoch:010}.json"), RECORD);
    }
    server.fault(ServerFault::Hold).on(Op::List).times(1);
    let child = spawn(&server.env(), &line);
    eventually("the command lists", || server.count(Op::List) == 1);
    signal(&child, Signal::SIGTERM);
    let said = bench::said(output(child));
    let report = "s3://tenure-test/app: interrupted: deleted 0 of the 0 epochs listed so far (0 bytes); 1 requests; run it \
                again to continue\n";
    assert_eq!((said.code, said.out.as_str()), (143, report));
    server.forget_requests();
    server.fault(ServerFault::Hold).on(Op::Delete);
    let child = spawn(&server.env(), &line);
    eventually("the command deletes", || server.count(Op::Delete) == 1);
    signal(&child, Signal::SIGINT);
    eventually("the command has handled the first signal", || {
        // A second signal ends the command immediately.
        signal(&child, Signal::SIGINT);
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    });
    let said = bench::said(output(child));
    assert_eq!(said.code, 130, "{said:?}");
    assert!(said.out.contains(": interrupted: deleted 0 of the 3 epochs"), "{said:?}");
    server.release();
}
