//! Buckets of Google Cloud Storage.

use std::sync::Arc;

use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};

use super::http::{Connector, no_retries};
use super::{AnyObjectStore, unbuilt};
use crate::store::StoreError;

impl AnyObjectStore {
    /// A bucket of Google Cloud Storage, with settings from the environment: credentials from
    /// `GOOGLE_APPLICATION_CREDENTIALS`, `GOOGLE_SERVICE_ACCOUNT` (a file) or
    /// `GOOGLE_SERVICE_ACCOUNT_KEY` (its text), `GOOGLE_BEARER_TOKEN`, what `gcloud auth
    /// application-default login` has left, or the machine's service account; another server from
    /// `GOOGLE_BASE_URL` or `STORAGE_EMULATOR_HOST`.
    ///
    /// Otherwise as [`gcs`](AnyObjectStore::gcs).
    ///
    /// # Errors
    ///
    /// As [`gcs`](AnyObjectStore::gcs).
    pub fn gcs_from_env(bucket: impl Into<String>) -> Result<AnyObjectStore, StoreError> {
        let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
        let emulator = std::env::var("STORAGE_EMULATOR_HOST").ok().filter(|host| !host.is_empty());
        let none = |key| setting(&builder, key).is_none();
        if let Some(host) = emulator.filter(|_| none(GoogleConfigKey::BaseUrl)) {
            let scheme = if host.contains("://") { "" } else { "http://" };
            let without_token = none(GoogleConfigKey::BearerToken);
            builder = builder.with_base_url(format!("{scheme}{host}").trim_end_matches('/'));
            if without_token {
                // Any will do. Without one the client would ask the machine for it.
                builder = builder.with_config(GoogleConfigKey::BearerToken, "emulator");
            }
        }
        AnyObjectStore::gcs(builder)
    }

    /// A bucket of Google Cloud Storage by a client of these settings, except that its retries are
    /// off and its connections are made here: rustls with ring, the system's root certificates, no
    /// redirects, 3.1 s to connect. There is no timeout on a whole call: the caller bounds it.
    ///
    /// Conditions go by the object's generation. The answers' dates are the store's clock. What is
    /// written has `Cache-Control: no-store`, as objects that everybody may read are cached
    /// otherwise.
    ///
    /// The account needs `storage.objects.get`, `list`, `create`, and `delete`: Cloud Storage asks
    /// for the last one to overwrite, too (the role *Storage Object User*).
    ///
    /// No request. Missing or wrong credentials show in the first call.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::store::StoreErrorKind::Invalid): a setting or a credentials file makes no
    /// sense.
    pub fn gcs(builder: GoogleCloudStorageBuilder) -> Result<AnyObjectStore, StoreError> {
        let bucket = setting(&builder, GoogleConfigKey::Bucket).unwrap_or_default();
        let mut name = format!("gs://{bucket}");
        if let Some(url) = setting(&builder, GoogleConfigKey::BaseUrl) {
            name = format!("{name} at {url}");
        }
        let builder = builder.with_retry(no_retries()).with_http_connector(Connector);
        let store = Arc::new(builder.build().map_err(|error| unbuilt(&name, &error))?);
        Ok(AnyObjectStore::of(store.clone(), Some(store), name))
    }
}

fn setting(builder: &GoogleCloudStorageBuilder, key: GoogleConfigKey) -> Option<String> {
    builder.get_config_value(&key)
}
