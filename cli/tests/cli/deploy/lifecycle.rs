//! A lifecycle rule cannot replace the compactor. The rule deletes objects by age, and the newest
//! epoch of an idle election may be old. In the model, the broken variant "compactor that deletes
//! the newest" violates the invariant I3 (docs/design/protocol.md) in 4 steps.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenure::store::{MemoryStore, Store};
use tenure::{Compactor, Election, ErrorKind};

const ALLOWED: &str = include_str!("../../../../deploy/s3/lifecycle-noncurrent.json");
const README: &str = include_str!("../../../../deploy/README.md");

fn election(store: &Arc<dyn Store>) -> Election {
    Election::builder(Arc::clone(store), "app").build().expect("settings")
}

/// Elects a leader that resigns immediately. Returns its token.
async fn term(election: &Election) -> u64 {
    let leader = election.campaign().await.expect("elected");
    let token = leader.epoch().get();
    leader.resign().await.expect("resigned");
    token
}

async fn epochs(store: &Arc<dyn Store>) -> Vec<String> {
    let page = store.list("app/lock-", "", 100).await.expect("listed");
    page.entries.into_iter().map(|entry| entry.key).collect()
}

/// Elects three leaders in turn, then leaves the election idle until all epochs are old.
async fn idle() -> (Arc<dyn Store>, Election) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let witness = election(&store);
    for token in 1..=3 {
        assert_eq!(term(&witness).await, token);
    }
    (store, witness)
}

#[tokio::test]
async fn a_lifecycle_rule_resets_tokens() {
    let (store, witness) = idle().await;
    store.delete(epochs(&store).await).await.expect("the rule deletes old epochs");
    // The witness has seen the deleted epochs, so it refuses to continue. A new candidate does not
    // know these epochs, so it uses token 1 again.
    let error = witness.campaign().await.expect_err("the newest epoch is deleted");
    assert_eq!(error.kind(), ErrorKind::NewestDeleted);
    assert_eq!(term(&election(&store)).await, 1);
}

#[tokio::test]
async fn the_compactor_keeps_the_newest_token() {
    let (store, _) = idle().await;
    let compactor = Compactor::builder(Arc::clone(&store), "app").keep_epochs(1);
    let compactor = compactor.min_age(Duration::ZERO).build().expect("settings");
    assert_eq!(compactor.run_once().await.expect("a report").deleted, 2);
    assert_eq!(epochs(&store).await, ["app/lock-0000000003.json"]);
    assert_eq!(term(&election(&store)).await, 4);
}

/// Returns whether a rule acts on current versions, by an expiry or by a transition to an archive.
fn touches_current_versions(rule: &Value) -> bool {
    let expiration = &rule["Expiration"];
    !expiration["Days"].is_null()
        || !expiration["Date"].is_null()
        || !rule["Transitions"].is_null()
        || !rule["Transition"].is_null()
}

#[test]
fn the_recommended_rule_keeps_current_versions() {
    let allowed: Value = serde_json::from_str(ALLOWED).expect("JSON");
    for rule in allowed["Rules"].as_array().expect("rules") {
        assert!(!touches_current_versions(rule), "{rule}");
    }
    // The README shows a rule and warns against it, because the rule deletes current versions.
    let (_, rest) = README.split_once("```json\n").expect("the README shows a rule");
    let tried: Value =
        serde_json::from_str(rest.split("```").next().expect("the block ends")).expect("JSON");
    assert!(touches_current_versions(&tried["Rules"][0]), "{tried}");
}
