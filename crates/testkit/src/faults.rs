//! The faults of the doubles of S3, Cloud Storage and DynamoDB: for which requests, and how often.
//!
//! The server's `fault` returns an [`Arming`], which says for which requests. Not every fault is
//! one of every server: a server panics at a request that meets one that it does not have.

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
    /// A deletion of one object or of several.
    Delete,
    /// Requests that create or ask for a bucket.
    Bucket,
}

/// A fault that a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerFault {
    /// Not applied; answered with this status and this code.
    Answer(u16, &'static str),
    /// 403.
    AccessDenied,
    /// 404, although the bucket exists.
    NoSuchBucket,
    /// 301 with this region in `x-amz-bucket-region`.
    WrongRegion(&'static str),
    /// 503.
    SlowDown,
    /// 409 `ConditionalRequestConflict`.
    Conflict,
    /// 500, and the request did not take effect.
    ErrorBefore,
    /// 500, although the request took effect.
    ErrorAfter,
    /// The connection is closed without an answer, and the request did not take effect.
    CutBefore,
    /// The connection is closed without an answer, although the request took effect.
    CutAfter,
    /// The connection is closed after half of the answer's body.
    TruncatedBody,
    /// Not applied; 200 with a web page.
    Html,
    /// Not applied; 200 with a line of text.
    Text,
    /// Takes effect at once, but is answered this much later.
    AnswerLate(Duration),
    /// Answered with 500 at once, and takes effect this much later.
    ApplyLate(Duration),
    /// Takes effect and is answered, and takes effect once more this much later.
    ApplyAgain(Duration),
    /// Waits for `release` of the server, and only then takes effect, even if the client has gone.
    Hold,
    /// Takes effect, and is answered without an ETag.
    NoEtag,
    /// Not applied; 200 with an `<Error>` in the body.
    ErrorBody,
    /// Applied; 200 with an `<Error>` in the body.
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

/// The faults of one server, in the order in which they were armed. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Arc<Mutex<Vec<ArmedFault>>>,
    /// How many requests met each kind of fault.
    met: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// A fault that is armed at the end of the statement that describes it: for every request, unless
/// narrowed down, and until `clear_faults` of the server.
///
/// ```
/// use tenure_testkit::faults::{ServerFault, Faults, Op};
///
/// let faults = Faults::default();
/// faults.arm(ServerFault::SlowDown).on(Op::Put).key_contains("lock-").after(1).times(1);
/// assert!(faults.meet(Op::Get, "app/lock-1").is_none());
/// assert!(faults.meet(Op::Put, "app/lock-1").is_none(), "the first passes");
/// assert!(faults.meet(Op::Put, "app/lock-1").is_some());
/// assert!(faults.meet(Op::Put, "app/lock-1").is_none(), "it is used up");
/// ```
pub struct Arming {
    faults: Faults,
    rule: Option<ArmedFault>,
}

impl Op {
    /// The kind of a path-style request.
    pub fn of(request: &Parts) -> Op {
        let has = |name: &str| {
            let parts = request.uri.query().unwrap_or("").split('&');
            parts.map(|part| part.split('=').next().unwrap_or("")).any(|part| part == name)
        };
        let of_object = request.uri.path().trim_start_matches('/').contains('/')
            && !request.uri.path().ends_with('/');
        match request.method {
            Method::GET if has("list-type") => Op::List,
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
    /// Begins the description of a fault.
    pub fn arm(&self, fault: ServerFault) -> Arming {
        let rule = ArmedFault { fault, op: None, key: None, skip: 0, left: None };
        Arming { faults: self.clone(), rule: Some(rule) }
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.rules().clear();
    }

    /// The fault that this request meets, if any: the oldest that fits and is not used up.
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

    /// How many requests met each kind of fault, by its name.
    pub fn met(&self) -> BTreeMap<String, usize> {
        self.met.lock().expect("no step under the lock panics").clone()
    }

    fn count(&self, fault: &ServerFault) {
        let name = format!("{fault:?}");
        let name = name.split('(').next().unwrap_or_default().to_owned();
        *self.met.lock().expect("no step under the lock panics").entry(name).or_default() += 1;
    }

    fn rules(&self) -> std::sync::MutexGuard<'_, Vec<ArmedFault>> {
        self.rules.lock().expect("no step under the lock panics")
    }
}

impl Arming {
    /// Only requests of this kind.
    pub fn on(self, op: Op) -> Arming {
        self.with(|rule| rule.op = Some(op))
    }

    /// Only requests whose key, or prefix in a listing, contains this.
    pub fn key_contains(self, part: &str) -> Arming {
        self.with(|rule| rule.key = Some(part.to_owned()))
    }

    /// Only after so many requests that fit.
    pub fn after(self, requests: usize) -> Arming {
        self.with(|rule| rule.skip = requests)
    }

    /// Only so many times.
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
