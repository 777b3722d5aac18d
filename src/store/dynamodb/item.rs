//! Converts between objects and items of the table.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::key::ItemKey;
use crate::store::{ETag, Entry};

/// Attribute of the partition key.
pub(super) const PREFIX: &str = "prefix";
/// Attribute of the sort key.
pub(super) const NAME: &str = "name";
/// Attribute that contains the version, which is unique to each write. Conditions compare this
/// version.
pub(super) const VERSION: &str = "version";
pub(super) const BODY: &str = "body";
/// Attribute that contains the body length in bytes.
const SIZE: &str = "size";
/// Attribute that contains the date of the write, in milliseconds since the Unix epoch. The date is
/// the writer's estimate of DynamoDB's clock.
const WRITTEN: &str = "written";

/// Attributes that a listing requests. A response omits the other attributes, but DynamoDB still
/// counts the size of whole items for the consumed capacity and for the end of a page.
pub(super) const LISTED: [&str; 4] = [NAME, SIZE, WRITTEN, VERSION];

pub(super) type Item = HashMap<String, AttributeValue>;

/// Returns the key attributes of an item.
pub(super) fn key(place: ItemKey<'_>) -> Item {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    Item::from([(PREFIX.to_owned(), text(place.partition)), (NAME.to_owned(), text(place.sort))])
}

/// Returns the item for a write.
pub(super) fn item(
    place: ItemKey<'_>,
    body: &Bytes,
    version: &ETag,
    written: Option<DateTime<Utc>>,
) -> Item {
    let mut item = key(place);
    // Text is readable in the console and by other clients.
    let content = match std::str::from_utf8(body) {
        Ok(text) => AttributeValue::S(text.to_owned()),
        Err(_) => AttributeValue::B(Blob::new(body.to_vec())),
    };
    item.insert(BODY.to_owned(), content);
    item.insert(SIZE.to_owned(), AttributeValue::N(body.len().to_string()));
    item.insert(VERSION.to_owned(), AttributeValue::S(version.as_str().to_owned()));
    if let Some(written) = written {
        let written = written.timestamp_millis().to_string();
        item.insert(WRITTEN.to_owned(), AttributeValue::N(written));
    }
    item
}

/// Returns the body, or `None` if another program has written an item without a body, or with a
/// body of another type than text or bytes.
pub(super) fn body(item: &mut Item) -> Option<Bytes> {
    match item.remove(BODY)? {
        AttributeValue::S(text) => Some(text.into()),
        AttributeValue::B(blob) => Some(blob.into_inner().into()),
        _ => None,
    }
}

pub(super) fn version(item: &Item) -> Option<ETag> {
    let version = item.get(VERSION)?.as_s().ok()?;
    Some(ETag::new(version.as_str()))
}

pub(super) fn written(item: &Item) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(number(item, WRITTEN)?)
}

/// Returns the listing entry of an item, or `None` if the item has no name.
pub(super) fn entry(place: ItemKey<'_>, item: &Item) -> Option<Entry> {
    let sort = item.get(NAME)?.as_s().ok()?;
    let size = number(item, SIZE).and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
    let entry = Entry::new(place.key(sort), size);
    Some(entry.with_last_modified(written(item)).with_etag(version(item)))
}

fn number(item: &Item, name: &str) -> Option<i64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}
