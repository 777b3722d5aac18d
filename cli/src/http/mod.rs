//! A small HTTP server for probes, load balancers, scrapers, and the applications beside a sidecar.
//!
//! It shares the runtime with the renewals, which it cannot delay: at most [`MOST_CONNECTIONS`]
//! tasks and [`MOST_STREAMS`] streams exist, and each stage of a connection has its limit. One more
//! connection waits until another ends. The server does not hold up the exit: dropping [`Serving`], or the end of the
//! runtime, cuts what is open.

mod body;
mod connection;
pub mod health;
pub mod metrics;
mod server;
mod socket;
mod stage;
mod streams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use hyper::body::Bytes;
use hyper::{HeaderMap, Method};
use serde::Serialize;
use tracing::info;

use super::exit::{self, Failure};
use crate::output::print::json_line;

pub use server::{Serving, start};
pub use socket::{SocketFile, start_unix};

/// One more waits until another ends. Streams do not count.
pub const MOST_CONNECTIONS: usize = 128;
/// Streams in addition to them; one more closes the oldest.
pub const MOST_STREAMS: usize = 64;
/// How long a connection may take for its one request: idle connections keep others waiting for no
/// longer.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(1);
/// How long a connection may take for the reply.
pub const CONNECTION_LIMIT: Duration = Duration::from_secs(5);
/// How long a handler may take between the two.
pub const HANDLER_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of a request's line and headers: the least that hyper takes.
const MOST_BYTES: usize = 8 * 1024;

/// What is answered to a GET; a HEAD gets the same without the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub content_type: &'static str,
    /// A header of this kind of reply, such as `Allow`.
    pub header: Option<(&'static str, &'static str)>,
    pub body: String,
}

impl Reply {
    /// A line for people; the line's end is added.
    pub fn text(status: u16, line: &str) -> Reply {
        Reply::new(status, "text/plain; charset=utf-8", format!("{line}\n"))
    }

    pub fn json(status: u16, value: &impl Serialize) -> Reply {
        Reply::new(status, "application/json", format!("{}\n", json_line(value)))
    }

    pub fn new(status: u16, content_type: &'static str, body: String) -> Reply {
        Reply { status, content_type, header: None, body }
    }

    pub fn with_header(self, name: &'static str, value: &'static str) -> Reply {
        Reply { header: Some((name, value)), ..self }
    }
}

/// A request, with its body read.
#[derive(Debug)]
pub struct HttpRequest {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Result<Bytes, BadBody>,
}

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadBody {
    TooLong {
        most: usize,
    },
    /// The connection broke, or the request is malformed.
    Broken,
}

/// What a handler answers.
pub enum Answer {
    Whole(Reply),
    /// Lines of server-sent events, sent as they come. The stream is asked for more at least every
    /// [`CONNECTION_LIMIT`], by waking it: a connection whose peer does not read is cut.
    Events(BoxStream<'static, String>),
}

/// Answers requests. Its future must not block.
pub type Handler = Arc<dyn Fn(HttpRequest) -> BoxFuture<'static, Answer> + Send + Sync>;

/// The handler, and the longest body of a request in bytes.
#[derive(Clone)]
pub struct Server {
    pub handler: Handler,
    pub most_body: usize,
}

/// Gives the reply for a path, without its query; `None` for a path that is not its own. It is
/// called on the runtime's threads, so it must not wait for anything, nor lock for long.
pub type Routes = Arc<dyn Fn(&str) -> Option<Reply> + Send + Sync>;

/// Answers GET and HEAD by these routes.
fn handler_of(routes: Routes) -> Handler {
    Arc::new(move |asked| {
        let known = [Method::GET, Method::HEAD].contains(&asked.method);
        let reply = match routes(&asked.path) {
            None => Reply::text(404, "not found"),
            Some(_) if !known => Reply::text(405, "GET or HEAD").with_header("allow", "GET, HEAD"),
            Some(reply) => reply,
        };
        Box::pin(std::future::ready(Answer::Whole(reply)))
    })
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

#[cfg(test)]
mod tests;
