//! The options after `?` in an S3 URL: the encryption and the expected owner of the bucket.

/// Settings of an S3 bucket for which AWS defines no environment variable.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct S3Options {
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

const KNOWN: &str = "sse=AES256 or sse=aws:kms, kms-key-id=KEY, bucket-key=true or false, \
                     expected-bucket-owner=ACCOUNT";

impl S3Options {
    /// Creates a store for the bucket of this name, with these settings. Other settings come from
    /// the environment.
    #[cfg(feature = "s3")]
    pub async fn bucket(&self, name: &str) -> crate::store::S3Store {
        let store = crate::store::S3Store::from_env(name).await;
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

    /// Parses `name=value` pairs. Refuses a percent sign in a value, because this function decodes
    /// no percent-encoding.
    pub fn parse(query: &str) -> Result<S3Options, String> {
        let (mut sse, mut key, mut bucket_key, mut owner) = (None, None, None, None);
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let slot = match name {
                "sse" => &mut sse,
                "kms-key-id" => &mut key,
                "bucket-key" => &mut bucket_key,
                "expected-bucket-owner" => &mut owner,
                _ => return Err(unknown(name)),
            };
            if value.contains('%') {
                return Err("percent-encoding is not decoded; write each character".to_owned());
            }
            if value.is_empty() {
                return Err(format!("`?{name}=` needs a value"));
            }
            if slot.replace(value).is_some() {
                return Err(format!("`{name}` is given twice"));
            }
        }
        let bucket_key = match bucket_key {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => return Err("`bucket-key` must be true or false".to_owned()),
        };
        let sse = match sse {
            Some("aws:kms") => Some(Sse::Kms { key: key.map(str::to_owned), bucket_key }),
            _ if key.is_some() || bucket_key.is_some() => {
                return Err("`kms-key-id` and `bucket-key` need sse=aws:kms".to_owned());
            }
            Some("AES256") => Some(Sse::S3Managed),
            None => None,
            Some(other) => return Err(format!("sse={other}: write AES256 or aws:kms")),
        };
        let digits = |owner: &str| owner.len() == 12 && owner.bytes().all(|b| b.is_ascii_digit());
        if let Some(owner) = owner.filter(|owner| !digits(owner)) {
            return Err(format!("expected-bucket-owner={owner}: an AWS account has twelve digits"));
        }
        Ok(S3Options { sse, expected_bucket_owner: owner.map(str::to_owned) })
    }
}

fn unknown(name: &str) -> String {
    let elsewhere = match name {
        "region" => "; the region comes from AWS_REGION",
        "endpoint" | "endpoint_url" | "endpoint-url" => {
            "; the endpoint comes from AWS_ENDPOINT_URL"
        }
        "profile" => "; the profile comes from AWS_PROFILE",
        _ => "",
    };
    format!("`?{name}` is unknown; an S3 URL accepts {KNOWN}{elsewhere}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(query: &str, word: &str) {
        let why = S3Options::parse(query).expect_err(query);
        assert!(why.contains(word), "{query}: {why}");
    }

    #[test]
    fn encryption_and_owner_are_read() {
        let parsed = S3Options::parse(
            "sse=aws:kms&kms-key-id=arn:aws:kms:eu-central-1:111122223333:key/1234-ab&\
             bucket-key=true&expected-bucket-owner=111122223333",
        );
        let key = Some("arn:aws:kms:eu-central-1:111122223333:key/1234-ab".to_owned());
        let expected = S3Options {
            sse: Some(Sse::Kms { key, bucket_key: Some(true) }),
            expected_bucket_owner: Some("111122223333".to_owned()),
        };
        assert_eq!(parsed, Ok(expected));
        let managed = S3Options { sse: Some(Sse::S3Managed), ..S3Options::default() };
        assert_eq!(S3Options::parse("sse=AES256"), Ok(managed));
        let account_key = Sse::Kms { key: None, bucket_key: None };
        let account_key = S3Options { sse: Some(account_key), ..S3Options::default() };
        assert_eq!(S3Options::parse("sse=aws:kms"), Ok(account_key));
    }

    #[test]
    fn unknown_and_contradictory_options_are_refused() {
        refused("region=eu-west-1", "AWS_REGION");
        refused("endpoint=http://localhost", "AWS_ENDPOINT_URL");
        refused("x", "`?x` is unknown");
        refused("", "is unknown");
        refused("sse=AES256&", "is unknown");
        refused("SSE=AES256", "is unknown");
        refused("sse=aws:kms&kms-key-id=a%3Ab", "percent");
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
}
