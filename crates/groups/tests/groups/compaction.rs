//! Compactions of a group with live members.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Compactor, CompactorBuilder, ErrorKind};
use tenure_groups::GroupCompactor;
use tenure_testkit::fault_store::{Call, Fault, overwrite};
use tenure_testkit::time::{secs, wait};

use super::{Fleet, POLL, VALIDITY, balanced, owners};

fn settings(fleet: &Fleet) -> CompactorBuilder {
    let store = Arc::new(fleet.store.clone());
    Compactor::builder(store, "app").keep_epochs(2).min_age(secs(300))
}

fn compactor(settings: CompactorBuilder) -> GroupCompactor {
    GroupCompactor::new(settings).unwrap()
}

async fn keys(fleet: &Fleet, prefix: &str) -> Vec<String> {
    let page = fleet.store.inner().list(prefix, "", 1_000).await.unwrap();
    page.entries.into_iter().map(|entry| entry.key).collect()
}

/// The compactor keeps the objects of live members.
#[tokio::test(start_paused = true)]
async fn superseded_assignments_and_ended_sessions_are_deleted() {
    let fleet = Fleet::new(6);
    let [a, b] = [fleet.member("a").await, fleet.member("b").await];
    balanced(&[&a, &b], 6, POLL * 8).await;
    for _ in 0..4 {
        let c = fleet.member("c").await;
        wait(VALIDITY).await;
        c.leave();
        c.task.await.unwrap();
        wait(VALIDITY).await;
    }
    // A member created this session and died before its second write, so no assignment names the
    // session.
    let stray = "app/members/00000000000000000000000000000001/lock.json";
    let body = r#"{"expires_at":0.0,"token":1,"epoch":1,"validity_ms":30000,"nonce":
        "00000000000000000000000000000001","candidate":"x","heartbeat":2,"ended":"lapsed"}"#;
    overwrite(&**fleet.store.inner(), stray, body.into()).await;
    balanced(&[&a, &b], 6, POLL * 8).await;
    let young = compactor(settings(&fleet)).run_once().await.unwrap();
    assert_eq!(young.sessions.deleted, 0, "{young}");
    wait(secs(600)).await;
    let (before, sessions) = (owners(&[&a, &b]), keys(&fleet, "app/members/").await.len());
    assert_eq!(sessions, 2 + 4 + 1);
    let dry = compactor(settings(&fleet).dry_run(true)).run_once().await.unwrap();
    assert_eq!(dry.sessions.deleted, 5, "{dry}");
    assert_eq!(keys(&fleet, "app/members/").await.len(), sessions);
    let newest = keys(&fleet, "app/assignment-").await.pop().unwrap();
    let report = compactor(settings(&fleet)).run_once().await.unwrap();
    assert_eq!(report.sessions.deleted, 5, "{report}");
    assert!(report.to_string().contains("deleted 5 of 7 sessions"), "{report}");
    let left = keys(&fleet, "app/assignment-").await;
    assert_eq!((left.len(), left.last()), (2, Some(&newest)), "{report}");
    wait(VALIDITY * 2).await;
    assert_eq!(owners(&[&a, &b]), before);
    assert_eq!(keys(&fleet, "app/members/").await.len(), 2);
    let again = compactor(settings(&fleet)).run_once().await.unwrap();
    assert_eq!((again.assignments.deleted, again.sessions.deleted), (0, 0), "{again}");
}

/// The compactor keeps an ended session while the assignment names the session, because the
/// coordinator may not have read the end of the session yet.
#[tokio::test(start_paused = true)]
async fn an_ended_session_stays_while_the_assignment_names_it() {
    let fleet = Fleet::new(2);
    let [a, b] = [fleet.member("a").await, fleet.member("b").await];
    balanced(&[&a, &b], 2, POLL * 8).await;
    a.kill();
    b.leave();
    b.task.await.unwrap();
    wait(secs(600)).await;
    assert_eq!(keys(&fleet, "app/members/").await.len(), 2);
    let report = compactor(settings(&fleet).min_age(Duration::ZERO)).run_once().await;
    let report = report.unwrap();
    assert_eq!(report.sessions.deleted, 0, "{report}");
}

/// Returns a group without members that has one assignment and this number of ended sessions.
async fn with_ended_sessions(sessions: usize) -> Fleet {
    let fleet = Fleet::new(2);
    let member = fleet.member("a").await;
    balanced(&[&member], 2, POLL * 8).await;
    let body = r#"{"expires_at":0.0,"token":1,"epoch":1}"#;
    for id in 1..=sessions {
        let key = format!("app/members/{id:032}/lock.json");
        overwrite(&**fleet.store.inner(), &key, body.into()).await;
    }
    fleet
}

#[tokio::test(start_paused = true)]
async fn no_session_is_deleted_without_a_readable_assignment() {
    let fleet = Fleet::new(2);
    let stray = "app/members/00000000000000000000000000000001/lock.json";
    let body = r#"{"expires_at":0.0,"token":1,"epoch":1}"#;
    overwrite(&**fleet.store.inner(), stray, body.into()).await;
    let compactor = compactor(settings(&fleet).min_age(Duration::ZERO));
    let report = compactor.run_once().await.unwrap();
    assert_eq!(report.sessions, Default::default(), "{report}");
    for epoch in 1..=4 {
        let key = format!("app/assignment-000000000{epoch}.json");
        overwrite(&**fleet.store.inner(), &key, "{}".into()).await;
    }
    let corrupt = compactor.run_once().await.unwrap_err();
    assert_eq!(corrupt.kind(), ErrorKind::CorruptRecord);
    assert!(corrupt.to_string().contains("app/assignment-0000000004.json"), "{corrupt}");
    assert_eq!(keys(&fleet, "app/").await.len(), 5);
}

/// A compactor is stopped while it waits for the answer to a DELETE of sessions. Before the fix,
/// its run ended before the answer arrived.
#[tokio::test(start_paused = true)]
async fn regression_a_stopped_run_waits_for_its_deletion_of_sessions() {
    let fleet = with_ended_sessions(3).await;
    fleet.store.on(Call::Delete).fault(Fault::Slow(secs(5)));
    let compactor = compactor(settings(&fleet).min_age(Duration::ZERO));
    let report = compactor.run_until(wait(secs(2)), |_| {}).await.unwrap();
    assert!(report.assignments.interrupted, "{report}");
    let sessions = report.sessions;
    assert_eq!((sessions.listed, sessions.deleted, sessions.kept), (4, 3, 1), "{report}");
    assert_eq!(keys(&fleet, "app/members/").await.len(), 1);
}
