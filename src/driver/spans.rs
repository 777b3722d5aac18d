//! The spans of an election: `campaign`, `leadership`, `renewal`, and one `request` for each call
//! of the store. Spans never contain bodies.

use tracing::{Span, debug_span, info_span};

use super::Context;
use crate::driver::config::Config;
use crate::epoch::Epoch;
use crate::protocol::message::{Answer, Request};
use crate::record::keys::Keys;

/// Returns the span of a campaign. The epoch is recorded when the candidate is elected.
pub(crate) fn campaign(keys: &Keys, config: &Config) -> Span {
    info_span!(
        "campaign",
        election = keys.prefix(),
        candidate = config.name,
        epoch = tracing::field::Empty,
        outcome = tracing::field::Empty,
    )
}

/// Returns the span of a leadership. Its parent is the caller's span. The campaign's span cannot be
/// the parent, because a parent span ends after its children, and a campaign ends before its
/// leadership.
pub(crate) fn leadership(cx: &Context, epoch: Epoch, caller: &Span) -> Span {
    let span = info_span!(
        parent: caller,
        "leadership",
        election = cx.keys.prefix(),
        candidate = cx.config.name,
        epoch = epoch.get(),
        outcome = tracing::field::Empty,
    );
    span.follows_from(Span::current());
    span
}

/// Returns the span of a renewal. The span contains all requests until the lease is extended or
/// lost.
pub(super) fn renewal(cx: &Context, epoch: Epoch) -> Span {
    debug_span!(
        "renewal",
        election = cx.keys.prefix(),
        candidate = cx.config.name,
        epoch = epoch.get(),
        outcome = tracing::field::Empty,
    )
}

/// Returns the span of one call of the store.
pub(super) fn request(cx: &Context, request: &Request) -> Span {
    let (op, epoch) = match request {
        Request::List(_) => ("list", None),
        Request::Get { epoch, .. } => ("get", epoch.as_ref()),
        Request::Create { epoch, .. } => ("create", Some(epoch)),
        Request::Take { epoch, .. } => ("take", Some(epoch)),
        Request::Renew { epoch, .. } => ("renew", Some(epoch)),
        Request::Seal { epoch, .. } => ("seal", Some(epoch)),
    };
    debug_span!(
        "request",
        election = cx.keys.prefix(),
        candidate = cx.config.name,
        op,
        epoch = epoch.map(|epoch| epoch.get()),
        outcome = tracing::field::Empty,
    )
}

/// Returns the kind of an answer as one word, for logs. The words never change.
pub(super) fn outcome(answer: &Answer) -> &'static str {
    match answer {
        Answer::Done { .. } => "done",
        Answer::Listed(_) => "listed",
        Answer::Found { .. } => "found",
        Answer::NotModified => "not_modified",
        Answer::Missing => "missing",
        Answer::Refused => "refused",
        Answer::Unreadable => "unreadable",
        Answer::Unknown => "unknown",
        Answer::Denied => "denied",
        Answer::Unsafe => "unsafe",
    }
}
