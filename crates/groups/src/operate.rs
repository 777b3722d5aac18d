//! Changes by operators: they add, retire, pin, bar and pause partitions, and end reservations.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::assignment_record::MAX_NAME_BYTES;
use super::config::{check_partitions, refuse};
use super::view::Follower;
use super::{Group, GroupSnapshot};
use crate::protocol::message::News;
use crate::protocol::operation::{Mark, Operation, Refusal};
use crate::protocol::{Assignment, PartitionNumber};
use tenure::{Error, ErrorKind};

/// Number of attempts at a change. An attempt fails if another writer creates the next assignment
/// first.
const ATTEMPTS: usize = 16;

impl Group {
    /// Changes the partitions of the group to these names: adds the missing partitions, and
    /// [retires](Group::retire) all others.
    ///
    /// Added partitions get new numbers. The group must exist: its first member creates it.
    ///
    /// Each call that changes a group costs 3 LIST, 1 GET, 1 PUT, and 1 GET for each session. Each
    /// time another writer creates the next assignment first, the call costs a GET, a PUT and a
    /// LIST more. The call retries transient errors a few times.
    ///
    /// # Errors
    /// If [`may_have_happened`](Error::may_have_happened) is true for an error of any kind, the
    /// change may have taken effect or may take effect later: call again. If it is false, nothing
    /// was written.
    /// - [`InvalidInput`](tenure::ErrorKind::InvalidInput): a name or the size of the group is out
    ///   of bounds, or the group or a partition does not exist. The error can also mean that a
    ///   retiring partition still has one of the names: call again once
    ///   [`snapshot`](Group::snapshot) no longer shows that partition.
    /// - [`Unavailable`](tenure::ErrorKind::Unavailable): the store did not answer 16 writes, or
    ///   other writers created the next assignment first 16 times: call again. Or a restore of the
    ///   group is unfinished: call again after the restore.
    /// - [`NewestDeleted`](tenure::ErrorKind::NewestDeleted): a member has seen a greater
    ///   assignment, which a person or a program deleted.
    /// - The errors of [`snapshot`](Group::snapshot).
    pub async fn resize<I>(&self, names: I) -> Result<GroupSnapshot, Error>
    where
        I: IntoIterator,
        I::Item: ToString,
    {
        let names: Vec<Arc<str>> = names.into_iter().map(|name| name.to_string().into()).collect();
        check_partitions(&names)?;
        let wanted: BTreeSet<&str> = names.iter().map(|name| &**name).collect();
        self.change(|now| {
            // A retiring partition counts as missing, so its name is added again. This addition is
            // refused until the partition is removed.
            let stay = now.partitions.iter().filter(|it| !it.marks.retiring);
            let there: BTreeSet<&str> = stay.map(|it| &*it.name).collect();
            let missing = names.iter().filter(|name| !there.contains(&***name));
            let beyond = now.partitions.iter().filter(|it| !wanted.contains(&*it.name));
            let beyond = beyond.map(|it| it.number).collect();
            Ok(vec![
                Operation::Add(missing.cloned().collect()),
                Operation::Mark(beyond, Mark::Retiring),
            ])
        })
        .await
    }

    /// Retires these partitions: their owners release them, and then the group removes them. This
    /// change is final. If the same name is added later, the new partition has another number.
    ///
    /// # Errors
    /// The errors of [`resize`](Group::resize).
    pub async fn retire(&self, names: &[&str]) -> Result<GroupSnapshot, Error> {
        self.mark(names, Mark::Retiring).await
    }

    /// Pins these partitions: only members of this name may own them from now on. `None` removes
    /// the pin.
    ///
    /// # Errors
    /// The errors of [`resize`](Group::resize).
    pub async fn pin(&self, names: &[&str], member: Option<&str>) -> Result<GroupSnapshot, Error> {
        check_member(member)?;
        self.mark(names, Mark::Pinned(member.map(Arc::from))).await
    }

    /// Bars members of this name from these partitions from now on. `None` removes the bar.
    ///
    /// # Errors
    /// The errors of [`resize`](Group::resize).
    pub async fn bar(&self, names: &[&str], member: Option<&str>) -> Result<GroupSnapshot, Error> {
        check_member(member)?;
        self.mark(names, Mark::Barred(member.map(Arc::from))).await
    }

    /// Pauses these partitions: their owners release them, and no member owns them until a call
    /// with `paused` = `false`.
    ///
    /// # Errors
    /// The errors of [`resize`](Group::resize).
    pub async fn pause(&self, names: &[&str], paused: bool) -> Result<GroupSnapshot, Error> {
        self.mark(names, Mark::Paused(paused)).await
    }

    /// Ends the reservations that a member made for these partitions by
    /// [`leave_for`](Group::leave_for). From now on, any member may own these partitions.
    /// Partitions without a reservation do not change.
    ///
    /// # Errors
    /// The errors of [`resize`](Group::resize).
    pub async fn unreserve(&self, names: &[&str]) -> Result<GroupSnapshot, Error> {
        self.change_each(names, Operation::Unreserve).await
    }

    async fn mark(&self, names: &[&str], mark: Mark) -> Result<GroupSnapshot, Error> {
        self.change_each(names, |numbers| Operation::Mark(numbers, mark.clone())).await
    }

    /// Looks up the partitions with these names at the first attempt. Later attempts use the
    /// numbers of these partitions, because another operator may retire a partition and add a new
    /// one with the same name between two attempts.
    async fn change_each(
        &self,
        names: &[&str],
        operation: impl Fn(Vec<PartitionNumber>) -> Operation,
    ) -> Result<GroupSnapshot, Error> {
        let mut operations = None;
        self.change(|now| {
            if operations.is_none() {
                operations = Some(vec![operation(numbers(now, names)?)]);
            }
            Ok(operations.clone().unwrap_or_default())
        })
        .await
    }

    async fn change(
        &self,
        operations: impl FnMut(&Assignment) -> Result<Vec<Operation>, Error>,
    ) -> Result<GroupSnapshot, Error> {
        self.cx.require_timers()?;
        let mut follower = Follower::new(&self.cx);
        follower.drive(false).await?;
        let changed = self.attempt(&mut follower, operations).await;
        changed.map_err(|error| follower.objects.after_creates(error))
    }

    async fn attempt(
        &self,
        follower: &mut Follower,
        mut operations: impl FnMut(&Assignment) -> Result<Vec<Operation>, Error>,
    ) -> Result<GroupSnapshot, Error> {
        follower.expect_what_sessions_saw().await?;
        for _ in 0..ATTEMPTS {
            let before = follower.objects.may_have_created;
            let Some(known) = follower.reader.known().cloned() else {
                let (prefix, store) = (self.cx.prefix(), self.cx.place());
                return refuse(format!(
                    "there is no group at {prefix:?} in {store}: its first member creates it"
                ));
            };
            let nonce = self.cx.nonce();
            let all = operations(&known)?;
            let next = Operation::apply_all(&all, &known, nonce);
            let Some(next) = next.map_err(refused)? else {
                return Ok(GroupSnapshot::of(Some(&known)));
            };
            check_partitions(
                &next.partitions.iter().map(|it| it.name.clone()).collect::<Vec<_>>(),
            )?;
            if all.iter().any(Operation::grows) {
                follower.objects.check_owned(&next)?;
            }
            let own = next.clone();
            follower.reader.create(next);
            let news = follower.drive(false).await?;
            if news == Some(News::GivenUp) {
                return Err(follower.failed());
            }
            let now = follower.reader.known().cloned();
            // Each attempt to create the assignment has its own nonce, so compare without the
            // nonces.
            let same = |now: &Arc<Assignment>| now.same_but_for_the_nonce(&own);
            if news == Some(News::Confirmed) && now.as_ref().is_some_and(same) {
                return Ok(GroupSnapshot::of(now.as_ref()));
            }
            if now.is_some_and(|now| now.epoch == own.epoch) {
                // Another writer's assignment has this number, so this process's assignment does
                // not exist.
                follower.objects.may_have_created = before;
            }
        }
        let why = "other writers created the next assignment first at each attempt; try again";
        Err(Error::new(ErrorKind::Unavailable, why))
    }
}

fn numbers(now: &Assignment, names: &[&str]) -> Result<Vec<PartitionNumber>, Error> {
    let number = |name: &&str| {
        let found = now.partitions.iter().find(|it| *it.name == **name);
        found.map(|it| it.number).ok_or_else(|| no_such(name))
    };
    names.iter().map(number).collect()
}

pub(super) const UNFINISHED: &str = "an operator restores the group: no partition is assigned or \
    changed until the restore finishes. If it was interrupted, run `tenure group restore` again \
    with its epoch";

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Retires(name) => {
            let why = format!(
                "the partition {name:?} is retiring: add it again once its owner has released \
                 it and the group has removed it"
            );
            Error::new(ErrorKind::InvalidInput, why)
        }
        Refusal::NameTaken(name) => {
            let why = format!("two partitions would have the name {name:?}");
            Error::new(ErrorKind::InvalidInput, why)
        }
        Refusal::NoSuchPartition(PartitionNumber(number)) => no_such(&number.to_string()),
        Refusal::Restoring => Error::new(ErrorKind::Unavailable, UNFINISHED),
        Refusal::Exhausted => Error::new(
            ErrorKind::EpochsExhausted,
            "the numbers of assignments or partitions are used up",
        ),
    }
}

/// Refuses a name that no member can have, because a pin or a bar with this name would only make
/// the assignment longer.
fn check_member(name: Option<&str>) -> Result<(), Error> {
    match name.map(str::len) {
        None | Some(1..=MAX_NAME_BYTES) => Ok(()),
        Some(length) => {
            refuse(format!("the member's name must have 1 to {MAX_NAME_BYTES} bytes, got {length}"))
        }
    }
}

fn no_such(name: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("the group has no partition {name:?}"))
}
