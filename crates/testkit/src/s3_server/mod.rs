//! A test double of S3 that verifies signatures, and fails on demand. The server runs in this
//! process and serves HTTP on a free port of the loopback interface.
//!
//! ```
//! use tenure::store::Store as _;
//! use tenure_testkit::s3_server::{BUCKET, ServerFault, Op, S3Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let server = S3Server::start().await;
//! let store = server.store(BUCKET); // or `server.env()` for another process
//! server.fault(ServerFault::CutAfter).on(Op::Put).key_contains("lock-").times(1);
//! store.create("app/lock-0000000001.json", "{}".into()).await.unwrap_err();
//! assert_eq!(server.keys(), ["app/lock-0000000001.json"]);
//! # }
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use bytes::Bytes;
use http::{HeaderMap, Uri};
use s3s::auth::{S3Auth, SecretKey};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3Result, s3_error};
use tenure::Process;
use tenure::store::S3Store;

mod directory_bucket;
mod serve;
mod storage;

use self::directory_bucket::Sessions;
use self::storage::Storage;
pub use self::storage::{OWNER, S3Object, S3Quirks};
use super::faults::Faults;
pub use super::faults::{Arming, Op, ServerFault};
use super::http_shell::{Gate, Log, Shell, aws};

/// Name of the bucket that exists from the start. The methods that access objects without a
/// request, such as `put_raw`, use this bucket.
pub const BUCKET: &str = "tenure-test";
/// Name of the directory bucket of [`S3Server::start_directory_bucket`].
pub const DIRECTORY_BUCKET: &str = "tenure-test--use1-az4--x-s3";
/// Region of all buckets.
pub const REGION: &str = aws::REGION;
/// Access key of the first user, which exists from the start.
pub const ACCESS_KEY: &str = aws::ACCESS_KEY;
pub use super::outcomes::SECRET_KEY;

/// A request that the server received.
#[derive(Clone, Debug)]
pub struct S3Request {
    /// Kind of the request.
    pub op: Op,
    /// Key of the object, or prefix of the listing, decoded.
    pub key: String,
    /// Keys in the body of a `DeleteObjects` request.
    pub deletes: Vec<String>,
    /// Path and query of the request.
    pub uri: Uri,
    /// Headers of the request.
    pub headers: HeaderMap,
    /// True if the object existed when the request arrived.
    pub exists: bool,
}

/// The server. The [module](self) has an example.
///
/// The server has a separate thread and runtime, so it also serves other processes, blocking tests
/// and tests with paused time. Dropping the value stops the server.
pub struct S3Server {
    bucket: &'static str,
    shell: Shell,
    shared: Arc<S3Shared>,
}

struct S3Shared {
    service: S3Service,
    /// Serves directory buckets. This service checks no signatures, because sessions authenticate
    /// the requests.
    zonal: S3Service,
    sessions: Sessions,
    storage: Storage,
    faults: Faults,
    users: Users,
    seen: Log<S3Request>,
    gate: Gate,
    /// Function that returns the delay between the arrival of the next request and its effect.
    latency: Mutex<Option<Latency>>,
}

type Latency = Box<dyn FnMut() -> Duration + Send>;

/// The users by access key, each with its rights.
#[derive(Clone, Default)]
struct Users(Arc<Mutex<BTreeMap<String, User>>>);

struct User {
    secret: String,
    allows: Box<dyn Fn(&S3Request) -> bool + Send>,
}

impl S3Server {
    /// Starts a server with the bucket [`BUCKET`] and one user with all rights.
    pub async fn start() -> S3Server {
        S3Server::start_blocking()
    }

    /// Starts the server like [`start`](S3Server::start). The caller needs no runtime.
    pub fn start_blocking() -> S3Server {
        S3Server::start_with(BUCKET)
    }

    /// Starts a server with the bucket [`DIRECTORY_BUCKET`], which is like a bucket of S3 Express
    /// One Zone. The methods that access objects without a request use this bucket. Its listings
    /// have no order, its ETags are random, and its requests need a session. The server does not
    /// verify the signatures of these requests.
    pub fn start_directory_bucket() -> S3Server {
        S3Server::start_with(DIRECTORY_BUCKET)
    }

    fn start_with(bucket: &'static str) -> S3Server {
        let storage = Storage::default();
        storage.lock().buckets.insert(bucket.to_owned(), BTreeMap::new());
        let users = Users::default();
        users.add(ACCESS_KEY, SECRET_KEY, |_| true);
        let mut service = S3ServiceBuilder::new(storage.clone());
        service.set_auth(users.clone());
        // The SDK signs requests with the time in the `Date` of earlier responses. A test can skew
        // this time, so the server accepts every skew.
        let mut config = S3Config::default();
        config.presigned_url_max_skew_time_secs = u32::MAX;
        service.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
        let shared = Arc::new(S3Shared {
            service: service.build(),
            zonal: S3ServiceBuilder::new(storage.clone()).build(),
            sessions: Sessions::default(),
            storage,
            faults: Faults::default(),
            users,
            seen: Log::default(),
            gate: Gate::default(),
            latency: Mutex::default(),
        });
        let for_shell = Arc::clone(&shared);
        let respond = move |parts, body| serve::respond(Arc::clone(&for_shell), parts, body);
        S3Server { bucket, shell: Shell::start(respond), shared }
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        self.shell.endpoint()
    }

    /// Returns a client that addresses buckets in the path, with the SDK's retries enabled. Each
    /// retry waits only a few milliseconds.
    pub fn client(&self) -> Client {
        self.client_as(ACCESS_KEY, SECRET_KEY)
    }

    /// Returns a client like [`client`](S3Server::client), with other credentials.
    pub fn client_as(&self, access_key: &str, secret_key: &str) -> Client {
        Client::from_conf(config(&self.endpoint(), access_key, secret_key).build())
    }

    /// Returns a store that uses [`S3Server::client`].
    pub fn store(&self, bucket: &str) -> S3Store {
        S3Store::new(self.client(), bucket)
    }

    /// Returns the environment variables for another process that uses this server. With these
    /// variables, the process ignores the AWS configuration files in the home directory.
    pub fn env(&self) -> Vec<(&'static str, String)> {
        aws::env(("AWS_ENDPOINT_URL", self.endpoint()))
    }

    /// Returns a builder for a fault of this server. The fault has an effect once the builder is
    /// dropped.
    pub fn fault(&self, fault: ServerFault) -> Arming {
        self.shared.faults.arm(fault)
    }

    /// Returns the name of each kind of fault that occurred, and how many requests met it.
    pub fn faults_met(&self) -> BTreeMap<String, usize> {
        self.shared.faults.met()
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.shared.faults.clear();
    }

    /// With `true`, closes all connections and refuses new ones, as during a restart of a server.
    /// With `false`, accepts connections again. The server keeps its objects.
    pub fn go_away(&self, away: bool) {
        self.shell.go_away(away);
    }

    /// Delays the effect of every later request. The delay is independent of the faults.
    pub fn latency(&self, latency: impl FnMut() -> Duration + Send + 'static) {
        *self.shared.latency.lock().expect("no holder of this lock panics") =
            Some(Box::new(latency));
    }

    /// Returns the number of connections that clients have opened.
    pub fn connections(&self) -> usize {
        self.shell.connections()
    }

    /// Sets how the server differs from S3.
    pub fn quirks(&self, change: impl FnOnce(&mut S3Quirks)) {
        change(&mut self.shared.storage.lock().quirks);
    }

    /// Adds a user who may send all requests except requests of these kinds.
    pub fn add_user(&self, access_key: &str, secret_key: &str, denied: &[Op]) {
        let denied = denied.to_vec();
        self.add_user_with(access_key, secret_key, move |seen| !denied.contains(&seen.op));
    }

    /// Adds or replaces a user with the given rights.
    pub fn add_user_with(
        &self,
        access_key: &str,
        secret_key: &str,
        allows: impl Fn(&S3Request) -> bool + Send + 'static,
    ) {
        self.shared.users.add(access_key, secret_key, allows);
    }

    /// Ends all sessions of directory buckets, as if the clock of the clients were behind.
    pub fn end_sessions(&self) {
        self.shared.sessions.clear();
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
    pub fn requests(&self) -> Vec<S3Request> {
        self.shared.seen.lock().clone()
    }

    /// Returns the number of requests of this kind.
    pub fn count(&self, op: Op) -> usize {
        self.shared.seen.lock().iter().filter(|seen| seen.op == op).count()
    }

    /// Returns the last request of this kind.
    ///
    /// # Panics
    ///
    /// Panics if no request has this kind.
    pub fn last(&self, op: Op) -> S3Request {
        let seen = self.shared.seen.lock().iter().rfind(|seen| seen.op == op).cloned();
        seen.expect("the server received a request of this kind")
    }

    /// Clears the log of requests.
    pub fn forget_requests(&self) {
        self.shared.seen.lock().clear();
    }

    /// Creates an empty bucket, unless it exists.
    pub fn create_bucket(&self, bucket: &str) {
        self.shared.storage.lock().buckets.entry(bucket.to_owned()).or_default();
    }

    /// Writes an object without a request.
    pub fn put_raw(&self, key: &str, body: impl Into<Bytes>) {
        self.shared.storage.lock().write(self.bucket, key, body.into()).expect("the bucket exists");
    }

    /// Removes an object without a request.
    pub fn remove_raw(&self, key: &str) {
        self.in_bucket(|objects| objects.remove(key));
    }

    /// Returns the object with this key.
    pub fn object(&self, key: &str) -> Option<S3Object> {
        self.in_bucket(|objects| objects.get(key).cloned())
    }

    /// Returns all keys in order.
    pub fn keys(&self) -> Vec<String> {
        self.in_bucket(|objects| objects.keys().cloned().collect())
    }

    fn in_bucket<T>(&self, look: impl FnOnce(&mut BTreeMap<String, S3Object>) -> T) -> T {
        look(self.shared.storage.lock().buckets.get_mut(self.bucket).expect("the bucket exists"))
    }
}

/// Returns the settings of a client for any endpoint. The client addresses buckets in the path.
pub fn config(endpoint: &str, access_key: &str, secret_key: &str) -> aws_sdk_s3::config::Builder {
    let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
    aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .endpoint_url(endpoint)
        .force_path_style(true)
        .credentials_provider(Credentials::new(access_key, secret_key, None, None, "tests"))
        .http_client(aws::http_client())
        .retry_config(retries)
}

impl S3Shared {
    fn draw_latency(&self) -> Duration {
        let mut latency = self.latency.lock().expect("no holder of this lock panics");
        latency.as_mut().map_or(Duration::ZERO, |draw| draw())
    }
}

impl Users {
    fn add(
        &self,
        access_key: &str,
        secret: &str,
        allows: impl Fn(&S3Request) -> bool + Send + 'static,
    ) {
        let user = User { secret: secret.to_owned(), allows: Box::new(allows) };
        self.lock().insert(access_key.to_owned(), user);
    }

    /// Returns whether the user that signed the request lacks the right to send it.
    fn denies(&self, seen: &S3Request) -> bool {
        let authorization = seen.headers.get("authorization").and_then(|it| it.to_str().ok());
        let authorization = authorization.unwrap_or_default();
        let users = self.lock();
        let Some((_, rest)) = authorization.split_once("Credential=") else { return false };
        let user = rest.split('/').next().and_then(|access_key| users.get(access_key));
        user.is_some_and(|user| !(user.allows)(seen))
    }

    /// Returns whether the session token has expired. The token has the form `until-SECONDS…`, in
    /// seconds since the Unix epoch.
    fn expired(seen: &S3Request) -> bool {
        let token = seen.headers.get("x-amz-security-token").and_then(|it| it.to_str().ok());
        let until = token.and_then(|token| token.strip_prefix("until-"));
        let until = until.and_then(|until| until.split('-').next()?.parse::<f64>().ok());
        until.is_some_and(|until| until < Process::system().now().wall.as_secs_f64())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, User>> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

#[async_trait::async_trait]
impl S3Auth for Users {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        match self.lock().get(access_key) {
            Some(user) => Ok(SecretKey::from(user.secret.clone())),
            None => Err(s3_error!(InvalidAccessKeyId, "the access key does not exist")),
        }
    }
}
