//! Tests that the test server refuses the same requests as DynamoDB, with the same codes.

use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::types::AttributeValue;

use super::*;

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn item(name: &str, body: &str) -> Item {
    let item = json!({
        "prefix": { "S": "app" }, "name": { "S": name }, "body": { "S": body },
    });
    item.as_object().expect("the JSON is an object").clone()
}

/// Writes `app/a` under the condition `condition`. Returns an error with the code of the refusal.
/// The second field of the error is true if the answer shows the item.
async fn put(server: &DynamoServer, condition: &str) -> Result<(), (String, bool)> {
    use aws_sdk_dynamodb::operation::put_item::PutItemError;
    use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
    let put = server.client().put_item().table_name(TABLE).condition_expression(condition);
    let put = put.item("prefix", text("app")).item("name", text("a")).item("body", text("new"));
    let put = put.expression_attribute_names("#body", "body");
    let put = match condition.contains(":body") {
        true => put.expression_attribute_values(":body", text("old")),
        false => put,
    };
    match put.return_values_on_condition_check_failure(AllOld).send().await {
        Ok(_) => Ok(()),
        Err(error) => {
            let shown = match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(failed)) => {
                    failed.item().is_some()
                }
                _ => false,
            };
            Err((error.code().unwrap_or_default().to_owned(), shown))
        }
    }
}

#[tokio::test]
async fn conditions_are_exact_and_a_refusal_shows_the_item() {
    let server = DynamoServer::start();
    let refused = |shown| Err(("ConditionalCheckFailedException".to_owned(), shown));
    // A condition on an attribute is false for a missing item.
    assert_eq!(put(&server, "#body = :body").await, refused(false));
    server.in_table(|table| table.put_raw(item("a", "old")));
    assert_eq!(put(&server, "attribute_not_exists(#body)").await, refused(true));
    assert_eq!(put(&server, "#body = :body AND attribute_not_exists(#body)").await, refused(true));
    assert_eq!(put(&server, "#body = :body").await, Ok(()));
    assert_eq!(put(&server, "#body = :body").await, refused(true));
    let wrong = |result: Result<(), (String, bool)>| result.unwrap_err().0;
    assert_eq!(wrong(put(&server, "attribute_not_exists(#none)").await), "ValidationException");
}

#[tokio::test]
async fn an_inconsistent_read_returns_an_older_item() {
    let server = DynamoServer::start();
    for body in ["old", "new"] {
        server.in_table(|table| table.put_raw(item("a", body)));
    }
    let read = |consistent| {
        let get = server.client().get_item().table_name(TABLE).consistent_read(consistent);
        let get = get.key("prefix", text("app")).key("name", text("a"));
        async move { get.send().await.unwrap().item.unwrap()["body"].clone() }
    };
    assert_eq!((read(true).await, read(false).await), (text("new"), text("old")));
}

#[tokio::test]
async fn a_query_is_bound_to_its_keys_and_limits() {
    let server = DynamoServer::start();
    for name in ["a1", "a2", "b1"] {
        server.in_table(|table| table.put_raw(item(name, "")));
    }
    let query = |condition: &str| {
        let query = server.client().query().table_name(TABLE).key_condition_expression(condition);
        let query = query.expression_attribute_names("#p", "prefix");
        let query = query.expression_attribute_values(":p", text("app")).consistent_read(true);
        query.expression_attribute_names("#n", "name").expression_attribute_values(":n", text("a"))
    };
    let within = "#p = :p AND begins_with(#n, :n)";
    let names = |items: Vec<std::collections::HashMap<String, AttributeValue>>| -> Vec<Value> {
        items.iter().map(|item| json!(item["name"].as_s().unwrap())).collect()
    };
    let page = query(within).limit(2).send().await.unwrap();
    // A full page ends with a start key for the next page, even if no item follows.
    assert_eq!(page.last_evaluated_key.unwrap()["name"], text("a2"));
    assert_eq!(names(page.items.unwrap()), ["a1", "a2"]);
    let page = query(within).scan_index_forward(false).limit(1).send().await.unwrap();
    assert_eq!(names(page.items.unwrap()), ["a2"]);
    let from = |name| {
        let query = query(within).exclusive_start_key("prefix", text("app"));
        query.exclusive_start_key("name", text(name)).send()
    };
    assert_eq!(names(from("a1x").await.unwrap().items.unwrap()), ["a2"]);
    assert_eq!(from("b").await.unwrap_err().code(), Some("ValidationException"));
    for condition in ["begins_with(#n, :n)", "#n = :n AND begins_with(#p, :p)", "#p = :p"] {
        let error = query(condition).send().await.unwrap_err();
        assert_eq!(error.code(), Some("ValidationException"), "{condition}");
    }
}

#[tokio::test]
async fn other_tables_and_unknown_users_are_refused() {
    use aws_sdk_dynamodb::config::Credentials;
    let server = DynamoServer::start();
    let store = DynamoStore::new(server.client(), "other");
    expect(
        store.get(KEY, None, MAX).await,
        StoreErrorKind::NoSuchStore,
        Determinacy::Determinate,
        &["other"],
    );
    let stranger = Credentials::new("AKIAUNKNOWN", "x", None, None, "tests");
    let config = config(&server.endpoint()).credentials_provider(stranger).build();
    let store = DynamoStore::new(aws_sdk_dynamodb::Client::from_conf(config), TABLE);
    let read = store.get(KEY, None, MAX).await;
    expect(
        read,
        StoreErrorKind::AccessDenied,
        Determinacy::Determinate,
        &["UnrecognizedClientException"],
    );
}
