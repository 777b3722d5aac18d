//! The settings of a group.

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
///         .name("worker-7") // a restart keeps the name
///         .partitions(0..64) // used if this member creates the group
///         .weight(2) // twice the partitions of a member of weight 1
///         .validity(Duration::from_secs(10)) // the partitions of a dead member move after about 10 s
/// };
/// assert!(builder().build().is_ok());
/// let error = builder().partitions(["eu", "us", "eu"]).build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput); // two partitions have the name "eu"
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct GroupBuilder {
    /// Settings of the session: its lease, name, intervals and retries.
    election: ElectionBuilder,
    data: Value,
    partitions: Vec<Arc<str>>,
    weight: u32,
    rebalance_delay: Duration,
    assignor: Arc<dyn Assignor>,
    revocation_deadline: Option<Duration>,
    leave_when_overdue: bool,
}

/// Checked settings.
#[derive(Debug)]
pub(super) struct GroupConfig {
    /// Validity of this member's session.
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

    /// Returns whether another assignor plans the group (GC9). If so, this process moves no owned
    /// partition, because the two assignors would move partitions back and forth.
    pub(super) fn differs(&self, known: &Assignment) -> bool {
        !known.assignor.is_empty() && *known.assignor != *self.assignor.name()
    }

    /// Logs a warning if the group has other partitions than these settings, because the partitions
    /// in the settings have an effect only for a new group.
    pub(super) fn compare_partitions(&self, group: &str, known: &Assignment) {
        let remaining = known.partitions.iter().filter(|it| !it.marks.retiring);
        let existing: BTreeSet<_> = remaining.map(|it| &it.name).collect();
        let absent = self.partitions.iter().filter(|it| !existing.contains(it)).count();
        let others = existing.len() + absent - self.partitions.len();
        if !self.partitions.is_empty() && absent + others > 0 {
            tracing::warn!(
                group,
                "the group lacks {absent} of the {} partitions of this member, and has {others} that \
                 this member does not name. Only `tenure group resize` changes a group",
                self.partitions.len()
            );
        }
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

    /// Sets the display name of this member, 1 to 256 bytes. Give each process a different name
    /// that a restart does not change: partitions are pinned and reserved by name. Default: the
    /// host's name and the process id.
    pub fn name(mut self, name: impl Into<String>) -> GroupBuilder {
        self.election = self.election.name(name);
        self
    }

    /// Sets whether the caller asserts that no two living processes have this name, and that the
    /// work of a dead process has ended. This work includes the work in processes that the dead
    /// process started. With this assertion, a joining process immediately ends the session of a
    /// dead process with its name, and gets the partitions of that process. Without the assertion,
    /// the group waits until the session of the dead process lapses. If the assertion is wrong, two
    /// members may believe that they own the same partition. A join costs one GET and one PUT more
    /// for each dead process with this name that the newest assignment still names. Default: false.
    pub fn name_is_unique(mut self, unique: bool) -> GroupBuilder {
        self.election = self.election.name_is_unique(unique);
        self
    }

    /// Sets the names of the partitions of a new group, such as `0..64`. At most 100,000 names are
    /// allowed, each of 1 to 256 bytes. All members must set the same names. An existing group
    /// keeps its partitions. [`resize`](Group::resize) changes them. A member without this setting
    /// creates no group: it waits until another member has created the group. Default: none.
    pub fn partitions<I>(mut self, names: I) -> GroupBuilder
    where
        I: IntoIterator,
        I::Item: ToString,
    {
        self.partitions = names.into_iter().map(|name| name.to_string().into()).collect();
        self
    }

    /// Sets the data that this member publishes for [`observe`](Group::observe), such as its
    /// address. The data is any JSON of at most about 44 KiB. Each assignment repeats the data.
    /// Default: null.
    pub fn data(mut self, data: impl Into<Value>) -> GroupBuilder {
        self.data = data.into();
        self
    }

    /// Sets the weight of this member, at least 1. A member gets partitions in proportion to its
    /// weight. Default: 1.
    pub fn weight(mut self, weight: u32) -> GroupBuilder {
        self.weight = weight;
        self
    }

    /// Sets how long the session of this member lasts without a renewal, from 100 ms to 1 h, in
    /// whole milliseconds. After a member dies, other members own its partitions after about this
    /// time and two polls of the coordinator. Any member may be the coordinator, and the group
    /// replaces a dead coordinator only after the validity of its session. So one member with a
    /// long validity can delay the whole group. Default: 30 s.
    pub fn validity(mut self, validity: Duration) -> GroupBuilder {
        self.election = self.election.validity(validity);
        self
    }

    /// Sets the interval between the renewals of this member's session. Each renewal is one PUT.
    /// The bounds are the same as for [elections](tenure::ElectionBuilder::renew_interval).
    /// Default: validity / 3.
    pub fn renew_interval(mut self, interval: Duration) -> GroupBuilder {
        self.election = self.election.renew_interval(interval);
        self
    }

    /// Sets the interval between the polls of this member for a new assignment, from 10 ms to the
    /// validity. Each poll is one GET. The coordinator also lists the sessions, with one LIST per
    /// poll. Default: validity / 6.
    pub fn poll_interval(mut self, interval: Duration) -> GroupBuilder {
        self.election = self.election.poll_interval(interval);
        self
    }

    /// Sets the total timeout of each request, from 10 ms to a fifth of the validity. Default: a
    /// fifth of the validity.
    pub fn request_timeout(mut self, timeout: Duration) -> GroupBuilder {
        self.election = self.election.request_timeout(timeout);
        self
    }

    /// Sets the greatest relative difference between the clock rates of any two machines, from 0 to
    /// 0.5. Default: 0.01.
    pub fn clock_drift_max(mut self, ratio: f64) -> GroupBuilder {
        self.election = self.election.clock_drift_max(ratio);
        self
    }

    /// Sets whether the caller asserts that the machine is never paused from outside. [The same
    /// setting of elections](tenure::ElectionBuilder::machine_is_never_paused) has the details.
    /// Default: false.
    pub fn machine_is_never_paused(mut self, never: bool) -> GroupBuilder {
        self.election = self.election.machine_is_never_paused(never);
        self
    }

    /// Sets how long the coordinator collects joining members, at most 1 h, so that a rollout
    /// causes one rebalance. This delay does not apply to the partitions of a dead member. Default:
    /// 1 s.
    pub fn rebalance_delay(mut self, delay: Duration) -> GroupBuilder {
        self.rebalance_delay = delay;
        self
    }

    /// Sets the assignor, which chooses the owner of each partition. All members must set the same
    /// assignor. Default: [`StickyAssignor`].
    pub fn assignor(mut self, assignor: impl Assignor) -> GroupBuilder {
        self.assignor = Arc::new(assignor);
        self
    }

    /// Sets how long the work of [`run`](Group::run) on a partition may take to return after the
    /// signal to stop, at most 24 h. Work that takes longer is reported by a log event of the level
    /// ERROR, and by the metric `tenure_group_overdue`. The partition moves only after its work has
    /// returned. Default: the validity.
    pub fn revocation_deadline(mut self, deadline: Duration) -> GroupBuilder {
        self.revocation_deadline = Some(deadline);
        self
    }

    /// Sets whether this member leaves the group once work of [`run`](Group::run) is overdue
    /// ([`revocation_deadline`](GroupBuilder::revocation_deadline)). The member then stops the work
    /// on all partitions, and releases each partition once its work returns. Once only overdue work
    /// remains, the member stops its renewals. When the session lapses, the partitions of the
    /// overdue work move although this work still runs. The guarded resources must refuse the lower
    /// tokens of the overdue work. The process joins again once all work has returned. Default:
    /// false.
    pub fn leave_when_overdue(mut self, leave: bool) -> GroupBuilder {
        self.leave_when_overdue = leave;
        self
    }

    /// Sets whether the first join checks that the store has the guarantees that the protocol
    /// requires. The check sends 5 requests, like the check of
    /// [elections](tenure::ElectionBuilder::check_store). Default: true.
    pub fn check_store(mut self, check: bool) -> GroupBuilder {
        self.election = self.election.check_store(check);
        self
    }

    /// Sets how long [`join`](Group::join), [`run`](Group::run) and [`observe`](Group::observe)
    /// retry while the store denies access or does not exist
    /// ([`AccessDenied`](tenure::ErrorKind::AccessDenied),
    /// [`NoSuchStore`](tenure::ErrorKind::NoSuchStore)), as during a rotation of keys. The time
    /// counts from the first denial. `None` retries without a limit and is for services. Zero
    /// returns the first denial as an error. If the metadata service of the machine has no
    /// credentials, the time is at least 60 s. Default: 10 s. The same time applies if a store that
    /// has answered before rejects a request as [invalid](tenure::ErrorKind::InvalidInput) or
    /// [unsupported](tenure::ErrorKind::UnsafeStore). Such a response may come from another server
    /// in place of the store, such as a proxy.
    ///
    /// The attempts are up to 5 s apart. The log contains only the first of several consecutive
    /// failures. A member with a session retries without a limit.
    pub fn retry_denied(mut self, during: impl Into<Option<Duration>>) -> GroupBuilder {
        self.election = self.election.retry_denied(during);
        self
    }

    /// Sets the source of time and random numbers, for simulations and tests. Default:
    /// [`Process::system`].
    pub fn process(mut self, process: Process) -> GroupBuilder {
        self.election = self.election.process(process);
        self
    }

    /// Checks the settings and returns the group.
    ///
    /// # Errors
    /// [`InvalidInput`](tenure::ErrorKind::InvalidInput) if a setting is out of bounds. The message
    /// has the value and the bounds. This method sends no request.
    pub fn build(self) -> Result<Group, Error> {
        let cx = Arc::new(self.election.numbered(ASSIGNMENT, &SESSION)?);
        // The check of the prefix covers only the keys of assignments. The keys of sessions are
        // longer, so check the length of one of them, too.
        let session = SessionId::from_bits(0);
        cx.single_object(&session_key("", session), seen_alone)?;
        let validity = cx.validity();
        if validity > MAX_VALIDITY {
            return refuse(format!(
                "validity must be at most {MAX_VALIDITY:?} in a group, got {validity:?}"
            ));
        }
        if self.rebalance_delay > MAX_VALIDITY {
            let delay = self.rebalance_delay;
            return refuse(format!(
                "rebalance_delay must be at most {MAX_VALIDITY:?}, got {delay:?}"
            ));
        }
        if let Some(deadline) = self.revocation_deadline.filter(|it| *it > MAX_DEADLINE) {
            return refuse(format!(
                "revocation_deadline must be at most {MAX_DEADLINE:?}, got {deadline:?}"
            ));
        }
        if self.weight == 0 {
            return refuse("weight must be at least 1, got 0".to_owned());
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
                "the data of this member must take at most {most} bytes in its session, got \
                 {length}: the other bytes are for releases"
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

/// Refuses invalid names of partitions, and too many partitions.
pub(super) fn check_partitions(names: &[Arc<str>]) -> Result<(), Error> {
    if names.len() > MAX_PARTITIONS {
        let many = names.len();
        return refuse(format!("a group has at most {MAX_PARTITIONS} partitions, got {many}"));
    }
    let mut taken = BTreeSet::new();
    for name in names {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return refuse(format!(
                "the partition's name {name:?} must have 1 to {MAX_NAME_BYTES} bytes and no \
                 control characters"
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

// `Debug` is not derived, because a log must not contain the data of a member.
impl fmt::Debug for GroupBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupBuilder")
            .field("election", &self.election)
            .field("partitions", &self.partitions.len())
            .finish_non_exhaustive()
    }
}
