//! The settings of a group, one call each.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use super::ASSIGNMENT;
use super::Group;
use super::assignment_record::{MAX_NAME_BYTES, MAX_VALIDITY};
use super::objects::Objects;
use super::session_data::{self, MAX_SAID_BYTES, Said, seen_alone};
use super::session_record::session_key;
use super::telemetry::{SESSION, describe};
use crate::protocol::assignor::{Assignor, StickyAssignor};
use crate::protocol::{Assignment, SessionId};
use tenure::internals::groups::Nonce;
use tenure::{Election, ElectionBuilder, Error, ErrorKind, Process, Store};

const DEFAULT_REBALANCE_DELAY: Duration = Duration::from_secs(1);
const MAX_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_PARTITIONS: usize = 100_000;

/// Settings of a [`Group`]. [`build`](GroupBuilder::build) checks that they fit together.
/// No method sends a request.
///
/// # Examples
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use tenure::{ErrorKind, store::MemoryStore};
/// # use tenure_groups::Group;
/// # let store = Arc::new(MemoryStore::new());
/// let builder = || {
///     Group::builder(store.clone(), "orders")
///         .name("worker-7") // the same after a restart
///         .partitions(0..64) // of the group that the first member creates
///         .weight(2) // takes twice as many as a member of weight 1
///         .validity(Duration::from_secs(10)) // the partitions of a dead member move then
/// };
/// assert!(builder().build().is_ok());
/// let error = builder().partitions(["eu", "us", "eu"]).build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput); // two partitions have the name "eu"
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct GroupBuilder {
    /// The settings of the lease.
    election: ElectionBuilder,
    data: Value,
    partitions: Vec<Arc<str>>,
    weight: u32,
    rebalance_delay: Duration,
    assignor: Arc<dyn Assignor>,
    revocation_deadline: Option<Duration>,
    leave_when_overdue: bool,
}

/// Settings that fit together.
#[derive(Debug)]
pub(super) struct GroupConfig {
    /// How long the session of this member lasts without a renewal.
    pub(super) validity: Duration,
    pub(super) partitions: Vec<Arc<str>>,
    pub(super) said: Said,
    pub(super) rebalance_delay: Duration,
    pub(super) assignor: Arc<dyn Assignor>,
    pub(super) revocation_deadline: Duration,
    pub(super) leave_when_overdue: bool,
}

impl GroupConfig {
    pub(super) fn validity(&self) -> Duration {
        self.validity
    }

    /// Whether the group is planned by another assignor than this process has: then it moves no
    /// partition that has an owner, as the two would move it to and fro.
    pub(super) fn differs(&self, known: &Assignment) -> bool {
        !known.assignor.is_empty() && *known.assignor != *self.assignor.name()
    }
}

impl GroupBuilder {
    pub(super) fn new(store: Arc<dyn Store>, prefix: String) -> GroupBuilder {
        GroupBuilder {
            election: Election::builder(store, prefix),
            data: Value::Null,
            partitions: Vec::new(),
            weight: 1,
            rebalance_delay: DEFAULT_REBALANCE_DELAY,
            assignor: Arc::new(StickyAssignor),
            revocation_deadline: None,
            leave_when_overdue: false,
        }
    }

    /// Sets the display name of this member, 1 to 256 bytes. Give each process a name of its own
    /// that outlasts a restart: partitions are pinned and kept by name. Default: the host's name
    /// and the process id.
    pub fn name(mut self, name: impl Into<String>) -> GroupBuilder {
        self.election = self.election.name(name);
        self
    }

    /// The caller asserts that no two living processes have this name, and that the work of one
    /// that died has ended, also what runs in processes that it started. A process that joins then
    /// ends the session of its predecessor at once instead of waiting for the lapse, and gets back
    /// what that owned: that at most one member believes that it owns a partition depends on this
    /// promise, too. One GET and one PUT more. Default: false.
    pub fn name_is_unique(mut self, unique: bool) -> GroupBuilder {
        self.election = self.election.name_is_unique(unique);
        self
    }

    /// Sets the names of the partitions that the group is created with, such as `0..64`: at most
    /// 100,000 of 1 to 256 bytes each. All members give the same. A group that exists keeps its
    /// own: [`resize`](Group::resize) changes them. Default: none.
    pub fn partitions<I>(mut self, names: I) -> GroupBuilder
    where
        I: IntoIterator,
        I::Item: ToString,
    {
        self.partitions = names.into_iter().map(|name| name.to_string().into()).collect();
        self
    }

    /// Sets what this member says of itself, for [`observe`](Group::observe), such as its address:
    /// any JSON, at most some 44 KiB; it is repeated in each assignment. Default: nothing.
    pub fn data(mut self, data: impl Into<Value>) -> GroupBuilder {
        self.data = data.into();
        self
    }

    /// Sets how many shares of the partitions this member takes; at least 1. Default: 1.
    pub fn weight(mut self, weight: u32) -> GroupBuilder {
        self.weight = weight;
        self
    }

    /// Sets how long the session of this member lasts without a renewal: 100 ms to 1 h, in whole
    /// milliseconds. After a member dies, its partitions are owned by others after about this time
    /// and two polls of the coordinator, whichever member that is: if members of one group differ,
    /// a long validity of one slows down all. Default: 30 s.
    pub fn validity(mut self, validity: Duration) -> GroupBuilder {
        self.election = self.election.validity(validity);
        self
    }

    /// Sets how often the session is renewed: one PUT each. As for
    /// [elections](tenure::ElectionBuilder::renew_interval). Default: validity / 3.
    pub fn renew_interval(mut self, interval: Duration) -> GroupBuilder {
        self.election = self.election.renew_interval(interval);
        self
    }

    /// Sets how often this member looks for a new assignment, and as the coordinator at the
    /// sessions: one GET each, and one LIST more for the coordinator; 10 ms to the validity.
    /// Default: validity / 6.
    pub fn poll_interval(mut self, interval: Duration) -> GroupBuilder {
        self.election = self.election.poll_interval(interval);
        self
    }

    /// Sets how long a request may take in total: at least 10 ms; at most, and by default, validity
    /// / 5.
    pub fn request_timeout(mut self, timeout: Duration) -> GroupBuilder {
        self.election = self.election.request_timeout(timeout);
        self
    }

    /// Sets the greatest ratio by which the rates of any two machines' clocks may differ: 0 to 0.5.
    /// Default: 0.01.
    pub fn clock_drift_max(mut self, ratio: f64) -> GroupBuilder {
        self.election = self.election.clock_drift_max(ratio);
        self
    }

    /// The caller asserts that the machine is never paused from outside: as for
    /// [elections](tenure::ElectionBuilder::machine_is_never_paused). Default: false.
    pub fn machine_is_never_paused(mut self, never: bool) -> GroupBuilder {
        self.election = self.election.machine_is_never_paused(never);
        self
    }

    /// Sets how long the coordinator gathers members that join, so that a rollout is one rebalance;
    /// at most 1 h. A death is not waited for. Default: 1 s.
    pub fn rebalance_delay(mut self, delay: Duration) -> GroupBuilder {
        self.rebalance_delay = delay;
        self
    }

    /// Sets what places the partitions. All members give the same. Default: [`StickyAssignor`].
    pub fn assignor(mut self, assignor: impl Assignor) -> GroupBuilder {
        self.assignor = Arc::new(assignor);
        self
    }

    /// Sets how long the work of [`run`](Group::run) on a partition may take to return once it was
    /// told to stop; at most 24 h. Work that takes longer is reported by an event of the level
    /// ERROR and the metric `tenure_group_overdue`: the partition moves only once it returns.
    /// Default: the validity.
    pub fn revocation_deadline(mut self, deadline: Duration) -> GroupBuilder {
        self.revocation_deadline = Some(deadline);
        self
    }

    /// Sets whether this member leaves the group once work of [`run`](Group::run) is overdue
    /// ([`revocation_deadline`](GroupBuilder::revocation_deadline)). It then gives up its other
    /// partitions as their work returns. Once only overdue work is left, it no longer renews its
    /// session: the partitions move when that lapses, although the work still runs, and the guarded
    /// resources must refuse the lower tokens of that work. The process joins again once all
    /// work has returned. Default: false.
    pub fn leave_when_overdue(mut self, leave: bool) -> GroupBuilder {
        self.leave_when_overdue = leave;
        self
    }

    /// Sets whether the first join checks that the store keeps the promises that the protocol
    /// needs: 5 requests, as for [elections](tenure::ElectionBuilder::check_store). Default: true.
    pub fn check_store(mut self, check: bool) -> GroupBuilder {
        self.election = self.election.check_store(check);
        self
    }

    /// Sets for how long [`join`](Group::join), [`run`](Group::run) and
    /// [`observe`](Group::observe) retry while the store denies access or does not exist
    /// ([`AccessDenied`](tenure::ErrorKind::AccessDenied),
    /// [`NoSuchStore`](tenure::ErrorKind::NoSuchStore)), as during a rotation of keys, counted from
    /// the first such answer. `None`: without an end, for services. Zero: the first such answer is
    /// an error. A metadata service of the machine that has no credentials yet gets at least 60 s.
    /// Default: 10 s. A store that has answered before and then calls a request
    /// [invalid](tenure::ErrorKind::InvalidInput) or [unsupported](tenure::ErrorKind::UnsafeStore)
    /// counts alike: something else answers in its place.
    ///
    /// The attempts are up to 5 s apart. The first failure in a row is logged. A member whose
    /// session exists retries without an end.
    pub fn retry_denied(mut self, during: impl Into<Option<Duration>>) -> GroupBuilder {
        self.election = self.election.retry_denied(during);
        self
    }

    /// Sets where time and random numbers come from: for simulations and tests. Default:
    /// [`Process::system`].
    pub fn process(mut self, process: Process) -> GroupBuilder {
        self.election = self.election.process(process);
        self
    }

    /// Checks the settings and returns the group.
    ///
    /// # Errors
    /// [`InvalidInput`](tenure::ErrorKind::InvalidInput), with the numbers. Nothing is sent.
    pub fn build(self) -> Result<Group, Error> {
        let cx = Arc::new(self.election.numbered(ASSIGNMENT, &SESSION)?);
        // The keys of sessions are longer than those of elections, for which prefixes are checked.
        let session = SessionId::from_bits(0);
        cx.single_object(&session_key("", session), seen_alone)?;
        let validity = cx.validity();
        if validity > MAX_VALIDITY {
            return refuse(format!(
                "a validity of {validity:?} is not possible: in a group it is at most \
                 {MAX_VALIDITY:?}"
            ));
        }
        if self.rebalance_delay > MAX_VALIDITY {
            let delay = self.rebalance_delay;
            return refuse(format!(
                "a rebalance_delay of {delay:?} is not possible: it is at most {MAX_VALIDITY:?}"
            ));
        }
        if let Some(deadline) = self.revocation_deadline.filter(|it| *it > MAX_DEADLINE) {
            return refuse(format!(
                "revocation_deadline must be at most {MAX_DEADLINE:?}, got {deadline:?}"
            ));
        }
        if self.weight == 0 {
            return refuse("a weight of 0 is not possible: it is at least 1".to_owned());
        }
        check_partitions(&self.partitions)?;
        let assignor = self.assignor.name();
        if !(1..=MAX_NAME_BYTES).contains(&assignor.len()) || assignor.chars().any(char::is_control)
        {
            return refuse(format!(
                "the assignor's name {assignor:?} must have 1 to {MAX_NAME_BYTES} bytes and no \
                 control characters"
            ));
        }
        let said = Said { weight: self.weight, data: self.data };
        let full = session_data::encode(&[], &Default::default(), &said, 0).0;
        cx.check_data(&full)?;
        let (length, most) = (session_data::written(&full), MAX_SAID_BYTES);
        if length > most {
            return refuse(format!(
                "what this member says of itself takes {length} bytes; it takes at most {most}, so \
                 that releases fit beside it"
            ));
        }
        let first = Assignment::first(Nonce::from_bits(0), self.partitions.clone());
        Objects::new(&cx).check_owned(&first)?;
        let config = GroupConfig {
            validity,
            partitions: self.partitions,
            said,
            rebalance_delay: self.rebalance_delay,
            assignor: self.assignor,
            revocation_deadline: self.revocation_deadline.unwrap_or(validity),
            leave_when_overdue: self.leave_when_overdue,
        };
        let (leave, config) = (Arc::new(watch::Sender::new(None)), Arc::new(config));
        describe();
        let (current, ended, followers) = Default::default();
        Ok(Group { cx, config, leave, current, ended, followers })
    }
}

/// Refuses names that no partitions can have.
pub(super) fn check_partitions(names: &[Arc<str>]) -> Result<(), Error> {
    if names.len() > MAX_PARTITIONS {
        let many = names.len();
        return refuse(format!("{many} partitions are too many: at most {MAX_PARTITIONS}"));
    }
    let mut taken = BTreeSet::new();
    for name in names {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return refuse(format!(
                "the partition's name {name:?} must have 1 to {MAX_NAME_BYTES} bytes and no control \
                 characters"
            ));
        }
        if !taken.insert(name) {
            return refuse(format!("two partitions have the name {name:?}"));
        }
    }
    Ok(())
}

pub(super) fn refuse<T>(why: String) -> Result<T, Error> {
    Err(Error::new(ErrorKind::InvalidInput, why))
}

// By hand, as what a member says of itself must not reach a log.
impl fmt::Debug for GroupBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupBuilder")
            .field("election", &self.election)
            .field("partitions", &self.partitions.len())
            .finish_non_exhaustive()
    }
}
