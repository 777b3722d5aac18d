//! Buckets of Google Cloud Storage.

use std::sync::Arc;

use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};

use super::http::{ClientConnector, no_retries};
use super::token::TokenCache;
use super::{AnyObjectStore, unbuilt};
use crate::store::url::StoreOptions;
use crate::store::{StoreError, StoreErrorKind};

impl AnyObjectStore {
    /// Creates a store for a bucket of Google Cloud Storage, with settings from the environment.
    /// The credentials come from `GOOGLE_APPLICATION_CREDENTIALS`, `GOOGLE_SERVICE_ACCOUNT` (a
    /// file) or `GOOGLE_SERVICE_ACCOUNT_KEY` (its text), `GOOGLE_BEARER_TOKEN`, the file of `gcloud
    /// auth application-default login`, or the machine's service account. Another server is
    /// selected by `GOOGLE_BASE_URL`, else by `STORAGE_EMULATOR_HOST`, else by `gcs_base_url` in
    /// the service account's key. docs/reference/stores.md has the settings for emulators.
    ///
    /// In all other respects, this function is the same as [`gcs`](AnyObjectStore::gcs).
    ///
    /// # Errors
    ///
    /// This function returns the same errors as [`gcs`](AnyObjectStore::gcs).
    pub fn gcs_from_env(bucket: impl Into<String>) -> Result<AnyObjectStore, StoreError> {
        AnyObjectStore::gcs_with_options(&bucket.into(), &StoreOptions::default())
    }

    pub(in crate::store) fn gcs_with_options(
        bucket: &str,
        options: &StoreOptions,
    ) -> Result<AnyObjectStore, StoreError> {
        let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
        if let Some(endpoint) = &options.endpoint {
            builder = builder.with_base_url(endpoint);
        }
        let emulator = std::env::var("STORAGE_EMULATOR_HOST").ok().filter(|host| !host.is_empty());
        let none = |key| setting(&builder, key).is_none();
        if let Some(host) = emulator.filter(|_| none(GoogleConfigKey::BaseUrl)) {
            let scheme = if host.contains("://") { "" } else { "http://" };
            let without_token = none(GoogleConfigKey::BearerToken);
            builder = builder.with_base_url(format!("{scheme}{host}").trim_end_matches('/'));
            if without_token {
                // An emulator accepts any token. Without a token, the client would query the
                // metadata service.
                builder = builder.with_config(GoogleConfigKey::BearerToken, "emulator");
            }
        }
        AnyObjectStore::gcs(builder)
    }

    /// Creates a store for a bucket of Google Cloud Storage. Its client has the settings of
    /// `builder`, but this function disables the retries and replaces the connector. The new
    /// connector uses rustls with ring and the system's root certificates. It follows no redirects,
    /// and waits at most 3.1 s for a connection. A call has no timeout, so the caller must bound
    /// it.
    ///
    /// Conditional writes compare the object's generation. The store's clock is the date in each
    /// response. Each write has `Cache-Control: no-store`, so that no cache keeps a public object.
    ///
    /// The account needs `storage.objects.get`, `list`, `create`, and `delete`. The role *Storage
    /// Object User* has these permissions. To overwrite an object, Cloud Storage requires `delete`.
    ///
    /// This function sends no request. If Cloud Storage refuses the credentials, the first request
    /// of the store fails.
    ///
    /// # Errors
    ///
    /// - [`Invalid`](StoreErrorKind::Invalid): a setting is invalid.
    /// - [`AccessDenied`](StoreErrorKind::AccessDenied): a credentials file is missing or
    ///   incomplete. Try again: another process may still mount or write the file.
    pub fn gcs(builder: GoogleCloudStorageBuilder) -> Result<AnyObjectStore, StoreError> {
        let bucket = setting(&builder, GoogleConfigKey::Bucket).unwrap_or_default();
        let mut name = format!("gs://{bucket}");
        let mut builder = builder;
        if let Some(url) = base_url(&builder) {
            let url = url.trim_end_matches('/');
            name = format!("{name} at {url}");
            // The URL must not end in a slash, because the client adds a slash before the bucket's
            // name.
            builder = builder.with_base_url(url);
        }
        let builder = builder.with_retry(no_retries()).with_http_connector(ClientConnector);
        let of_a_file = setting(&builder, GoogleConfigKey::ServiceAccountKey).is_none();
        let client = |builder: GoogleCloudStorageBuilder| {
            builder.build().map_err(|error| {
                let late = of_a_file && error.to_string().contains("service account file");
                let kind =
                    if late { StoreErrorKind::AccessDenied } else { StoreErrorKind::Invalid };
                unbuilt(kind, &name, &error)
            })
        };
        let source = Arc::clone(client(builder.clone())?.credentials());
        let of_settings = builder.clone();
        let new_source = move || Some(Arc::clone(of_settings.clone().build().ok()?.credentials()));
        let tokens = TokenCache::new(source, new_source);
        let store = Arc::new(client(builder.with_credentials(Arc::new(tokens.clone())))?);
        let mut store = AnyObjectStore::of(store.clone(), Some(store), name);
        store.tokens = Some(Arc::new(tokens));
        Ok(store)
    }
}

/// Returns the custom server that the client would use, or `None`. The store's messages name this
/// server, because the client's own messages omit it.
fn base_url(builder: &GoogleCloudStorageBuilder) -> Option<String> {
    let of = |key| setting(builder, key);
    let of_key = || {
        let key = match of(GoogleConfigKey::ServiceAccount) {
            // This function ignores an unreadable file, because the creation of the client reports
            // this error.
            Some(path) => std::fs::read_to_string(path).ok()?,
            None => of(GoogleConfigKey::ServiceAccountKey)?,
        };
        let key: serde_json::Value = serde_json::from_str(&key).ok()?;
        key["gcs_base_url"].as_str().map(str::to_owned)
    };
    of(GoogleConfigKey::BaseUrl).or_else(of_key)
}

fn setting(builder: &GoogleCloudStorageBuilder, key: GoogleConfigKey) -> Option<String> {
    builder.get_config_value(&key)
}
