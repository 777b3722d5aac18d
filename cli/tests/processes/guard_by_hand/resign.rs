//! Tests the conditions under which the guard resigns.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tenure::store::DirStore;
use tenure::{Election, Snapshot};

use super::HOUR;
use super::bench::{Guard, STUBBORN, deadlines};
use tenure_testkit::command::{eventually, in_ms, number_in, runs};

#[tokio::main(flavor = "current_thread")]
async fn resign_key(dir: &Path) -> String {
    let leadership = election(dir).campaign().await.expect("no other candidate campaigns");
    leadership.resign_key().to_string()
}

#[tokio::main(flavor = "current_thread")]
async fn snapshot(dir: &Path) -> Snapshot {
    election(dir).snapshot().await.expect("the read succeeds")
}

fn election(dir: &Path) -> Election {
    let store = Arc::new(DirStore::open(dir.join("store")).expect("a directory"));
    Election::builder(store, "").name("a").build().expect("valid settings")
}

fn is_resigned(dir: &Path) -> bool {
    snapshot(dir).end == Some(tenure::EpochEnd::Resigned)
}

/// Returns the data with which the guard resigns the epoch after the death of the leader.
fn order(dir: &Path) -> Value {
    let key = resign_key(dir);
    json!({
        "store": format!("file://{}/store", dir.display()), "layout": "epoch-files",
        "candidate": "a", "validity_ms": 30_000, "request_timeout_ms": 6_000, "key": key, "successor": null,
        "kill_margin_ms": 1_000,
    })
}

/// Starts a guard with a lease of an hour, and gives it the key with which it may resign the epoch.
fn guard(dir: &Path, command: &[&str]) -> Guard {
    let mut guard = Guard::waiting("__guard", command, &dir.join("file"));
    let hour = in_ms(HOUR);
    guard.tell(&format!("watch {}", deadlines(hour, hour)));
    guard.tell(&format!("resign {}", order(dir)));
    guard.hears(&["watching"]);
    guard
}

#[test]
fn the_guard_resigns_if_no_command_was_started() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut guard = guard(dir.path(), &["sh", "-c", r#"echo > "$0""#]);
    guard.hang_up();
    let said = guard.says();
    assert!(said.contains("resigned epoch 1"), "{said}");
    guard.leaves();
    assert!(is_resigned(dir.path()) && !dir.path().join("file").exists());
}

#[test]
fn the_guard_does_not_resign_while_tenure_lives_or_after_a_malformed_order() {
    for (last, start) in [("leave", false), ("leave", true), ("x", false), ("x", true)] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut guard = guard(dir.path(), &["sh", "-c", STUBBORN, "sh"]);
        if start {
            guard.tell("start");
            guard.hears_started();
            let child = number_in(&dir.path().join("file"));
            guard.tell(last);
            guard.hang_up();
            eventually("its processes are dead", || !runs(child));
        } else {
            guard.tell(last);
            guard.hang_up();
        }
        guard.leaves();
        assert!(!is_resigned(dir.path()), "{last:?} {start}");
    }
}

#[test]
fn the_guard_does_not_resign_after_the_end_of_the_lease() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut guard = guard(dir.path(), &["sh", "-c", "sleep 1000", "sh"]);
    guard.tell("start");
    guard.hears_started();
    let mut order_of_past = in_ms(0);
    order_of_past.wall = order_of_past.wall.saturating_sub(std::time::Duration::from_secs(60));
    guard.lease(order_of_past, order_of_past);
    guard.hears(&["killed", "watching", "ended 9", "gone"]);
    guard.hang_up();
    let said = guard.says();
    assert!(said.contains("epoch 1 is not resigned: its lease has ended"), "{said}");
    guard.leaves();
    assert!(!is_resigned(dir.path()));
}
