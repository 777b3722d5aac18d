//! The common part of the test servers: a port, a thread with a runtime, connections, and the log
//! of requests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::closed_port::ClosedPort;

pub type Answer = Response<BoxBody<Bytes, io::Error>>;
type Respond = dyn Fn(Parts, Bytes) -> BoxFuture<'static, io::Result<Answer>> + Send + Sync;

/// A server on a free port of the loopback interface. When the server is dropped, it ends every
/// connection and every delayed request, and its port refuses connections.
pub struct Shell {
    address: SocketAddr,
    line: Arc<Line>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the server's thread shares with the [`Shell`].
struct Line {
    /// Returns the response to a request. An error closes the connection without a response.
    respond: Box<Respond>,
    /// True while the server closes and refuses connections.
    away: watch::Sender<bool>,
    connections: AtomicUsize,
}

impl Shell {
    pub fn start<F>(respond: impl Fn(Parts, Bytes) -> F + Send + Sync + 'static) -> Shell
    where
        F: Future<Output = io::Result<Answer>> + Send + 'static,
    {
        let line = Arc::new(Line {
            respond: Box::new(move |parts, body| Box::pin(respond(parts, body))),
            away: watch::Sender::new(false),
            connections: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&line);
        let thread = std::thread::spawn(move || until(stopped, listener, &for_thread));
        Shell { address, line, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

#[cfg_attr(not(feature = "s3"), allow(dead_code, reason = "only the double of S3 uses it"))]
impl Shell {
    pub fn go_away(&self, away: bool) {
        self.line.away.send_replace(away);
    }

    pub fn connections(&self) -> usize {
        self.line.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // The port may still accept connections. If another thread is starting a process, the child
        // inherits the listening socket, and keeps it open until the child executes its program. So
        // this loop waits until the port refuses connections.
        for _ in 0..100_000 {
            if TcpStream::connect(self.address).is_err() {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// Serves requests until the sender of `stopped` is dropped.
fn until(stopped: oneshot::Receiver<()>, listener: TcpListener, line: &Arc<Line>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        tokio::select! {
            _ = stopped => {}
            () = accept(listener, line) => {}
        }
    });
}

async fn accept(listener: TcpListener, line: &Arc<Line>) {
    let address = listener.local_addr().expect("a bound listener has an address");
    listener.set_nonblocking(true).expect("a listener can be made non-blocking");
    let mut bound = tokio::net::TcpListener::from_std(listener).expect("a bound listener");
    let mut away = line.away.subscribe();
    loop {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = bound.accept() => {
                    let Ok((stream, _)) = accepted else { continue };
                    line.connections.fetch_add(1, Ordering::Relaxed);
                    // With TCP_NODELAY, a response does not wait until the client has acknowledged
                    // the previous response.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(serve(stream, Arc::clone(line)));
                }
                Some(_) = connections.join_next() => {}
                _ = away.wait_for(|away| *away) => break,
            }
        }
        // Closes the listener and all connections. A request that was received before this point
        // runs on a separate task, so it still takes effect.
        drop((bound, connections));
        let closed = ClosedPort::after_listener(address);
        let _ = away.wait_for(|away| !*away).await;
        bound = closed.listen();
    }
}

async fn serve(stream: tokio::net::TcpStream, line: Arc<Line>) {
    let service = service_fn(|request| respond(Arc::clone(&line), request));
    let connection = hyper::server::conn::http1::Builder::new();
    // An error means that the client disconnected, or that a fault closes the connection.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(line: Arc<Line>, request: Request<Incoming>) -> io::Result<Answer> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    // The request runs on a separate task, so it takes effect even if the client disconnects.
    tokio::spawn((line.respond)(parts, body)).await.map_err(io::Error::other)?
}

/// The log of a server's requests, oldest first.
pub struct Log<T>(Mutex<Vec<T>>);

impl<T> Default for Log<T> {
    fn default() -> Log<T> {
        Log(Mutex::default())
    }
}

impl<T> Log<T> {
    pub fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

/// A gate at which requests wait for their release.
#[cfg(any(feature = "s3", feature = "gcs"))]
#[derive(Default)]
pub struct Gate {
    /// Number of releases so far.
    released: watch::Sender<u64>,
    held: watch::Sender<usize>,
}

#[cfg(any(feature = "s3", feature = "gcs"))]
impl Gate {
    pub async fn hold(&self) {
        let mut released = self.released.subscribe();
        self.held.send_modify(|held| *held += 1);
        let _ = released.changed().await;
        self.held.send_modify(|held| *held -= 1);
    }

    /// Releases all requests that wait at present.
    pub fn release(&self) {
        self.released.send_modify(|count| *count += 1);
    }

    /// Waits until the gate holds this number of requests.
    pub async fn until_held(&self, requests: usize) {
        let mut held = self.held.subscribe();
        held.wait_for(|held| *held >= requests).await.expect("this gate owns the sender");
    }
}

/// Returns a response with this body.
#[cfg(any(feature = "s3", feature = "gcs", feature = "dynamodb"))]
pub fn answer(status: u16, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
    let mut answer = boxed(Response::new(body.into()));
    *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

pub fn boxed(answer: Response<Bytes>) -> Answer {
    answer.map(|body| Full::new(body).map_err(|never| match never {}).boxed())
}

/// Returns the error that closes the connection without a response.
pub fn cut() -> io::Error {
    io::Error::other("cut on purpose")
}

#[cfg(any(feature = "s3", feature = "gcs"))]
#[allow(clippy::disallowed_methods, reason = "the servers delay requests in real time")]
pub async fn pause(delay: std::time::Duration) {
    tokio::time::sleep(delay).await;
}

#[cfg(any(feature = "s3", feature = "dynamodb"))]
pub mod aws {
    //! The common part of the test servers for S3 and DynamoDB.

    use std::sync::OnceLock;

    #[cfg(feature = "dynamodb")]
    use aws_sdk_dynamodb::config::SharedHttpClient;
    #[cfg(not(feature = "dynamodb"))]
    use aws_sdk_s3::config::SharedHttpClient;
    use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

    use crate::outcomes::SECRET_KEY;

    pub const REGION: &str = "us-east-1";
    pub const ACCESS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";

    /// Returns the HTTP client that all tests of a process share. The client uses no proxy.
    pub fn http_client() -> SharedHttpClient {
        static CLIENT: OnceLock<SharedHttpClient> = OnceLock::new();
        CLIENT.get_or_init(own_http_client).clone()
    }

    /// Returns an HTTP client with its own connections, for tests of one server. Tests must not
    /// share connections, because a connection ends with the runtime of the test that created it.
    pub fn own_http_client() -> SharedHttpClient {
        let provider = Provider::Rustls(CryptoMode::Ring);
        aws_smithy_http_client::Builder::new().tls_provider(provider).build_https()
    }

    /// Returns the environment variables for another process that uses the server. With these
    /// variables, the process ignores the AWS configuration files in the home directory.
    pub fn env(endpoint: (&'static str, String)) -> Vec<(&'static str, String)> {
        let others = [
            ("AWS_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_CONFIG_FILE", "/dev/null"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("NO_PROXY", "127.0.0.1"),
        ];
        let others = others.map(|(name, value)| (name, value.to_owned()));
        [endpoint].into_iter().chain(others).collect()
    }
}
