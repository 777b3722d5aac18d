//! The HTTP side of the test server for S3: applies faults, and passes other requests to `s3s`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{CONTENT_LENGTH, DATE, ETAG};
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use percent_encoding::percent_decode_str;

use super::directory_bucket::{is_directory, without_signature};
use super::{Op, S3Request, S3Shared, ServerFault, Users};
use crate::http_shell::{Answer, answer, cut, pause};

/// Returns the response to one request. An error closes the connection without a response.
pub async fn respond(shared: Arc<S3Shared>, parts: Parts, body: Bytes) -> io::Result<Answer> {
    let op = Op::of(&parts);
    let key = key(op, &parts);
    let deletes = if op == Op::Delete { keys_in(&body) } else { Vec::new() };
    let bucket = bucket_of(&parts);
    let exists = shared.storage.lock().buckets.get(bucket).is_some_and(|it| it.contains_key(&key));
    let (uri, headers) = (parts.uri.clone(), parts.headers.clone());
    let seen = S3Request { op, key, deletes, uri, headers, exists };
    if op != Op::Session && shared.users.denies(&seen) {
        shared.seen.lock().push(seen);
        return Ok(dated(&shared, error(403, "AccessDenied")));
    }
    if Users::expired(&seen) {
        shared.seen.lock().push(seen);
        return Ok(dated(&shared, error(400, "ExpiredToken")));
    }
    let fault = shared.faults.meet(op, &seen.key);
    let refusal = is_directory(bucket).then(|| of_directory(&shared, &seen)).flatten();
    shared.seen.lock().push(seen);
    if let (None, Some(refusal)) = (fault, refusal) {
        return Ok(dated(&shared, refusal));
    }
    if let Some(refusal) = without_checksum(&shared, op, &parts) {
        return Ok(dated(&shared, refusal));
    }
    let latency = shared.draw_latency();
    if !latency.is_zero() {
        pause(latency).await;
    }
    let answer = with_fault(&shared, fault, &parts, body).await;
    answer.map(|answer| dated(&shared, answer))
}

/// Returns the response to a request for a session, or the refusal of a request without one.
fn of_directory(shared: &S3Shared, seen: &S3Request) -> Option<Answer> {
    if seen.op == Op::Session {
        let session = shared.sessions.create(shared, seen);
        let denied = || error(403, "AccessDenied");
        return Some(session.map_or_else(denied, |xml| answer(200, "application/xml", xml)));
    }
    let names = seen.uri.query().unwrap_or_default().split(['&', '=']);
    let of_control_plane = names.take(1).any(|name| SETTINGS.contains(&name));
    let now = shared.storage.lock().now();
    let refusal = shared.sessions.refuse(now, seen).filter(|_| !of_control_plane);
    refusal.map(|(status, code)| error(status, code))
}

/// Returns the refusal of a request that lacks a required checksum.
fn without_checksum(shared: &S3Shared, op: Op, parts: &Parts) -> Option<Answer> {
    let quirks = shared.storage.lock().quirks.clone();
    let has = |start: &str| parts.headers.keys().any(|name| name.as_str().starts_with(start));
    let md5 = has("content-md5");
    let of_several = op == Op::Delete && parts.method == http::Method::POST;
    if quirks.deletes_want_md5 && of_several && !md5 {
        return Some(refusal("MissingContentMD5", "Missing required header: Content-MD5"));
    }
    let lacks = op == Op::Put && !md5 && !has("x-amz-checksum-");
    let why = "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with \
               Object Lock parameters";
    (quirks.writes_want_checksums && lacks).then(|| refusal("InvalidRequest", why))
}

async fn with_fault(
    shared: &Arc<S3Shared>,
    fault: Option<ServerFault>,
    parts: &Parts,
    body: Bytes,
) -> io::Result<Answer> {
    let Some(fault) = fault else { return apply(shared, parts, body).await };
    Ok(match fault {
        ServerFault::Answer(status, code) => error(status, code),
        ServerFault::AccessDenied => error(403, "AccessDenied"),
        ServerFault::NoSuchBucket => error(404, "NoSuchBucket"),
        ServerFault::SlowDown => error(503, "SlowDown"),
        ServerFault::Conflict => error(409, "ConditionalRequestConflict"),
        ServerFault::ErrorBefore => error(500, "InternalError"),
        ServerFault::CutBefore => return Err(cut()),
        ServerFault::Html => page(),
        ServerFault::Empty => answer(200, "text/plain", String::new()),
        ServerFault::Text => answer(200, "text/plain", "try again later".to_owned()),
        ServerFault::ErrorBody => error(200, "InternalError"),
        ServerFault::WrongRegion(region) => {
            let mut answer = error(301, "PermanentRedirect");
            let region = HeaderValue::from_static(region);
            answer.headers_mut().insert("x-amz-bucket-region", region);
            answer
        }
        ServerFault::ErrorAfter | ServerFault::CutAfter | ServerFault::ErrorBodyAfter => {
            apply(shared, parts, body).await?;
            match fault {
                ServerFault::CutAfter => return Err(cut()),
                ServerFault::ErrorAfter => error(500, "InternalError"),
                _ => error(200, "InternalError"),
            }
        }
        ServerFault::TruncatedBody => truncated(apply(shared, parts, body).await?).await?,
        ServerFault::AnswerLate(delay) => {
            let answer = apply(shared, parts, body).await?;
            pause(delay).await;
            answer
        }
        ServerFault::ApplyLate(delay) => {
            apply_later(shared, parts, body, delay);
            error(500, "InternalError")
        }
        ServerFault::ApplyAgain(delay) => {
            apply_later(shared, parts, body.clone(), delay);
            apply(shared, parts, body).await?
        }
        ServerFault::Hold => {
            shared.gate.hold().await;
            apply(shared, parts, body).await?
        }
        ServerFault::NoEtag => {
            let mut answer = apply(shared, parts, body).await?;
            answer.headers_mut().remove(ETAG);
            answer
        }
    })
}

/// Applies the request as S3 does.
async fn apply(shared: &S3Shared, parts: &Parts, body: Bytes) -> io::Result<Answer> {
    if let Some(answer) = setting(shared, parts) {
        return Ok(answer);
    }
    let mut request = Request::from_parts(parts.clone(), s3s::Body::from(body));
    let service = match is_directory(bucket_of(parts)) {
        true => {
            without_signature(request.headers_mut());
            &shared.zonal
        }
        false => &shared.service,
    };
    let answer = service.call(request).await;
    let answer = answer.map_err(|error| io::Error::other(format!("{error:?}")))?;
    Ok(answer.map(|body| body.map_err(io::Error::other).boxed()))
}

/// Returns the response to a request for a bucket's versioning or lifecycle rules.
fn setting(shared: &S3Shared, parts: &Parts) -> Option<Answer> {
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

fn apply_later(shared: &Arc<S3Shared>, parts: &Parts, body: Bytes, delay: Duration) {
    let (shared, parts) = (shared.clone(), parts.clone());
    tokio::spawn(async move {
        pause(delay).await;
        apply(&shared, &parts, body).await
    });
}

/// Returns a response that ends the connection after half of its body.
async fn truncated(answer: Answer) -> io::Result<Answer> {
    let (mut parts, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let half = futures::stream::iter([Ok(Frame::data(body.slice(..body.len() / 2)))]);
    let cut = futures::stream::once(async {
        // The client needs time to receive the first half. If the server closed the connection
        // immediately, the first half would be lost.
        pause(Duration::from_millis(20)).await;
        Err(cut())
    });
    Ok(Response::from_parts(parts, BodyExt::boxed(StreamBody::new(half.chain(cut)))))
}

fn error(status: u16, code: &str) -> Answer {
    error_with(status, code, "ordered by the test")
}

fn refusal(code: &str, message: &str) -> Answer {
    error_with(400, code, message)
}

fn error_with(status: u16, code: &str, message: &str) -> Answer {
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>\
         <Message>{message}</Message></Error>"
    );
    answer(status, "application/xml", xml)
}

fn page() -> Answer {
    let html = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><br></body></html>";
    answer(200, "text/html; charset=utf-8", html.to_owned())
}

/// Adds a `Date` with the time of the server's clock. Without this header, the HTTP library would
/// add a `Date` with the time of the machine.
fn dated(shared: &S3Shared, mut answer: Answer) -> Answer {
    let now = chrono::DateTime::<chrono::Utc>::from(shared.storage.lock().now());
    let date = now.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
    answer.headers_mut().insert(DATE, HeaderValue::from_str(&date).expect("a date is ASCII"));
    answer
}

fn bucket_of(parts: &Parts) -> &str {
    parts.uri.path().split('/').nth(1).unwrap_or_default()
}

/// Returns the key of the requested object, or the prefix of the listing.
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

/// Returns the keys of a `DeleteObjects` request. The keys of the tests contain no XML escapes.
fn keys_in(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(body);
    let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
    keys.map(|(key, _)| key.to_owned()).collect()
}
