//! Tests of path locks in the work on a partition.

use futures::FutureExt as _;
use serde_json::Value;
use tenure::Loss;
use tenure::store::{GetOutcome, PutOutcome};
use tenure_groups::{Membership, MembershipEvent, Partition};
use tenure_paths::{Access, Path, PathLocks};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{secs, within};

use super::{Fleet, POLL, VALIDITY};

fn write() -> Access {
    Access::to_write(&Path::new("/a").unwrap())
}

async fn granted(membership: &mut Membership) -> Partition {
    match within(VALIDITY * 2, membership.next()).await {
        Some(Some(MembershipEvent::Granted(partition))) => partition,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_ends_the_locks_and_a_revocation_does_not() {
    let fleet = Fleet::new(2);
    let mut membership = fleet.group("a").join().await.unwrap();
    let [first, other] = [granted(&mut membership).await, granted(&mut membership).await];
    let locks = PathLocks::under(&first);
    let guard = locks.lock(write()).await.unwrap();
    assert_eq!((guard.token(), guard.check().is_ok()), (Some(first.token()), true));
    assert!(PathLocks::under(&first).try_lock(write()).unwrap().is_none(), "shared");
    assert!(PathLocks::under(&other).try_lock(write()).unwrap().is_some(), "apart");
    assert!(format!("{locks:?}").contains(&format!("epoch: Some({:?})", first.token())));

    fleet.group("operator").pause(&[first.name()], true).await.unwrap();
    let revoked = within(POLL * 2, membership.next()).await.flatten();
    assert!(matches!(revoked, Some(MembershipEvent::Revoked { .. })), "{revoked:?}");
    let mut waiter = Box::pin(locks.lock(write()));
    assert!(waiter.as_mut().now_or_never().is_none());
    assert!(guard.check().is_ok(), "the work keeps its locks until it stops");

    first.release();
    let waited = waiter.now_or_never().expect("the waiting call ends immediately");
    assert!(matches!(waited, Err(Loss::Resigned)), "{waited:?}");
    assert!(matches!(guard.check(), Err(Loss::Resigned)));
    assert_eq!(guard.token(), None);
    assert!(matches!(locks.try_lock(write()), Err(Loss::Resigned)));
    drop(guard);
    assert_eq!(locks.locked_paths(), 0);
    assert!(PathLocks::under(&other).lock(write()).await.is_ok());
}

/// If a member gets a partition again under a new token, the partition has new path locks, and all
/// of them are free.
#[tokio::test(start_paused = true)]
async fn the_next_ownership_has_other_locks() {
    let fleet = Fleet::new(1);
    let mut membership = fleet.group("a").join().await.unwrap();
    let first = granted(&mut membership).await;
    let guard = PathLocks::under(&first).lock(write()).await.unwrap();
    let token = first.token();
    first.release();
    let next = granted(&mut membership).await;
    let again = PathLocks::under(&next).lock(write()).await.unwrap();
    assert!(again.token() > Some(token));
    assert!(matches!(guard.check(), Err(Loss::Resigned)), "the first guard stays invalid");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_ends_the_locks_and_gives_the_reason() {
    let fleet = Fleet::new(1);
    let mut membership = fleet.group("a").join().await.unwrap();
    let partition = granted(&mut membership).await;
    let locks = PathLocks::under(&partition);
    let guard = locks.lock(write()).await.unwrap();
    fleet.store.on(Call::Replace).always().fault(Fault::Hang);
    let waited = within(VALIDITY + secs(1), locks.lock(write()))
        .await
        .expect("the wait ends with the session");
    assert!(matches!(waited, Err(Loss::LeaseEnded { .. })), "{waited:?}");
    assert!(matches!(guard.check(), Err(Loss::LeaseEnded { .. })));
    assert_eq!(guard.token(), None);
}

/// The assignment of this test takes a partition from an owner that has not released the partition.
/// No member writes such an assignment.
#[tokio::test(start_paused = true)]
async fn an_assignment_that_takes_the_partition_ends_the_locks() {
    let fleet = Fleet::new(1);
    let mut membership = fleet.group("a").join().await.unwrap();
    let partition = granted(&mut membership).await;
    let locks = PathLocks::under(&partition);
    let guard = locks.lock(write()).await.unwrap();
    let epoch = fleet.group("router").snapshot().await.unwrap().epoch.unwrap().get();
    let key = |epoch: u64| format!("app/assignment-{epoch:010}.json");
    let read = fleet.store.inner().get(&key(epoch), None, 1 << 20).await.unwrap();
    let GetOutcome::Found(object) = read else { panic!("{read:?}") };
    let mut forged: Value = serde_json::from_slice(&object.body).unwrap();
    let owner = forged["partitions"][0].as_object_mut().unwrap().remove("owner");
    assert!(owner.is_some(), "{forged}");
    forged["epoch"] = (epoch + 1).into();
    let put = fleet.store.inner().create(&key(epoch + 1), forged.to_string().into()).await;
    assert!(matches!(put, Ok(PutOutcome::Done { .. })));
    let waited =
        within(POLL * 2, locks.lock(write())).await.expect("the wait ends at the next poll");
    assert!(matches!(waited, Err(Loss::Superseded { by }) if by.get() == epoch + 1), "{waited:?}");
    assert!(matches!(guard.check(), Err(Loss::Superseded { .. })));
    let taken = membership.next().await;
    assert!(matches!(taken, Some(MembershipEvent::Taken { .. })), "{taken:?}");
}
