//! The faults that the test doubles of S3, Cloud Storage and DynamoDB can inject.
//!
//! The method `fault` of a server returns an [`Arming`], which selects the affected requests. Each
//! server supports some of the faults. A server panics when a request meets a fault that it does
//! not support.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use http::request::Parts;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A listing.
    List,
    /// A read of an object.
    Get,
    /// A read of an object's headers.
    Head,
    /// A write of an object.
    Put,
    /// A deletion of one or several objects.
    Delete,
    /// A creation or a lookup of a bucket.
    Bucket,
    /// A creation of a session for a directory bucket of S3.
    Session,
}

/// A fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerFault {
    /// The request has no effect. The response has this status and this error code.
    Answer(u16, &'static str),
    /// The response is 403.
    AccessDenied,
    /// The response is 404, although the bucket exists.
    NoSuchBucket,
    /// The response is 301 with this region in `x-amz-bucket-region`.
    WrongRegion(&'static str),
    /// The response asks the client to slow down: 503 as from S3, or 429 as from Cloud Storage.
    SlowDown,
    /// The response is 409, as after a concurrent write.
    Conflict,
    /// The response is 500 or 503, and the request did not take effect.
    ErrorBefore,
    /// The response is 500 or 503, although the request took effect.
    ErrorAfter,
    /// The connection is closed without a response, and the request did not take effect.
    CutBefore,
    /// The connection is closed without a response, although the request took effect.
    CutAfter,
    /// The connection is closed after half of the response's body.
    TruncatedBody,
    /// The request has no effect. The response is 200 with a web page.
    Html,
    /// The request has no effect. The response is 200 with a line of text.
    Text,
    /// The request has no effect. The response is 200 without a body.
    Empty,
    /// The request takes effect immediately. The response is sent after this delay.
    AnswerLate(Duration),
    /// The response is an immediate 500 or 503, and the request takes effect after this delay.
    ApplyLate(Duration),
    /// The request takes effect and gets its response immediately, and takes effect again after
    /// this delay.
    ApplyAgain(Duration),
    /// The request waits until the test calls `release` of the server, and then takes effect, even
    /// if the client has disconnected.
    Hold,
    /// The request takes effect. The response has no ETag.
    NoEtag,
    /// The request has no effect. The response is 200 with an `<Error>` in the body.
    ErrorBody,
    /// The request takes effect. The response is 200 with an `<Error>` in the body.
    ErrorBodyAfter,
}

#[derive(Clone, Debug)]
struct ArmedFault {
    fault: ServerFault,
    op: Option<Op>,
    key: Option<String>,
    skip: usize,
    left: Option<usize>,
}

/// The faults of one server, in the order in which they were armed. Clones share the faults.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Arc<Mutex<Vec<ArmedFault>>>,
    /// Number of requests that each kind of fault has affected.
    met: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// The description of a fault. The fault is armed when this value is dropped, at the end of the
/// statement. The fault applies to every request that matches the description, until the test calls
/// `clear_faults` of the server.
///
/// ```
/// use tenure_testkit::faults::{ServerFault, Faults, Op};
///
/// let faults = Faults::default();
/// faults.arm(ServerFault::SlowDown).on(Op::Put).key_contains("lock-").after(1).times(1);
/// assert!(faults.meet(Op::Get, "app/lock-1").is_none());
/// assert!(faults.meet(Op::Put, "app/lock-1").is_none(), "the first request passes");
/// assert!(faults.meet(Op::Put, "app/lock-1").is_some());
/// assert!(faults.meet(Op::Put, "app/lock-1").is_none(), "the fault is used up");
/// ```
pub struct Arming {
    faults: Faults,
    rule: Option<ArmedFault>,
}

impl Op {
    /// Returns the kind of a path-style request.
    pub fn of(request: &Parts) -> Op {
        let has = |name: &str| {
            let parts = request.uri.query().unwrap_or("").split('&');
            parts.map(|part| part.split('=').next().unwrap_or("")).any(|part| part == name)
        };
        let of_object = request.uri.path().trim_start_matches('/').contains('/')
            && !request.uri.path().ends_with('/');
        match request.method {
            Method::GET if has("list-type") => Op::List,
            Method::GET if has("session") => Op::Session,
            Method::POST if has("delete") => Op::Delete,
            Method::DELETE => Op::Delete,
            Method::PUT if of_object => Op::Put,
            Method::HEAD if of_object => Op::Head,
            Method::GET if of_object => Op::Get,
            _ => Op::Bucket,
        }
    }
}

impl Faults {
    /// Returns a builder for a fault. The server that owns this value injects the fault into the
    /// requests that the builder selects.
    pub fn arm(&self, fault: ServerFault) -> Arming {
        let rule = ArmedFault { fault, op: None, key: None, skip: 0, left: None };
        Arming { faults: self.clone(), rule: Some(rule) }
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.rules().clear();
    }

    /// Returns the oldest matching fault that does not skip this request and is not used up, if
    /// any.
    pub fn meet(&self, op: Op, key: &str) -> Option<ServerFault> {
        let mut rules = self.rules();
        let fits = |rule: &&mut ArmedFault| {
            rule.left != Some(0)
                && rule.op.is_none_or(|wanted| wanted == op)
                && rule.key.as_ref().is_none_or(|part| key.contains(part))
        };
        for rule in rules.iter_mut().filter_map(|rule| Some(rule).filter(fits)) {
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            rule.left = rule.left.map(|left| left - 1);
            self.count(&rule.fault);
            return Some(rule.fault);
        }
        None
    }

    /// Returns the number of requests that met each kind of fault, by the name of the fault.
    pub fn met(&self) -> BTreeMap<String, usize> {
        self.met.lock().expect("no holder of this lock panics").clone()
    }

    fn count(&self, fault: &ServerFault) {
        let name = format!("{fault:?}");
        let name = name.split('(').next().unwrap_or_default().to_owned();
        *self.met.lock().expect("no holder of this lock panics").entry(name).or_default() += 1;
    }

    fn rules(&self) -> std::sync::MutexGuard<'_, Vec<ArmedFault>> {
        self.rules.lock().expect("no holder of this lock panics")
    }
}

impl Arming {
    /// Limits the fault to requests of this kind.
    pub fn on(self, op: Op) -> Arming {
        self.with(|rule| rule.op = Some(op))
    }

    /// Limits the fault to requests with this text in their key, or in the prefix of their listing.
    pub fn key_contains(self, part: &str) -> Arming {
        self.with(|rule| rule.key = Some(part.to_owned()))
    }

    /// Skips this number of matching requests.
    pub fn after(self, requests: usize) -> Arming {
        self.with(|rule| rule.skip = requests)
    }

    /// Limits the number of requests that meet the fault.
    pub fn times(self, times: usize) -> Arming {
        self.with(|rule| rule.left = Some(times))
    }

    fn with(mut self, change: impl FnOnce(&mut ArmedFault)) -> Arming {
        if let Some(rule) = &mut self.rule {
            change(rule);
        }
        self
    }
}

impl Drop for Arming {
    fn drop(&mut self) {
        self.faults.rules().extend(self.rule.take());
    }
}
