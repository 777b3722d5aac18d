//! The context of one request to a store, and the errors that name this request.

use super::{Determinacy, Store, StoreError, StoreErrorKind};

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    List,
    Get,
    Create,
    Replace,
    Delete,
    #[cfg(feature = "s3")]
    Settings,
    #[cfg(feature = "dynamodb")]
    Describe,
    #[cfg(feature = "dynamodb")]
    CreateTable,
}

/// Returns true if a proxy or another intermediary sent this response. The service itself never
/// sends this status, or sends it only together with an error code.
pub(super) fn is_of_a_proxy(status: u16, code: &str) -> bool {
    match status {
        401 | 403 | 404 | 408 | 409 | 412 | 425 | 429 => false,
        // None of the supported services sends these statuses, so they come from a proxy.
        407 | 410 | 421 | 451 => true,
        status => code.is_empty() && matches!(status, 400..=499 | 501),
    }
}

/// Remedy for a response from a proxy.
pub(super) const OF_A_PROXY: &str =
    "this response does not come from the service: check the endpoint and any proxy";

/// One request to a store of the type `S`.
pub(super) struct RequestContext<'a, S> {
    pub(super) store: &'a S,
    pub(super) verb: Verb,
    /// Key of the object, or prefix of the listing. Empty if the verb needs no key.
    pub(super) key: &'a str,
}

impl<S> Clone for RequestContext<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for RequestContext<'_, S> {}

impl Verb {
    fn changes(self) -> bool {
        match self {
            Verb::List | Verb::Get => false,
            #[cfg(feature = "s3")]
            Verb::Settings => false,
            #[cfg(feature = "dynamodb")]
            Verb::Describe => false,
            _ => true,
        }
    }
}

impl<'a, S: Store> RequestContext<'a, S> {
    pub(super) fn new(store: &'a S, verb: Verb, key: &'a str) -> RequestContext<'a, S> {
        RequestContext { store, verb, key }
    }

    pub(super) fn transient(self, why: &str) -> StoreError {
        self.error(StoreErrorKind::Transient, self.maybe(), why)
    }

    pub(super) fn unsupported(self, why: &str) -> StoreError {
        self.error(StoreErrorKind::Unsupported, Determinacy::Determinate, why)
    }

    pub(super) fn invalid(self, why: &str) -> StoreError {
        self.error(StoreErrorKind::Invalid, Determinacy::Determinate, why)
    }

    /// Returns the determinacy of a request that may have reached the network. A write may have
    /// taken effect, and a read has no effect.
    pub(super) fn maybe(self) -> Determinacy {
        if self.verb.changes() { Determinacy::Indeterminate } else { Determinacy::Determinate }
    }

    pub(super) fn error(
        self,
        kind: StoreErrorKind,
        determinacy: Determinacy,
        why: &str,
    ) -> StoreError {
        let (key, at) = (self.key, self.store.describe());
        let operation = match self.verb {
            Verb::List => format!("listing {key:?} in {at}"),
            Verb::Get => format!("reading {key:?} from {at}"),
            Verb::Create => format!("creating {key:?} in {at}"),
            Verb::Replace => format!("replacing {key:?} in {at}"),
            Verb::Delete => format!("deleting from {at}"),
            #[cfg(feature = "s3")]
            Verb::Settings => format!("reading the settings of {at}"),
            #[cfg(feature = "dynamodb")]
            Verb::Describe => format!("describing the table of {at}"),
            #[cfg(feature = "dynamodb")]
            Verb::CreateTable => format!("creating the table of {at}"),
        };
        StoreError::new(kind, determinacy, format!("{operation}: {why}"))
    }
}
