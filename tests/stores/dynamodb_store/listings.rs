//! Tests the prefixes, the pages, and the starts of listings.

use super::*;

#[tokio::test]
async fn a_listing_may_start_before_its_prefix_or_after_it() {
    let (server, store) = start();
    done(store.create("app/lock-1", body("")).await);
    server.forget_requests();
    for (prefix, after, keys) in [
        ("app/lock-", "app/a", 1),
        ("app/lock-", "app/lock-", 1),
        ("app/", "app/", 1),
        ("app/lock-", "app/lock-1", 0),
        ("app/lock-", "app/z", 0),
    ] {
        let page = store.list(prefix, after, 9).await.unwrap();
        assert_eq!((page.entries.len(), page.truncated), (keys, false), "{prefix} {after}");
    }
    assert_eq!(server.count("Query"), 4, "no query for a start after the prefix");
}

#[tokio::test]
async fn the_newest_of_a_thousand_epochs_costs_one_query() {
    let (server, store) = start();
    server.in_table(|table| {
        for number in 1..=1_000 {
            let name = format!("lock-{number:010}.json");
            let item = json!({
                "prefix": { "S": "app" }, "name": { "S": name }, "version": { "S": "0" },
                "body": { "S": "{\"expired\":true,\"validity_ms\":1,\"ended\":\"resigned\"}" },
            });
            table.put_raw(item.as_object().expect("the JSON is an object").clone());
        }
    });
    let election = tenure::Election::builder(std::sync::Arc::new(store), "app").check_store(false);
    let leadership = election.build().unwrap().campaign().await.unwrap();
    assert_eq!(leadership.epoch().get(), 1_001);
    let asked = ["DescribeTable", "Query", "GetItem", "PutItem", "Query"];
    assert_eq!(server.operations()[..5], asked);
    let queries = server.requests("Query");
    assert_eq!((&queries[0]["ScanIndexForward"], &queries[0]["Limit"]), (&json!(false), &json!(4)));
    assert_eq!(queries[1]["ScanIndexForward"], Value::Null, "confirmed from the start");
    leadership.resign().await.unwrap();
}
