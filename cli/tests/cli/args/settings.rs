//! Tests of settings that are given in flags and environment variables.

use std::fs;
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::TENURE;
use crate::bench::{Bench, command, said, with};
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::Scene;

#[test]
fn a_flag_overrides_a_variable() {
    let bench = Bench::new();
    let url = bench.url();
    let variables = [
        ("TENURE_STORE", &*url),
        ("TENURE_NAME", "of-the-variable"),
        ("TENURE_VALIDITY", "50s"),
        ("TENURE_DATA", r#"{"at": 7}"#),
    ];
    let script =
        ["run", "--validity", "21s", "--", "tail", "-n", "+2", "store/lock-0000000001.json"];
    let mut run = command(&script);
    run.envs(variables).current_dir(bench.path(""));
    let said = said(run.output().expect("the command runs"));
    assert_eq!(said.code, 0, "{said:?}");
    let record: Value = serde_json::from_str(&said.out).expect("a record");
    assert_eq!(
        [&record["candidate"], &record["validity_ms"], &record["data"]],
        [&json!("of-the-variable"), &json!(21_000), &json!({"at": 7})]
    );
    // The verbs for operators also read the URL of the store from `TENURE_STORE`.
    let status = with(&[("TENURE_STORE", &url)], &["status", "--json"]);
    assert!(status.out.contains("\"resigned\""), "{status:?}");
}

#[test]
fn wrong_variables_are_refused_with_their_names() {
    let bench = Bench::new();
    let url = bench.url();
    let run =
        |name: &str, value: &str| with(&[(name, value)], &["run", "--store", &url, "--", "true"]);
    run("TENURE_VALIDITY", "3").fails(64, &["TENURE_VALIDITY: ", "time unit"]);
    run("TENURE_FOREVER", "perhaps").fails(64, &["TENURE_FOREVER: ", "boolean"]);
    run("TENURE_DATA", "{").fails(64, &["TENURE_DATA: ", "not JSON"]);
    let shown = with(&[("TENURE_VALIDITY", "3")], &["run", "--store", &url, "--validity", "4"]);
    assert!(shown.code == 64 && !shown.err.contains("TENURE_VALIDITY"), "{shown:?}");
    let alias = with(&[("TENURE_VALIDITY", "3s")], &["run", "--store", &url, "--ttl", "4", "true"]);
    assert!(alias.code == 64 && !alias.err.contains("TENURE_VALIDITY"), "{alias:?}");
    assert_eq!(bench.objects(), [""; 0], "nothing was written");
    for off in [("TENURE_FOREVER", "no"), ("TENURE_UNIQUE_NAME", "Off"), ("TENURE_VALIDITY", "")] {
        let said = run(off.0, off.1);
        assert_eq!(said.code, 0, "{off:?}: {said:?}");
    }
}

/// `--unique-name` requires a name. Before the fix, the command demanded `--name` even if the
/// variable `TENURE_NAME` was set.
#[test]
fn regression_a_variable_satisfies_a_required_flag() {
    let bench = Bench::new();
    let url = bench.url();
    let variables = [("TENURE_STORE", &*url), ("TENURE_NAME", "a")];
    let run = with(&variables, &["run", "--unique-name", "--", "true"]);
    assert_eq!(run.code, 0, "{run:?}");
    // The command refuses missing and invalid settings before its first request.
    let refused = |variables: &[(&str, &str)], line: &[&str], words: &str| {
        let said = with(variables, line);
        assert!(said.code == 64 && said.err.contains(words), "{words:?} is not in {said:?}");
    };
    refused(&[], &["run", "--store", &url, "--unique-name", "--", "true"], "--name <NAME>");
    refused(&variables, &["run", "--unique-name", "--valdity", "3s", "--", "true"], "--valdity");
    refused(&variables, &["run", "--unique-name", "--validity", "3", "--", "true"], "time unit");
}

/// With `--unique-name`, the user asserts that no other process has the same name. If a `tenure
/// run` inside CMD inherited the leader's name, this inner process would seal the leader's epoch.
#[test]
fn a_nested_run_does_not_inherit_the_name_of_its_leader() {
    let scene = Scene::new(TENURE);
    let tenure = TENURE;
    let inner = format!(
        "TENURE_UNIQUE_NAME=1 {tenure} run --store {url} -- sh -c 'echo inner >inner'; \
         echo ended >ended",
        url = scene.url()
    );
    let mut outer = scene.script("a", &["--unique-name", "--validity", "20s"], &inner);
    outer.says("waiting: a leads epoch 1");
    assert!(!scene.exists("inner"), "the nested run leads");
    assert_eq!(scene.status()["candidate"], "a");
    outer.signal(Signal::SIGTERM);
    assert_eq!(outer.code(), 143, "{}", outer.said());
}

#[test]
fn serve_reads_lists_from_variables() {
    let twice = [("TENURE_ELECTION", "a=file:///a  a=file:///b")];
    with(&twice, &["serve"]).fails(64, &["two elections have the name a"]);
    let wrong = [("TENURE_ELECTION", "a=ftp://b/p")];
    with(&wrong, &["serve"]).fails(64, &["TENURE_ELECTION: ", "ftp"]);
    let groups = [("TENURE_GROUP", "a=file:///a b=file:///b"), ("TENURE_PARTITIONS", "a=0..2")];
    with(&groups, &["serve"]).fails(64, &["the group b has no partitions", "b=0..64"]);
}

#[test]
fn a_restart_under_a_unique_name_waits_only_for_the_old_cmd() {
    let scene = Scene::new(TENURE);
    // The validity is longer than the deadline of the test, so the test fails if the new candidate
    // waits for the lapse.
    let options = ["--validity", "4m", "--grace", "1s", "--unique-name"];
    let mut old =
        scene.script("a", &options, "trap '' TERM; echo $$ >old; while :; do sleep 1; done");
    let cmd = scene.number("old");
    old.signal(Signal::SIGKILL);
    assert_eq!(old.code(), 137);
    let script = format!("kill -0 {cmd} 2>/dev/null && echo beside >new || echo alone >new");
    let mut new = scene.script("a", &options, &script);
    assert_eq!(scene.wait_for_file("new"), "alone\n");
    assert_eq!(new.code(), 0, "{}", new.said());
    assert_eq!(scene.status()["epoch"], 2);
}

/// The dates of the store show that the leader died long ago. So a candidate takes over
/// immediately, and does not observe the leader for the length of a validity.
#[test]
fn a_candidate_takes_over_from_a_long_dead_leader_without_a_wait() {
    let bench = Bench::new();
    bench.epoch(1, r#"{"expired":false,"validity_ms":7200000,"candidate":"a","nonce":"a530ea12f742f371bcbcb23b4f9a616c"}"#);
    let file = fs::File::options().append(true).open(bench.path("store/lock-0000000001.json"));
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    file.and_then(|file| file.set_modified(long_ago)).expect("the date of the object can be set");
    let options = ["--store-clock-margin", "2s", "--", "sh", "-c", "echo $TENURE_EPOCH"];
    let said = bench.run("run", &options);
    assert_eq!((said.code, said.out.as_str()), (0, "2\n"), "{said:?}");
}

#[test]
fn the_record_gets_the_new_content_of_the_data_file() {
    let scene = Scene::new(TENURE);
    let file = scene.path("data.json");
    fs::write(&file, r#"{"at": "10.0.0.7"}"#).expect("a file");
    let options = ["--data-file", file.to_str().expect("text"), "--validity", "30s"];
    let mut leader = scene.script("a", &options, "echo runs >runs; sleep 300");
    scene.wait_for_file("runs");
    assert_eq!(scene.status()["data"], json!({"at": "10.0.0.7"}));
    fs::write(&file, r#"{"at": "#).expect("a file");
    leader.says("is not JSON");
    fs::write(&file, r#"{"at": "10.0.0.8"}"#).expect("a file");
    eventually("the record has the new data", || {
        scene.status()["data"] == json!({"at": "10.0.0.8"})
    });
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.code(), 143, "{}", leader.said());
    assert_eq!(leader.said().matches("is not JSON").count(), 1, "{}", leader.said());
}
