//! The texts of the SDK's errors, shortened for a message.

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

/// Describes a failure without any network request, with its remedy.
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
             give the machine a role",
        ),
        Some(CredentialsError::InvalidConfiguration(_)) => {
            (StoreErrorKind::AccessDenied, "the settings of the credentials are wrong")
        }
        // A service that hands out credentials is away as often as any other.
        Some(_) => (StoreErrorKind::Transient, "the credentials could not be fetched"),
        // S3's client says "region" and DynamoDB's "Region".
        None if causes(error).to_lowercase().contains("region") => {
            (StoreErrorKind::Invalid, "no region: set AWS_REGION, or region in the profile")
        }
        None => (StoreErrorKind::Invalid, "the request could not be built"),
    }
}

/// Returns whether the machine's metadata service has answered without credentials: the access is
/// forbidden, or the machine has no role. Both may change.
pub(super) fn refused_by_the_machine(error: &(dyn StdError + 'static)) -> bool {
    MetadataFailure::of(error).is_some_and(MetadataFailure::is_refusal) || names_no_role(error)
}

/// Whether the metadata service has answered 404 to the question for its role. The SDK tells this
/// in words alone, as one of many sources without credentials.
fn names_no_role(error: &(dyn StdError + 'static)) -> bool {
    const NO_ROLE: &str = "received 404 from IMDS";
    let attempts = find::<ProviderChainError<CredentialsError>>(error).map(|it| it.attempts());
    let mut attempts = attempts.unwrap_or_default().iter();
    attempts.any(|attempt| chain(attempt.error()).any(|error| error.to_string() == NO_ROLE))
}

/// Why the machine's metadata service gave nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetadataFailure {
    /// It has answered with this status.
    Status(u16),
    /// It has not answered, or nothing listens at its address.
    Silent,
}

impl MetadataFailure {
    /// Returns `None` for an error of another service.
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

    /// Whether it refuses the request. This may change.
    pub(super) fn is_refusal(self) -> bool {
        matches!(self, MetadataFailure::Status(401 | 403 | 404))
    }
}

impl fmt::Display for MetadataFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataFailure::Status(status) => write!(f, "it answers {status}"),
            MetadataFailure::Silent => f.write_str("it does not answer"),
        }
    }
}

/// Returns the environment variable with an unusable value.
pub(super) fn wrong_setting<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e WrongSetting> {
    find(error)
}

/// The machine's metadata service has no credentials to give, and why.
#[derive(Debug)]
pub(super) struct RefusedByTheMachine(pub(super) String);

impl fmt::Display for RefusedByTheMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for RefusedByTheMachine {}

/// Whether the machine's metadata service had no credentials for a request.
pub(super) fn is_of_the_machine(error: &(dyn StdError + 'static)) -> bool {
    find::<RefusedByTheMachine>(error).is_some()
}

/// The setting or the part of the request for which nothing was sent. A second attempt fails alike.
pub(in crate::store) fn not_sendable(error: &(dyn StdError + 'static)) -> Option<String> {
    find::<NotSendable>(error).map(|error| printable(&error.to_string()))
}

/// Whether there was no connection to send the request on. Clients made elsewhere have another
/// connector, mostly the SDK's own.
pub(in crate::store) fn never_connected(error: &(dyn StdError + 'static)) -> bool {
    find::<reqwest::Error>(error).is_some_and(reqwest::Error::is_connect)
        || find::<hyper_util::client::legacy::Error>(error).is_some_and(|error| error.is_connect())
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

/// The sources without credentials, each with its reason. The last one, most often the machine's
/// metadata service, comes first, as a message has no room for all.
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

    /// A metadata service that answers with these statuses: when a token is asked for, and after.
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

    /// The client of a metadata service that answers so.
    fn client(service: Metadata) -> imds::Client {
        let service = SharedHttpConnector::new(service);
        let http = http_client_fn(move |_, _| service.clone());
        let config = ProviderConfig::empty().with_http_client(http);
        imds::Client::builder().configure(&config).max_attempts(1).build()
    }

    /// The SDK asks for the role first, and tells a 404 in words alone.
    #[tokio::test]
    async fn regression_a_machine_without_a_role_refuses() {
        let machine = imds::credentials::ImdsCredentialsProvider::builder();
        let machine = machine.imds_client(client(Metadata(200, 404))).build();
        let profile =
            provide_credentials_fn(|| async { Err(CredentialsError::not_loaded("x".repeat(400))) });
        let sources = CredentialsProviderChain::first_try("Profile", profile);
        let sources = sources.or_else("Ec2InstanceMetadata", machine);
        let error = sources.provide_credentials().await.expect_err("there is no role");
        assert!(refused_by_the_machine(&error), "{error:?}");
        let said = causes(&error);
        assert!(said.starts_with("Ec2InstanceMetadata: received 404 from IMDS"), "{said}");
    }

    #[tokio::test]
    async fn the_machine_refuses_with_the_token_or_after_it() {
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
            let error = client.get("/latest/").await.expect_err("no answer is a success");
            assert_eq!(refused_by_the_machine(&error), refuses, "{token} {after}: {error:?}");
        }
    }

    #[test]
    fn a_request_that_was_not_built_names_the_region_only_if_it_is_missing() {
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
