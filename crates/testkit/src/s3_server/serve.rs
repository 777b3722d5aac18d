//! The HTTP side: `s3s` behind faults.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_s3::config::SharedHttpClient;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, ETAG};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::{Fault, Op, Seen, Shared, Users};

type Answer = Response<BoxBody<Bytes, io::Error>>;

/// Serves until the other end of the channel is dropped.
pub fn until(stopped: oneshot::Receiver<()>, listener: TcpListener, shared: Arc<Shared>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    // The runtime ends with this function, and every connection and late request with it.
    runtime.block_on(async {
        tokio::select! {
            _ = stopped => {}
            () = accept(listener, shared) => {}
        }
    });
}

/// One HTTP client for all tests of a process, without a proxy.
pub fn http_client() -> SharedHttpClient {
    static CLIENT: std::sync::OnceLock<SharedHttpClient> = std::sync::OnceLock::new();
    let provider = || Provider::Rustls(CryptoMode::Ring);
    let build = || aws_smithy_http_client::Builder::new().tls_provider(provider()).build_https();
    CLIENT.get_or_init(build).clone()
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let address = listener.local_addr().expect("a bound listener has an address");
    let mut listener = Some(listener);
    let mut away = shared.away.subscribe();
    loop {
        let mut connections = JoinSet::new();
        let bound = match listener.take() {
            Some(bound) => bound,
            None => TcpListener::bind(address).expect("the port is still free"),
        };
        bound.set_nonblocking(true).expect("a listener can be made non-blocking");
        let bound = tokio::net::TcpListener::from_std(bound).expect("a bound listener");
        loop {
            tokio::select! {
                accepted = bound.accept() => {
                    let Ok((stream, _)) = accepted else { continue };
                    shared.connections.fetch_add(1, Ordering::Relaxed);
                    // An answer is sent at once, whatever the client has acknowledged.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(serve(stream, shared.clone()));
                }
                Some(_) = connections.join_next() => {}
                _ = away.wait_for(|away| *away) => break,
            }
        }
        // Requests that have come in take effect all the same, on tasks of their own.
        drop((bound, connections));
        let _ = away.wait_for(|away| !*away).await;
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
    let op = Op::of(&parts);
    let key = key(op, &parts);
    let deletes = if op == Op::Delete { keys_in(&body) } else { Vec::new() };
    let bucket = parts.uri.path().split('/').nth(1).unwrap_or_default();
    let exists = shared.storage.lock().buckets.get(bucket).is_some_and(|it| it.contains_key(&key));
    let (uri, headers) = (parts.uri.clone(), parts.headers.clone());
    let seen = Seen { op, key, deletes, uri, headers, exists };
    if shared.users.denies(&seen) {
        shared.seen().push(seen);
        return Ok(dated(&shared, error(403, "AccessDenied")));
    }
    if Users::expired(&seen) {
        shared.seen().push(seen);
        return Ok(dated(&shared, error(400, "ExpiredToken")));
    }
    let fault = shared.faults.meet(op, &seen.key);
    shared.seen().push(seen);
    let latency = shared.draw_latency();
    // On its own task a request takes effect even if the client goes away meanwhile.
    let task = tokio::spawn(async move {
        if !latency.is_zero() {
            pause(latency).await;
        }
        let answer = with_fault(&shared, fault, &parts, body).await;
        answer.map(|answer| dated(&shared, answer))
    });
    task.await.map_err(io::Error::other)?
}

async fn with_fault(
    shared: &Arc<Shared>,
    fault: Option<Fault>,
    parts: &Parts,
    body: Bytes,
) -> io::Result<Answer> {
    let cut = || io::Error::other("cut on purpose");
    let Some(fault) = fault else { return apply(shared, parts, body).await };
    Ok(match fault {
        Fault::Answer(status, code) => error(status, code),
        Fault::AccessDenied => error(403, "AccessDenied"),
        Fault::NoSuchBucket => error(404, "NoSuchBucket"),
        Fault::SlowDown => error(503, "SlowDown"),
        Fault::Conflict => error(409, "ConditionalRequestConflict"),
        Fault::ErrorBefore => error(500, "InternalError"),
        Fault::CutBefore => return Err(cut()),
        Fault::Html => page(),
        Fault::Text => answer(200, "text/plain", "try again later".to_owned()),
        Fault::ErrorBody => error(200, "InternalError"),
        Fault::WrongRegion(region) => {
            let mut answer = error(301, "PermanentRedirect");
            let region = HeaderValue::from_static(region);
            answer.headers_mut().insert("x-amz-bucket-region", region);
            answer
        }
        Fault::ErrorAfter | Fault::CutAfter | Fault::ErrorBodyAfter => {
            apply(shared, parts, body).await?;
            match fault {
                Fault::CutAfter => return Err(cut()),
                Fault::ErrorAfter => error(500, "InternalError"),
                _ => error(200, "InternalError"),
            }
        }
        Fault::TruncatedBody => truncated(apply(shared, parts, body).await?).await?,
        Fault::AnswerLate(delay) => {
            let answer = apply(shared, parts, body).await?;
            pause(delay).await;
            answer
        }
        Fault::ApplyLate(delay) => {
            apply_later(shared, parts, body, delay);
            error(500, "InternalError")
        }
        Fault::ApplyAgain(delay) => {
            apply_later(shared, parts, body.clone(), delay);
            apply(shared, parts, body).await?
        }
        Fault::Hold => {
            let mut released = shared.released.subscribe();
            shared.held.send_modify(|held| *held += 1);
            let _ = released.changed().await;
            shared.held.send_modify(|held| *held -= 1);
            apply(shared, parts, body).await?
        }
        Fault::NoEtag => {
            let mut answer = apply(shared, parts, body).await?;
            answer.headers_mut().remove(ETAG);
            answer
        }
    })
}

/// What S3 does with the request.
async fn apply(shared: &Shared, parts: &Parts, body: Bytes) -> io::Result<Answer> {
    if let Some(answer) = setting(shared, parts) {
        return Ok(answer);
    }
    let request = Request::from_parts(parts.clone(), s3s::Body::from(body));
    let answer = shared.service.call(request).await;
    let answer = answer.map_err(|error| io::Error::other(format!("{error:?}")))?;
    Ok(answer.map(|body| body.map_err(io::Error::other).boxed()))
}

/// The answer to a question for a bucket's versions or lifecycle rules.
fn setting(shared: &Shared, parts: &Parts) -> Option<Answer> {
    let query = parts.uri.query().filter(|_| parts.method == http::Method::GET)?;
    let name = query.split(['&', '=']).next().filter(|name| SETTINGS.contains(name))?;
    let xml = shared.storage.lock().quirks.settings.get(name).cloned();
    Some(match xml {
        Some(xml) => answer(200, "application/xml", xml),
        None if name == "lifecycle" => error(404, "NoSuchLifecycleConfiguration"),
        None => answer(200, "application/xml", "<VersioningConfiguration/>".to_owned()),
    })
}

const SETTINGS: [&str; 2] = ["versioning", "lifecycle"];

fn apply_later(shared: &Arc<Shared>, parts: &Parts, body: Bytes, delay: Duration) {
    let (shared, parts) = (shared.clone(), parts.clone());
    tokio::spawn(async move {
        pause(delay).await;
        apply(&shared, &parts, body).await
    });
}

/// The answer's headers and half of its body, and then the end of the connection.
async fn truncated(answer: Answer) -> io::Result<Answer> {
    let (mut parts, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let half = futures::stream::iter([Ok(Frame::data(body.slice(..body.len() / 2)))]);
    let cut = futures::stream::once(async {
        // Time for the first half to be sent; closing the connection at once would keep it back.
        pause(Duration::from_millis(20)).await;
        Err(io::Error::other("cut on purpose"))
    });
    Ok(Response::from_parts(parts, BodyExt::boxed(StreamBody::new(half.chain(cut)))))
}

fn error(status: u16, code: &str) -> Answer {
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>\
         <Message>ordered by the test</Message></Error>"
    );
    answer(status, "application/xml", xml)
}

fn page() -> Answer {
    let html = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><br></body></html>";
    answer(200, "text/html; charset=utf-8", html.to_owned())
}

fn answer(status: u16, kind: &'static str, body: String) -> Answer {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// Adds the server's own `Date`; the HTTP library would add the machine's.
fn dated(shared: &Shared, mut answer: Answer) -> Answer {
    let now = chrono::DateTime::<chrono::Utc>::from(shared.storage.lock().now());
    let date = now.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    answer.headers_mut().insert(DATE, HeaderValue::from_str(&date).expect("a date is ASCII"));
    answer
}

/// The key, or the prefix of a listing.
fn key(op: Op, parts: &Parts) -> String {
    let text = match op {
        Op::List => {
            let query = parts.uri.query().unwrap_or("").split('&');
            query.filter_map(|part| part.strip_prefix("prefix=")).next().unwrap_or("")
        }
        _ => parts.uri.path()[1..].split_once('/').map_or("", |(_, key)| key),
    };
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// What `DeleteObjects` is to delete; the keys of tests need no escapes.
fn keys_in(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(body);
    let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
    keys.map(|(key, _)| key.to_owned()).collect()
}

#[allow(clippy::disallowed_methods, reason = "the server delays on real time")]
pub async fn pause(delay: Duration) {
    tokio::time::sleep(delay).await;
}
