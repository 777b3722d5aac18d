//! Interrupts `tenure compact` during a long backlog.

use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::bench::{Said, said, spawn};
use tenure_testkit::command::{eventually, output};
use tenure_testkit::s3_server::*;

const BACKLOG: u64 = 100_000;
const LINE: [&str; 7] =
    ["compact", "--store", "s3://tenure-test/app", "--keep", "1", "--min-age", "0s"];

fn start(server: &S3Server, options: &[&str]) -> Child {
    spawn(&server.env(), &[&LINE[..], options].concat())
}

fn interrupt(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a small number")), signal)
        .expect("the command runs");
}

fn end(child: Child) -> Said {
    said(output(child))
}

fn key(epoch: u64) -> String {
    format!("app/lock-{epoch:010}.json")
}

#[test]
fn an_interrupted_compaction_continues_in_the_next_run() {
    let server = S3Server::start_blocking();
    for epoch in 1..=BACKLOG {
        server.put_raw(&key(epoch), r#"{"expired":true,"validity_ms":30000}"#);
    }
    server.fault(ServerFault::AnswerLate(Duration::from_millis(20))).on(Op::Delete);
    let mut gone = 0;
    for (signal, code, deletions) in [(Signal::SIGINT, 130, 10), (Signal::SIGTERM, 143, 30)] {
        let child = start(&server, &["--json"]);
        eventually("the command deletes", || server.count(Op::Delete) >= deletions);
        interrupt(&child, signal);
        let said = end(child);
        assert_eq!((said.code, said.err.as_str()), (code, ""), "{said:?}");
        let report: Value = serde_json::from_str(&said.out).expect("the output is one JSON object");
        assert_eq!(report["interrupted"], true, "{report}");
        gone += report["deleted"].as_u64().expect("a number");
        // The report counts exactly the deleted epochs. The command deletes the oldest epochs
        // first.
        let left = server.keys();
        assert_eq!(left.len() as u64, BACKLOG - gone, "{report}");
        assert_eq!(left.first(), Some(&key(gone + 1)));
        assert!(gone > 0 && gone < BACKLOG, "{report}");
    }
    let said = end(start(&server, &[]));
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.starts_with(&format!("deleted {} of ", BACKLOG - 1 - gone)), "{said:?}");
    assert_eq!(server.keys(), [key(BACKLOG)]);
}

/// If a LIST hangs, the first signal ends the command. If a deletion hangs, the second signal ends
/// the command.
#[test]
fn a_hanging_store_does_not_prevent_the_exit() {
    let server = S3Server::start_blocking();
    for epoch in 1..=3 {
        server.put_raw(&key(epoch), r#"{"expired":true,"validity_ms":30000}"#);
    }
    server.fault(ServerFault::Hold).on(Op::List).times(1);
    let child = start(&server, &[]);
    eventually("the command lists", || server.count(Op::List) == 1);
    interrupt(&child, Signal::SIGTERM);
    let said = end(child);
    let line = "interrupted: deleted 0 of the 0 epochs listed so far (0 bytes); 1 requests; run it \
                again to continue\n";
    assert_eq!((said.code, said.out.as_str()), (143, line));
    server.forget_requests();
    server.fault(ServerFault::Hold).on(Op::Delete);
    let child = start(&server, &[]);
    eventually("the command deletes", || server.count(Op::Delete) == 1);
    interrupt(&child, Signal::SIGINT);
    eventually("the command has handled the first signal", || {
        // A second signal ends the command immediately.
        interrupt(&child, Signal::SIGINT);
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    });
    let said = end(child);
    assert_eq!(said.code, 130, "{said:?}");
    assert!(said.out.starts_with("interrupted: deleted 0 of the 3 epochs"), "{said:?}");
    server.release();
}
