//! Records the facts of a call that the SDK's results omit: whether the request was sent, and some
//! headers of the response.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::env::mutex::unpoisoned;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use chrono::{DateTime, Utc};

/// Observes one call. If the SDK retries the request, the methods describe the last response.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct CallInterceptor(Arc<CallRecord>);

#[derive(Debug, Default)]
struct CallRecord {
    sent: AtomicBool,
    host: Mutex<String>,
    answer: Mutex<ResponseFacts>,
}

#[derive(Debug, Default)]
struct ResponseFacts {
    served_at: Option<DateTime<Utc>>,
    html: bool,
    #[cfg(feature = "dynamodb")]
    is_of_dynamodb: bool,
}

impl CallInterceptor {
    /// Returns true if an attempt may have reached the network. If no attempt has reached the
    /// network, the request had no effect.
    pub(in crate::store) fn sent(&self) -> bool {
        self.0.sent.load(Ordering::SeqCst)
    }

    /// Returns true if the request went to a host of this domain.
    #[cfg(feature = "s3")]
    pub(in crate::store) fn went_to(&self, domain: &str) -> bool {
        unpoisoned(self.0.host.lock()).ends_with(domain)
    }

    /// Returns the `Date` of the response.
    pub(in crate::store) fn served_at(&self) -> Option<DateTime<Utc>> {
        self.answer().served_at
    }

    /// Returns true if the response has the content type of a web page.
    pub(in crate::store) fn html(&self) -> bool {
        self.answer().html
    }

    /// Returns true if the response has a content type of JSON, or the checksum that DynamoDB and
    /// its emulators send.
    #[cfg(feature = "dynamodb")]
    pub(in crate::store) fn is_of_dynamodb(&self) -> bool {
        self.answer().is_of_dynamodb
    }

    fn answer(&self) -> MutexGuard<'_, ResponseFacts> {
        unpoisoned(self.0.answer.lock())
    }
}

impl Intercept for CallInterceptor {
    fn name(&self) -> &'static str {
        "tenure"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let uri: Option<http::Uri> = context.request().uri().parse().ok();
        let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
        *unpoisoned(self.0.host.lock()) = host.to_ascii_lowercase();
        self.0.sent.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let headers = context.response().headers();
        let kind = headers.get("content-type").unwrap_or_default();
        *self.answer() = ResponseFacts {
            served_at: headers.get("date").and_then(parse_date),
            html: kind.starts_with("text/html"),
            #[cfg(feature = "dynamodb")]
            is_of_dynamodb: kind.starts_with("application/") && kind.contains("json")
                || headers.get("x-amz-crc32").is_some(),
        };
        Ok(())
    }
}

fn parse_date(date: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc2822(date).ok().map(|date| date.to_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_date_is_parsed() {
        let date = parse_date("Fri, 20 Nov 2026 23:12:00 GMT").map(|date| date.to_rfc3339());
        assert_eq!(date.as_deref(), Some("2026-11-20T23:12:00+00:00"));
        assert_eq!(parse_date("yesterday"), None);
    }
}
