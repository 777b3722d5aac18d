//! A small HTTP server for probes, load balancers and scrapers.
//!
//! It answers from what the process knows, and asks nobody. It shares the runtime with the
//! renewals, which it cannot delay: a reply is made without waiting, at most [`MOST_CONNECTIONS`]
//! tasks exist, and each ends within [`CONNECTION_LIMIT`]. A new connection is always accepted: it
//! takes the place of the oldest one that has not sent its request yet. The server does not hold up
//! the exit: dropping [`Serving`], or the end of the runtime, cuts what is open.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tracing::info;

use super::exit::{self, Failure};
use super::print::json_line;
use super::timer::pause;

/// One more closes the oldest that is idle or, if all have sent a request, the oldest.
pub const MOST_CONNECTIONS: usize = 32;
/// How long a connection may take in all, for its one request and the reply.
pub const CONNECTION_LIMIT: Duration = Duration::from_secs(5);
/// Bytes of a request's line and headers: the least that hyper takes.
const MOST_BYTES: usize = 8 * 1024;
/// After an accept that failed, as when no file is left to open.
const AFTER_A_FAILURE: Duration = Duration::from_millis(100);

/// What is answered to a GET; a HEAD gets the same without the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub content_type: &'static str,
    pub body: String,
}

impl Reply {
    /// A line for people; the line's end is added.
    pub fn text(status: u16, line: &str) -> Reply {
        let body = format!("{line}\n");
        Reply { status, content_type: "text/plain; charset=utf-8", body }
    }

    pub fn json(status: u16, value: &impl Serialize) -> Reply {
        let body = format!("{}\n", json_line(value));
        Reply { status, content_type: "application/json", body }
    }
}

/// Gives the reply for a path, without its query; `None` for a path that is not its own. It is
/// called on the runtime's threads, so it must not wait for anything, nor lock for long.
pub type Routes = Arc<dyn Fn(&str) -> Option<Reply> + Send + Sync>;

/// A server that runs. Dropping it ends the server, and cuts what is open.
#[derive(Debug)]
#[must_use = "dropping it ends the server"]
pub struct Serving {
    /// Where it listens: with the port that was chosen if port 0 was asked for.
    pub address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Listens on `address` and answers there. Must be called within the runtime.
pub fn start(address: SocketAddr, routes: Routes) -> io::Result<Serving> {
    let listener = StdListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let address = listener.local_addr()?;
    let accepting = tokio::spawn(accept(listener, routes));
    Ok(Serving { address, accepting })
}

/// What is to be served, and where. What shares an address shares a server.
#[derive(Default)]
pub struct Sites(Vec<Site>);

struct Site {
    address: SocketAddr,
    what: Vec<&'static str>,
    routes: Vec<Routes>,
}

impl Sites {
    /// Serves this too; `what` names it in the log. Port 0 given twice is one address as well.
    pub fn add(&mut self, address: SocketAddr, what: &'static str, routes: Routes) {
        match self.0.iter_mut().find(|site| site.address == address) {
            Some(site) => {
                site.what.push(what);
                site.routes.push(routes);
            }
            None => self.0.push(Site { address, what: vec![what], routes: vec![routes] }),
        }
    }

    /// Starts a server for each address, and logs where.
    pub fn start(self) -> Result<Vec<Serving>, Failure> {
        self.0.into_iter().map(Site::start).collect()
    }
}

impl Site {
    fn start(self) -> Result<Serving, Failure> {
        let Site { address, what, routes } = self;
        let what = what.join(" and ");
        let all: Routes = Arc::new(move |path| routes.iter().find_map(|routes| routes(path)));
        let serving = start(address, all).map_err(|error| {
            Failure::new(exit::OS, format!("cannot serve {what} at {address}: {error}"))
        })?;
        info!("serving {what} at http://{}", serving.address);
        Ok(serving)
    }
}

/// An address and a port, as an argument.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write an IP address and a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080"
            .to_owned()
    })
}

async fn accept(listener: TcpListener, routes: Routes) {
    // Ends its tasks with itself.
    let mut tasks = JoinSet::new();
    // The oldest first.
    let mut open: Vec<Connection> = Vec::with_capacity(MOST_CONNECTIONS);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            pause(AFTER_A_FAILURE).await;
            continue;
        };
        while tasks.try_join_next().is_some() {}
        open.retain(|connection| !connection.task.is_finished());
        if open.len() == MOST_CONNECTIONS {
            let idle = open.iter().position(|one| !one.has_asked.load(Ordering::Relaxed));
            open.remove(idle.unwrap_or(0)).task.abort();
        }
        let (routes, has_asked) = (Arc::clone(&routes), Arc::new(AtomicBool::new(false)));
        let asked = Arc::clone(&has_asked);
        let task = tasks.spawn(async move { serve(stream, &routes, &asked).await });
        open.push(Connection { task, has_asked });
    }
}

struct Connection {
    task: AbortHandle,
    /// Whether its request has come.
    has_asked: Arc<AtomicBool>,
}

/// One request, and its reply.
async fn serve(stream: TcpStream, routes: &Routes, has_asked: &AtomicBool) {
    let service = service_fn(async |request| {
        has_asked.store(true, Ordering::Relaxed);
        Ok::<_, Infallible>(answer(&request, routes))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_LIMIT)
        .max_buf_size(MOST_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A connection that broke is its peer's concern.
    tokio::select! {
        _ = connection => {}
        () = pause(CONNECTION_LIMIT) => {}
    }
}

fn answer(request: &Request<Incoming>, routes: &Routes) -> Response<String> {
    let known = [Method::GET, Method::HEAD].contains(request.method());
    let reply = match routes(request.uri().path()) {
        None => Reply::text(404, "not found"),
        Some(_) if !known => Reply::text(405, "GET or HEAD"),
        Some(reply) => reply,
    };
    let mut response = Response::new(reply.body);
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    // It is true for this moment only.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if !known && reply.status == 405 {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

#[cfg(test)]
#[path = "http/tests.rs"]
mod tests;
