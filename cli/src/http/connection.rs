//! One connection: one request, and its reply.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;

use super::body::{Body, read};
use super::server::Server;
use super::streams::{Place, Streams};
use super::wire::Shared;
use super::{Answer, Asked, CONNECTION_LIMIT, HANDLER_LIMIT, MOST_BYTES, Reply};
use crate::process::timer::pause;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its request has not come as a whole.
    Reading,
    Answering,
    Writing,
    /// Sends events; told anew each time that its peer takes more.
    Streaming,
}

impl Stage {
    /// How long it may last.
    fn limit(self) -> Duration {
        match self {
            Stage::Reading | Stage::Writing | Stage::Streaming => CONNECTION_LIMIT,
            Stage::Answering => HANDLER_LIMIT,
        }
    }
}

pub(super) async fn serve(
    wire: Shared,
    server: &Server,
    stage: watch::Sender<Stage>,
    streams: &Arc<Streams>,
) {
    let service = service_fn(async |request| {
        Ok::<_, Infallible>(answer(request, server, &stage, streams).await)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_LIMIT)
        .max_buf_size(MOST_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(wire), service);
    // A connection that broke is its peer's concern.
    tokio::select! {
        _ = connection => {}
        () = overdue(stage.subscribe()) => {}
    }
}

/// Waits until a stage has lasted too long.
async fn overdue(mut stage: watch::Receiver<Stage>) {
    loop {
        let limit = stage.borrow_and_update().limit();
        tokio::select! {
            changed = stage.changed() => if changed.is_err() { return },
            () = pause(limit) => return,
        }
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
    let asked = Asked {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
    };
    let events = match (server.handler)(asked).await {
        Answer::Whole(reply) => {
            stage.send_replace(Stage::Writing);
            return whole(reply);
        }
        Answer::Events(events) => events,
    };
    const KIND: &str = "text/event-stream";
    if only_head {
        stage.send_replace(Stage::Writing);
        return whole(Reply::new(200, KIND, String::new()));
    }
    let place = Place::take(streams);
    stage.send_replace(Stage::Streaming);
    with_head(200, KIND, Body::events(events, stage.clone(), place))
}

fn whole(reply: Reply) -> Response<Body> {
    let mut response = with_head(reply.status, reply.content_type, Body::whole(reply.body));
    if let Some((name, value)) = reply.header {
        let headers = response.headers_mut();
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

fn with_head(status: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // It is true for this moment only.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
