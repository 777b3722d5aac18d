//! The meaning of a failed call of the SDK, as far as it is the same for all services.

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

/// Text for an answer that cannot be read.
pub(in crate::store) const UNREADABLE: &str = "its answer broke off or made no sense";

/// A service of the SDK, with the meaning of its answers.
pub(in crate::store) trait Service: Store + Sized {
    /// The question to the user after a web page in the place of the first answer.
    const WRONG_ENDPOINT: &'static str;

    /// Whether the service has answered in its format before.
    fn has_answered(&self) -> bool;

    /// An answer that is no success.
    fn refused<E: ProvideErrorMetadata>(
        request: RequestContext<'_, Self>,
        answer: &ServiceError<E, HttpResponse>,
        seen: &CallInterceptor,
    ) -> StoreError;

    /// An answer that cannot be read.
    fn unreadable(request: RequestContext<'_, Self>, _seen: &CallInterceptor) -> StoreError {
        request.transient(UNREADABLE)
    }
}

impl<'a, S: Service> RequestContext<'a, S> {
    /// The client for this request.
    pub(in crate::store) async fn client<C>(
        self,
        client: &'a RegionalClient<C>,
    ) -> Result<&'a C, StoreError> {
        client.get().await.map_err(|missing| {
            let failed = self.error(missing.kind, Determinacy::Determinate, &missing.to_string());
            if missing.of_the_machine { failed.of_the_machine() } else { failed }
        })
    }

    /// The SDK's error in the crate's words. The error itself is left behind: its `Debug` shows
    /// whole requests and answers.
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

    /// An answer that is a web page: from the wrong server or from a proxy if this store has never
    /// had an answer of the service, and otherwise from a proxy or login page that is in between
    /// for a while.
    pub(in crate::store) fn web_page(self) -> StoreError {
        let (kind, advice) = if self.store.has_answered() {
            (StoreErrorKind::Transient, "is a proxy or a login page in between?")
        } else {
            (StoreErrorKind::NoSuchStore, S::WRONG_ENDPOINT)
        };
        self.error(kind, self.maybe(), &format!("it answered with a web page; {advice}"))
    }
}

/// The status and the service's code of an answer that is no success.
pub(in crate::store) fn answered<E: ProvideErrorMetadata>(
    error: &SdkError<E, HttpResponse>,
) -> Option<(u16, Option<&str>)> {
    let SdkError::ServiceError(answer) = error else { return None };
    Some((answer.raw().status().as_u16(), answer.err().code()))
}

/// The service's code of an answer that is no success.
#[cfg(feature = "dynamodb")]
pub(in crate::store) fn code<E: ProvideErrorMetadata>(
    error: &SdkError<E, HttpResponse>,
) -> Option<&str> {
    answered(error)?.1
}

/// The status, the code, a note if there is one, and the service's message.
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
