//! Creates the table, and checks its keys before the first use.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, MultiRegionConsistency,
    ScalarAttributeType, TableDescription, TableStatus,
};

use super::DynamoStore;
use super::date::StoreDate;
use super::item::{NAME, PREFIX};
use crate::store::aws::CallInterceptor;
use crate::store::aws::failure::code;
use crate::store::request_context::{RequestContext, Verb};
use crate::store::{StoreError, StoreErrorKind};

/// Requirements of the table, for messages.
pub(super) const EXPECTED: &str = "the table needs the partition key `prefix` and the sort key \
                                   `name`, both strings; `tenure table create` creates one";

impl DynamoStore {
    /// Creates the table with on-demand billing, or checks the keys of an existing table. Returns
    /// true if the table is ready.
    ///
    /// The creation takes some seconds. If the table is not ready, this function returns `false`,
    /// and you call it again after a second. Several processes may call this function concurrently.
    /// A call sends one or two requests, and needs the permissions `dynamodb:DescribeTable` and
    /// `dynamodb:CreateTable`.
    ///
    /// # Errors
    ///
    /// - [`StoreErrorKind::Invalid`]: a table of this name has other keys (choose another name), or
    ///   a setting is missing.
    /// - [`StoreErrorKind::Unsupported`]: the table is a global table with eventual consistency.
    ///   Use a table of one region.
    /// - [`StoreErrorKind::AccessDenied`]: the credentials are refused or lack a permission.
    /// - [`StoreErrorKind::Transient`]: a request failed, and the table may exist. Call the
    ///   function again.
    pub async fn create_table(&self) -> Result<bool, StoreError> {
        match self.describe_table().await {
            Err(error) if error.kind() == StoreErrorKind::NoSuchStore => {}
            table => return self.is_ready(&table?),
        }
        let request = RequestContext::new(self, Verb::CreateTable, "");
        let client = request.client(&self.client).await?;
        let call = client
            .create_table()
            .table_name(&self.table)
            .billing_mode(BillingMode::PayPerRequest)
            .set_attribute_definitions(Some(attributes(request)?))
            .set_key_schema(Some(keys(request)?));
        let seen = CallInterceptor::default();
        match call.customize().interceptor(seen.clone()).send().await {
            Ok(_) => Ok(false),
            // Another process is creating or deleting the table. The next call shows the result.
            Err(error) if code(&error) == Some("ResourceInUseException") => Ok(false),
            Err(error) => Err(request.failed(&error, &seen)),
        }
    }

    /// Checks the table before its first use. If the permission to describe the table is missing,
    /// this function accepts the table. If the keys of this table are wrong, a later request
    /// returns an error.
    pub(super) async fn look_at_table(&self) -> Result<(), StoreError> {
        let look = || async {
            match self.describe_table().await {
                Ok(table) => match self.is_ready(&table)? {
                    true => Ok(()),
                    false => Err(RequestContext::new(self, Verb::Describe, "")
                        .transient("the table is being created or deleted")),
                },
                Err(error) if error.kind() == StoreErrorKind::AccessDenied => {
                    tracing::debug!(%error, "the table could not be checked");
                    Ok(())
                }
                Err(error) => Err(error),
            }
        };
        self.looked.get_or_try_init(look).await.copied()
    }

    async fn describe_table(&self) -> Result<TableDescription, StoreError> {
        let request = RequestContext::new(self, Verb::Describe, "");
        let seen = CallInterceptor::default();
        let client = request.client(&self.client).await?;
        let call = client.describe_table().table_name(&self.table);
        let sent = StoreDate::sending();
        let output = call.customize().interceptor(seen.clone()).send().await;
        let output = output.map_err(|error| request.failed(&error, &seen))?;
        self.date.heard(seen.served_at(), sent);
        output.table.ok_or_else(|| request.unsupported("the response has no table"))
    }

    /// Returns true if the table is ready. Returns an error for a table with other keys, and for a
    /// global table with eventual consistency.
    fn is_ready(&self, table: &TableDescription) -> Result<bool, StoreError> {
        let request = RequestContext::new(self, Verb::Describe, "");
        let found = describe_keys(table);
        if found != [(PREFIX, "HASH", "S"), (NAME, "RANGE", "S")] {
            let found: Vec<_> = found.iter().map(|(name, _, _)| *name).collect();
            return Err(request.invalid(&format!("{EXPECTED}; this table has the keys {found:?}")));
        }
        let copied = table.replicas.as_ref().is_some_and(|replicas| !replicas.is_empty());
        if copied && table.multi_region_consistency != Some(MultiRegionConsistency::Strong) {
            return Err(request.unsupported(
                "it is a global table with eventual consistency; use a table of one region, or \
                 multi-Region strong consistency",
            ));
        }
        Ok(!matches!(table.table_status, Some(TableStatus::Creating | TableStatus::Deleting)))
    }
}

/// Returns the name, role and type of each key.
fn describe_keys(table: &TableDescription) -> Vec<(&str, &str, &str)> {
    let schema = table.key_schema.as_deref().unwrap_or_default();
    let attributes = table.attribute_definitions.as_deref().unwrap_or_default();
    let type_of = |name: &str| {
        let found = attributes.iter().find(|attribute| attribute.attribute_name == name);
        found.map_or("", |attribute| attribute.attribute_type.as_str())
    };
    let mut keys: Vec<_> = schema
        .iter()
        .map(|key| {
            (key.attribute_name.as_str(), key.key_type.as_str(), type_of(&key.attribute_name))
        })
        .collect();
    keys.sort_by_key(|(_, role, _)| *role);
    keys
}

fn attributes(
    request: RequestContext<'_, DynamoStore>,
) -> Result<Vec<AttributeDefinition>, StoreError> {
    let attribute = |name: &str| {
        let builder = AttributeDefinition::builder().attribute_name(name);
        builder.attribute_type(ScalarAttributeType::S).build()
    };
    let attributes = [PREFIX, NAME].into_iter().map(attribute).collect::<Result<_, _>>();
    attributes.map_err(|error| request.invalid(&error.to_string()))
}

fn keys(request: RequestContext<'_, DynamoStore>) -> Result<Vec<KeySchemaElement>, StoreError> {
    let key =
        |(name, role)| KeySchemaElement::builder().attribute_name(name).key_type(role).build();
    let keys = [(PREFIX, KeyType::Hash), (NAME, KeyType::Range)];
    let keys = keys.into_iter().map(key).collect::<Result<_, _>>();
    keys.map_err(|error| request.invalid(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The description of a table with a secondary index contains more attributes, in any order.
    /// Each key must still get the type of the attribute with its name.
    #[test]
    fn each_key_has_the_type_of_its_attribute() {
        let attribute = |name: &str, kind| {
            AttributeDefinition::builder()
                .attribute_name(name)
                .attribute_type(kind)
                .build()
                .unwrap()
        };
        let key = |name: &str, role| {
            KeySchemaElement::builder().attribute_name(name).key_type(role).build().unwrap()
        };
        let table = TableDescription::builder()
            .attribute_definitions(attribute("age", ScalarAttributeType::N))
            .attribute_definitions(attribute(NAME, ScalarAttributeType::S))
            .attribute_definitions(attribute(PREFIX, ScalarAttributeType::B))
            .key_schema(key(NAME, KeyType::Range))
            .key_schema(key(PREFIX, KeyType::Hash))
            .build();
        assert_eq!(describe_keys(&table), [(PREFIX, "HASH", "B"), (NAME, "RANGE", "S")]);
    }
}
