//! Runs several compactors as concurrent processes, on a directory and on S3.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::bench::Bench;

const RUNS: u64 = 5;
const EPOCHS: u64 = 400;
const KEEP: u64 = 3;

fn start(env: &[(&'static str, String)], url: &str) -> Child {
    let mut command = Command::new(crate::TENURE);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    command.args(["compact", "--store", url, "--json", "--min-age", "0s"]);
    command.args(["--keep", &KEEP.to_string()]).envs(env.iter().cloned());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the process starts")
}

/// Asserts that each run prints one JSON object, and that the reported deletions add up.
fn overlapping(env: &[(&'static str, String)], url: &str) {
    let runs: Vec<_> = (0..RUNS).map(|_| start(env, url)).collect();
    let mut deleted = 0;
    for run in runs {
        let output = run.wait_with_output().expect("the child can be waited for");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let report: Value =
            serde_json::from_slice(&output.stdout).expect("the output is one JSON object");
        let count = |name: &str| report[name].as_u64().expect("a number");
        assert_eq!((count("newest"), count("failed")), (EPOCHS, 0), "{report}");
        assert!(count("listed") >= KEEP && count("listed") <= EPOCHS, "{report}");
        assert_eq!(count("deleted") + count("kept"), count("listed"), "{report}");
        deleted += count("deleted");
    }
    // Two runs may both count the deletion of one key, because S3 answers the deletion of a missing
    // key with success.
    let gone = EPOCHS - KEEP;
    assert!((gone..=gone * RUNS).contains(&deleted), "{deleted}");
}

fn key(epoch: u64) -> String {
    format!("lock-{epoch:010}.json")
}

#[test]
fn concurrent_runs_on_a_directory_are_harmless() {
    let bench = Bench::new();
    for epoch in 1..=EPOCHS {
        bench.epoch(epoch, r#"{"expired":true}"#);
    }
    overlapping(&[], &bench.url());
    let kept: Vec<_> = (EPOCHS - KEEP + 1..=EPOCHS).map(key).collect();
    assert_eq!(bench.objects(), kept);
}

#[cfg(feature = "s3")]
#[test]
fn concurrent_runs_on_s3_are_harmless() {
    use tenure_testkit::s3_server::{Op, S3Server};
    let server = S3Server::start_blocking();
    for epoch in 1..=EPOCHS {
        server.put_raw(&format!("app/{}", key(epoch)), r#"{"expired":true}"#);
    }
    overlapping(&server.env(), "s3://tenure-test/app");
    let kept = (EPOCHS - KEEP + 1..=EPOCHS).map(|epoch| format!("app/{}", key(epoch)));
    assert_eq!(server.keys(), kept.collect::<Vec<_>>());
    for seen in server.requests() {
        let newest = seen.deletes.iter().any(|deleted| deleted.ends_with(&key(EPOCHS)));
        assert!(seen.op != Op::Delete || !newest, "{seen:?}");
    }
}

/// A failed deletion may be a transient failure, unless S3 denies access. So the exit code is 69,
/// and the command also prints its report.
#[cfg(feature = "s3")]
#[test]
fn failed_deletions_exit_with_69_and_the_report() {
    use tenure_testkit::s3_server::S3Server;
    let server = S3Server::start_blocking();
    for epoch in 1..=5 {
        server.put_raw(&format!("app/{}", key(epoch)), r#"{"expired":true}"#);
    }
    server.quirks(|quirks| {
        quirks.undeletable = Some(key(1));
        quirks.undeletable_because = Some("InternalError");
    });
    let output = start(&server.env(), "s3://tenure-test/app").wait_with_output().expect("a child");
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let report: Value =
        serde_json::from_slice(&output.stdout).expect("the output is one JSON object");
    assert_eq!((report["deleted"].as_u64(), report["failed"].as_u64()), (Some(1), Some(1)));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("1 epochs could not be deleted; the first failure: app/lock-0000000001.json")
    );
}
