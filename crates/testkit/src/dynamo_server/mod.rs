//! A double of DynamoDB: in this process, over real HTTP on a free port of the loopback interface,
//! with exact conditions, and with faults on demand. It knows the part of the API that
//! [`DynamoStore`] uses, and refuses the rest.
//!
//! Reads that do not ask for consistency are answered as of before the last write.
//!
//! ```
//! use tenure::store::Store as _;
//! use tenure_testkit::dynamo_server::{DynamoServer, ServerFault};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let server = DynamoServer::start();
//! let store = server.store(); // or `server.env()` for another process
//! server.fault(ServerFault::CutAfter, "PutItem");
//! store.create("app/lock-0000000001.json", "{}".into()).await.unwrap_err();
//! assert_eq!(server.keys(), ["app/lock-0000000001.json"]);
//! # }
//! ```

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use serde_json::{Value, json};
use tenure::store::DynamoStore;

use super::http_shell::{Log, Shell, aws};

mod expressions;
mod serve;
mod tables;

pub use self::expressions::Item;
pub use self::tables::{DynamoQuirks, Table};
use self::tables::{DynamoRefusal, Tables};
pub use super::http_shell::aws::own_http_client;

/// The table that is there from the start.
pub const TABLE: &str = "tenure-test";
/// The one access key that the server knows.
pub const ACCESS_KEY: &str = aws::ACCESS_KEY;
pub use super::faults::ServerFault;
pub use super::outcomes::SECRET_KEY;

/// A request that the server received.
#[derive(Clone, Debug)]
pub struct DynamoRequest {
    /// Such as `PutItem`.
    pub operation: String,
    /// The body.
    pub request: Value,
}

/// The server. The [module](self) has an example.
///
/// It has a thread and a runtime of its own, so it also serves other processes and blocking tests.
/// It stops when dropped.
pub struct DynamoServer {
    shell: Shell,
    shared: Arc<DynamoShared>,
}

#[derive(Default)]
struct DynamoShared {
    state: Mutex<DynamoState>,
    seen: Log<DynamoRequest>,
}

#[derive(Default)]
struct DynamoState {
    tables: Tables,
    /// What goes wrong with which operation.
    faults: Vec<(ServerFault, &'static str)>,
}

impl DynamoServer {
    /// A server with the table [`TABLE`], as the store makes it.
    pub fn start() -> DynamoServer {
        let server = DynamoServer::start_empty();
        server.create_table(TABLE, &[("prefix", "HASH", "S"), ("name", "RANGE", "S")]);
        server
    }

    /// A server without a table.
    pub fn start_empty() -> DynamoServer {
        let shared = Arc::new(DynamoShared::default());
        let for_shell = Arc::clone(&shared);
        let respond = move |parts, body| serve::respond(Arc::clone(&for_shell), parts, body);
        DynamoServer { shell: Shell::start(respond), shared }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        self.shell.endpoint()
    }

    /// A client with the SDK's retries on (and hardly a wait between them).
    pub fn client(&self) -> Client {
        Client::from_conf(config(&self.endpoint()).build())
    }

    /// A store over [`DynamoServer::client`].
    pub fn store(&self) -> DynamoStore {
        DynamoStore::new(self.client(), TABLE)
    }

    /// What another process needs in its environment, and nothing from this user's files.
    pub fn env(&self) -> Vec<(&'static str, String)> {
        aws::env(("AWS_ENDPOINT_URL_DYNAMODB", self.endpoint()))
    }

    /// Makes a table with these keys: the name, the role (`HASH` or `RANGE`) and the type of each.
    ///
    /// # Panics
    ///
    /// If DynamoDB would refuse it.
    pub fn create_table(&self, table: &str, keys: &[(&str, &str, &str)]) {
        let schema: Vec<_> = keys
            .iter()
            .map(|(name, role, _)| json!({ "AttributeName": name, "KeyType": role }))
            .collect();
        let attributes: Vec<_> = keys
            .iter()
            .map(|(name, _, kind)| json!({ "AttributeName": name, "AttributeType": kind }))
            .collect();
        let request = json!({
            "TableName": table, "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": schema, "AttributeDefinitions": attributes,
        });
        self.state().tables.carry_out("CreateTable", &request).expect("a table can be made");
    }

    /// From now on every request of this kind, such as `PutItem`, meets the fault.
    pub fn fault(&self, fault: ServerFault, operation: &'static str) {
        self.state().faults.push((fault, operation));
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Changes how the server differs from DynamoDB.
    pub fn quirks(&self, change: impl FnOnce(&mut DynamoQuirks)) {
        change(&mut self.state().tables.quirks);
    }

    /// All requests of this kind up to now, refused ones included.
    pub fn requests(&self, operation: &str) -> Vec<Value> {
        let seen = self.shared.seen.lock();
        let of_kind = seen.iter().filter(|seen| seen.operation == operation);
        of_kind.map(|seen| seen.request.clone()).collect()
    }

    /// How many requests of this kind came in.
    pub fn count(&self, operation: &str) -> usize {
        self.requests(operation).len()
    }

    /// All requests, by their kinds, in order.
    pub fn operations(&self) -> Vec<String> {
        self.shared.seen.lock().iter().map(|seen| seen.operation.clone()).collect()
    }

    /// Forgets the requests up to now.
    pub fn forget_requests(&self) {
        self.shared.seen.lock().clear();
    }

    /// Looks into the table [`TABLE`] behind the API, or changes it.
    ///
    /// # Panics
    ///
    /// If there is no such table.
    pub fn in_table<T>(&self, look: impl FnOnce(&mut Table) -> T) -> T {
        look(self.state().tables.tables.get_mut(TABLE).expect("the table is there"))
    }

    /// The item at this place.
    pub fn item(&self, prefix: &str, name: &str) -> Option<Item> {
        self.in_table(|table| {
            let at = |key: &(String, String)| (key.0.as_str(), key.1.as_str()) == (prefix, name);
            table.items().find(|(key, _)| at(key)).map(|(_, item)| item.clone())
        })
    }

    /// All keys as the store has them, in order.
    pub fn keys(&self) -> Vec<String> {
        self.in_table(|table| table.items().map(|((p, s), _)| format!("{p}/{s}")).collect())
    }

    fn state(&self) -> MutexGuard<'_, DynamoState> {
        self.shared.state()
    }
}

impl DynamoShared {
    fn state(&self) -> MutexGuard<'_, DynamoState> {
        self.state.lock().expect("no step under the lock panics")
    }

    fn carry_out(&self, operation: &str, request: &Value) -> Result<Value, DynamoRefusal> {
        self.state().tables.carry_out(operation, request)
    }
}

/// The settings of a client for any endpoint, with [`ACCESS_KEY`] and [`SECRET_KEY`].
pub fn config(endpoint: &str) -> aws_sdk_dynamodb::config::Builder {
    let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
    aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(aws::REGION))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new(ACCESS_KEY, SECRET_KEY, None, None, "tests"))
        .http_client(aws::http_client())
        .retry_config(retries)
}
