//! Shortens the texts of the SDK's errors for messages.

use std::error::Error as StdError;
use std::fmt::{self, Write as _};

use aws_config::imds::client::error::{ImdsError, TokenError};
use aws_config::meta::ProviderChainError;
use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;

use super::connector::NotSendable;
use super::settings::WrongSetting;
use crate::store::StoreErrorKind;
use crate::store::redact::printable;

/// Returns the kind and the remedy of a failure that occurred before any request was sent to the
/// service.
pub(in crate::store) fn not_sent(
    error: &(dyn StdError + 'static),
) -> (StoreErrorKind, &'static str) {
    if wrong_setting(error).is_some() {
        return (StoreErrorKind::Invalid, "correct the setting");
    }
    match find::<CredentialsError>(error) {
        Some(CredentialsError::CredentialsNotLoaded(_)) => (
            StoreErrorKind::AccessDenied,
            "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or \
             assign a role to the machine",
        ),
        Some(CredentialsError::InvalidConfiguration(_)) => {
            (StoreErrorKind::AccessDenied, "the credential settings are invalid")
        }
        // All other errors come from a service that issues credentials. Such a service can fail
        // temporarily.
        Some(_) => (StoreErrorKind::Transient, "the credentials could not be fetched"),
        // If the region is missing, the error of S3's client contains the word "region", and the
        // error of DynamoDB's client contains "Region".
        None if causes(error).to_lowercase().contains("region") => {
            (StoreErrorKind::Invalid, "no region: set AWS_REGION, or region in the profile")
        }
        None => (StoreErrorKind::Invalid, "the request could not be built"),
    }
}

/// Returns true if the machine's metadata service has refused to issue credentials, because it
/// forbids the access or the machine has no role. Either refusal may be temporary.
pub(super) fn refused_by_the_machine(error: &(dyn StdError + 'static)) -> bool {
    MetadataFailure::of(error).is_some_and(MetadataFailure::is_refusal) || names_no_role(error)
}

/// Returns true if the metadata service has responded 404 to the request for the role's name. The
/// SDK tries several sources of credentials, and shows this response only in the error message of
/// one source.
fn names_no_role(error: &(dyn StdError + 'static)) -> bool {
    const NO_ROLE: &str = "received 404 from IMDS";
    let attempts = find::<ProviderChainError<CredentialsError>>(error).map(|it| it.attempts());
    let mut attempts = attempts.unwrap_or_default().iter();
    attempts.any(|attempt| chain(attempt.error()).any(|error| error.to_string() == NO_ROLE))
}

/// A failure of the machine's metadata service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetadataFailure {
    /// The metadata service has responded with this status.
    Status(u16),
    /// The metadata service has not responded, or no process listens at its address.
    Silent,
}

impl MetadataFailure {
    /// Returns the failure that this error reports. Returns `None` for an error of another service.
    pub(super) fn of(error: &(dyn StdError + 'static)) -> Option<MetadataFailure> {
        let status = |answer: &HttpResponse| MetadataFailure::Status(answer.status().as_u16());
        if let Some(token) = find::<SdkError<TokenError, HttpResponse>>(error) {
            return Some(token.raw_response().map_or(MetadataFailure::Silent, status));
        }
        match find::<ImdsError>(error)? {
            ImdsError::ErrorResponse(answer) => Some(status(answer.response())),
            _ => Some(MetadataFailure::Silent),
        }
    }

    /// Returns true if the metadata service refuses the request. A later request may succeed.
    pub(super) fn is_refusal(self) -> bool {
        matches!(self, MetadataFailure::Status(401 | 403 | 404))
    }
}

impl fmt::Display for MetadataFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataFailure::Status(status) => write!(f, "it responds with status {status}"),
            MetadataFailure::Silent => f.write_str("it does not respond"),
        }
    }
}

/// Searches the causes of this error for a [`WrongSetting`], which reports a setting with an
/// unusable value.
pub(super) fn wrong_setting<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e WrongSetting> {
    find(error)
}

/// States that the machine's metadata service issued no credentials. The string is the reason.
#[derive(Debug)]
pub(super) struct RefusedByTheMachine(pub(super) String);

impl fmt::Display for RefusedByTheMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for RefusedByTheMachine {}

/// Returns true if the machine's metadata service issued no credentials for a request.
pub(super) fn is_of_the_machine(error: &(dyn StdError + 'static)) -> bool {
    find::<RefusedByTheMachine>(error).is_some()
}

/// Returns the reason if the SDK cannot send the request. The reason names the invalid setting or
/// the invalid part of the request. Another attempt fails in the same way.
pub(in crate::store) fn not_sendable(error: &(dyn StdError + 'static)) -> Option<String> {
    find::<NotSendable>(error).map(|error| printable(&error.to_string()))
}

/// Returns true if no connection could be opened for the request. This function recognises the
/// errors of tenure's connector. It also recognises the errors of the SDK's own connector, because
/// most clients that callers build use that connector.
pub(in crate::store) fn never_connected(error: &(dyn StdError + 'static)) -> bool {
    find::<reqwest::Error>(error).is_some_and(reqwest::Error::is_connect)
        || find::<hyper_util::client::legacy::Error>(error).is_some_and(|error| error.is_connect())
}

/// Returns the first error of this type in the chain of causes.
pub(in crate::store) fn find<'e, T: StdError + 'static>(
    error: &'e (dyn StdError + 'static),
) -> Option<&'e T> {
    chain(error).find_map(|error| error.downcast_ref())
}

fn chain<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}

/// Returns the chain of causes on one line. Omits the SDK's outermost message and repetitions.
pub(in crate::store) fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut line = String::new();
    for error in chain(error).skip(1) {
        let text = match error.downcast_ref() {
            Some(sources) => sources_without(sources),
            None => printable(&error.to_string()),
        };
        if !line.contains(&text) {
            let separator = if line.is_empty() { "" } else { ": " };
            let _ = write!(line, "{separator}{text}");
        }
    }
    line
}

/// Lists the sources that had no credentials, each with its reason. Begins with the last source,
/// because long messages are cut off at the end. The last source is usually the machine's metadata
/// service.
fn sources_without(sources: &ProviderChainError<CredentialsError>) -> String {
    let attempts = sources.attempts().iter().rev().map(|attempt| {
        let reason = chain(attempt.error()).last().map(ToString::to_string).unwrap_or_default();
        format!("{}: {reason}", attempt.name())
    });
    printable(&attempts.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use aws_config::imds;
    use aws_config::meta::credentials::CredentialsProviderChain;
    use aws_config::provider_config::ProviderConfig;
    use aws_credential_types::credential_fn::provide_credentials_fn;
    use aws_credential_types::provider::ProvideCredentials as _;
    use aws_smithy_runtime_api::client::http::{
        HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
    };
    use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
    use aws_smithy_runtime_api::http::StatusCode;
    use aws_smithy_types::body::SdkBody;

    use super::*;

    /// A metadata service that responds with the first status to a token request, and with the
    /// second to later requests.
    #[derive(Debug, Clone, Copy)]
    struct Metadata(u16, u16);

    impl HttpConnector for Metadata {
        fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
            let status = if request.method() == "PUT" { self.0 } else { self.1 };
            let code = StatusCode::try_from(status).expect("a status");
            let mut answer = HttpResponse::new(code, SdkBody::from("a-token"));
            if status == 200 {
                answer.headers_mut().insert("x-aws-ec2-metadata-token-ttl-seconds", "600");
            }
            HttpConnectorFuture::ready(Ok(answer))
        }
    }

    /// Returns a client of this metadata service.
    fn client(service: Metadata) -> imds::Client {
        let service = SharedHttpConnector::new(service);
        let http = http_client_fn(move |_, _| service.clone());
        let config = ProviderConfig::empty().with_http_client(http);
        imds::Client::builder().configure(&config).max_attempts(1).build()
    }

    /// If the machine has no role, the metadata service answers 404 to the request for the role's
    /// name, and the SDK reports this 404 only in a message. Before the fix, the store did not
    /// treat this error as a refusal by the metadata service.
    #[tokio::test]
    async fn regression_the_404_for_a_machine_without_a_role_is_a_refusal() {
        let machine = imds::credentials::ImdsCredentialsProvider::builder();
        let machine = machine.imds_client(client(Metadata(200, 404))).build();
        let profile =
            provide_credentials_fn(|| async { Err(CredentialsError::not_loaded("x".repeat(400))) });
        let sources = CredentialsProviderChain::first_try("Profile", profile);
        let sources = sources.or_else("Ec2InstanceMetadata", machine);
        let error = sources.provide_credentials().await.expect_err("the machine has no role");
        assert!(refused_by_the_machine(&error), "{error:?}");
        let said = causes(&error);
        assert!(said.starts_with("Ec2InstanceMetadata: received 404 from IMDS"), "{said}");
    }

    #[tokio::test]
    async fn the_metadata_service_may_refuse_the_token_or_a_later_request() {
        for (token, after, refuses) in [
            (401, 200, true),
            (403, 200, true),
            (404, 200, true),
            (200, 403, true),
            (200, 404, true),
            (200, 500, false),
            (500, 200, false),
        ] {
            let client = client(Metadata(token, after));
            let error =
                client.get("/latest/").await.expect_err("one of the two responses is an error");
            assert_eq!(refused_by_the_machine(&error), refuses, "{token} {after}: {error:?}");
        }
    }

    #[test]
    fn a_construction_error_names_the_region_only_if_it_is_missing() {
        for (cause, words) in [
            ("a region must be set when sending requests", "no region: set AWS_REGION"),
            ("Invalid Configuration: Missing Region", "no region: set AWS_REGION"),
            ("a header is too long", "the request could not be built"),
        ] {
            let error = SdkError::<TokenError, HttpResponse>::construction_failure(cause);
            let (kind, said) = not_sent(&error);
            assert_eq!(kind, StoreErrorKind::Invalid);
            assert!(said.starts_with(words), "{cause}: {said}");
        }
    }
}
