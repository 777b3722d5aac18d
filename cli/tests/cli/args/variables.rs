//! Tests of misspelt environment variables, and of variables that an outer `tenure` process sets.

use std::fs;

use nix::sys::signal::Signal;

use crate::TENURE;
use crate::bench::{Bench, with};
use tenure_testkit::command::scene::Scene;

/// Before the fix, the command accepted each of these URLs, although the URL named another election
/// than the user intended.
#[test]
fn regression_an_ambiguous_store_url_is_refused() {
    let bench = Bench::new();
    let url = bench.url();
    for (look_alike, words) in [
        (format!("{url} "), "white space"),
        (format!(" {url}"), "white space"),
        (format!("{url}\n"), "white space"),
        (format!("{url} /"), "white space"),
        (format!("{url}\u{200b}"), "u{200b}"),
        (format!("{url}\u{7}x"), "u{7}"),
    ] {
        let run = with(&[], &["run", "--store", &look_alike, "--", "true"]);
        assert!(run.code == 64 && run.err.contains(words), "{look_alike:?}: {run:?}");
        let run = with(&[("TENURE_STORE", &look_alike)], &["run", "--", "true"]);
        assert!(run.code == 64 && run.err.contains(words), "{look_alike:?}: {run:?}");
        assert!(run.err.contains("TENURE_STORE"), "{run:?}");
        let named = format!("a={look_alike}");
        let serve = with(&[], &["serve", "--election", &named]);
        assert!(serve.code == 64 && serve.err.contains(words), "{look_alike:?}: {serve:?}");
    }
    assert_eq!(bench.objects(), [""; 0], "nothing was written");
    let name = with(&[], &["run", "--store", &url, "--name", "anna ", "--", "true"]);
    assert!(name.code == 64 && name.err.contains("white space"), "{name:?}");
}

#[test]
fn regression_the_warning_names_a_misspelt_variable() {
    let bench = Bench::new();
    let url = bench.url();
    let wrong = [("TENURE_VALIDTY", "60s"), ("TENURE_STORE", &*url)];
    let run = with(&wrong, &["run", "--", "true"]);
    let line = "tenure: the variable TENURE_VALIDTY is not a setting and has no effect; did you \
                mean TENURE_VALIDITY?\n";
    assert!(run.code == 0 && run.err.starts_with(line), "{run:?}");
    // If a required setting is missing, the error also names the misspelt variable.
    let refused = with(&[("TENURE_STOER", &url)], &["status"]);
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.err.contains("TENURE_STOER") && refused.err.contains("--store"), "{refused:?}");
    let json = with(&wrong, &["status", "--log-format", "json"]);
    assert!(json.code == 0 && json.err.contains("\"message\":\"the variable"), "{json:?}");
}

#[test]
fn regression_a_tenure_inside_cmd_ignores_the_variables_of_the_outer_tenure() {
    let scene = Scene::new(TENURE);
    let inner = format!("{TENURE} run --store {}-inner --once-per 36500d -- true", scene.url());
    let script = format!("{inner} 2>said; echo $? >code");
    let mut outer = scene.run("a", &["--once-per", "36500d"]);
    outer
        .arg("--on-lost")
        .arg(format!("{TENURE} status --store {} >/dev/null 2>lost; echo >done", scene.url()));
    outer.args(["--", "sh", "-c", &script]);
    outer.env("TENURE_HEALTH_ADDR", "127.0.0.1:0").env("TENURE_METRICS_ADDR", "127.0.0.1:0");
    let mut outer = scene.start("a", outer);
    assert_eq!(scene.wait_for_file("code"), "0\n");
    assert_eq!(outer.code(), 0, "{}", outer.said());
    scene.wait_for_file("done");
    assert!(outer.said().contains("health"), "{}", outer.said());
    let said = scene.wait_for_file("said");
    assert!(!said.contains("no effect") && !said.contains("health"), "{said}");
    assert_eq!(fs::read_to_string(scene.path("lost")).expect("a file"), "");
}

#[test]
fn only_settings_of_the_outer_process_are_ignored() {
    let bench = Bench::new();
    let url = bench.url();
    let candidate = || bench.json("status", &["--json"])["candidate"].clone();
    let of_run = [
        ("TENURE_EPOCH", "7"),
        ("TENURE_RUN", "1"),
        ("TENURE_NAME", "outer"),
        ("TENURE_DATA_FILE", "/no/such/file"),
        ("TENURE_SUCCESSOR", " "),
        ("TENURE_HEALTH_ADDR", "no address"),
        ("TENURE_METRICS_ADDR", "no address"),
    ];
    let run = with(&of_run, &["run", "--store", &url, "--", "true"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_ne!(candidate(), "outer");
    let of_watch = [
        ("TENURE_EPOCH", "7"),
        ("TENURE_STATE", "1"),
        ("TENURE_DATA", "{"),
        ("TENURE_HEALTH_ADDR", "no address"),
        ("TENURE_METRICS_ADDR", "no address"),
        ("TENURE_NAME", "ops"),
    ];
    let run = with(&of_watch, &["run", "--store", &url, "--", "true"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(candidate(), "ops");
}

/// Like `run`, `watch --exec` sets TENURE_EPOCH for its command. Unlike `run`, it sets no name, so
/// a `tenure run` in the command must use the user's name.
#[test]
fn regression_cmd_of_watch_keeps_the_name_of_the_user() {
    let scene = Scene::new(TENURE);
    let mut leader = scene.script("a", &[], "echo >leads; sleep 300");
    scene.wait_for_file("leads");
    let inner = format!("{}-inner", scene.url());
    let mut watch = std::process::Command::new(TENURE);
    scene.surround(&mut watch);
    watch.args(["watch", "--store", &scene.url(), "--exec"]);
    let show = format!("{TENURE} status --store {inner} --field candidate");
    watch.arg(format!("{TENURE} run --store {inner} -- true && {show} >aside; mv aside shown"));
    watch.env("TENURE_NAME", "ops").env("TENURE_METRICS_ADDR", "127.0.0.1:0");
    let watch = scene.start("w", watch);
    assert_eq!(scene.wait_for_file("shown"), "ops\n");
    watch.signal(Signal::SIGTERM);
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.code(), 143, "{}", leader.said());
}

/// Before the fix, `group status` read TENURE_PARTITIONS as the value of its flag `--partitions`,
/// and refused the names of partitions.
#[test]
fn regression_group_status_ignores_the_partitions_of_members() {
    let bench = Bench::new();
    let url = bench.url();
    let variables = [("TENURE_STORE", &*url), ("TENURE_PARTITIONS", "0..4")];
    let said = with(&variables, &["group", "status"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
}
