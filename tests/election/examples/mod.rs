//! The examples, as a newcomer runs them: they end well, show what they promise, and leave nothing.
#![cfg(unix)]

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use assert_cmd::Command;

#[cfg(feature = "s3")]
mod quick_start;

/// Each takes some seconds, and several times that on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn failover() {
    shows_failover(&on_disk("failover"));
}

#[test]
fn failover_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("failover.svg");
    let mut command = Command::new(built("failover"));
    command.arg("--svg").arg(&file);
    shows_failover(&run(command));
    let svg = std::fs::read_to_string(file).unwrap();
    let document = roxmltree::Document::parse(&svg).expect("XML");
    let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
    for told in ["anna", "ben", "cleo", "crashed", "resigned", "nobody leads"] {
        assert!(texts.contains(&told), "{told} is not in {texts:?}");
    }
    let errors = Command::new(built("failover")).arg("--svg").timeout(PATIENCE).assert().failure();
    assert_shows(&String::from_utf8_lossy(&errors.get_output().stderr), &["--svg takes a file"]);
}

#[test]
fn stream_processor() {
    shows_stream_processor(&on_disk("stream_processor"));
}

#[test]
fn partition_router() {
    shows_partition_router(&on_disk("partition_router"));
}

#[test]
fn manifest_writer() {
    shows_manifest_writer(&on_disk("manifest_writer"));
}

#[test]
fn compact_job() {
    shows_compact_job(&on_disk("compact_job"));
}

#[test]
fn fenced_sqlite() {
    let shown = on_disk("fenced_sqlite");
    assert_shows(&shown, &["PAUSED", "food: REFUSED, epoch 2 was here", "The balance is 800"]);
}

#[test]
fn fenced_api() {
    let shown = on_disk("fenced_api");
    assert_shows(&shown, &["PAUSED", "412, the token 1 is refused", "epoch 2: ben's first"]);
}

#[test]
fn traced() {
    shows_traced(&on_disk("traced"));
}

#[test]
fn rename_folder() {
    shows_rename_folder(&on_disk("rename_folder"));
}

#[test]
fn an_address_that_is_none_is_refused_with_an_example_of_one() {
    let output = Command::new(built("failover")).arg("bucket").timeout(PATIENCE).assert().failure();
    let errors = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert_shows(&errors, &["bucket: it has no scheme", "s3://BUCKET/PREFIX"]);
}

#[cfg(feature = "s3")]
mod s3 {
    use super::*;
    use tenure_testkit::s3_server::{BUCKET, S3Server};

    #[test]
    fn failover() {
        shows_failover(&on_s3("failover"));
    }

    #[test]
    fn stream_processor() {
        shows_stream_processor(&on_s3("stream_processor"));
    }

    #[test]
    fn partition_router() {
        shows_partition_router(&on_s3("partition_router"));
    }

    #[test]
    fn manifest_writer() {
        shows_manifest_writer(&on_s3("manifest_writer"));
    }

    #[test]
    fn compact_job() {
        shows_compact_job(&on_s3("compact_job"));
    }

    #[test]
    fn rename_folder() {
        shows_rename_folder(&on_s3("rename_folder"));
    }

    #[test]
    fn traced() {
        shows_traced(&on_s3("traced"));
    }

    fn on_s3(name: &str) -> String {
        let server = S3Server::start_blocking();
        let mut command = Command::new(built(name));
        command.arg(format!("s3://{BUCKET}/some/prefix")).envs(server.env());
        let shown = run(command);
        let below = format!("some/prefix/{name}-");
        assert!(server.keys().iter().any(|key| key.starts_with(&below)), "{:?}", server.keys());
        shown
    }
}

fn shows_failover(shown: &str) {
    assert_shows(shown, &["LEADS epoch 1", "follows ", "CRASHES", "RESIGNS", "LEADS epoch 3"]);
    assert_eq!(shown.matches(" s  resigned ").count(), 2, "{shown}");
    assert_eq!(shown.matches(" s  crashed ").count(), 1, "{shown}");
}

fn shows_stream_processor(shown: &str) {
    let at = |words: &str| shown.find(words).unwrap_or_else(|| panic!("{words:?}: {shown}"));
    let (joins, killed) = (at("cleo      joins"), at("anna      is KILLED"));
    let shared = at("the partitions are shared by anna, ben, cleo");
    assert!(joins < shared && shared < killed, "{shown}");
    // What moves to the one that joins is given up by its owners.
    assert!(shown[joins..shared].contains("is REVOKED, at offset"), "{shown}");
    let after = &shown[killed..];
    assert_shows(after, &["the partitions are shared by ben, cleo", "anna      late commit of "]);
    let late: Vec<_> = after.lines().filter(|line| line.contains("late commit of")).collect();
    assert!(late.iter().all(|line| line.contains(": REFUSED, token ")), "{late:?}");
    assert_shows(after, &["ben       has left", "cleo      has left"]);
    assert_shows(after, &["records counted once: no gap, no overlap, no token went back"]);
}

fn shows_partition_router(shown: &str) {
    let steps = [
        "router    has answers from anna, ben\n",
        "cleo      joins",
        "router    has answers from anna, ben, cleo\n",
        "anna      is KILLED",
        "router    has answers from ben, cleo\n",
        "ben       leaves",
        "router    has answers from cleo\n",
    ];
    let rest = steps.iter().try_fold(shown, |rest, step| Some(rest.split_once(step)?.1));
    let rest = rest.unwrap_or_else(|| panic!("{steps:?} is not what this shows:\n{shown}"));
    let count = |what: &str| -> u64 {
        let line = rest.lines().find(|line| line.ends_with(what));
        let line = line.unwrap_or_else(|| panic!("{what:?} is missing in:\n{shown}"));
        line.split_whitespace().next().and_then(|count| count.parse().ok()).expect("a number")
    };
    assert!(count("requests were answered") > 0, "{shown}");
    assert_eq!(count("were answered by a member that was not the owner"), 0, "{shown}");
    // The router was wrong after the join and after the kill.
    assert!(count("did not own the partition any more") > 0, "{shown}");
    assert!(count("tries reached no member") > 0, "{shown}");
}

fn shows_manifest_writer(shown: &str) {
    assert_shows(shown, &["PAUSED", "manifest 4, with a1.sst a2.sst a3.sst"]);
    assert_shows(shown, &["adds a4.sst: REFUSED, the token 1 is refused: epoch 2 has been seen"]);
    assert_shows(shown, &["6      2  a1.sst a2.sst a3.sst b1.sst"]);
}

fn shows_compact_job(shown: &str) {
    assert_shows(shown, &["would delete 1991 of 2001", "deleted 1991 of 2001"]);
    assert_shows(shown, &["deleted 0 of 10", "leads epoch 2002"]);
}

fn shows_traced(shown: &str) {
    let lines: Vec<_> = shown.lines().collect();
    // The trace that went over HTTP, and the one that all spans have.
    let sent =
        lines.iter().find_map(|line| line.split_once("traceparent: Some(\"00-")).expect("one").1;
    let (sent, _) = sent.split_once('-').expect("a trace and a span");
    let all = shown.split_once("One trace, ").expect("only one").1;
    assert!(sent.len() == 32 && all.starts_with(sent), "{shown}");
    let depth = |name: &str| {
        let line = lines.iter().find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{name:?} is missing in:\n{shown}"));
        line.len() - line.trim_start().len()
    };
    for (name, spaces) in [
        ("job", 0),
        ("campaign  epoch=1  outcome=elected", 2),
        ("request  op=create  epoch=1  outcome=done", 4),
        ("leadership  epoch=1  outcome=resigned", 2),
        ("renewal  epoch=1  outcome=renewed", 4),
        ("request  op=renew  epoch=1  outcome=done", 6),
        ("request  op=seal  epoch=1  outcome=done", 4),
        ("write", 2),
        ("put board  epoch=1", 4),
    ] {
        assert_eq!(depth(name), spaces, "{name}:\n{shown}");
    }
}

fn shows_rename_folder(shown: &str) {
    assert_shows(shown, &["renamed /album/draft to /album/final, without a lock"]);
    assert_shows(shown, &["renamed /album/final to /album/draft, locked, with token 1"]);
    let torn = |locks: &str| -> usize {
        let line = shown.lines().find(|line| line.trim_start().starts_with(locks));
        let columns: Vec<_> = line.expect("a line for it").split_whitespace().collect();
        columns[3].parse().expect("a number")
    };
    assert!(torn("without ") > 0 && torn("with ") == 0, "{shown}");
}

#[track_caller]
fn assert_shows(shown: &str, words: &[&str]) {
    for word in words {
        assert!(shown.contains(word), "{word:?} is missing in:\n{shown}");
    }
}

fn on_disk(name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(built(name));
    command.env("TMPDIR", folder.path());
    let shown = run(command);
    let left: Vec<_> = folder.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "{name} has left {left:?}");
    shown
}

fn run(mut command: Command) -> String {
    let done = command.timeout(PATIENCE).assert().success();
    String::from_utf8(done.get_output().stdout.clone()).unwrap()
}

/// The example's program, up to date. `cargo test` alone does not see to that: with `--test` it
/// builds no examples, and with `--all-targets` only their (empty) tests.
fn built(name: &str) -> PathBuf {
    static EXAMPLES: LazyLock<PathBuf> = LazyLock::new(build);
    EXAMPLES.join(name)
}

/// Builds them as this program was built, so that Cargo finds most of the work done.
fn build() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let folder = this.ancestors().nth(2).unwrap();
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    // With another set of features it would work too, but build the library and all examples once more.
    let features: &[&str] = match (cfg!(feature = "default"), cfg!(feature = "s3")) {
        (true, _) => &[],
        (false, true) => &["--no-default-features", "--features", "s3"],
        (false, false) => &["--no-default-features"],
    };
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars() {
        // What Cargo tells this program of its package: `ring` is built again if it has changed.
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
    folder.join("examples")
}
