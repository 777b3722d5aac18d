//! A small HTTP server for probes, load balancers, scrapers, and the applications of a sidecar.
//!
//! The server shares the runtime with the renewals, but cannot delay them. At most
//! [`MOST_CONNECTIONS`] tasks and [`MOST_STREAMS`] streams exist, and each stage of a connection
//! has a time limit. A further connection waits until another connection ends. The server does not
//! delay the exit: dropping [`Serving`], or the end of the runtime, closes all connections.

pub mod access;
mod body;
mod connection;
pub mod health;
mod listen;
pub mod metrics;
pub mod refusal;
mod server;
mod socket;
mod stage;
mod streams;

use std::borrow::Cow;
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

pub use listen::Listen;
pub use server::{Serving, start};
pub use socket::{SocketFile, start_unix};

/// Maximum number of open connections that are not streams. A further connection waits until
/// another connection ends.
pub const MOST_CONNECTIONS: usize = 128;
/// Maximum number of open streams. Streams do not count as connections. The handler decides whether
/// a further stream closes the oldest stream or is refused.
pub const MOST_STREAMS: usize = 64;
/// The time limit for receiving the request of a connection. An idle connection can therefore block
/// others for at most this time.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(1);
/// The time limit for sending the reply of a connection.
pub const CONNECTION_LIMIT: Duration = Duration::from_secs(5);
/// The time limit for the handler to return the reply to a request.
pub const HANDLER_LIMIT: Duration = Duration::from_secs(30);
/// Maximum length in bytes of the request line together with the headers. hyper accepts no smaller
/// limit.
const MOST_BYTES: usize = 8 * 1024;

/// The reply to a GET. A HEAD gets the same reply without the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub content_type: &'static str,
    /// Further headers of this reply, such as `allow`.
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    pub body: String,
}

impl Reply {
    /// Returns a line for people, with a line break.
    pub fn text(status: u16, line: &str) -> Reply {
        Reply::new(status, "text/plain; charset=utf-8", format!("{line}\n"))
    }

    pub fn json(status: u16, value: &impl Serialize) -> Reply {
        Reply::new(status, "application/json", format!("{}\n", json_line(value)))
    }

    pub fn new(status: u16, content_type: &'static str, body: String) -> Reply {
        Reply { status, content_type, headers: Vec::new(), body }
    }

    pub fn with_header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Reply {
        self.headers.push((name, value.into()));
        self
    }
}

/// A request. `body` contains the complete body, or the reason why the body is missing.
#[derive(Debug)]
pub struct HttpRequest {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Result<Bytes, BadBody>,
}

/// The reason why the body of a request is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadBody {
    TooLong {
        most: usize,
    },
    /// The connection broke, or the request is malformed.
    Broken,
}

/// The answer of a handler to a request: a whole reply, or a stream of events.
pub enum Answer {
    Whole(Reply),
    /// Lines of server-sent events. The server sends each line when the stream yields it. The
    /// stream must wake its task at least every [`CONNECTION_LIMIT`]. The server closes the
    /// connection if the peer does not read. The second field applies if [`MOST_STREAMS`] streams
    /// are already open. If it is `None`, the server closes the oldest stream. If it is a text, the
    /// peer gets only this text.
    Events(BoxStream<'static, String>, Option<String>),
}

/// A function that answers requests. The returned future must not block.
pub type Handler = Arc<dyn Fn(HttpRequest) -> BoxFuture<'static, Answer> + Send + Sync>;

/// The handler of a server, and the maximum length of the request bodies that it accepts, in bytes.
#[derive(Clone)]
pub struct Server {
    pub handler: Handler,
    pub most_body: usize,
}

/// A function that returns the reply for a path without its query, or `None` for an unknown path.
/// The function runs on the threads of the runtime, so it must not block or hold a lock for long.
pub type Routes = Arc<dyn Fn(&str) -> Option<Reply> + Send + Sync>;

/// Returns a handler that answers GET and HEAD with the replies of these routes. It answers other
/// methods with 405, and unknown paths with 404.
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

/// The addresses to serve, each with its routes. Routes with the same address share a server.
#[derive(Default)]
pub struct Sites(Vec<Site>);

struct Site {
    address: SocketAddr,
    names: Vec<&'static str>,
    routes: Vec<Routes>,
}

impl Sites {
    /// Adds routes. In the log, these routes have the name `name`. Routes with the same address
    /// share a server, even if the port is 0.
    pub fn add(&mut self, address: SocketAddr, name: &'static str, routes: Routes) {
        match self.0.iter_mut().find(|site| site.address == address) {
            Some(site) => {
                site.names.push(name);
                site.routes.push(routes);
            }
            None => self.0.push(Site { address, names: vec![name], routes: vec![routes] }),
        }
    }

    /// Starts one server for each address, and logs the address.
    pub fn start(self) -> Result<Vec<Serving>, Failure> {
        self.0.into_iter().map(Site::start).collect()
    }
}

impl Site {
    fn start(self) -> Result<Serving, Failure> {
        let Site { address, names, routes } = self;
        let names = names.join(" and ");
        let all: Routes = Arc::new(move |path| routes.iter().find_map(|routes| routes(path)));
        let serving = start(address, all).map_err(|error| {
            Failure::new(exit::OS, format!("cannot serve {names} at {address}: {error}"))
        })?;
        info!("serving {names} at http://{}", serving.address);
        Ok(serving)
    }
}

/// Parses an address and a port from an argument.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write an IP address and a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080"
            .to_owned()
    })
}

#[cfg(test)]
mod tests;
