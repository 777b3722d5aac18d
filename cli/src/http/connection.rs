//! One connection. It carries one request and its reply.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::body::{Body, read};
use super::stage::{Stage, overdue};
use super::streams::{StreamPlace, Streams};
use super::{Answer, HttpRequest, MOST_BYTES, REQUEST_LIMIT, Reply, Server};
use crate::process::lock::lock;

/// A TCP or Unix stream of bytes to a client.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// Serves one request. If the reply is a stream, the connection returns its permit to the semaphore
/// of the server, because streams have a separate limit.
pub(super) async fn serve(
    wire: Box<dyn Wire>,
    server: &Server,
    permit: OwnedSemaphorePermit,
    streams: &Arc<Streams>,
) {
    let (stage, _) = watch::channel(Stage::Reading);
    let permit = Mutex::new(Some(permit));
    let service = service_fn(async |request| {
        let response = answer(request, server, &stage, streams).await;
        if *stage.borrow() == Stage::Streaming {
            lock(&permit).take();
        }
        Ok::<_, Infallible>(response)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_LIMIT)
        .max_buf_size(MOST_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(wire), service);
    // An error of the connection affects only its client, so the error is ignored.
    tokio::select! {
        _ = connection => {}
        () = overdue(stage.subscribe()) => {}
    }
}

async fn answer(
    request: Request<Incoming>,
    server: &Server,
    stage: &watch::Sender<Stage>,
    streams: &Arc<Streams>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = read(body, server.most_body).await;
    stage.send_replace(Stage::Answering);
    let only_head = head.method == Method::HEAD;
    let asked = HttpRequest {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
    };
    let (events, full) = match (server.handler)(asked).await {
        Answer::Whole(reply) => {
            stage.send_replace(Stage::Writing);
            return whole(reply);
        }
        Answer::Events(events, full) => (events, full),
    };
    const KIND: &str = "text/event-stream";
    if only_head {
        stage.send_replace(Stage::Writing);
        return whole(Reply::new(200, KIND, String::new()));
    }
    let Some(place) = StreamPlace::take(streams, full.is_none()) else {
        stage.send_replace(Stage::Writing);
        return whole(Reply::new(200, KIND, full.unwrap_or_default()));
    };
    stage.send_replace(Stage::Streaming);
    with_head(200, KIND, Body::events(events, stage.clone(), place))
}

fn whole(reply: Reply) -> Response<Body> {
    let mut response = with_head(reply.status, reply.content_type, Body::whole(reply.body));
    for (name, value) in reply.headers {
        let value = HeaderValue::try_from(&*value).expect("the values of headers are ASCII");
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
    response
}

fn with_head(status: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // The reply describes the state at one moment, so no cache may keep it.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
