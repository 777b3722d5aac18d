//! The options after `?` in the URL of a bucket or a table.

use super::percent_decoded;
use super::schemes::CloudKind;
use crate::store::escape::plain;

/// Settings of one store. They have precedence over the environment of the service.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreOptions {
    pub region: Option<String>,
    /// URL of the server.
    pub endpoint: Option<String>,
    /// Profile of the AWS files, for the credentials and for settings that the URL omits.
    pub profile: Option<String>,
    /// Account of an Azure container.
    pub account: Option<String>,
    pub sse: Option<Sse>,
    /// Account that must own the bucket (12 digits).
    pub expected_bucket_owner: Option<String>,
}

#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sse {
    S3Managed,
    Kms { key: Option<String>, bucket_key: Option<bool> },
}

impl StoreOptions {
    /// Creates a store for the bucket of this name. All other settings come from the environment.
    #[cfg(feature = "s3")]
    pub async fn bucket(&self, name: &str) -> crate::store::S3Store {
        let store = crate::store::S3Store::with_options(name, self).await;
        let store = match self.sse.clone() {
            None => store,
            Some(Sse::S3Managed) => store.with_s3_managed_keys(),
            Some(Sse::Kms { key, bucket_key }) => store.with_kms_key(key, bucket_key),
        };
        match &self.expected_bucket_owner {
            Some(owner) => store.with_expected_bucket_owner(owner),
            None => store,
        }
    }

    /// Creates a store for the table of this name, as [`bucket`](StoreOptions::bucket) does for a
    /// bucket.
    #[cfg(feature = "dynamodb")]
    pub async fn table(&self, name: &str) -> crate::store::DynamoStore {
        crate::store::DynamoStore::with_options(name, self).await
    }

    /// Parses the `name=value` pairs of a store of this kind. Decodes percent-encoded values.
    pub(super) fn parse(kind: CloudKind, query: &str) -> Result<StoreOptions, String> {
        let mut options = StoreOptions::default();
        let (mut sse, mut key, mut bucket_key) = (None, None, None);
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let slot = match name {
                _ if !known(kind).contains(&name) => return Err(unknown(kind, name)),
                "region" => &mut options.region,
                "endpoint" => &mut options.endpoint,
                "profile" => &mut options.profile,
                "account" => &mut options.account,
                "sse" => &mut sse,
                "kms-key-id" => &mut key,
                "bucket-key" => &mut bucket_key,
                _ => &mut options.expected_bucket_owner,
            };
            let value = String::from_utf8(percent_decoded(value)).ok();
            let value = value.filter(|it| plain(it) == *it && it.trim() == it);
            let value = value.ok_or_else(|| format!("`?{name}=` has an invisible character"))?;
            if value.is_empty() {
                return Err(format!("`?{name}=` needs a value"));
            }
            if slot.replace(value).is_some() {
                return Err(format!("`{name}` is given twice"));
            }
        }
        options.sse = encryption(sse.as_deref(), key, bucket_key.as_deref())?;
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), String> {
        let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        for (name, text) in [("region", &self.region), ("account", &self.account)] {
            if let Some(text) = text.as_ref().filter(|text| !is_plain(text)) {
                return Err(format!("{name}={text}: use only letters, digits and hyphens"));
            }
        }
        if let Some(endpoint) = &self.endpoint {
            let host = ["http://", "https://"].iter().find_map(|it| endpoint.strip_prefix(it));
            if host.is_none_or(|host| host.is_empty() || host.contains(['@', '?', '#', ' ', '%'])) {
                return Err(
                    "`endpoint` must be http://HOST or https://HOST, with a port or a path \
                            but without credentials"
                        .to_owned(),
                );
            }
        }
        let digits = |owner: &str| owner.len() == 12 && owner.bytes().all(|b| b.is_ascii_digit());
        match &self.expected_bucket_owner {
            Some(owner) if !digits(owner) => {
                Err(format!("expected-bucket-owner={owner}: an AWS account has twelve digits"))
            }
            _ => Ok(()),
        }
    }
}

fn encryption(
    sse: Option<&str>,
    key: Option<String>,
    bucket_key: Option<&str>,
) -> Result<Option<Sse>, String> {
    let bucket_key = match bucket_key {
        None => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) => return Err("`bucket-key` must be true or false".to_owned()),
    };
    match sse {
        Some("aws:kms") => Ok(Some(Sse::Kms { key, bucket_key })),
        _ if key.is_some() || bucket_key.is_some() => {
            Err("`kms-key-id` and `bucket-key` need sse=aws:kms".to_owned())
        }
        Some("AES256") => Ok(Some(Sse::S3Managed)),
        None => Ok(None),
        Some(other) => Err(format!("sse={other}: write AES256 or aws:kms")),
    }
}

/// Returns the names of the options of a store.
fn known(kind: CloudKind) -> &'static [&'static str] {
    const S3: [&str; 7] = [
        "region",
        "endpoint",
        "profile",
        "sse",
        "kms-key-id",
        "bucket-key",
        "expected-bucket-owner",
    ];
    match kind {
        CloudKind::S3 => &S3,
        CloudKind::DynamoDb => &S3[..3],
        CloudKind::Azure => &["account", "endpoint"],
        CloudKind::CloudStorage => &["endpoint"],
    }
}

fn unknown(kind: CloudKind, name: &str) -> String {
    let known = known(kind).join(", ");
    format!("`?{name}` is unknown; this URL accepts {known}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(query: &str, word: &str) {
        let why = StoreOptions::parse(CloudKind::S3, query).expect_err(query);
        assert!(why.contains(word), "{query}: {why}");
    }

    #[test]
    fn encryption_and_owner_are_read() {
        let parsed = StoreOptions::parse(
            CloudKind::S3,
            "sse=aws:kms&kms-key-id=arn:aws:kms:eu-central-1:111122223333:key/1234-ab&\
             bucket-key=true&expected-bucket-owner=111122223333",
        );
        let key = Some("arn:aws:kms:eu-central-1:111122223333:key/1234-ab".to_owned());
        let expected = StoreOptions {
            sse: Some(Sse::Kms { key, bucket_key: Some(true) }),
            expected_bucket_owner: Some("111122223333".to_owned()),
            ..StoreOptions::default()
        };
        assert_eq!(parsed, Ok(expected));
        let managed = StoreOptions { sse: Some(Sse::S3Managed), ..StoreOptions::default() };
        assert_eq!(StoreOptions::parse(CloudKind::S3, "sse=AES256"), Ok(managed));
        let account_key = Sse::Kms { key: None, bucket_key: None };
        let account_key = StoreOptions { sse: Some(account_key), ..StoreOptions::default() };
        assert_eq!(StoreOptions::parse(CloudKind::S3, "sse=aws:kms"), Ok(account_key));
    }

    #[test]
    fn unknown_and_contradictory_options_are_refused() {
        refused("account=a", "accepts region, endpoint, profile, sse");
        refused("region=eu/west", "letters, digits and hyphens");
        refused("region=eu-west-1%0A", "invisible");
        refused("profile=%ff", "invisible");
        refused("profile=%20", "invisible");
        refused("profile=", "needs a value");
        for endpoint in [
            "localhost:9000",
            "https://",
            "https://me:secret@host",
            "http://h?a=b",
            "http://me%40h",
        ] {
            let endpoint = endpoint.replace('%', "%25").replace('?', "%3F");
            refused(&format!("endpoint={endpoint}"), "without credentials");
        }
        refused("x", "`?x` is unknown");
        refused("", "is unknown");
        refused("sse=AES256&", "is unknown");
        refused("SSE=AES256", "is unknown");
        refused("sse", "needs a value");
        refused("sse=aws:kms&sse=AES256", "twice");
        refused("sse=aws:kms:dsse", "write AES256 or aws:kms");
        refused("kms-key-id=abc", "need sse=aws:kms");
        refused("sse=AES256&kms-key-id=abc", "need sse=aws:kms");
        refused("sse=AES256&bucket-key=true", "need sse=aws:kms");
        refused("sse=aws:kms&bucket-key=yes", "true or false");
        refused("expected-bucket-owner=1111-2222-3333", "twelve digits");
        refused("sse-customer-key=abc", "is unknown");
    }

    #[test]
    fn settings_of_one_store_are_decoded() {
        let text = |text: &str| Some(text.to_owned());
        let query = "region=eu-west-1&endpoint=https%3A%2F%2Fhost:9000/a&profile=my%20team";
        let mut expected = StoreOptions {
            region: text("eu-west-1"),
            endpoint: text("https://host:9000/a"),
            profile: text("my team"),
            ..StoreOptions::default()
        };
        for kind in [CloudKind::S3, CloudKind::DynamoDb] {
            assert_eq!(StoreOptions::parse(kind, query).as_ref(), Ok(&expected));
        }
        (expected.region, expected.profile, expected.account) = (None, None, text("mine"));
        let query = "account=mine&endpoint=https://host:9000/a";
        assert_eq!(StoreOptions::parse(CloudKind::Azure, query), Ok(expected));
        for (kind, names) in [
            (CloudKind::CloudStorage, "accepts endpoint"),
            (CloudKind::Azure, "accepts account, endpoint"),
            (CloudKind::DynamoDb, "accepts region, endpoint, profile"),
        ] {
            let why = StoreOptions::parse(kind, "sse=AES256").expect_err("unknown");
            assert!(why.ends_with(names), "{why}");
        }
    }
}
