//! Classifies failed SDK calls, as far as the causes do not depend on the service.

use std::error::Error as StdError;
use std::fmt::Write as _;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::{SdkError, ServiceError};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use super::error_text::{causes, is_of_the_machine, never_connected, not_sendable, not_sent};
use super::{CallInterceptor, RegionalClient};
use crate::store::redact::printable;
use crate::store::request_context::RequestContext;
use crate::store::{Determinacy, Store, StoreError, StoreErrorKind};

/// Message for a response that cannot be parsed.
pub(in crate::store) const UNREADABLE: &str = "the response broke off or is invalid";

/// A service of the SDK, and the interpretation of its responses.
pub(in crate::store) trait Service: Store + Sized {
    /// Remedy for a web page from a service that has sent no valid response before.
    const WRONG_ENDPOINT: &'static str;

    /// Returns true if the service has sent a valid response before.
    fn has_answered(&self) -> bool;

    /// Returns the error for an error response.
    fn refused<E: ProvideErrorMetadata>(
        request: RequestContext<'_, Self>,
        answer: &ServiceError<E, HttpResponse>,
        seen: &CallInterceptor,
    ) -> StoreError;

    /// Returns the error of a request that was not sent: the service refused to create a session
    /// for the request, or did not answer. Services without sessions return `None`.
    fn without_session(
        _request: RequestContext<'_, Self>,
        _error: &(dyn StdError + 'static),
    ) -> Option<StoreError> {
        None
    }

    /// Returns the error for a response that cannot be parsed.
    fn unreadable(request: RequestContext<'_, Self>, _seen: &CallInterceptor) -> StoreError {
        request.transient(UNREADABLE)
    }
}

impl<'a, S: Service> RequestContext<'a, S> {
    /// Returns the client for this request.
    pub(in crate::store) async fn client<C>(
        self,
        client: &'a RegionalClient<C>,
    ) -> Result<&'a C, StoreError> {
        client.get().await.map_err(|missing| {
            let failed = self.error(missing.kind, Determinacy::Determinate, &missing.to_string());
            if missing.of_the_machine { failed.of_the_machine() } else { failed }
        })
    }

    /// Converts the SDK's error. The new error does not contain the SDK's error, because the
    /// `Debug` output of the SDK's error shows whole requests and responses.
    pub(in crate::store) fn failed<E>(
        self,
        error: &SdkError<E, HttpResponse>,
        seen: &CallInterceptor,
    ) -> StoreError
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        match error {
            SdkError::ServiceError(answer) => S::refused(self, answer, seen),
            SdkError::ResponseError(_) => S::unreadable(self, seen),
            _ if !seen.sent()
                && let Some(failed) = S::without_session(self, error) =>
            {
                failed
            }
            _ if !seen.sent() => {
                let (kind, advice) = not_sent(error);
                let why = format!("{advice} ({})", causes(error));
                let failed = self.error(kind, Determinacy::Determinate, &why);
                if is_of_the_machine(error) { failed.of_the_machine() } else { failed }
            }
            _ if let Some(why) = not_sendable(error) => {
                self.error(StoreErrorKind::Invalid, Determinacy::Determinate, &why)
            }
            _ if never_connected(error) => {
                let message = format!("no connection: {}", causes(error));
                self.error(StoreErrorKind::Transient, Determinacy::Determinate, &message)
            }
            SdkError::TimeoutError(_) => self.transient("no answer in time"),
            _ => self.transient(&format!("the connection broke: {}", causes(error))),
        }
    }

    /// Returns the error of a request that was answered with a web page. If the service has never
    /// sent a valid response, the endpoint is probably wrong. Otherwise a proxy or a login page has
    /// probably replaced this response.
    pub(in crate::store) fn web_page(self) -> StoreError {
        let (kind, advice) = if self.store.has_answered() {
            (StoreErrorKind::Transient, "check for a proxy or a login page on the path")
        } else {
            (StoreErrorKind::NoSuchStore, S::WRONG_ENDPOINT)
        };
        self.error(kind, self.maybe(), &format!("the response is a web page; {advice}"))
    }
}

/// Returns the status and the service's code of an error response.
pub(in crate::store) fn answered<E: ProvideErrorMetadata>(
    error: &SdkError<E, HttpResponse>,
) -> Option<(u16, Option<&str>)> {
    let SdkError::ServiceError(answer) = error else { return None };
    Some((answer.raw().status().as_u16(), answer.err().code()))
}

/// Returns the service's code of an error response.
#[cfg(feature = "dynamodb")]
pub(in crate::store) fn code<E: ProvideErrorMetadata>(
    error: &SdkError<E, HttpResponse>,
) -> Option<&str> {
    answered(error)?.1
}

/// Returns one text that contains the status, the service's code, `note`, and the service's
/// message.
pub(in crate::store) fn reason<E: ProvideErrorMetadata>(
    answer: &ServiceError<E, HttpResponse>,
    note: &str,
) -> String {
    let (status, code) = (answer.raw().status().as_u16(), answer.err().code());
    let mut why = format!("{status} {}", code.unwrap_or_default()).trim_end().to_owned() + note;
    if let Some(message) = answer.err().message().filter(|message| !message.is_empty()) {
        let _ = write!(why, ": {}", printable(message));
    }
    why
}
