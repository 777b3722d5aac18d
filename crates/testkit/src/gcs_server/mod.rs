//! A test double of Google Cloud Storage that checks generations exactly and fails on demand. The
//! server runs in this process and serves HTTP on a free port of the loopback interface. The server
//! supports the part of the XML API that the `object_store` client uses.
//!
//! ```
//! use tenure::store::Store as _;
//! use tenure_testkit::gcs_server::{ServerFault, GcsServer, Op};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let server = GcsServer::start();
//! let store = server.store(); // or `server.env()` for another process
//! server.fault(ServerFault::CutAfter).on(Op::Put).key_contains("lock-").times(1);
//! store.create("app/lock-0000000001.json", "{}".into()).await.unwrap_err();
//! assert_eq!(server.keys(), ["app/lock-0000000001.json"]);
//! # }
//! ```

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, DATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use percent_encoding::percent_decode_str;
use tenure::Process;
use tenure::store::AnyObjectStore;

mod storage;

pub use self::storage::{GcsObject, GcsQuirks};
use self::storage::{GcsRefusal, GcsState, Outcome, http_date, query};
use super::faults::Faults;
pub use super::faults::{Arming, Op, ServerFault};
use super::http_shell::{self, Answer, Gate, Log, Shell, boxed, cut, pause};

/// Name of the bucket that exists from the start.
pub const BUCKET: &str = "tenure-test";
/// The only bearer token that the server accepts.
pub const TOKEN: &str = "ya29.of-the-test";

/// A request that the server received.
#[derive(Clone, Debug)]
pub struct GcsRequest {
    /// Kind of the request.
    pub op: Op,
    /// Key of the object, or prefix of the listing, decoded.
    pub key: String,
    /// Headers of the request.
    pub headers: HeaderMap,
}

/// The server. The [module](self) has an example.
///
/// The server has a separate thread and runtime, so it also serves other processes and blocking
/// tests. Dropping the value stops the server.
pub struct GcsServer {
    shell: Shell,
    shared: Arc<GcsShared>,
}

#[derive(Default)]
struct GcsShared {
    state: Mutex<GcsState>,
    faults: Faults,
    seen: Log<GcsRequest>,
    gate: Gate,
}

impl GcsServer {
    /// Starts a server with the empty bucket [`BUCKET`].
    pub fn start() -> GcsServer {
        let shared = Arc::new(GcsShared::default());
        let for_shell = Arc::clone(&shared);
        let respond = move |parts, body| respond(Arc::clone(&for_shell), parts, body);
        GcsServer { shell: Shell::start(respond), shared }
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        self.shell.endpoint()
    }

    /// Returns the environment variables for another process that uses this server.
    pub fn env(&self) -> Vec<(&'static str, String)> {
        vec![
            ("GOOGLE_BASE_URL", self.endpoint()),
            ("GOOGLE_BEARER_TOKEN", TOKEN.to_owned()),
            ("NO_PROXY", "127.0.0.1".to_owned()),
        ]
    }

    /// Returns a builder for a client of this server.
    pub fn builder(&self) -> GoogleCloudStorageBuilder {
        GoogleCloudStorageBuilder::new()
            .with_bucket_name(BUCKET)
            .with_base_url(&self.endpoint())
            .with_config(GoogleConfigKey::BearerToken, TOKEN)
    }

    /// Returns a store that uses the bucket [`BUCKET`].
    pub fn store(&self) -> AnyObjectStore {
        AnyObjectStore::gcs(self.builder()).expect("the settings are valid")
    }

    /// Returns a builder for a fault of this server. The fault takes effect when the builder is
    /// dropped.
    pub fn fault(&self, fault: ServerFault) -> Arming {
        self.shared.faults.arm(fault)
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.shared.faults.clear();
    }

    /// Sets how the server differs from Cloud Storage.
    pub fn quirks(&self, change: impl FnOnce(&mut GcsQuirks)) {
        change(&mut self.state().quirks);
    }

    /// Releases the requests that [`ServerFault::Hold`] holds.
    pub fn release(&self) {
        self.shared.gate.release();
    }

    /// Waits until the server holds this number of requests.
    pub async fn until_held(&self, requests: usize) {
        self.shared.gate.until_held(requests).await;
    }

    /// Returns all requests so far, including refused ones.
    pub fn requests(&self) -> Vec<GcsRequest> {
        self.shared.seen.lock().clone()
    }

    /// Clears the log of requests.
    pub fn forget_requests(&self) {
        self.shared.seen.lock().clear();
    }

    /// Writes an object without a request or a precondition.
    pub fn put_raw(&self, key: &str, body: impl Into<Bytes>) {
        self.state().write(key, body.into());
    }

    /// Removes an object without a request.
    pub fn remove_raw(&self, key: &str) {
        self.state().objects.remove(key);
    }

    /// Returns the object with this key.
    pub fn object(&self, key: &str) -> Option<GcsObject> {
        self.state().objects.get(key).cloned()
    }

    /// Returns all keys in order.
    pub fn keys(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, GcsState> {
        self.shared.state()
    }
}

impl GcsShared {
    fn state(&self) -> MutexGuard<'_, GcsState> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

/// Returns the response to one request. An error closes the connection without a response.
async fn respond(shared: Arc<GcsShared>, parts: Parts, body: Bytes) -> io::Result<Answer> {
    let op = Op::of(&parts);
    let key = match op {
        Op::List => query(&parts, "prefix").unwrap_or_default(),
        _ => place(&parts).1,
    };
    let fault = shared.faults.meet(op, &key);
    shared.seen.lock().push(GcsRequest { op, key, headers: parts.headers.clone() });
    with_fault(&shared, fault, parts, body).await
}

async fn with_fault(
    shared: &Arc<GcsShared>,
    fault: Option<ServerFault>,
    parts: Parts,
    body: Bytes,
) -> io::Result<Answer> {
    let ordered = |status, code| answer(Err((status, code, "ordered by the test")), false);
    let apply = |parts: &Parts, body: Bytes| answer(apply(shared, parts, body), false);
    let apply_later = |delay| {
        let (shared, parts, body) = (Arc::clone(shared), parts.clone(), body.clone());
        tokio::spawn(async move {
            pause(delay).await;
            let _ = self::apply(&shared, &parts, body);
        });
    };
    Ok(match fault {
        None => answer(self::apply(shared, &parts, body), parts.method == Method::HEAD),
        Some(ServerFault::Answer(status, code)) => ordered(status, code),
        Some(ServerFault::AccessDenied) => ordered(403, "AccessDenied"),
        Some(ServerFault::NoSuchBucket) => ordered(404, "NoSuchBucket"),
        Some(ServerFault::SlowDown) => ordered(429, "SlowDown"),
        Some(ServerFault::Conflict) => ordered(409, "Conflict"),
        Some(ServerFault::ErrorBefore) => ordered(503, "ServiceUnavailable"),
        Some(ServerFault::ErrorAfter) => {
            apply(&parts, body);
            ordered(503, "ServiceUnavailable")
        }
        Some(ServerFault::CutBefore) => return Err(cut()),
        Some(ServerFault::CutAfter) => {
            apply(&parts, body);
            return Err(cut());
        }
        Some(ServerFault::AnswerLate(delay)) => {
            let answer = apply(&parts, body);
            pause(delay).await;
            answer
        }
        Some(ServerFault::ApplyLate(delay)) => {
            apply_later(delay);
            ordered(503, "ServiceUnavailable")
        }
        Some(ServerFault::ApplyAgain(delay)) => {
            apply_later(delay);
            apply(&parts, body)
        }
        Some(ServerFault::Hold) => {
            shared.gate.hold().await;
            apply(&parts, body)
        }
        Some(ServerFault::NoEtag) => {
            let mut answer = apply(&parts, body);
            answer.headers_mut().remove(http::header::ETAG);
            answer
        }
        Some(ServerFault::Html) => {
            http_shell::answer(200, "text/html; charset=utf-8", "<html><body>Sign in</body></html>")
        }
        Some(other) => panic!("this server does not support the fault {other:?}"),
    })
}

/// Applies the request as Cloud Storage does.
fn apply(shared: &GcsShared, parts: &Parts, body: Bytes) -> Outcome {
    let token = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    if token.and_then(|value| value.strip_prefix("Bearer ")) != Some(TOKEN) {
        return Err((401, "AuthenticationRequired", "Authentication required."));
    }
    let (bucket, key) = place(parts);
    if bucket != BUCKET {
        return Err((404, "NoSuchBucket", "The specified bucket does not exist."));
    }
    let mut state = shared.state();
    match (Op::of(parts), &parts.method) {
        (Op::List, _) => state.list(&bucket, parts),
        (Op::Put, _) => state.put(&key, body, &parts.headers),
        (Op::Get | Op::Head, _) => state.get(&key, &parts.headers),
        (Op::Delete, &Method::DELETE) if !key.is_empty() => state.delete(&key, &parts.headers),
        _ => Err((405, "MethodNotAllowed", "this server does not support the request")),
    }
}

/// Returns the decoded bucket and key.
fn place(parts: &Parts) -> (String, String) {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let path = parts.uri.path().trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    (decoded(bucket), decoded(key))
}

fn answer(outcome: Outcome, head: bool) -> Answer {
    let mut answer = outcome.unwrap_or_else(refusal);
    if head {
        let len = answer.body().len();
        answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(len));
        *answer.body_mut() = Bytes::new();
    }
    let now = std::time::SystemTime::UNIX_EPOCH + Process::system().now().wall;
    let date = HeaderValue::from_str(&http_date(now)).expect("a date is ASCII");
    answer.headers_mut().insert(DATE, date);
    boxed(answer)
}

fn refusal((status, code, message): GcsRefusal) -> Response<Bytes> {
    let xml = format!(
        "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code>\
         <Message>{message}</Message></Error>"
    );
    let body = if status == 304 { Bytes::new() } else { xml.into() };
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
    answer
}
