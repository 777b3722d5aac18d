//! Tests of Azure Blob Storage. They run on Azurite, which a script starts, or on a container that
//! the caller names.
#![cfg(feature = "azure")]

use std::sync::Arc;

use tenure::store::{AnyObjectStore, ETag, GetOutcome, PutOutcome, Store, StoreErrorKind};
use tenure::{CampaignOutcome, Compactor, Election};
use tenure_testkit::conformance::{self, Capabilities};

/// Returns the container that the environment names, and a prefix that no other process uses.
/// `AnyObjectStore::azure_from_env` reads the settings.
pub fn container() -> (Arc<AnyObjectStore>, String) {
    let name = std::env::var("TENURE_TEST_AZURE_CONTAINER").expect("the variable is set");
    let unique = fastrand::u128(..);
    let store = AnyObjectStore::azure_from_env(name).expect("the settings are valid");
    (Arc::new(store), format!("test-{unique:032x}/"))
}

/// Returns the capabilities of Azure, for the conformance suite. Azure answers "precondition
/// failed" even for a missing blob.
fn can() -> Capabilities {
    Capabilities { missing_is_refused: true, ..Capabilities::default() }
}

#[test]
fn the_name_of_a_container_includes_its_account() {
    use object_store::azure::MicrosoftAzureBuilder;
    let builder = MicrosoftAzureBuilder::new().with_container_name("box");
    let error = AnyObjectStore::azure(builder.clone()).expect_err("the account is missing");
    assert!(error.to_string().contains("az://box"), "{error}");
    assert!(!error.to_string().contains("of the account"), "{error}");
    let store = AnyObjectStore::azure(builder.with_account("me").with_access_key("a2V5"));
    assert_eq!(store.unwrap().describe(), "az://box of the account me");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "scripts/servers/azurite.sh -- cargo test --test stores azure -- --ignored"]
async fn the_store_passes_the_suite() {
    let (store, prefix) = container();
    conformance::run_with(store, &prefix, &can()).await;
}

#[tokio::test]
#[ignore = "scripts/servers/azurite.sh -- cargo test --test stores azure -- --ignored"]
async fn listed_etags_equal_the_etags_of_writes() {
    let (store, prefix) = container();
    let outcome = store.create(&format!("{prefix}a"), "one".into()).await.expect("created");
    let PutOutcome::Done { etag: Some(written) } = outcome else { panic!("{outcome:?}") };
    let page = store.list(&prefix, "", 9).await.expect("listed");
    let listed = page.entries[0].etag.as_ref().expect("a tag");
    println!("written {written}, listed {listed}");
    assert!(listed.names_the_same(&written), "written {written}, listed {listed}");
}

/// Azure answers a `create` of an existing blob with 409. The error code of this answer shows that
/// the write is refused, and not that its effect is unknown.
#[tokio::test]
#[ignore = "scripts/servers/azurite.sh -- cargo test --test stores azure -- --ignored"]
async fn a_create_over_an_existing_blob_is_refused_and_not_unknown() {
    let (store, prefix) = container();
    let key = format!("{prefix}a");
    let outcome = store.create(&key, "one".into()).await.expect("created");
    let PutOutcome::Done { etag: Some(etag) } = outcome else { panic!("{outcome:?}") };
    assert_eq!(store.create(&key, "two".into()).await.unwrap(), PutOutcome::PreconditionFailed);
    assert_eq!(store.get(&key, Some(etag), 9).await.unwrap(), GetOutcome::NotModified);
    let wrong = ETag::new("\"0x8D0000000000000\"");
    assert_eq!(
        store.replace(&key, "x".into(), wrong).await.unwrap(),
        PutOutcome::PreconditionFailed
    );
}

#[tokio::test]
#[ignore = "scripts/servers/azurite.sh -- cargo test --test stores azure -- --ignored"]
async fn elections_and_a_compactor_run_on_azure() {
    let (store, prefix) = container();
    let prefix = prefix.trim_end_matches('/');
    for epoch in 1..=5 {
        let election = Election::builder(store.clone(), prefix).build().unwrap();
        let CampaignOutcome::Elected(leadership) =
            election.try_campaign().await.expect("the store is accepted")
        else {
            panic!("no other candidate campaigns")
        };
        assert_eq!(leadership.epoch().get(), epoch);
        leadership.proclaim("here").await.expect("renewed");
        leadership.resign().await.expect("resigned");
    }
    let compactor = Compactor::builder(store, prefix).min_age(std::time::Duration::ZERO);
    let report = compactor.keep_epochs(2).build().unwrap().run_once().await.unwrap();
    assert_eq!((report.deleted, report.failed), (3, 0), "{report:?}");
}

#[tokio::test]
#[ignore = "scripts/servers/azurite.sh -- cargo test --test stores azure -- --ignored"]
async fn the_error_names_a_missing_container() {
    let store = AnyObjectStore::azure_from_env("no-such-container").unwrap();
    let etag = ETag::new("\"x\"");
    for error in [
        store.list("app/", "", 9).await.err(),
        store.get("app/a", None, 9).await.err(),
        store.create("app/a", "x".into()).await.err(),
        store.replace("app/a", "x".into(), etag).await.err(),
    ] {
        let error = error.expect("an error");
        assert_eq!(error.kind(), StoreErrorKind::NoSuchStore, "{error}");
        assert!(error.to_string().contains("az://no-such-container"), "{error}");
    }
}
