//! Tests the prefixes, the pages, and the starts of listings.

use super::*;

#[tokio::test]
async fn every_key_of_a_prefix_is_listed_at_any_depth() {
    let (_server, store) = start();
    let keys = ["app/a", "app/a/b/c", "app/epoch-0000000001/x/y", "app/größe", "app/é"];
    for key in keys {
        done(store.create(key, body("four")).await);
    }
    done(store.create("apple/a", body("x")).await);
    let page = store.list("app/", "app/a", 1_000).await.unwrap();
    let listed: Vec<_> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(listed, keys[1..]);
    assert_eq!((page.entries[0].size, page.truncated), (4, false));
    assert!(page.entries.iter().all(|entry| entry.last_modified.is_some()));
}

#[tokio::test]
async fn a_full_page_is_truncated_and_an_empty_page_is_not() {
    let (server, store) = start();
    for key in ["app/1", "app/2"] {
        done(store.create(key, body("")).await);
    }
    let page = store.list("app/", "", 2).await.unwrap();
    assert_eq!((page.entries.len(), page.truncated), (2, true));
    let page = store.list("app/", "app/2", 2).await.unwrap();
    assert_eq!((page.entries.len(), page.truncated), (0, false));
    server.quirks(|quirks| quirks.page_cap = Some(1));
    let page = store.list("app/", "", 2).await.unwrap();
    assert_eq!((page.entries.len(), page.truncated), (1, true));
}

#[tokio::test]
async fn the_last_page_ends_at_the_given_key() {
    let (server, store) = start();
    for key in ["app/1", "app/2", "app/3"] {
        done(store.create(key, body("")).await);
    }
    let last = async |after: &str, limit| {
        let page =
            store.list_last("app/", after, limit).await.unwrap().expect("the store supports it");
        let keys = page.entries.into_iter().map(|entry| entry.key).collect::<Vec<_>>();
        (keys.join(" "), page.truncated)
    };
    assert_eq!(last("", 2).await, ("app/2 app/3".to_owned(), true));
    assert_eq!(last("app/1", 2).await, ("app/2 app/3".to_owned(), true), "more keys may exist");
    assert_eq!(last("app/2", 2).await, ("app/3".to_owned(), false), "the page ends beyond the key");
    assert_eq!(last("", 9).await, ("app/1 app/2 app/3".to_owned(), false));
    assert_eq!(last("app/2", 9).await, ("app/3".to_owned(), false));
    assert_eq!(server.count("Query"), 5);
}

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
