//! Objects as items of an Amazon DynamoDB table, or of a store with the DynamoDB API.

use std::fmt;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use tokio::sync::OnceCell;

use self::date::StoreDate;
use self::key::ItemKey;
use super::aws::failure::code;
use super::aws::{CallInterceptor, RegionalClient, Session};
use super::request_context::{RequestContext, Verb};
use super::{
    Capabilities, ETag, GetOutcome, Object, Page, PutOutcome, Store, StoreError, StoreOptions,
};
use crate::env::entropy::{Entropy, SystemEntropy};

mod date;
mod delete;
mod failure;
mod item;
mod key;
mod query;
mod table;

/// Maximum size of an item: 400 KiB, including the names and values of all attributes.
const MAX_ITEM: usize = 400 * 1_024;
/// Upper bound of the size of all attributes except the body and the key, in bytes.
const ATTRIBUTES: usize = 256;
/// Maximum length of a key of an election or a group, in bytes.
const MAX_KEY: usize = 1_024;

/// A table of Amazon DynamoDB, or of a store with the DynamoDB API.
///
/// An object is an item. The part of its key before the first slash is the partition key `prefix`,
/// and the rest is the sort key `name`. Both are strings. So all elections under `app/` are in the
/// partition `app`. The store refuses keys and listings without a slash, so give each election a
/// prefix. [`create_table`](DynamoStore::create_table) creates the table. The first request of each
/// store value checks the keys of the table.
///
/// Reads are strongly consistent. Each call is one request, with these exceptions:
///
/// - The first call also describes the table.
/// - If DynamoDB refuses a replacement and does not return the present item, the store reads the
///   item.
/// - A listing skips pages without items.
/// - A deletion is one request for each 25 keys. It retries the keys that DynamoDB did not process.
/// - The client's retry configuration applies to failed reads and deletions, but never to
///   conditional writes.
///
/// A call has no timeout: the caller must bound it. Items have no dates, so each write stores the
/// time by DynamoDB's clock, as estimated from DynamoDB's responses. Bodies of more than about
/// 400 KiB are refused.
///
/// The credentials need `dynamodb:GetItem`, `dynamodb:PutItem`, `dynamodb:Query` and
/// `dynamodb:DescribeTable`. A compactor also needs `dynamodb:BatchWriteItem`.
///
/// # Examples
///
/// ```no_run
/// # use std::{sync::Arc, time::Duration};
/// # use tenure::{Election, store::DynamoStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = DynamoStore::from_env("elections").await;
/// while !store.create_table().await? {
///     tokio::time::sleep(Duration::from_secs(1)).await; // until the table is active
/// }
/// let election = Election::builder(Arc::new(store), "orders/leader").build()?;
/// let leadership = election.campaign().await?;
/// assert!(leadership.token().is_some());
/// # Ok(())
/// # }
/// ```
pub struct DynamoStore {
    client: RegionalClient<Client>,
    table: String,
    session: Session,
    date: StoreDate,
    /// This cell is set once the store has checked the keys of the table, or has found that it
    /// lacks the permission to check them. A set cell prevents further checks.
    looked: OnceCell<()>,
}

impl DynamoStore {
    /// Creates a store for the table of this name or ARN, with this client. Sends no request.
    ///
    /// The client's settings apply, except that its retries are disabled for conditional writes.
    /// The SDK's own connector offers HTTP/2, on which all requests share one connection. If a NAT
    /// drops this connection, the leader can lose its lease. Clients of
    /// [`from_env`](DynamoStore::from_env) use HTTP/1.1.
    pub fn new(client: Client, table: impl Into<String>) -> DynamoStore {
        DynamoStore::of(RegionalClient::Ready(client), table)
    }

    fn of(client: RegionalClient<Client>, table: impl Into<String>) -> DynamoStore {
        DynamoStore {
            client,
            table: table.into(),
            session: Session::default(),
            date: StoreDate::default(),
            looked: OnceCell::new(),
        }
    }

    /// Creates a store for the table of this name, with settings from the AWS files and the
    /// environment, such as `AWS_REGION`, `AWS_PROFILE`, `HTTPS_PROXY`, and `AWS_ENDPOINT_URL` or
    /// `AWS_ENDPOINT_URL_DYNAMODB`. The credentials come from `AWS_ACCESS_KEY_ID` and its
    /// companions, the role of the container or instance, `credential_process`, or single sign-on.
    /// `AWS_CA_BUNDLE`, or `ca_bundle` in the profile, names root certificates that replace the
    /// machine's certificates.
    ///
    /// With a custom endpoint, the default region is `us-east-1`. This function sends no request to
    /// the table. The first call returns an error if the region or the credentials are missing. All
    /// stores that this method creates in a process share one connection pool.
    pub async fn from_env(table: impl Into<String>) -> DynamoStore {
        DynamoStore::with_options(table, &StoreOptions::default()).await
    }

    pub(super) async fn with_options(
        table: impl Into<String>,
        options: &StoreOptions,
    ) -> DynamoStore {
        let (config, session) = Session::load("DynamoDB", options).await;
        let endpoint = session.endpoint().map(str::to_owned);
        let client = RegionalClient::new(config, move |config| {
            let mut builder = aws_sdk_dynamodb::config::Builder::from(config);
            if let Some(endpoint) = &endpoint {
                builder = builder.endpoint_url(endpoint);
            }
            Client::from_conf(builder.build())
        });
        DynamoStore { session, ..DynamoStore::of(client, table) }
    }

    /// Returns the URL of the table, followed by the custom endpoint if one is set.
    fn at(&self) -> String {
        self.session.at(format!("dynamodb://{}", self.table))
    }

    async fn put(
        &self,
        verb: Verb,
        key: &str,
        body: &Bytes,
        condition: impl FnOnce(PutItemFluentBuilder) -> PutItemFluentBuilder,
    ) -> Result<PutItem, StoreError> {
        let place = ItemKey::of_key(key)?;
        let request = RequestContext::new(self, verb, key);
        if key.len() + body.len() + ATTRIBUTES > MAX_ITEM {
            let why =
                format!("the body of {} bytes exceeds the item size limit of DynamoDB", body.len());
            return Err(request.invalid(&why));
        }
        self.look_at_table().await?;
        let version = ETag::new(format!("{:032x}", SystemEntropy.unique()));
        let client = request.client(&self.client).await?;
        let put = client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item::item(place, body, &version, self.date.now())))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        // The SDK must send each write only once. If the first request took effect, DynamoDB would
        // refuse the second request.
        let once = aws_sdk_dynamodb::config::Builder::new().retry_config(RetryConfig::disabled());
        let seen = CallInterceptor::default();
        let call = condition(put).customize().config_override(once).interceptor(seen.clone());
        let sent = StoreDate::sending();
        let outcome = call.send().await;
        self.date.heard(seen.served_at(), sent);
        match outcome {
            Err(error) if code(&error) == Some("ConditionalCheckFailedException") => {
                let shown = match error.as_service_error() {
                    Some(PutItemError::ConditionalCheckFailedException(failed)) => {
                        failed.item().is_some_and(|item| !item.is_empty())
                    }
                    _ => false,
                };
                Ok(if shown { PutItem::RefusedFor } else { PutItem::Refused })
            }
            outcome => {
                request.output(outcome, &seen)?;
                self.session.heard();
                Ok(PutItem::Done(version))
            }
        }
    }

    /// Reads the item at this key, and DynamoDB's date.
    async fn item(
        &self,
        key: &str,
    ) -> Result<Option<(item::Item, Option<DateTime<Utc>>)>, StoreError> {
        let place = ItemKey::of_key(key)?;
        let request = RequestContext::new(self, Verb::Get, key);
        self.look_at_table().await?;
        let seen = CallInterceptor::default();
        let client = request.client(&self.client).await?;
        let call = client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(item::key(place)))
            .consistent_read(true)
            .customize()
            .interceptor(seen.clone());
        let sent = StoreDate::sending();
        let output = call.send().await;
        let served_at = self.date.heard(seen.served_at(), sent);
        let output = request.output(output, &seen)?;
        self.session.heard();
        Ok(output.item.map(|item| (item, served_at)))
    }
}

/// The outcome of a conditional write.
enum PutItem {
    Done(ETag),
    /// The condition did not hold, and DynamoDB returned the present item.
    RefusedFor,
    /// The condition did not hold, and DynamoDB returned no item. The item may not exist.
    Refused,
}

#[async_trait]
impl Store for DynamoStore {
    /// Sends one `Query`. As long as a page has no key and more pages follow, sends another
    /// `Query`.
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        self.query(prefix, after, limit).await
    }

    /// Sends one descending `Query`.
    async fn list_last(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        self.query_last(prefix, after, limit).await.map(Some)
    }

    /// Reads the whole item, even if its version is unchanged.
    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let request = RequestContext::new(self, Verb::Get, key);
        let Some((mut item, served_at)) = self.item(key).await? else {
            return Ok(GetOutcome::NotFound);
        };
        let (version, last_modified) = (item::version(&item), item::written(&item));
        let (Some(etag), Some(body)) = (version, item::body(&mut item)) else {
            return Err(request.invalid("another program has written this item"));
        };
        if unless.as_ref() == Some(&etag) {
            return Ok(GetOutcome::NotModified);
        }
        if body.len() > max_len {
            return Ok(GetOutcome::TooLarge { etag, len: body.len() as u64 });
        }
        Ok(GetOutcome::Found(Object { body, etag, last_modified, served_at }))
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        let condition = |put: PutItemFluentBuilder| {
            put.condition_expression("attribute_not_exists(#name)")
                .expression_attribute_names("#name", item::NAME)
        };
        Ok(match self.put(Verb::Create, key, &body, condition).await? {
            PutItem::Done(etag) => PutOutcome::Done { etag: Some(etag) },
            PutItem::RefusedFor | PutItem::Refused => PutOutcome::PreconditionFailed,
        })
    }

    /// Sends one request, and one more read if DynamoDB refuses the write without returning the
    /// item.
    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let condition = |put: PutItemFluentBuilder| {
            put.condition_expression("#version = :version")
                .expression_attribute_names("#version", item::VERSION)
                .expression_attribute_values(":version", AttributeValue::S(etag.to_string()))
        };
        match self.put(Verb::Replace, key, &body, condition).await? {
            PutItem::Done(etag) => Ok(PutOutcome::Done { etag: Some(etag) }),
            PutItem::RefusedFor => Ok(PutOutcome::PreconditionFailed),
            // DynamoDB has refused the write, so nothing was written. This holds even if the read
            // below fails.
            PutItem::Refused => Ok(match self.item(key).await {
                Ok(None) => PutOutcome::NotFound,
                Ok(Some(_)) | Err(_) => PutOutcome::PreconditionFailed,
            }),
        }
    }

    /// Sends one `BatchWriteItem` for each 25 keys. Several requests run concurrently.
    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.delete_all(keys).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_max_body_bytes(MAX_ITEM - ATTRIBUTES - MAX_KEY)
    }

    fn describe(&self) -> String {
        self.at()
    }
}

impl fmt::Debug for DynamoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynamoStore({})", self.at())
    }
}
