//! Faults of the store that last for minutes and affect the session of only one member.

use std::time::Duration;

use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs, wait};

use super::{Fleet, Node, POLL, VALIDITY, balanced};

/// Joins, and returns the key of the session.
async fn with_key(fleet: &Fleet, name: &str) -> (Node, &'static str) {
    let membership = fleet.group(name).join().await.unwrap();
    let key = Box::leak(membership.session().into_boxed_str());
    (Node::of(membership), key)
}

/// Waits until the condition holds. Returns the duration of the wait.
async fn until(within: Duration, holds: impl Fn() -> bool) -> Duration {
    let mut waited = Duration::ZERO;
    while !holds() {
        assert!(waited < within, "the condition did not hold within {within:?}");
        wait(millis(100)).await;
        waited += millis(100);
    }
    waited
}

/// Before the fix, no member joined and no partition of a dead member moved while the reads of one
/// session failed.
#[tokio::test(start_paused = true)]
async fn regression_an_unreadable_session_delays_no_join_and_no_death() {
    for fault in [Fault::FailBefore, Fault::Denied, Fault::Hang] {
        let fleet = Fleet::new(12);
        let [a, c] = [fleet.member("a").await, fleet.member("c").await];
        let (b, key) = with_key(&fleet, "b").await;
        balanced(&[&a, &b, &c], 12, POLL * 8).await;
        fleet.store.on(Call::Get).key(key).always().fault(fault);
        wait(VALIDITY * 2).await;
        let d = fleet.member("d").await;
        // The releases in the session of `b` cannot be read, so `d` gets partitions only from the
        // other members.
        let joined = until(VALIDITY, || d.owned().len() >= 2).await;
        let before = b.owned();
        c.kill();
        let all = || a.owned().len() + b.owned().len() + d.owned().len();
        let died = until(VALIDITY * 2, || all() >= 11).await;
        println!("{fault:?}: a join took {joined:?}, a death {died:?}");
        assert!(joined <= secs(21), "{fault:?}: {joined:?}");
        assert!(died <= secs(47), "{fault:?}: {died:?}");
        assert!(before.iter().all(|(name, token)| b.owned().get(name) == Some(token)));
        fleet.store.heal();
        balanced(&[&a, &b, &d], 12, VALIDITY * 2).await;
    }
}

/// Before the fix, if the session of a dead member could not be sealed, the coordinator granted the
/// dead member half of the partitions of a leaving member. A joining member waited for its
/// partitions for minutes.
#[tokio::test(start_paused = true)]
async fn regression_a_lapsed_unsealed_session_gets_no_partition() {
    for fault in [Fault::FailBefore, Fault::Denied, Fault::Hang] {
        let fleet = Fleet::new(12);
        let [a, c] = [fleet.member("a").await, fleet.member("c").await];
        let (b, key) = with_key(&fleet, "b").await;
        balanced(&[&a, &b, &c], 12, POLL * 8).await;
        b.kill();
        fleet.store.on(Call::Replace).key(key).always().fault(fault);
        wait(VALIDITY * 2).await;
        c.leave();
        until(VALIDITY, || a.owned().len() == 8).await;
        let d = fleet.member("d").await;
        let joined = until(VALIDITY, || !d.owned().is_empty()).await;
        println!("{fault:?}: a join took {joined:?}");
        assert!(joined <= secs(21), "{fault:?}: {joined:?}");
        wait(VALIDITY * 4).await;
        assert_eq!(a.owned().len() + d.owned().len(), 8, "{fault:?}");
        fleet.store.heal();
        balanced(&[&a, &d], 12, POLL * 4).await;
    }
}
