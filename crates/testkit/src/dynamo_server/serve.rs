//! The HTTP side.

use std::io;
use std::net::TcpListener;
use std::sync::{Arc, OnceLock};

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::{ACCESS_KEY, Fault, Refusal, Seen, Shared};

type Answer = Response<Full<Bytes>>;

/// Serves until the other end of the channel is dropped.
pub fn until(stopped: oneshot::Receiver<()>, listener: TcpListener, shared: Arc<Shared>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    // The runtime ends with this function, and every connection with it.
    runtime.block_on(async {
        tokio::select! {
            _ = stopped => {}
            () = accept(listener, shared) => {}
        }
    });
}

/// One HTTP client for all tests of a process, without a proxy.
pub fn http_client() -> SharedHttpClient {
    static CLIENT: OnceLock<SharedHttpClient> = OnceLock::new();
    CLIENT.get_or_init(own_http_client).clone()
}

/// One that shares no connection, for tests of one server: a connection ends with the runtime of
/// the test that made it.
pub fn own_http_client() -> SharedHttpClient {
    let provider = Provider::Rustls(CryptoMode::Ring);
    aws_smithy_http_client::Builder::new().tls_provider(provider).build_https()
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    listener.set_nonblocking(true).expect("a listener can be made non-blocking");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a bound listener");
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(serve(stream, shared.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: tokio::net::TcpStream, shared: Arc<Shared>) {
    let service = service_fn(|request| respond(shared.clone(), request));
    let connection = hyper::server::conn::http1::Builder::new();
    // An error is a client that went away or a fault that closes the connection.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

/// An error closes the connection without an answer.
async fn respond(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Answer> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
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
    let fault = {
        let mut state = shared.state();
        state.seen.push(Seen { operation: operation.to_owned(), request: request.clone() });
        let meets = |(_, met): &&(Fault, &'static str)| *met == operation;
        state.faults.iter().find(meets).map(|(fault, _)| *fault)
    };
    let cut = || io::Error::other("cut on purpose");
    let apply = || match shared.carry_out(operation, &request) {
        Ok(answer) => json_answer(200, &answer),
        Err(Refusal { code, message, item }) => error(400, code, &message, item.map(Value::Object)),
    };
    Ok(match fault {
        None => apply(),
        Some(Fault::Answer(status, code)) => error(status, code, "ordered by the test", None),
        Some(Fault::CutBefore) => return Err(cut()),
        Some(Fault::CutAfter) => {
            apply();
            return Err(cut());
        }
        Some(Fault::ErrorAfter) => {
            apply();
            error(500, "InternalServerError", "ordered by the test", None)
        }
        Some(Fault::Html) => answer(200, "text/html", "<html><body>Sign in</body></html>"),
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
    answer(status, "application/x-amz-json-1.0", &body.to_string())
}

fn answer(status: u16, kind: &'static str, body: &str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_owned())));
    *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
