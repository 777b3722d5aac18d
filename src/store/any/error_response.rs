//! Parses error responses from the messages of object_store's clients.

use std::error::Error as StdError;

use object_store::Error;

use crate::store::redact::printable;

/// Prefix of the message with which object_store's clients report an error response.
const STATUS: &str = "Server returned non-2xx status code: ";

/// The status and the code of an error response of the store.
pub(super) struct ErrorResponse {
    pub(super) status: u16,
    pub(super) code: String,
    pub(super) message: String,
    /// True if the body starts with markup (`<`), but has no error code of the service.
    pub(super) is_web_page: bool,
}

/// Returns the status of an error response.
#[cfg(any(feature = "azure", feature = "gcs"))]
pub(super) fn status(error: &Error) -> Option<u16> {
    ErrorResponse::of(error).map(|answer| answer.status)
}

impl ErrorResponse {
    pub(super) fn of(error: &Error) -> Option<ErrorResponse> {
        chain(error).find_map(|error| {
            let text = error.to_string();
            let rest = text.strip_prefix(STATUS)?;
            let status = rest.get(..3)?.parse().ok()?;
            let (_, body) = rest.split_once(": ").unwrap_or_default();
            let element = |name: &str| {
                let (_, rest) = body.split_once(&format!("<{name}>"))?;
                rest.split_once(&format!("</{name}>")).map(|(text, _)| text.to_owned())
            };
            let message = element("Message").unwrap_or_else(|| match body.trim_start() {
                body if body.starts_with('<') => String::new(),
                body => body.to_owned(),
            });
            let code = element("Code").unwrap_or_default();
            let is_web_page = code.is_empty() && body.trim_start().starts_with('<');
            Some(ErrorResponse { status, code, message, is_web_page })
        })
    }

    pub(super) fn pair(&self) -> (u16, &str) {
        (self.status, &self.code)
    }

    pub(super) fn words(&self) -> String {
        let words = format!("{} {}", self.status, self.code);
        match printable(&self.message) {
            message if message.trim().is_empty() => words.trim_end().to_owned(),
            message => format!("{}: {}", words.trim_end(), message.trim()),
        }
    }
}

/// Returns the error, then its source, then the source of this source, and so on.
pub(super) fn chain<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}
