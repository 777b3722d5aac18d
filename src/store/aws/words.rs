//! The words of the SDK and of a service, fit for a message.

use std::error::Error as StdError;
use std::fmt::Write as _;

use aws_config::imds::client::error::{ImdsError, TokenError};
use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;

use crate::store::StoreErrorKind;
use crate::store::words::printable;

/// What is wrong where nothing came as far as the network, and what to do then.
pub(in crate::store) fn not_sent(
    error: &(dyn StdError + 'static),
) -> (StoreErrorKind, &'static str) {
    match find::<CredentialsError>(error) {
        Some(CredentialsError::CredentialsNotLoaded(_)) => (
            StoreErrorKind::AccessDenied,
            "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or \
             give the machine a role",
        ),
        Some(CredentialsError::InvalidConfiguration(_)) => {
            (StoreErrorKind::AccessDenied, "the settings of the credentials are wrong")
        }
        // A service that hands out credentials is away as often as any other.
        Some(_) => (StoreErrorKind::Transient, "the credentials could not be fetched"),
        None if causes(error).contains("region") => {
            (StoreErrorKind::Invalid, "no region: set AWS_REGION, or region in the profile")
        }
        None => (StoreErrorKind::Invalid, "the request could not be built"),
    }
}

/// Whether the machine's metadata service has answered that it has no credentials to give: it is
/// forbidden, or there is no role. Asking again changes nothing.
pub(super) fn refused_by_the_machine(error: &(dyn StdError + 'static)) -> bool {
    let token = find::<SdkError<TokenError, HttpResponse>>(error);
    let token = token.and_then(SdkError::raw_response).map(HttpResponse::status);
    let answer = match find::<ImdsError>(error) {
        Some(ImdsError::ErrorResponse(answer)) => Some(answer.response().status()),
        _ => None,
    };
    token.or(answer).is_some_and(|status| matches!(status.as_u16(), 401 | 403 | 404))
}

/// Whether there was no connection to send the request on.
pub(in crate::store) fn never_connected(error: &(dyn StdError + 'static)) -> bool {
    find::<hyper_util::client::legacy::Error>(error).is_some_and(|error| error.is_connect())
}

/// The first error of this type in the chain of causes.
fn find<'e, T: StdError + 'static>(error: &'e (dyn StdError + 'static)) -> Option<&'e T> {
    chain(error).find_map(|error| error.downcast_ref())
}

fn chain<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}

/// The chain of causes on one line, without the SDK's outer words and without repetitions.
pub(in crate::store) fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut line = String::new();
    for error in chain(error).skip(1) {
        let text = printable(&error.to_string());
        if !line.contains(&text) {
            let separator = if line.is_empty() { "" } else { ": " };
            let _ = write!(line, "{separator}{text}");
        }
    }
    line
}
