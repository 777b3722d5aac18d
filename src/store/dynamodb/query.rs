//! Listings. A listing is a `Query` of one partition.

use aws_sdk_dynamodb::operation::query::QueryOutput;
use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};

use super::DynamoStore;
use super::date::StoreDate;
use super::item::{self, Item};
use super::key::ItemKey;
use crate::store::aws::CallInterceptor;
use crate::store::request_context::{RequestContext, Verb};
use crate::store::{Page, StoreError, read_past_a_page};

/// A listing fails after this number of pages without an item. DynamoDB itself sends at most one
/// such page: if a page ends with the last item, the next page may be empty.
const EMPTY_PAGES: usize = 10;

impl DynamoStore {
    /// Returns a page of a listing.
    pub(super) async fn query(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let place = ItemKey::of_prefix(prefix)?;
        let mut start = match after.strip_prefix(prefix) {
            // DynamoDB requires a start key within the listed range. No item with this key needs to
            // exist.
            Some(_) if after != format!("{}/", place.partition) => {
                Some(item::key(ItemKey::of_key(after)?))
            }
            None if after > prefix => return Ok(Page::default()),
            _ => None,
        };
        for _ in 0..EMPTY_PAGES {
            let order = Order::Ascending(start.take());
            let (output, served_at) = self.ask(prefix, place, order, limit).await?;
            start = output.last_evaluated_key;
            let items = output.items.unwrap_or_default();
            if !items.is_empty() || start.is_none() {
                let entries = items.iter().filter_map(|item| item::entry(place, item)).collect();
                let truncated = start.is_some();
                return Ok(Page::new(entries, truncated).with_served_at(served_at));
            }
            read_past_a_page();
        }
        let request = RequestContext::new(self, Verb::List, prefix);
        Err(request.unsupported("the listing has too many pages without an item"))
    }

    /// Returns a page with the greatest keys.
    pub(super) async fn query_last(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let place = ItemKey::of_prefix(prefix)?;
        let (output, served_at) = self.ask(prefix, place, Order::Descending, limit).await?;
        let items = output.items.unwrap_or_default();
        let all = items.iter().filter_map(|item| item::entry(place, item));
        // A descending query has no end key, so a page may also contain `after` and smaller keys.
        let mut entries: Vec<_> = all.take_while(|entry| entry.key.as_str() > after).collect();
        let truncated = output.last_evaluated_key.is_some() && entries.len() == items.len();
        entries.reverse();
        Ok(Page::new(entries, truncated).with_served_at(served_at))
    }

    async fn ask(
        &self,
        prefix: &str,
        place: ItemKey<'_>,
        order: Order,
        limit: usize,
    ) -> Result<(QueryOutput, Option<DateTime<Utc>>), StoreError> {
        self.look_at_table().await?;
        let request = RequestContext::new(self, Verb::List, prefix);
        let shown: Vec<_> = item::LISTED.iter().map(|name| format!("#{name}")).collect();
        let client = request.client(&self.client).await?;
        let mut query = client
            .query()
            .table_name(&self.table)
            .consistent_read(true)
            .projection_expression(shown.join(", "))
            .expression_attribute_names("#prefix", item::PREFIX)
            .expression_attribute_values(":prefix", text(place.partition))
            .limit(limit.clamp(1, 1_000) as i32);
        query = match order {
            Order::Ascending(start) => query.set_exclusive_start_key(start),
            Order::Descending => query.scan_index_forward(false),
        };
        for (placeholder, name) in shown.iter().zip(item::LISTED) {
            query = query.expression_attribute_names(placeholder, name);
        }
        // DynamoDB does not accept an empty value in a key condition.
        query = match place.sort {
            "" => query.key_condition_expression("#prefix = :prefix"),
            sort => query
                .key_condition_expression("#prefix = :prefix AND begins_with(#name, :start)")
                .expression_attribute_values(":start", text(sort)),
        };
        let seen = CallInterceptor::default();
        let sent = StoreDate::sending();
        let output = query.customize().interceptor(seen.clone()).send().await;
        let served_at = self.date.heard(seen.served_at(), sent);
        Ok((request.output(output, &seen)?, served_at))
    }
}

/// The direction and the start of a query.
enum Order {
    Ascending(Option<Item>),
    Descending,
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}
