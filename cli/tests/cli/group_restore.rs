//! `tenure group restore`, on a directory.

use serde_json::{Value, json};

use super::bench::{Bench, Said, tenure};

fn restore(bench: &Bench, options: &[&str]) -> Said {
    let url = bench.url();
    tenure(&[&["group", "restore", "--store", &url], options].concat())
}

#[test]
fn a_group_without_assignments_continues_above_the_epoch() {
    let bench = Bench::new();
    restore(&bench, &["--epoch", "41"]).fails(64, &["name the partitions"]);
    restore(&bench, &["--epoch", "41", "--wait", "2h"]).fails(64, &["7200s"]);
    restore(&bench, &["--epoch", "9999999999"]).fails(70, &["no two assignments"]);
    let said = restore(&bench, &["--epoch", "41", "--partitions", "0..3", "--json"]);
    let report: Value = serde_json::from_str(&said.out).expect("one JSON object");
    assert_eq!(report, json!({ "outcome": "restored", "epoch": 41, "partitions": 3 }));
    assert_eq!(said.code, 0, "{}", said.err);
    restore(&bench, &["--epoch", "41"]).fails(73, &["there is assignment 43", "above 41 already"]);
    let url = bench.url();
    let status = tenure(&["group", "status", "--store", &url, "--json"]);
    let status: Value = serde_json::from_str(&status.out).expect("one JSON object");
    assert_eq!(status["epoch"], 43);
}
