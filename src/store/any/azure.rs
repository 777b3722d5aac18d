//! Containers of Azure Blob Storage.

use std::sync::Arc;

use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

use super::http::{ClientConnector, no_retries};
use super::token::TokenCache;
use super::{AnyObjectStore, unbuilt};
use crate::store::redact::without_secrets;
use crate::store::url::StoreOptions;
use crate::store::{StoreError, StoreErrorKind};

impl AnyObjectStore {
    /// Creates a store for a container of Azure Blob Storage, with settings from the environment.
    /// `AZURE_STORAGE_ACCOUNT_NAME` names the account. The credentials come from
    /// `AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_STORAGE_SAS_TOKEN`, `AZURE_USE_AZURE_CLI=true`, or the
    /// machine's identity. They may also come from `AZURE_TENANT_ID` and `AZURE_CLIENT_ID`,
    /// together with `AZURE_CLIENT_SECRET` or `AZURE_FEDERATED_TOKEN_FILE`.
    /// `AZURE_STORAGE_ENDPOINT` selects another server. With `AZURE_STORAGE_USE_EMULATOR=true`, the
    /// server is Azurite, at `AZURITE_BLOB_STORAGE_URL` or port 10000.
    ///
    /// In all other respects, this function is the same as [`azure`](AnyObjectStore::azure).
    ///
    /// # Errors
    ///
    /// This function returns the same errors as [`azure`](AnyObjectStore::azure).
    pub fn azure_from_env(container: impl Into<String>) -> Result<AnyObjectStore, StoreError> {
        AnyObjectStore::azure_with_options(&container.into(), &StoreOptions::default())
    }

    pub(in crate::store) fn azure_with_options(
        container: &str,
        StoreOptions { account, endpoint, .. }: &StoreOptions,
    ) -> Result<AnyObjectStore, StoreError> {
        let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(container);
        if let Some(account) = account {
            builder = builder.with_account(account);
        }
        if let Some(endpoint) = endpoint {
            builder = builder.with_use_emulator(false).with_endpoint(endpoint.clone());
        }
        AnyObjectStore::azure(builder)
    }

    /// Creates a store for a container of Azure Blob Storage. Its client has the settings of
    /// `builder`, but this function disables the retries and replaces the connector. The new
    /// connector uses rustls with ring and the system's root certificates. It follows no redirects,
    /// and waits at most 3.1 s for a connection. A call has no timeout, so the caller must bound
    /// it.
    ///
    /// Conditional writes compare the ETag, which is different after each write. The store's clock
    /// is the date in each response. The account needs the role *Storage Blob Data Contributor* on
    /// the container, or a SAS with the permissions `rcwl`. A compactor with a SAS also needs the
    /// permission `d`.
    ///
    /// This function sends no request. If the credentials are missing or wrong, the first call of
    /// the store returns an error.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::store::StoreErrorKind::Invalid): a setting is missing or invalid.
    pub fn azure(builder: MicrosoftAzureBuilder) -> Result<AnyObjectStore, StoreError> {
        let setting = |key| builder.get_config_value(&key).unwrap_or_default();
        let container = setting(AzureConfigKey::ContainerName);
        let mut name = match setting(AzureConfigKey::AccountName) {
            account if account.is_empty() => format!("az://{container}"),
            account => format!("az://{container} of the account {account}"),
        };
        let endpoint = setting(AzureConfigKey::Endpoint);
        if !endpoint.is_empty() {
            name = format!("{name} at {}", without_secrets(&endpoint));
        }
        let builder = builder.with_retry(no_retries()).with_http_connector(ClientConnector);
        let client = |builder: MicrosoftAzureBuilder| {
            builder.build().map_err(|error| unbuilt(StoreErrorKind::Invalid, &name, &error))
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
