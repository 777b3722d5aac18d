//! Members join, leave and die, and share the partitions.

use std::sync::Arc;
use std::time::Duration;

use tenure::store::{Page, Store, StoreError};
use tenure_groups::MembershipEvent;
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{secs, wait};

use super::{Fleet, Node, POLL, VALIDITY, balanced, owners};

#[tokio::test(start_paused = true)]
async fn one_member_owns_all_partitions() {
    let fleet = Fleet::new(12);
    let node = fleet.member("a").await;
    balanced(&[&node], 12, secs(20)).await;
    assert!(node.owned().values().all(|token| *token == 2), "the first assignment grants nothing");
}

#[tokio::test(start_paused = true)]
async fn joining_members_get_their_share_with_the_fewest_moves() {
    let fleet = Fleet::new(12);
    let a = fleet.member("a").await;
    balanced(&[&a], 12, secs(20)).await;
    let b = fleet.member("b").await;
    balanced(&[&a, &b], 12, POLL * 5).await;
    let before = owners(&[&a, &b]);
    let c = fleet.member("c").await;
    balanced(&[&a, &b, &c], 12, POLL * 5).await;
    let after = owners(&[&a, &b, &c]);
    let moved = after.iter().filter(|(name, owner)| before[*name] != **owner);
    let moved: Vec<_> = moved.map(|(name, (owner, token))| (name, *owner, *token)).collect();
    assert_eq!(moved.len(), 4, "{moved:?}");
    assert!(moved.iter().all(|(name, owner, token)| *owner == 2 && *token > before[*name].1));
}

/// A member reads all owners from its memory, without a request.
#[tokio::test(start_paused = true)]
async fn a_member_knows_all_owners_without_a_request() {
    let fleet = Fleet::new(12);
    let a = fleet.member("a").await;
    balanced(&[&a], 12, secs(20)).await;
    let group = fleet.group("b");
    let b = group.join().await.unwrap();
    assert_eq!(b.last_seen().epoch, None, "the member has read no assignment");
    for _ in 0..600 {
        if b.last_seen().members.len() == 2 {
            break;
        }
        wait(Duration::from_millis(100)).await;
    }
    let newest = group.snapshot().await.unwrap();
    fleet.store.take_calls();
    assert_eq!(b.last_seen(), newest);
    assert!(fleet.store.take_calls().is_empty());
    assert_eq!((newest.members.len(), newest.partitions.len()), (2, 12));
}

/// Maximum time from the death of a member until other members own its partitions. It is the sum of
/// four times. The lease lasts for validity × (1 + drift). A poll sees the last renewal within one
/// poll interval. The new owners poll within another. The last part is for the requests.
const SUCCEEDED: Duration = Duration::from_millis(30_300 + 5_000 + 5_000 + 400);

#[tokio::test(start_paused = true)]
async fn the_partitions_of_a_dead_member_move_after_its_lease() {
    let fleet = Fleet::new(12);
    let [a, b, c] = [fleet.member("a").await, fleet.member("b").await, fleet.member("c").await];
    balanced(&[&a, &b, &c], 12, POLL * 8).await;
    let before = owners(&[&a, &b, &c]);
    c.kill();
    let took = balanced(&[&a, &b], 12, SUCCEEDED).await;
    assert!(took > VALIDITY / 2, "{took:?}");
    let after = owners(&[&a, &b]);
    let moved = after.iter().filter(|(name, (owner, token))| before[*name] != (*owner, *token));
    assert_eq!(moved.count(), 4, "only partitions of the dead member moved");
}

/// The coordinator delays a join for `rebalance_delay`, but not if another member dies during the
/// delay.
#[tokio::test(start_paused = true)]
async fn a_joining_member_takes_over_from_a_dead_member_without_a_delay() {
    let fleet = Fleet::new(6);
    let group = fleet.node("a").rebalance_delay(secs(600)).build().unwrap();
    let a = Node::of(group.join().await.unwrap());
    balanced(&[&a], 6, secs(640)).await;
    let b = fleet.member("b").await;
    balanced(&[&a, &b], 6, secs(640)).await;
    let c = fleet.member("c").await;
    b.kill();
    balanced(&[&a, &c], 6, SUCCEEDED).await;
}

/// If a member dies, the coordinator sends four requests for any number of partitions: a GET, a
/// seal, a create and a confirmation.
#[tokio::test(start_paused = true)]
async fn a_death_costs_four_requests() {
    let fleet = Fleet::new(100);
    // Only the coordinator uses this store, so the store counts only the coordinator's requests.
    let coordinator = FaultStore::new(Arc::new(fleet.store.clone()));
    let group = fleet.node_behind(&coordinator, "a").build().unwrap();
    let a = Node::of(group.join().await.unwrap());
    balanced(&[&a], 100, secs(20)).await;
    let b = fleet.member("b").await;
    balanced(&[&a, &b], 100, POLL * 8).await;
    let named = group.snapshot().await.unwrap();
    let dead = named.members.iter().find(|it| it.name == "b").unwrap().session.clone();
    b.kill();
    // After half of a validity without a renewal, the coordinator reads the session once. Do not
    // count this read, because a slow renewal of a live member also causes it.
    wait(VALIDITY - POLL * 2).await;
    coordinator.take_log();
    balanced(&[&a], 100, VALIDITY).await;
    let log = coordinator.take_log();
    let seal = log.iter().position(|(call, key)| *call == Call::Replace && key.contains(&dead));
    let since = &log[seal.expect("the session is sealed") - 1..];
    let kinds: Vec<_> = since.iter().map(|(call, _)| *call).collect();
    assert_eq!(kinds, [Call::Get, Call::Replace, Call::Create, Call::List], "{log:?}");
    assert!(since[0].1.contains(&dead), "{log:?}");
    let before = log[..log.len() - 4].iter().filter(|(_, key)| key.contains(&dead));
    assert_eq!(before.count(), 0, "{log:?}");
}

/// The first deputy must notice the lapse of a coordinator as early as a coordinator notices the
/// lapse of a member. This must hold even if the store lists no tags. Before the fix, the first
/// deputy waited for two validities, a random delay and several polls.
#[tokio::test(start_paused = true)]
async fn regression_a_dead_coordinator_is_replaced_as_fast_as_any_dead_member() {
    for (tags, after) in [(true, 0), (true, 3), (true, 7), (false, 1), (false, 6)] {
        let fleet = Fleet::new(12);
        let store = match tags {
            true => fleet.store.clone(),
            false => FaultStore::new(Arc::new(Layered(Tagless(fleet.store.clone())))),
        };
        let start = async |name| {
            let group = fleet.node_behind(&store, name).build().unwrap();
            Node::of(group.join().await.unwrap())
        };
        let a = start("a").await;
        balanced(&[&a], 12, secs(20)).await;
        let [b, c] = [start("b").await, start("c").await];
        balanced(&[&a, &b, &c], 12, POLL * 8).await;
        wait(VALIDITY + secs(after)).await;
        a.kill();
        let took = balanced(&[&b, &c], 12, SUCCEEDED).await;
        assert!(took > VALIDITY / 2, "{took:?}");
    }
}

/// A store whose listings contain no tags.
#[derive(Debug)]
struct Tagless(FaultStore);

#[async_trait::async_trait]
impl Layer for Tagless {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let mut page = self.0.list(prefix, after, limit).await?;
        page.entries.iter_mut().for_each(|entry| entry.etag = None);
        Ok(page)
    }
}

#[tokio::test(start_paused = true)]
async fn the_partitions_of_a_leaving_member_move_without_a_wait() {
    let fleet = Fleet::new(12);
    let [a, b, c] = [fleet.member("a").await, fleet.member("b").await, fleet.member("c").await];
    balanced(&[&a, &b, &c], 12, POLL * 8).await;
    b.leave();
    balanced(&[&a, &c], 12, POLL * 4).await;
    let events = b.task.await.unwrap();
    assert_eq!(events, ["Lost(Resigned)"]);
    // Now the coordinator `a` leaves, and `c` takes over.
    a.leave();
    balanced(&[&c], 12, POLL * 5).await;
}

/// In a rolling restart each process leaves with `leave_for` and joins again under its name.
#[tokio::test(start_paused = true)]
async fn a_rolling_restart_moves_no_partition() {
    let fleet = Fleet::new(12);
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(fleet.member(name).await);
    }
    balanced(&nodes.iter().collect::<Vec<_>>(), 12, POLL * 8).await;
    let before = owners(&nodes.iter().collect::<Vec<_>>());
    for (place, name) in ["a", "b", "c"].into_iter().enumerate() {
        let rest = nodes.remove(place);
        rest.leave_for(secs(60));
        assert_eq!(rest.task.await.unwrap(), ["Lost(Resigned)"]);
        wait(secs(7)).await;
        nodes.insert(place, fleet.member(name).await);
        balanced(&nodes.iter().collect::<Vec<_>>(), 12, POLL * 6).await;
        let after = owners(&nodes.iter().collect::<Vec<_>>());
        for (partition, (owner, _)) in &before {
            assert_eq!(after[partition].0, *owner, "{partition} moved when {name} was restarted");
        }
    }
}

/// The member's work on one partition stops long before its work on the other partition. Until all
/// work of the member has stopped, no new assignment is written.
#[tokio::test(start_paused = true)]
async fn leave_for_releases_no_partition_before_the_session_is_resigned() {
    let fleet = Fleet::new(4);
    let a = fleet.member("a").await;
    balanced(&[&a], 4, secs(20)).await;
    let group = fleet.group("b");
    let mut b = group.join().await.unwrap();
    let mut owned = Vec::new();
    while owned.len() < 2 {
        if let Some(MembershipEvent::Granted(partition)) = b.next().await {
            owned.push(partition);
        }
    }
    let before = group.snapshot().await.unwrap();
    b.leave_for(secs(600));
    owned.pop().unwrap().release();
    wait(VALIDITY * 3).await;
    assert_eq!(group.snapshot().await.unwrap(), before);
    owned.pop().unwrap().release();
    wait(POLL * 4).await;
    let after = group.snapshot().await.unwrap();
    assert_eq!(after.partitions.iter().filter(|it| it.owner.is_none()).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn expired_reservations_move() {
    let fleet = Fleet::new(6);
    let [a, b] = [fleet.member("a").await, fleet.member("b").await];
    balanced(&[&a, &b], 6, POLL * 8).await;
    b.leave_for(secs(60));
    wait(secs(50)).await;
    assert_eq!(a.owned().len(), 3);
    balanced(&[&a], 6, secs(40)).await;
}

/// A process with a unique name does not wait for the session of its predecessor, although most of
/// the validity of that session remains.
#[tokio::test(start_paused = true)]
async fn a_unique_name_gets_the_partitions_of_its_predecessor() {
    let fleet = Fleet::new(6);
    let [a, b] = [fleet.member("a").await, fleet.member("b").await];
    balanced(&[&a, &b], 6, POLL * 8).await;
    let before = owners(&[&a, &b]);
    b.kill();
    let again = fleet.node("b").name_is_unique(true).build().unwrap().join().await.unwrap();
    let b = Node::of(again);
    let took = balanced(&[&a, &b], 6, VALIDITY).await;
    assert!(took < POLL * 3, "{took:?}");
    for (partition, (owner, token)) in owners(&[&a, &b]) {
        let (owned, by) = before[&partition];
        assert_eq!(owner, owned, "{partition}");
        assert_eq!(token > by, owner == 1, "{partition}");
    }
}

/// A coordinator that cannot list the sessions still renews its own session. Only its unchanged
/// count of completed rounds shows that it does not plan. A deputy must replace it.
#[tokio::test(start_paused = true)]
async fn regression_a_coordinator_that_cannot_list_is_replaced() {
    let fleet = Fleet::new(6);
    let cut = FaultStore::new(Arc::clone(fleet.store.inner()));
    let group = fleet.node_behind(&cut, "a").build().unwrap();
    let a = Node::of(group.join().await.unwrap());
    balanced(&[&a], 6, secs(20)).await;
    let b = fleet.member("b").await;
    balanced(&[&a, &b], 6, POLL * 8).await;
    cut.on(Call::List).always().fault(Fault::FailBefore);
    let c = fleet.member("c").await;
    // If the count has not changed for two validities × (1 + drift), the deputy takes over.
    balanced(&[&a, &b, &c], 6, VALIDITY * 3 + POLL * 6).await;
}

/// Before the fix, the coordinator read the ended sessions of all former members once per validity.
#[tokio::test(start_paused = true)]
async fn regression_ended_sessions_are_not_read_again() {
    let fleet = Fleet::new(2);
    let a = fleet.member("a").await;
    for _ in 0..20 {
        let b = fleet.member("b").await;
        b.leave();
        b.task.await.unwrap();
    }
    wait(VALIDITY * 4).await;
    fleet.store.take_calls();
    wait(Duration::from_secs(600)).await;
    let gets = fleet.store.take_calls().iter().filter(|call| **call == Call::Get).count();
    assert!(gets <= 120 + 20 + 5, "{gets}");
    assert_eq!(a.owned().len(), 2);
}
