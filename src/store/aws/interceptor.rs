//! What the SDK's outputs and errors leave out of one call: whether the request was sent, and some
//! headers of the answer.

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

/// Watches one call. Where the SDK sends it again, the last answer counts.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct CallInterceptor(Arc<CallRecord>);

#[derive(Debug, Default)]
struct CallRecord {
    sent: AtomicBool,
    answer: Mutex<ResponseFacts>,
}

#[derive(Debug, Default)]
struct ResponseFacts {
    served_at: Option<DateTime<Utc>>,
    html: bool,
}

impl CallInterceptor {
    /// Whether any attempt came as far as the network. If not, nothing can have happened.
    pub(in crate::store) fn sent(&self) -> bool {
        self.0.sent.load(Ordering::SeqCst)
    }

    /// The answer's `Date`.
    pub(in crate::store) fn served_at(&self) -> Option<DateTime<Utc>> {
        self.answer().served_at
    }

    /// Whether the answer has the content type of a web page.
    pub(in crate::store) fn html(&self) -> bool {
        self.answer().html
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
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
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
        *self.answer() = ResponseFacts {
            served_at: headers.get("date").and_then(parse_date),
            html: headers.get("content-type").is_some_and(|kind| kind.starts_with("text/html")),
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
    fn the_date_of_http_is_read() {
        let date = parse_date("Fri, 20 Nov 2026 23:12:00 GMT").map(|date| date.to_rfc3339());
        assert_eq!(date.as_deref(), Some("2026-11-20T23:12:00+00:00"));
        assert_eq!(parse_date("yesterday"), None);
    }
}
