//! Stores that are unreachable at the start or during the whole run.
//!
//! A watch needs half a minute to report an unknown state. Tests start in the order of their names.
//! The name of this module is the first, so its slow test starts first and overlaps with the
//! others.

use std::io::{BufRead as _, BufReader};

use nix::sys::signal::Signal;

use crate::bench::spawn;
use crate::election::status_watch::Watching;
use crate::store::s3::{STORE, with};
use tenure_testkit::closed_port::ClosedPort;
use tenure_testkit::command::{ended, with_deadline};
use tenure_testkit::s3_server::*;

#[test]
fn watch_waits_for_an_unreachable_store() {
    let server = S3Server::start_blocking();
    server.fault(ServerFault::CutBefore);
    let mut watching = Watching::with(&server.env(), STORE[1], &[]);
    watching.tells("unknown: the store does not answer");
    server.clear_faults();
    watching.tells("vacant");
    watching.ends(Signal::SIGINT);
}

#[test]
fn an_unreachable_endpoint_exits_with_69() {
    let closed = ClosedPort::start();
    let endpoint = closed.endpoint();
    let server = S3Server::start_blocking();
    let mut env = server.env();
    env.retain(|(name, _)| *name != "AWS_ENDPOINT_URL");
    env.push(("AWS_ENDPOINT_URL", endpoint.clone()));
    for line in [[&["status"][..], &STORE].concat(), [&["compact"][..], &STORE].concat()] {
        with(&env, &line).fails(69, &[&endpoint, "check the connection"]);
    }
}

#[test]
fn run_waits_for_an_unreachable_store() {
    let server = S3Server::start_blocking();
    server.fault(ServerFault::CutBefore);
    let mut child = spawn(&server.env(), &[&["run"][..], &STORE, &["--", "echo", "yes"]].concat());
    let mut lines = BufReader::new(child.stderr.take().expect("the output is a pipe")).lines();
    let id = child.id();
    let mut said = || with_deadline(id, || lines.next()).expect("a line").expect("text");
    assert!(said().ends_with("in s3://tenure-test/app"));
    let failing = said();
    assert!(failing.contains("WARN the store fails, trying again: "), "{failing}");
    server.clear_faults();
    // The command reports a failure of the store only once, so the next line reports the election.
    let elected = said();
    assert!(elected.ends_with("tenure: elected: epoch 1; running echo yes"), "{elected}");
    assert!(said().ends_with("tenure: resigned epoch 1"));
    assert_eq!(ended(&mut child).code(), Some(0));
}
