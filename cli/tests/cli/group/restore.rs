//! Tests of `tenure group restore` on a directory.

use std::process::Command;

use serde_json::{Value, json};

use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::Scene;

use crate::TENURE;
use crate::bench::{Bench, Said, spawn, tenure};

fn restore(bench: &Bench, options: &[&str]) -> Said {
    let url = bench.url();
    tenure(&[&["group", "restore", "--store", &url], options].concat())
}

#[test]
fn a_group_without_assignments_continues_above_the_epoch() {
    let bench = Bench::new();
    restore(&bench, &["--epoch", "41"]).fails(64, &["set the partitions"]);
    restore(&bench, &["--epoch", "41", "--wait", "2h"]).fails(64, &["--wait must be at most 1h"]);
    restore(&bench, &["--epoch", "9999999999"]).fails(70, &["fewer than two"]);
    let said = restore(&bench, &["--epoch", "41", "--partitions", "0..3", "--json"]);
    let report: Value = serde_json::from_str(&said.out).expect("the output is one JSON object");
    assert_eq!(report, json!({ "outcome": "restored", "epoch": 41, "partitions": 3 }));
    assert_eq!(said.code, 0, "{}", said.err);
    restore(&bench, &["--epoch", "41"])
        .fails(73, &["assignment 43 exists", "already continues above 41"]);
    let url = bench.url();
    let status = tenure(&["group", "status", "--store", &url, "--json"]);
    let status: Value = serde_json::from_str(&status.out).expect("the output is one JSON object");
    assert_eq!(status["epoch"], 43);
}

/// After an interrupted restore, the partitions have no owners. Before the fix, `group status` and
/// `group watch` did not report the reason.
#[test]
fn regression_group_status_and_watch_show_an_unfinished_restore() {
    let bench = Bench::new();
    let url = bench.url();
    let options = ["--epoch", "41", "--partitions", "0..3", "--wait", "1h"];
    let line = [&["group", "restore", "--store", &url], &options[..]].concat();
    let mut restoring = spawn(&[], &line);
    let held = || bench.objects().iter().any(|key| key.ends_with("assignment-0000000042.json"));
    eventually("the group is held", held);
    restoring.kill().unwrap();
    restoring.wait().unwrap();
    let status = |options: &[&str]| {
        tenure(&[&["group", "status", "--store", &url, "--exit-code"], options].concat())
    };
    let said = status(&[]);
    assert_eq!(said.code, 1, "{said:?}");
    let shown = "\nrestore    unfinished, no partition is assigned until it finishes: if no `tenure\n           \
                 group restore` runs, run `tenure group restore --epoch 41` again\n";
    assert!(said.out.contains(shown), "{said:?}");
    assert_eq!(status(&["--field", "unfinished_restore"]).out, "41\n");
    let json: Value =
        serde_json::from_str(&status(&["--json"]).out).expect("the output is one JSON object");
    assert_eq!(json["unfinished_restore"], 41);
    let said = tenure(&["group", "pause", "0", "--store", &url]);
    said.fails(73, &["a restore is unfinished", "nothing was changed"]);
    let scene = Scene::new(TENURE);
    let mut watch = Command::new(TENURE);
    watch.args(["group", "watch", "--store", &url]);
    scene.surround(&mut watch);
    scene.start("watch", watch).says("a restore is unfinished");
}
