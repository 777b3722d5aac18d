//! Tests on third-party servers of the DynamoDB API. Each test requires a server, which a script
//! starts:
//!
//! ```sh
//! scripts/servers/dynalite.sh -- cargo test --test stores dynamodb_servers -- --ignored
//! ```
#![cfg(feature = "dynamodb")]

use std::sync::Arc;
use std::time::Duration;

use tenure::store::{DynamoStore, Store};
use tenure::{CampaignOutcome, Election};
use tenure_testkit::conformance::{self, Capabilities};
use tenure_testkit::dynamo_server::{config, own_http_client};

/// Returns a store with a new table. The table is created in the same way as by `tenure table
/// create`.
pub async fn store() -> Arc<DynamoStore> {
    let endpoint =
        std::env::var("AWS_ENDPOINT_URL").expect("the scripts of servers set this variable");
    let config = config(&endpoint).http_client(own_http_client()).build();
    let client = aws_sdk_dynamodb::Client::from_conf(config);
    let unique = fastrand::u128(..);
    let store = DynamoStore::new(client, format!("tenure-{unique:032x}"));
    for _ in 0..100 {
        if store.create_table().await.expect("a table") {
            return Arc::new(store);
        }
        pause(Duration::from_millis(100)).await;
    }
    panic!("the table is not ready in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a server: scripts/servers/dynalite.sh -- cargo test --test stores dynamodb_servers -- --ignored"]
async fn the_store_passes_the_suite() {
    let mut failed = Vec::new();
    let can = Capabilities::default();
    for (name, result) in conformance::report(store().await, "app/", &can).await {
        match result {
            Ok(()) => println!("{name}: holds"),
            Err(words) => {
                println!("{name}: FAILS: {words}");
                failed.push(name);
            }
        }
    }
    assert_eq!(failed, [""; 0]);
}

#[tokio::test]
#[ignore = "needs a server: scripts/servers/dynalite.sh -- cargo test --test stores dynamodb_servers -- --ignored"]
async fn elections_run_on_the_server() {
    let store: Arc<dyn Store> = store().await;
    let election = |name: &str| {
        Election::builder(Arc::clone(&store), "app/leader").name(name).build().expect("settings")
    };
    for epoch in 1..=3 {
        let attempt = election("a").try_campaign().await.expect("the store is accepted");
        let CampaignOutcome::Elected(leadership) = attempt else { panic!("not elected") };
        assert_eq!(leadership.epoch().get(), epoch);
        let rival = election("b").try_campaign().await.expect("the store is accepted");
        assert!(matches!(rival, CampaignOutcome::Held(leader) if leader.name() == "a"));
        leadership.proclaim("here").await.expect("renewed");
        leadership.resign().await.expect("resigned");
    }
}

#[allow(clippy::disallowed_methods, reason = "real servers take real time")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
