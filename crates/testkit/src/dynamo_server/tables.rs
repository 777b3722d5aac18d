//! The tables of the server, and the effect of each operation on them. One lock orders all
//! requests.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::expressions::{Expressions, Item, Term, text};

/// Differences between the server and DynamoDB.
#[derive(Clone, Debug, Default)]
pub struct DynamoQuirks {
    /// If a condition is false, the response does not contain the item, as in older emulators.
    pub hides_old_items: bool,
    /// Maximum number of items in a page.
    pub page_cap: Option<usize>,
    /// Number of `DescribeTable` requests that report a new table as `CREATING`.
    pub slow_tables: usize,
    /// `BatchWriteItem` does not process keys that contain this text.
    pub undeletable: Option<String>,
    /// Tables have a replica in another region.
    pub global: bool,
}

/// A table: the names of its two keys, and its items.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name of the partition key.
    pub partition: String,
    /// Name of the sort key, or `None` if the table has none.
    pub sort: Option<String>,
    schema: Value,
    creating: usize,
    items: BTreeMap<Key, Item>,
    /// Items before the last write. An eventually consistent read returns them.
    before: BTreeMap<Key, Item>,
}

type Key = (String, String);

#[derive(Debug, Default)]
pub struct Tables {
    pub tables: BTreeMap<String, Table>,
    pub quirks: DynamoQuirks,
}

/// An error response: a code, a message, and the item for which a condition was false.
#[derive(Debug)]
pub struct DynamoRefusal {
    pub code: &'static str,
    pub message: String,
    pub item: Option<Item>,
}

type TableAnswer = Result<Value, DynamoRefusal>;

fn refusal(code: &'static str, message: impl Into<String>) -> DynamoRefusal {
    DynamoRefusal { code, message: message.into(), item: None }
}

fn invalid(message: impl Into<String>) -> DynamoRefusal {
    refusal("ValidationException", message)
}

impl Tables {
    pub fn carry_out(&mut self, operation: &str, request: &Value) -> TableAnswer {
        match operation {
            "PutItem" => self.put(request),
            "GetItem" => self.get(request),
            "DeleteItem" => self.delete(request),
            "Query" => self.query(request),
            "BatchWriteItem" => self.batch(request),
            "DescribeTable" => self.describe(request),
            "CreateTable" => self.create_table(request),
            _ => Err(refusal("UnknownOperationException", "no such operation")),
        }
    }

    fn table(&mut self, request: &Value) -> Result<&mut Table, DynamoRefusal> {
        let name = request["TableName"].as_str().unwrap_or_default();
        match self.tables.get_mut(name) {
            Some(table) => Ok(table),
            None => Err(refusal("ResourceNotFoundException", "Requested resource not found")),
        }
    }

    fn put(&mut self, request: &Value) -> TableAnswer {
        let hides = self.quirks.hides_old_items;
        let table = self.table(request)?;
        let item = request["Item"].as_object().ok_or_else(|| invalid("no item"))?.clone();
        if size(&item) > 400 * 1_024 {
            return Err(invalid("Item size has exceeded the maximum allowed size"));
        }
        let key = table.key_in(&item)?;
        table.check(request, &key, hides)?;
        table.write(|items| items.insert(key, item));
        Ok(json!({}))
    }

    fn delete(&mut self, request: &Value) -> TableAnswer {
        let hides = self.quirks.hides_old_items;
        let table = self.table(request)?;
        let key = table.key(&request["Key"])?;
        table.check(request, &key, hides)?;
        table.write(|items| items.remove(&key));
        Ok(json!({}))
    }

    fn get(&mut self, request: &Value) -> TableAnswer {
        let table = self.table(request)?;
        let key = table.key(&request["Key"])?;
        Ok(match table.read(request).get(&key) {
            Some(item) => json!({ "Item": item }),
            None => json!({}),
        })
    }

    fn query(&mut self, request: &Value) -> TableAnswer {
        let cap = self.quirks.page_cap.unwrap_or(usize::MAX);
        let table = self.table(request)?;
        let mut expressions = Expressions::of(request);
        let condition = request["KeyConditionExpression"].as_str().unwrap_or_default();
        let terms = expressions.terms(condition).map_err(invalid)?;
        let shown = request["ProjectionExpression"].as_str();
        let shown =
            shown.map(|shown| expressions.projection(shown)).transpose().map_err(invalid)?;
        expressions.all_used().map_err(invalid)?;
        table.check_key_condition(&terms)?;
        let backwards = request["ScanIndexForward"] == json!(false);
        let start = match request.get("ExclusiveStartKey") {
            None => None,
            Some(start) => {
                let key = table.key(start)?;
                let start = start.as_object();
                if !terms.iter().all(|term| term.holds(start)) {
                    return Err(invalid("The provided starting key is outside query boundaries"));
                }
                Some(key)
            }
        };
        let items = table.read(request);
        let mut found: Vec<_> = items
            .iter()
            .filter(|(_, item)| terms.iter().all(|term| term.holds(Some(item))))
            .filter(|(key, _)| match &start {
                None => true,
                Some(start) if backwards => *key < start,
                Some(start) => *key > start,
            })
            .collect();
        if backwards {
            found.reverse();
        }
        let limit = request["Limit"].as_u64().map_or(cap, |limit| cap.min(limit as usize));
        let more = found.len() >= limit;
        found.truncate(limit);
        let items: Vec<_> = found.iter().map(|(_, item)| project(item, shown.as_ref())).collect();
        let mut answer = json!({ "Count": items.len(), "Items": items });
        if let (true, Some(((partition, sort), _))) = (more, found.last()) {
            answer["LastEvaluatedKey"] = table.key_json(partition, sort);
        }
        Ok(answer)
    }

    fn batch(&mut self, request: &Value) -> TableAnswer {
        let undeletable = self.quirks.undeletable.clone();
        let by_table = request["RequestItems"].as_object().cloned().unwrap_or_default();
        let mut left = Map::new();
        for (name, requests) in by_table {
            let requests = requests.as_array().cloned().unwrap_or_default();
            if requests.is_empty() || requests.len() > 25 {
                return Err(invalid("Member must have length between 1 and 25"));
            }
            let table = self.table(&json!({ "TableName": name }))?;
            let mut keys = Vec::new();
            for request in &requests {
                keys.push(table.key(&request["DeleteRequest"]["Key"])?);
            }
            for (i, key) in keys.iter().enumerate() {
                if keys[..i].contains(key) {
                    return Err(invalid("Provided list of item keys contains duplicates"));
                }
            }
            for (key, request) in keys.iter().zip(requests) {
                if undeletable.as_ref().is_some_and(|part| key.1.contains(part)) {
                    let left = left.entry(name.clone()).or_insert_with(|| json!([]));
                    left.as_array_mut().expect("created as an array").push(request);
                    continue;
                }
                table.write(|items| items.remove(key));
            }
        }
        Ok(json!({ "UnprocessedItems": left }))
    }

    fn describe(&mut self, request: &Value) -> TableAnswer {
        let global = self.quirks.global;
        let table = self.table(request)?;
        let mut description = table.schema.clone();
        description["TableStatus"] = json!(if table.creating > 0 { "CREATING" } else { "ACTIVE" });
        table.creating = table.creating.saturating_sub(1);
        if global {
            description["Replicas"] = json!([{ "RegionName": "eu-west-1" }]);
        }
        Ok(json!({ "Table": description }))
    }

    fn create_table(&mut self, request: &Value) -> TableAnswer {
        let name = request["TableName"].as_str().unwrap_or_default().to_owned();
        if self.tables.contains_key(&name) {
            return Err(refusal("ResourceInUseException", "Table already exists"));
        }
        if request["BillingMode"] != "PAY_PER_REQUEST" {
            return Err(invalid("this double has no provisioned capacity"));
        }
        let mut schema = request.clone();
        schema["TableStatus"] = json!("CREATING");
        let mut table = Table::of(schema.clone())?;
        table.creating = self.quirks.slow_tables;
        self.tables.insert(name, table);
        Ok(json!({ "TableDescription": schema }))
    }
}

impl Table {
    /// Creates the table that a `CreateTable` request describes.
    fn of(schema: Value) -> Result<Table, DynamoRefusal> {
        let keys = schema["KeySchema"].as_array().cloned().unwrap_or_default();
        let key = |role: &str| {
            let key = keys.iter().find(|key| key["KeyType"] == role)?;
            Some(key["AttributeName"].as_str()?.to_owned())
        };
        let partition = key("HASH").ok_or_else(|| invalid("no partition key"))?;
        let (sort, items) = (key("RANGE"), BTreeMap::new());
        Ok(Table { partition, sort, schema, creating: 0, before: items.clone(), items })
    }

    fn write<T>(&mut self, change: impl FnOnce(&mut BTreeMap<Key, Item>) -> T) {
        self.before = self.items.clone();
        change(&mut self.items);
    }

    fn read(&self, request: &Value) -> &BTreeMap<Key, Item> {
        if request["ConsistentRead"] == json!(true) { &self.items } else { &self.before }
    }

    fn check(&self, request: &Value, key: &Key, hides: bool) -> Result<(), DynamoRefusal> {
        let Some(condition) = request["ConditionExpression"].as_str() else { return Ok(()) };
        let mut expressions = Expressions::of(request);
        let terms = expressions.terms(condition).map_err(invalid)?;
        expressions.all_used().map_err(invalid)?;
        let item = self.items.get(key);
        if terms.iter().all(|term| term.holds(item)) {
            return Ok(());
        }
        let shows = request["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD" && !hides;
        Err(DynamoRefusal {
            item: item.filter(|_| shows).cloned(),
            ..refusal("ConditionalCheckFailedException", "The conditional request failed")
        })
    }

    fn check_key_condition(&self, terms: &[Term]) -> Result<(), DynamoRefusal> {
        let by_partition =
            |term: &Term| matches!(term, Term::Equal(name, _) if *name == self.partition);
        let by_sort = |term: &Term| match term {
            Term::NotExists(_) => false,
            Term::Equal(name, value)
            | Term::Greater(name, value)
            | Term::BeginsWith(name, value) => {
                Some(name) == self.sort.as_ref() && text(value) != Some("")
            }
        };
        match terms {
            [one] if by_partition(one) => Ok(()),
            [one, two] if by_partition(one) && by_sort(two) => Ok(()),
            _ => Err(invalid("Query condition missed key schema element")),
        }
    }

    /// Returns the key from the field `Key` of a request. Refuses a field with other attributes.
    fn key(&self, key: &Value) -> Result<Key, DynamoRefusal> {
        let key = key.as_object().ok_or_else(|| invalid("no key"))?;
        if key.len() != 1 + usize::from(self.sort.is_some()) {
            return Err(invalid("The provided key element does not match the schema"));
        }
        self.key_in(key)
    }

    fn key_in(&self, item: &Item) -> Result<Key, DynamoRefusal> {
        let value = |name: &str| match item.get(name).and_then(text) {
            Some("") => Err(invalid(format!("an empty string value for key {name}"))),
            Some(text) => Ok(text.to_owned()),
            None => Err(invalid("The provided key element does not match the schema")),
        };
        let sort = self.sort.as_deref().map(value).transpose()?.unwrap_or_default();
        Ok((value(&self.partition)?, sort))
    }

    fn key_json(&self, partition: &str, sort: &str) -> Value {
        let mut key = json!({ self.partition.clone(): { "S": partition } });
        if let Some(name) = &self.sort {
            key[name] = json!({ "S": sort });
        }
        key
    }

    /// Returns all items in key order.
    pub fn items(&self) -> impl Iterator<Item = (&Key, &Item)> {
        self.items.iter()
    }

    /// Writes an item without a request.
    pub fn put_raw(&mut self, item: Item) {
        let key = self.key_in(&item).expect("the item has the keys of the table");
        self.write(|items| items.insert(key, item));
    }
}

fn project(item: &Item, shown: Option<&Vec<String>>) -> Item {
    let wanted = |name: &String| shown.is_none_or(|shown| shown.contains(name));
    item.iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the size of the item's names and values in bytes. DynamoDB counts approximately the same
/// size.
fn size(item: &Item) -> usize {
    let value = |value: &Value| match value.as_object().and_then(|value| value.values().next()) {
        Some(Value::String(text)) => text.len(),
        _ => 1,
    };
    item.iter().map(|(name, content)| name.len() + value(content)).sum()
}
