//! Tests the command on S3 over real HTTP, and its messages about stores that fail.

use std::io::{BufRead as _, BufReader};

use nix::sys::signal::Signal;

use crate::bench::{Said, command, said, spawn, without_checks};
use crate::election::status_watch::Watching;
use tenure_testkit::command::{ended, eventually, with_deadline};
use tenure_testkit::s3_server::*;

fn on(server: &S3Server, line: &[&str]) -> Said {
    with(&server.env(), line)
}

pub fn with(env: &[(&'static str, String)], line: &[&str]) -> Said {
    let mut command = command(line);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    said(command.output().expect("the command runs"))
}

pub const STORE: [&str; 2] = ["--store", "s3://tenure-test/app"];

fn run(server: &S3Server) -> Said {
    on(server, &[&["run"][..], &STORE, &["--", "echo", "elected"]].concat())
}

fn status(server: &S3Server) -> Said {
    on(server, &[&["status"][..], &STORE].concat())
}

fn compact(server: &S3Server, options: &[&str]) -> Said {
    let line = [&["compact"][..], &STORE, &["--min-age", "0s", "--keep", "1"], options].concat();
    on(server, &line)
}

#[test]
fn every_verb_works_on_s3() {
    let server = S3Server::start_blocking();
    assert!(status(&server).out.contains("vacant"));
    for _ in 0..3 {
        let said = run(&server);
        assert_eq!((said.code, said.out.as_str()), (0, "elected\n"), "{said:?}");
    }
    let said = on(&server, &[&["status", "--json"][..], &STORE].concat());
    assert!(said.out.starts_with(r#"{"state":"vacant","epoch":3,"#), "{said:?}");
    let said = compact(&server, &["--json"]);
    assert!(said.out.starts_with(r#"{"listed":3,"deleted":2,"kept":1,"#), "{said:?}");
    assert_eq!(without_checks(server.keys()), ["app/lock-0000000003.json"]);
}

#[test]
fn a_missing_bucket_exits_with_69() {
    let server = S3Server::start_blocking();
    for line in [
        &["status", "--store", "s3://no-such-bucket/app"][..],
        &["compact", "--store", "s3://no-such-bucket/app"],
        &["history", "--store", "s3://no-such-bucket/app"],
        &["run", "--store", "s3://no-such-bucket/app", "--", "echo", "elected"],
    ] {
        let said = on(&server, line);
        said.fails(69, &["no-such-bucket", "bucket"]);
        let retried = said.err.contains("WARN the store fails, trying again for 10s: ");
        assert_eq!(retried, line[0] == "run", "{said:?}");
    }
    let line = ["run", "--store", "s3://no-such-bucket/app", "--wait", "3s", "--", "true"];
    let said = on(&server, &line);
    said.fails(69, &["no-such-bucket"]);
    assert!(said.err.contains("WARN the store fails, trying again for 3s: "), "{said:?}");
}

#[test]
fn denied_access_exits_with_77_and_names_the_permission() {
    let server = S3Server::start_blocking();
    server.fault(ServerFault::AccessDenied).on(Op::List);
    status(&server).fails(77, &["ListBucket"]);
    compact(&server, &[]).fails(77, &["ListBucket"]);
    server.clear_faults();
    server.fault(ServerFault::AccessDenied).on(Op::Put);
    run(&server).fails(77, &["PutObject"]);
    assert_eq!(server.keys(), [""; 0]);
}

#[test]
fn wrong_credentials_exit_with_77() {
    let server = S3Server::start_blocking();
    let mut env = server.env();
    for (name, value) in &mut env {
        if *name == "AWS_ACCESS_KEY_ID" {
            *value = "AKIAUNKNOWN".to_owned();
        }
    }
    with(&env, &[&["status"][..], &STORE].concat()).fails(77, &["tenure-test"]);
    env.retain(|(name, _)| !name.starts_with("AWS_ACCESS") && !name.starts_with("AWS_SECRET"));
    with(&env, &[&["status"][..], &STORE].concat()).fails(77, &["no credentials"]);
}

#[test]
fn the_url_sets_the_encryption_and_the_expected_bucket_owner() {
    let server = S3Server::start_blocking();
    let url = |owner: &str| {
        let key = "arn:aws:kms:us-east-1:111122223333:key/1234";
        format!(
            "s3://tenure-test/app?sse=aws:kms&kms-key-id={key}&bucket-key=true&\
             expected-bucket-owner={owner}"
        )
    };
    for _ in 0..3 {
        let said = on(&server, &["run", "--store", &url(OWNER), "--", "echo", "elected"]);
        assert_eq!((said.code, said.out.as_str()), (0, "elected\n"), "{said:?}");
    }
    let compaction = ["--min-age", "0s", "--keep", "1"];
    on(&server, &[&["compact", "--store", &url(OWNER)][..], &compaction].concat());
    assert_eq!(without_checks(server.keys()), ["app/lock-0000000003.json"]);
    for seen in server.requests() {
        assert_eq!(seen.headers["x-amz-expected-bucket-owner"], OWNER, "{seen:?}");
        let encryption = seen.headers.get("x-amz-server-side-encryption");
        assert_eq!(encryption.is_some(), seen.op == Op::Put, "{seen:?}");
    }
    on(&server, &["status", "--store", &url("999999999999")]).fails(77, &["owner 999999999999"]);
    let line = ["status", "--store", "s3://tenure-test/app?see=AES256"];
    let said = on(&server, &line);
    assert!(said.code == 64 && said.err.contains("`?see` is unknown"), "{said:?}");
}

/// Before the fix, if an expected owner of the bucket was set, the requests of `probe` for the
/// bucket's settings did not name this owner.
#[test]
fn regression_each_request_of_probe_names_the_owner_of_the_bucket() {
    let server = S3Server::start_blocking();
    let url = format!("s3://tenure-test/app?expected-bucket-owner={OWNER}");
    let probe = on(&server, &["probe", "--store", &url, "--rounds", "1"]);
    assert!([0, 69].contains(&probe.code), "{probe:?}");
    for seen in server.requests() {
        assert_eq!(seen.headers["x-amz-expected-bucket-owner"], OWNER, "{seen:?}");
    }
}

#[test]
fn an_unsafe_store_exits_with_70() {
    let server = S3Server::start_blocking();
    server.quirks(|quirks| quirks.ignore_if_none_match = true);
    run(&server).fails(70, &["must not be used for elections", "If-None-Match"]);
    assert!(!server.keys().iter().any(|key| key.contains("lock-")), "{:?}", server.keys());
}

#[test]
fn a_web_page_is_refused_as_a_store() {
    let server = S3Server::start_blocking();
    server.fault(ServerFault::Html);
    let said = status(&server);
    assert!([69, 70].contains(&said.code) && said.err.lines().count() == 1, "{said:?}");
}

#[test]
fn a_denied_deletion_exits_with_77() {
    let server = S3Server::start_blocking();
    for epoch in 1..=3 {
        server.put_raw(&format!("app/lock-{epoch:010}.json"), r#"{"expired":true}"#);
    }
    server.fault(ServerFault::AccessDenied).on(Op::Delete);
    compact(&server, &[]).fails(77, &["DeleteObject"]);
    assert_eq!(server.keys().len(), 3);
    server.clear_faults();
    // If a key is under a legal hold, S3 denies the deletion of this key. Then the command fails,
    // and also prints its report.
    server.quirks(|quirks| quirks.undeletable = Some("0000000001".to_owned()));
    let said = compact(&server, &["--json"]);
    assert_eq!(said.code, 77, "{said:?}");
    assert!(
        said.out.starts_with(r#"{"listed":3,"deleted":1,"kept":1,"too_young":0,"failed":1,"#),
        "{said:?}"
    );
    assert!(said.err.starts_with(
        "tenure: 1 epochs could not be deleted; the first failure: app/lock-0000000001"
    ));
    assert_eq!(
        without_checks(server.keys()),
        ["app/lock-0000000001.json", "app/lock-0000000003.json"]
    );
}

/// If S3 does not deny access, a failed deletion may be a transient failure. So the exit code is
/// 69, and the command also prints its report.
#[test]
fn failed_deletions_exit_with_69_after_the_report() {
    let server = S3Server::start_blocking();
    for epoch in 1..=3 {
        server.put_raw(&format!("app/lock-{epoch:010}.json"), r#"{"expired":true}"#);
    }
    server.quirks(|quirks| {
        quirks.undeletable = Some("0000000001".to_owned());
        quirks.undeletable_because = Some("InternalError");
    });
    let said = compact(&server, &["--json"]);
    assert_eq!(said.code, 69, "{said:?}");
    assert!(
        said.out.starts_with(r#"{"listed":3,"deleted":1,"kept":1,"too_young":0,"failed":1,"#),
        "{said:?}"
    );
    let first = "1 epochs could not be deleted; the first failure: app/lock-0000000001.json";
    assert!(said.err.contains(first), "{said:?}");
}

/// The record of an epoch with a validity of 1.5 s.
const SHORT: &str = r#"{"expired":false,"validity_ms":1500,"candidate":"a","heartbeat":1}"#;

#[test]
fn watch_distinguishes_unknown_from_vacant() {
    let server = S3Server::start_blocking();
    server.put_raw("app/lock-0000000003.json", SHORT);
    let mut watching = Watching::with(&server.env(), STORE[1], &[]);
    watching.tells("a leads epoch 3");
    server.fault(ServerFault::ErrorBefore);
    watching.tells("unknown: the store does not answer");
    server.clear_faults();
    server.put_raw("app/lock-0000000003.json", SHORT.replace("false", "true"));
    watching.tells("vacant");
    watching.ends(Signal::SIGTERM);
}

/// A seal by an operator may take effect although the answer of the store is lost. The command then
/// reads the object to learn whether the epoch is sealed. Each case waits for a renewal, so the
/// cases run concurrently.
#[test]
fn verbs_of_operators_succeed_on_s3_despite_faults() {
    let faults = [
        ServerFault::ErrorBefore,
        ServerFault::ErrorAfter,
        ServerFault::Conflict,
        ServerFault::CutAfter,
    ];
    std::thread::scope(|scope| {
        for layout in [&[][..], &["--layout", "single-object"]] {
            for fault in &faults {
                scope.spawn(move || the_verbs_of_an_operator_succeed_despite(fault, layout));
            }
        }
    });
}

/// After the leader is killed, the process that resigns for it must use the store and the
/// credentials of the leader.
#[cfg(target_os = "linux")]
#[test]
fn the_epoch_of_a_killed_leader_is_resigned_on_s3() {
    let server = S3Server::start_blocking();
    let work = ["--validity", "10m", "--", "sh", "-c", "echo on; exec sleep 300"];
    let mut leader = spawn(&server.env(), &[&["run"][..], &STORE, &work].concat());
    let mut line = String::new();
    let id = leader.id();
    let mut out = BufReader::new(leader.stdout.take().expect("the output is a pipe"));
    with_deadline(id, || out.read_line(&mut line)).expect("text");
    leader.kill().expect("the process is alive");
    ended(&mut leader);
    let status = || on(&server, &[&["status", "--json"][..], &STORE].concat()).out;
    eventually("its epoch is sealed", || status().starts_with(r#"{"state":"vacant","epoch":1,"#));
    let said = run(&server);
    assert_eq!((said.code, said.out.as_str()), (0, "elected\n"), "{said:?}");
}

fn the_verbs_of_an_operator_succeed_despite(fault: &ServerFault, layout: &[&str]) {
    let server = S3Server::start_blocking();
    let verb = |verb, rest: &[&str]| on(&server, &[&[verb][..], &STORE, layout, rest].concat());
    server.fault(*fault).on(Op::Put).times(1);
    let said = verb("restore", &["--epoch", "41"]);
    assert_eq!(said.code, 0, "{fault:?}: {said:?}");
    assert_eq!(verb("run", &["--", "true"]).code, 0);
    let said = verb("depose", &["--epoch", "42"]);
    assert!(said.out.contains("epoch 42") && said.out.contains("resigned"), "{said:?}");
    let work = ["--", "sh", "-c", "echo on; exec sleep 300"];
    let mut leader = spawn(&server.env(), &[&["run"][..], &STORE, layout, &work].concat());
    let mut line = String::new();
    let id = leader.id();
    let mut out = BufReader::new(leader.stdout.as_mut().expect("the output is a pipe"));
    with_deadline(id, || out.read_line(&mut line)).expect("text");
    server.clear_faults();
    server.fault(*fault).on(Op::Put).times(1);
    let said = verb("depose", &["--epoch", "43"]);
    assert!(said.out.contains("from epoch 43; a successor waits"), "{fault:?}: {said:?}");
    server.clear_faults();
    // The operator has sealed the epoch, so the store refuses the leader's next renewal.
    assert_eq!(ended(&mut leader).code(), Some(75), "{fault:?}");
}
