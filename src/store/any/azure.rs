//! Containers of Azure Blob Storage.

use std::sync::Arc;

use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

use super::http::{ClientConnector, no_retries};
use super::token::TokenCache;
use super::{AnyObjectStore, unbuilt};
use crate::store::{StoreError, StoreErrorKind};

impl AnyObjectStore {
    /// A container of Azure Blob Storage, with settings from the environment:
    /// `AZURE_STORAGE_ACCOUNT_NAME`; `AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_STORAGE_SAS_TOKEN`,
    /// `AZURE_TENANT_ID` with `AZURE_CLIENT_ID` and `AZURE_CLIENT_SECRET` or
    /// `AZURE_FEDERATED_TOKEN_FILE`, `AZURE_USE_AZURE_CLI=true`, or the machine's identity; another
    /// server from `AZURE_STORAGE_ENDPOINT`. With `AZURE_STORAGE_USE_EMULATOR=true` it is Azurite,
    /// at `AZURITE_BLOB_STORAGE_URL` or port 10000.
    ///
    /// Otherwise as [`azure`](AnyObjectStore::azure).
    ///
    /// # Errors
    ///
    /// The errors of [`azure`](AnyObjectStore::azure).
    pub fn azure_from_env(container: impl Into<String>) -> Result<AnyObjectStore, StoreError> {
        AnyObjectStore::azure(MicrosoftAzureBuilder::from_env().with_container_name(container))
    }

    /// A container of Azure Blob Storage by a client of these settings, except that its retries are
    /// off and its connections are made here: rustls with ring, the system's root certificates, no
    /// redirects, 3.1 s to connect. There is no timeout on a whole call: the caller bounds it.
    ///
    /// Conditions go by the ETag, which no two writings share. The answers' dates are the store's
    /// clock. The account needs the role *Storage Blob Data Contributor* on the container, or a SAS
    /// with the permissions `rcwl`, and `d` for a compactor.
    ///
    /// No request. Missing or wrong credentials show in the first call.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::store::StoreErrorKind::Invalid): a setting is missing or makes no sense.
    pub fn azure(builder: MicrosoftAzureBuilder) -> Result<AnyObjectStore, StoreError> {
        let setting = |key| builder.get_config_value(&key).unwrap_or_default();
        let container = setting(AzureConfigKey::ContainerName);
        let name = match setting(AzureConfigKey::AccountName) {
            account if account.is_empty() => format!("az://{container}"),
            account => format!("az://{container} of the account {account}"),
        };
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
