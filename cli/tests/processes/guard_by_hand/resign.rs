//! When the guard resigns, and when it does not.

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
    let leadership = election(dir).campaign().await.expect("nobody else is there");
    leadership.resign_key().to_string()
}

#[tokio::main(flavor = "current_thread")]
async fn snapshot(dir: &Path) -> Snapshot {
    election(dir).snapshot().await.expect("it can be read")
}

fn election(dir: &Path) -> Election {
    let store = Arc::new(DirStore::open(dir.join("store")).expect("a directory"));
    Election::builder(store, "").name("a").build().expect("valid settings")
}

fn is_resigned(dir: &Path) -> bool {
    snapshot(dir).end == Some(tenure::EpochEnd::Resigned)
}

/// The order for an epoch that is led by nobody that runs.
fn order(dir: &Path) -> Value {
    let key = resign_key(dir);
    json!({
        "store": format!("file://{}/store", dir.display()), "layout": "epoch-files",
        "candidate": "a", "validity_ms": 30_000, "request_timeout_ms": 6_000, "key": key, "successor": null,
        "kill_margin_ms": 1_000,
    })
}

/// A guard that watches a lease of an hour, and knows what to resign.
fn guard(dir: &Path, command: &[&str]) -> Guard {
    let mut guard = Guard::waiting("__guard", command, &dir.join("file"));
    let hour = in_ms(HOUR);
    guard.tell(&format!("watch {}", deadlines(hour, hour)));
    guard.tell(&format!("resign {}", order(dir)));
    guard.hears(&["watching"]);
    guard
}

#[test]
fn it_resigns_where_nothing_was_started() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut guard = guard(dir.path(), &["sh", "-c", r#"echo > "$0""#]);
    guard.hang_up();
    let said = guard.says();
    assert!(said.contains("resigned epoch 1"), "{said}");
    guard.leaves();
    assert!(is_resigned(dir.path()) && !dir.path().join("file").exists());
}

#[test]
fn it_does_not_where_tenure_lives_or_makes_no_sense() {
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
fn it_does_not_where_the_lease_has_ended() {
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
