//! A test double of DynamoDB that checks conditions exactly and fails on demand. The server runs in
//! this process and serves HTTP on a free port of the loopback interface. The server supports the
//! part of the API that [`DynamoStore`] uses, and refuses other requests.
//!
//! An eventually consistent read returns the state before the last write.
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

/// Name of the table that exists from the start.
pub const TABLE: &str = "tenure-test";
/// The only access key that the server accepts.
pub const ACCESS_KEY: &str = aws::ACCESS_KEY;
pub use super::faults::ServerFault;
pub use super::outcomes::SECRET_KEY;

/// A request that the server received.
#[derive(Clone, Debug)]
pub struct DynamoRequest {
    /// Name of the operation, such as `PutItem`.
    pub operation: String,
    /// Body of the request.
    pub request: Value,
}

/// The server. The [module](self) has an example.
///
/// The server has a separate thread and runtime, so it also serves other processes and blocking
/// tests. Dropping the value stops the server.
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
    /// Faults, each with the operation that it affects.
    faults: Vec<(ServerFault, &'static str)>,
}

impl DynamoServer {
    /// Starts a server with the table [`TABLE`]. The table has the schema that the store would
    /// create.
    pub fn start() -> DynamoServer {
        let server = DynamoServer::start_empty();
        server.create_table(TABLE, &[("prefix", "HASH", "S"), ("name", "RANGE", "S")]);
        server
    }

    /// Starts a server without a table.
    pub fn start_empty() -> DynamoServer {
        let shared = Arc::new(DynamoShared::default());
        let for_shell = Arc::clone(&shared);
        let respond = move |parts, body| serve::respond(Arc::clone(&for_shell), parts, body);
        DynamoServer { shell: Shell::start(respond), shared }
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        self.shell.endpoint()
    }

    /// Returns a client with the SDK's retries enabled. Each retry waits only a few milliseconds.
    pub fn client(&self) -> Client {
        Client::from_conf(config(&self.endpoint()).build())
    }

    /// Returns a store that uses [`DynamoServer::client`].
    pub fn store(&self) -> DynamoStore {
        DynamoStore::new(self.client(), TABLE)
    }

    /// Returns the environment variables for another process that uses this server. With these
    /// variables, the process ignores the AWS configuration files in the home directory.
    pub fn env(&self) -> Vec<(&'static str, String)> {
        aws::env(("AWS_ENDPOINT_URL_DYNAMODB", self.endpoint()))
    }

    /// Creates a table with these keys. Each key is a name, a role (`HASH` or `RANGE`) and a type.
    ///
    /// # Panics
    ///
    /// Panics if DynamoDB would refuse the table.
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
        self.state().tables.carry_out("CreateTable", &request).expect("DynamoDB accepts the table");
    }

    /// Applies the fault to every later request of this operation, such as `PutItem`.
    pub fn fault(&self, fault: ServerFault, operation: &'static str) {
        self.state().faults.push((fault, operation));
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Sets how the server differs from DynamoDB.
    pub fn quirks(&self, change: impl FnOnce(&mut DynamoQuirks)) {
        change(&mut self.state().tables.quirks);
    }

    /// Returns all requests of this operation, in order, including refused ones.
    pub fn requests(&self, operation: &str) -> Vec<Value> {
        let seen = self.shared.seen.lock();
        let of_kind = seen.iter().filter(|seen| seen.operation == operation);
        of_kind.map(|seen| seen.request.clone()).collect()
    }

    /// Returns the number of requests of this operation.
    pub fn count(&self, operation: &str) -> usize {
        self.requests(operation).len()
    }

    /// Returns the operations of all requests, in order.
    pub fn operations(&self) -> Vec<String> {
        self.shared.seen.lock().iter().map(|seen| seen.operation.clone()).collect()
    }

    /// Clears the log of requests.
    pub fn forget_requests(&self) {
        self.shared.seen.lock().clear();
    }

    /// Reads or changes the table [`TABLE`] without a request.
    ///
    /// # Panics
    ///
    /// Panics if the table does not exist.
    pub fn in_table<T>(&self, look: impl FnOnce(&mut Table) -> T) -> T {
        look(self.state().tables.tables.get_mut(TABLE).expect("the table exists"))
    }

    /// Returns the item with this key.
    pub fn item(&self, prefix: &str, name: &str) -> Option<Item> {
        self.in_table(|table| {
            let at = |key: &(String, String)| (key.0.as_str(), key.1.as_str()) == (prefix, name);
            table.items().find(|(key, _)| at(key)).map(|(_, item)| item.clone())
        })
    }

    /// Returns all keys of the store, in order.
    pub fn keys(&self) -> Vec<String> {
        self.in_table(|table| table.items().map(|((p, s), _)| format!("{p}/{s}")).collect())
    }

    fn state(&self) -> MutexGuard<'_, DynamoState> {
        self.shared.state()
    }
}

impl DynamoShared {
    fn state(&self) -> MutexGuard<'_, DynamoState> {
        self.state.lock().expect("no holder of this lock panics")
    }

    fn carry_out(&self, operation: &str, request: &Value) -> Result<Value, DynamoRefusal> {
        self.state().tables.carry_out(operation, request)
    }
}

/// Returns the settings of a client for any endpoint, with [`ACCESS_KEY`] and [`SECRET_KEY`].
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
