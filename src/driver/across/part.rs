//! One store of an election across stores: its request under way, and the knowledge of the store.

mod failing;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::future::{BoxFuture, FutureExt as _, ready};

use crate::driver::link::Link;
use crate::driver::own_epoch::OwnEpoch;
use crate::driver::store_check::check_store;
use crate::driver::{Context, Denial, FAILURES_BEFORE_GIVING_UP, Patience, spans};
use crate::env::moment::Moment;
use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::across::message::AcrossRequest;
use crate::protocol::find::After;
use crate::protocol::message::{Answer, EpochEnd, Request, Sighting};
use crate::record::MAX_READ_BYTES;
use crate::record::listing::{PageOfSet, key_of};
use crate::store::{GetOutcome, Page, PutOutcome, StoreError};
use crate::store::{answer_within, listing_within};

/// Number of keys that one LIST requests.
const PAGE: usize = 1_000;

/// One store, as one campaign, leadership or observer uses it.
pub(super) struct StorePart {
    pub(super) link: Link,
    /// The request under way.
    call: Option<Call>,
    /// A page that waits until the driver knows the set of the stores.
    pub(super) page: Option<PageOfSet>,
    /// The last reading of an epoch object.
    pub(super) sighting: Option<Sighting>,
    /// The epoch of the absent object, and the time of the first read that did not find it.
    pub(super) absent: Option<(Epoch, Moment)>,
    /// End of the pause after a failed request, on the boot clock.
    pub(super) retry_at: Option<Duration>,
    /// Number of consecutive pauses. Pauses also follow answers, if the store refuses each write or
    /// does not count towards the majority.
    pub(super) pauses: u32,
    /// Heartbeat of the last write that counts for the lease.
    pub(super) counted: Option<u64>,
    /// The first heartbeat that carries new data. Renewals are sent early until a write with this
    /// heartbeat counts.
    pub(super) hurries_to: Option<u64>,
    /// The failure of the last request, or the reason why the store does not count.
    pub(super) failure: Option<Error>,
    /// The reason why the last renewal does not count. Successful reads do not clear it.
    pub(super) unrenewed: Option<Error>,
    denial: Denial,
    /// True if a write was denied. Successful reads do not clear it.
    denies_writes: bool,
    /// True if the failure is final, or if the denials have lasted too long (E17).
    pub(super) is_given_up: bool,
    is_checked: bool,
    observes: bool,
}

/// A request under way.
struct Call {
    request: AcrossRequest,
    reply: BoxFuture<'static, Reply>,
}

/// The store's response to a request.
pub(super) enum Reply {
    Page(Result<Page, StoreError>),
    Object(Result<GetOutcome, StoreError>),
    Written(Result<PutOutcome, StoreError>),
    /// The store has not passed its check, so the request was not sent.
    Unchecked(Error),
    /// The request could not be built, and was not sent.
    Unsent,
}

/// A reply in the form that the machine needs.
pub(super) enum Heard {
    Page(PageOfSet),
    Answer(Answer),
}

impl StorePart {
    pub(super) fn new(cx: &Arc<Context>, observes: bool) -> StorePart {
        StorePart {
            link: Link::new(cx, observes),
            call: None,
            page: None,
            sighting: None,
            absent: None,
            retry_at: None,
            pauses: 0,
            counted: None,
            hurries_to: None,
            failure: None,
            unrenewed: None,
            denial: Denial::default(),
            denies_writes: false,
            is_given_up: false,
            is_checked: observes || !cx.config.check_store,
            observes,
        }
    }

    /// Returns true if a request is under way.
    pub(super) fn asks(&self) -> bool {
        self.call.is_some()
    }

    /// Begins a new attempt at this store.
    pub(super) fn begin_attempt(&mut self, at: DateTime<Utc>) {
        self.link.own.forget();
        self.link.own.elects_at(at);
        (self.counted, self.hurries_to) = (None, None);
    }

    /// Keeps the request under way if it equals `request`. Otherwise drops it and sends `request`.
    pub(super) fn ask(&mut self, request: Option<AcrossRequest>) {
        let is_same = self.call.as_ref().map(|call| &call.request) == request.as_ref();
        // The waiting page is the answer to the current request of the machine, so the request is
        // not sent again.
        if is_same || self.page.is_some() {
            return;
        }
        self.call = request.map(|request| Call { reply: self.send(&request), request });
    }

    /// Returns the reply once it has arrived.
    pub(super) fn poll(
        &mut self,
        task: &mut std::task::Context<'_>,
    ) -> std::task::Poll<(AcrossRequest, Reply)> {
        let Some(call) = &mut self.call else { return std::task::Poll::Pending };
        call.reply.poll_unpin(task).map(|reply| {
            let request = self.call.take().expect("the call was polled").request;
            (request, reply)
        })
    }

    /// Returns the future of a request. The body is encoded before the request is sent, so the
    /// lease starts before the write (L1).
    fn send(&mut self, request: &AcrossRequest) -> BoxFuture<'static, Reply> {
        let cx = Arc::clone(&self.link.cx);
        let limit = cx.config.request_timeout;
        let (store, process) = (Arc::clone(&cx.store), cx.process.clone());
        let call = match request {
            AcrossRequest::Plain(Request::List(after)) => {
                let start = key_of(&cx.keys, after);
                let prefix = cx.keys.epoch_prefix().to_owned();
                let list = async move {
                    let page = store.list(&prefix, &start, PAGE);
                    Reply::Page(listing_within(&process, limit, page).await)
                };
                list.boxed()
            }
            AcrossRequest::Plain(Request::Get { epoch, unless }) => {
                let key = self.link.key(epoch.unwrap_or(Epoch::FIRST));
                let unless = unless.clone();
                let get = async move {
                    let call = store.get(&key, unless, MAX_READ_BYTES);
                    Reply::Object(answer_within(&process, limit, call).await)
                };
                get.boxed()
            }
            write => {
                let Some((epoch, body, etag)) = self.body(write) else {
                    return ready(Reply::Unsent).boxed();
                };
                let key = self.link.key(epoch);
                let put = async move {
                    let put = match etag {
                        Some(etag) => store.replace(&key, body, etag),
                        None => store.create(&key, body),
                    };
                    Reply::Written(answer_within(&process, limit, put).await)
                };
                put.boxed()
            }
        };
        if self.is_checked {
            return call;
        }
        async move {
            match check_store(&cx, Patience::Once).await {
                Ok(()) => call.await,
                Err(error) => Reply::Unchecked(error),
            }
        }
        .boxed()
    }

    /// Returns the epoch and the body of a write, and the ETag that it replaces.
    fn body(
        &mut self,
        request: &AcrossRequest,
    ) -> Option<(Epoch, bytes::Bytes, Option<crate::store::ETag>)> {
        let plain = match request {
            AcrossRequest::Placeholder { epoch } => {
                let record = self.link.cx.config.blank();
                let sealed = self.link.cx.sealed(&record, EpochEnd::Lapsed, 1);
                return Some((*epoch, self.link.encode(*epoch, &sealed), None));
            }
            AcrossRequest::Plain(plain) => plain,
        };
        match plain {
            Request::Create { epoch, write } => {
                let body = self.link.own_body(*epoch, write, OwnEpoch::first_record);
                Some((*epoch, body, None))
            }
            Request::Renew { epoch, etag, write } => {
                let body = self.link.own_body(*epoch, write, OwnEpoch::renewed_record);
                Some((*epoch, body, Some(etag.clone())))
            }
            Request::Seal { epoch, etag, nonce, heartbeat, ended } => {
                let body = self.link.sealed_body(*epoch, *nonce, *heartbeat, *ended)?;
                Some((*epoch, body, Some(etag.clone())))
            }
            Request::List(_) | Request::Get { .. } | Request::Take { .. } => None,
        }
    }

    /// Converts the reply to a request, and counts its outcome.
    pub(super) fn take(&mut self, request: &AcrossRequest, reply: Reply) -> Heard {
        let now = self.link.cx.process.now();
        self.link.requests.polled = now.boot;
        let answer = match (request, reply) {
            (_, Reply::Unchecked(error)) => {
                self.link.cx.failing(&error);
                self.link.requests.last_error = Some(error);
                // The check has already made several attempts, so its failure counts as several
                // failures.
                for _ in 1..FAILURES_BEFORE_GIVING_UP {
                    self.link.requests.count(&Answer::Denied);
                }
                self.fails(&Answer::Denied);
                return Heard::Answer(Answer::Unknown);
            }
            (AcrossRequest::Plain(Request::List(after)), Reply::Page(page)) => {
                match self.page_of(after, page) {
                    Ok(page) => {
                        self.answered(&Answer::NotModified);
                        return Heard::Page(page);
                    }
                    Err(answer) => answer,
                }
            }
            (AcrossRequest::Plain(Request::Get { epoch, .. }), Reply::Object(read)) => {
                self.read(*epoch, read)
            }
            (write, Reply::Written(outcome)) => self.written(write, outcome),
            _ => Answer::Unknown,
        };
        self.is_checked = true;
        let reads = matches!(request, AcrossRequest::Plain(Request::List(_) | Request::Get { .. }));
        if !reads {
            self.denies_writes = answer == Answer::Denied;
        }
        tracing::trace!(outcome = spans::outcome(&answer), "a store has answered");
        match answer {
            Answer::Unknown | Answer::Denied | Answer::Unsafe | Answer::Unreadable => {
                self.fails(&answer);
            }
            _ => self.answered(&answer),
        }
        Heard::Answer(answer)
    }

    fn page_of(
        &mut self,
        after: &After,
        page: Result<Page, StoreError>,
    ) -> Result<PageOfSet, Answer> {
        let keys = &self.link.cx.keys;
        let page = page.and_then(|page| PageOfSet::of(keys, after, &page));
        page.map_err(|error| self.link.requests.failed("listing the epochs", error.of_a_read()))
    }

    fn read(&mut self, epoch: Option<Epoch>, read: Result<GetOutcome, StoreError>) -> Answer {
        let answer = self.link.read(epoch, read);
        match (&answer, epoch) {
            (Answer::Found { sighting, .. }, _) => {
                if self.sighting.as_ref().map(|it| it.epoch) != Some(sighting.epoch) {
                    self.link.followed.started();
                    // The losers of a race must not poll at the same time.
                    let cx = &self.link.cx;
                    let early = cx.process.jitter(cx.config.poll_interval);
                    self.link.requests.polled = self.link.requests.polled.saturating_sub(early);
                } else if self.sighting.as_ref().map(|it| &it.etag) != Some(&sighting.etag) {
                    self.link.followed.draw_lapse_jitter(self.link.cx.config.poll_interval);
                }
                self.sighting = Some(sighting.clone());
            }
            (Answer::Missing, Some(epoch)) if self.absent.is_none_or(|(it, _)| it != epoch) => {
                self.absent = Some((epoch, self.link.cx.absent_since(epoch)));
            }
            (Answer::Unreadable, Some(epoch)) => {
                let (key, store) = (self.link.key(epoch), self.link.cx.store.describe());
                let why = self.link.followed.unreadable.as_ref();
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                let message = format!("{key} in {store} cannot be read{why}");
                let kind = self.link.followed.unreadable_kind();
                self.link.requests.last_error = Some(Error::new(kind, message));
            }
            _ => {}
        }
        answer
    }

    fn written(
        &mut self,
        request: &AcrossRequest,
        outcome: Result<PutOutcome, StoreError>,
    ) -> Answer {
        let (doing, epoch) = match request {
            AcrossRequest::Placeholder { epoch } => ("closing", *epoch),
            AcrossRequest::Plain(Request::Create { epoch, .. }) => ("creating", *epoch),
            AcrossRequest::Plain(Request::Renew { epoch, .. }) => ("renewing", *epoch),
            AcrossRequest::Plain(Request::Seal { epoch, .. }) => ("sealing", *epoch),
            AcrossRequest::Plain(_) => return Answer::Unknown,
        };
        let answer = self.link.requests.written(doing, epoch, outcome);
        match (request, &answer) {
            (AcrossRequest::Plain(Request::Renew { .. }), answer) => {
                self.link.cx.meter.renewal(answer);
                self.unrenewed = match answer {
                    Answer::Done { .. } => None,
                    Answer::Refused | Answer::Missing => Some(self.refuses_writes()),
                    _ => self.link.requests.last_error.clone(),
                };
            }
            (AcrossRequest::Plain(Request::Seal { .. }), Answer::Done { .. }) => {
                self.link.followed.sealed_here(epoch);
            }
            _ => {}
        }
        answer
    }

    /// Returns the time since the last reply or poll, or since the start of this driver.
    pub(super) fn since_poll(&self) -> Duration {
        let now = self.link.cx.process.now().boot;
        now.saturating_sub(self.link.requests.polled)
    }

    /// Returns true if the last request to the store was answered.
    pub(super) fn answers(&self) -> bool {
        self.failure.is_none() && self.link.requests.answered.is_some()
    }

    /// Returns true if the store has answered within the last `time`.
    pub(super) fn has_answered_within(&self, time: Duration) -> bool {
        let now = self.link.cx.process.now();
        self.link.requests.answered.is_some_and(|at| now.since(at) <= time)
    }

    /// Returns true if the store has answered since the lease of the followed record lapsed.
    pub(super) fn answered_since_lapse(&self) -> bool {
        let lapsed = |at| self.link.followed.lapses_after(Duration::ZERO, at);
        self.link.requests.answered.is_some_and(|at| lapsed(at) == Some(Duration::ZERO))
    }

    pub(super) fn is_of_observer(&self) -> bool {
        self.observes
    }
}

impl std::fmt::Debug for StorePart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StorePart").field("link", &self.link).finish_non_exhaustive()
    }
}
