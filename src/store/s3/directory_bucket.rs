//! Directory buckets (S3 Express One Zone). The SDK signs their requests with the credentials of a
//! session, which ends after five minutes.

use std::error::Error as StdError;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::Client;
use aws_sdk_s3::operation::create_session::CreateSessionError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;

use super::{CallInterceptor, RequestContext, S3Store, StoreError};
use crate::env::mutex::unpoisoned;
use crate::store::aws::{causes, find};

/// Codes of responses after which the next request needs another session.
const SESSION_ENDED: [&str; 4] =
    ["ExpiredToken", "TokenRefreshRequired", "InvalidToken", "InvalidAccessKeyId"];

/// The client of a directory bucket. The client keeps the session.
#[derive(Default)]
pub(super) struct SessionClient {
    /// The client that has replaced the first client, because the service refused its session.
    renewed: Option<Client>,
    refused: bool,
}

impl S3Store {
    pub(super) fn is_directory_bucket(&self) -> bool {
        self.bucket.ends_with("--x-s3")
    }

    /// Returns the client for this request. After the service has refused a session, returns a new
    /// client without a session. The SDK itself replaces a session only once the session has ended
    /// by this machine's clock, which may be behind.
    pub(super) async fn client(
        &self,
        request: RequestContext<'_, S3Store>,
    ) -> Result<Client, StoreError> {
        let first = request.client(&self.client).await?;
        let mut client = unpoisoned(self.session_client.lock());
        if std::mem::take(&mut client.refused) {
            client.renewed = Some(Client::from_conf(first.config().clone()));
        }
        Ok(client.renewed.as_ref().unwrap_or(first).clone())
    }

    /// Returns true if this refusal shows that the session has ended. The next request then gets a
    /// new session.
    pub(super) fn session_ended(&self, code: &str) -> bool {
        let ended = self.is_directory_bucket() && SESSION_ENDED.contains(&code);
        unpoisoned(self.session_client.lock()).refused |= ended;
        ended
    }
}

/// Returns the error of a request that was not sent because it has no session. Returns `None` for
/// other errors, and if the machine has no credentials.
pub(super) fn without_session(
    request: RequestContext<'_, S3Store>,
    error: &(dyn StdError + 'static),
) -> Option<StoreError> {
    let error = find::<SdkError<CreateSessionError, HttpResponse>>(error)?;
    let failed = match error {
        SdkError::ServiceError(answer) => {
            S3Store::refusal(request, answer, &CallInterceptor::default(), true)
        }
        SdkError::ConstructionFailure(_) => return None,
        _ if find::<CredentialsError>(error).is_some() => return None,
        _ => request.transient(&format!("no session: {}", causes(error))),
    };
    // The request itself was not sent.
    Some(failed.of_a_read())
}
