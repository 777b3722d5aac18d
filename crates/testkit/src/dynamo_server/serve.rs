//! The HTTP side of the test server for DynamoDB.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use serde_json::{Value, json};

use super::{ACCESS_KEY, DynamoRefusal, DynamoRequest, DynamoShared, ServerFault};
use crate::http_shell::{Answer, answer, cut};

/// Returns the response to one request. An error closes the connection without a response.
pub async fn respond(shared: Arc<DynamoShared>, parts: Parts, body: Bytes) -> io::Result<Answer> {
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let target = header("x-amz-target").unwrap_or_default();
    let Some(operation) = target.strip_prefix("DynamoDB_20120810.") else {
        return Ok(error(400, "UnknownOperationException", "", None));
    };
    let signed = header("authorization").unwrap_or_default();
    if !signed.contains(&format!("Credential={ACCESS_KEY}/")) {
        let words = "The security token included in the request is invalid.";
        return Ok(error(400, "UnrecognizedClientException", words, None));
    }
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return Ok(error(400, "SerializationException", "", None));
    };
    shared
        .seen
        .lock()
        .push(DynamoRequest { operation: operation.to_owned(), request: request.clone() });
    let meets = |(_, met): &&(ServerFault, &'static str)| *met == operation;
    let fault = shared.state().faults.iter().find(meets).map(|(fault, _)| *fault);
    let apply = || match shared.carry_out(operation, &request) {
        Ok(answer) => json_answer(200, &answer),
        Err(DynamoRefusal { code, message, item }) => {
            error(400, code, &message, item.map(Value::Object))
        }
    };
    Ok(match fault {
        None => apply(),
        Some(ServerFault::Answer(status, code)) => error(status, code, "ordered by the test", None),
        Some(ServerFault::CutBefore) => return Err(cut()),
        Some(ServerFault::CutAfter) => {
            apply();
            return Err(cut());
        }
        Some(ServerFault::ErrorAfter) => {
            apply();
            error(500, "InternalServerError", "ordered by the test", None)
        }
        Some(ServerFault::Html) => answer(200, "text/html", "<html><body>Sign in</body></html>"),
        Some(ServerFault::Empty) => answer(200, "text/plain", ""),
        Some(other) => panic!("this server does not support the fault {other:?}"),
    })
}

fn error(status: u16, code: &str, message: &str, item: Option<Value>) -> Answer {
    let mut body = json!({
        "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": message,
    });
    if let Some(item) = item {
        body["Item"] = item;
    }
    json_answer(status, &body)
}

fn json_answer(status: u16, body: &Value) -> Answer {
    answer(status, "application/x-amz-json-1.0", body.to_string())
}
