//! A person or an expiry rule deletes assignments, and no token is granted twice
//! (docs/design/groups.md, D1 to D7).

use std::sync::Arc;

use tenure::store::GetOutcome;
use tenure_groups::Group;
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::time::{secs, wait, within};

use super::{Fleet, Node, POLL, VALIDITY, balanced};

const PARTITIONS: u32 = 4;

/// Returns the keys with this prefix.
async fn keys(fleet: &Fleet, prefix: &str) -> Vec<String> {
    let page = fleet.store.inner().list(prefix, "", 1_000).await.unwrap();
    page.entries.into_iter().map(|entry| entry.key).collect()
}

async fn delete(fleet: &Fleet, keys: Vec<String>) {
    fleet.store.inner().delete(keys).await.unwrap();
}

async fn delete_all(fleet: &Fleet, prefix: &str) {
    delete(fleet, keys(fleet, prefix).await).await;
}

/// Returns a group of two members, and the greatest token of a partition. The session of each
/// member contains the number of the greatest assignment that the member has seen.
async fn two() -> (Fleet, Node, Node, u64) {
    let fleet = Fleet::new(PARTITIONS);
    let [a, b] = [fleet.member("a").await, fleet.member("b").await];
    balanced(&[&a, &b], PARTITIONS, POLL * 8).await;
    wait(VALIDITY).await;
    let owned = [a.owned(), b.owned()];
    let token = owned.iter().flat_map(|owned| owned.values()).max().copied().unwrap();
    (fleet, a, b, token)
}

/// Asserts that the member owns no partition for five minutes, and that its events contain the
/// error `NewestDeleted`.
async fn is_refused(fleet: &Fleet, member: Node) {
    let before = keys(fleet, "app/assignment-").await;
    for _ in 0..30 {
        wait(secs(10)).await;
        assert!(member.owned().is_empty(), "{:?}", member.owned());
    }
    assert_eq!(keys(fleet, "app/assignment-").await, before);
    member.leave();
    let events = within(VALIDITY * 2, member.task).await.unwrap().unwrap();
    assert!(events.iter().any(|it| it.contains("NewestDeleted")), "{events:?}");
}

/// All assignments were deleted, and a new member cannot read the sessions. Before the fix, it
/// owned partitions under token 2 while older members owned the same partitions under tokens 4 and
/// 16.
#[tokio::test(start_paused = true)]
async fn regression_unreadable_sessions_block_the_first_assignment() {
    let (fleet, a, b, greatest) = two().await;
    let store = FaultStore::new(Arc::clone(fleet.store.inner()));
    for key in keys(&fleet, "app/members/").await {
        // The first four reads of the session fail, so that `c` could create an assignment before a
        // retry succeeds.
        store.on(Call::Get).key(key.leak()).times(4).fault(Fault::FailBefore);
    }
    delete_all(&fleet, "app/assignment-").await;
    a.kill();
    let c = fleet.node_behind(&store, "c").build().unwrap();
    let c = Node::of(c.join().await.unwrap());
    for _ in 0..60 {
        wait(secs(1)).await;
        assert!(c.owned().values().all(|token| *token > greatest), "{:?}", c.owned());
        let both = b.owned().keys().any(|name| c.owned().contains_key(name));
        assert!(!both, "two members own a partition");
    }
    // Member `b` still knows the deleted assignment, so the next assignments have greater numbers.
    balanced(&[&b, &c], PARTITIONS, VALIDITY * 4).await;
    assert!(c.owned().values().all(|token| *token > greatest), "{:?}", c.owned());
}

/// The content of the object is not a session. But the object may have been the session of a member
/// that had seen an assignment, so it blocks the first assignment.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_not_a_session_blocks_the_first_assignment() {
    let fleet = Fleet::new(PARTITIONS);
    let key = "app/members/00000000000000000000000000000001/lock.json";
    fleet.store.inner().create(key, "garbage".into()).await.unwrap();
    let a = fleet.member("a").await;
    wait(VALIDITY * 2).await;
    assert!(a.owned().is_empty());
    delete(&fleet, vec![key.to_owned()]).await;
    balanced(&[&a], PARTITIONS, VALIDITY).await;
    a.leave();
    let events = a.task.await.unwrap();
    assert!(events.iter().any(|it| it.contains(key) && it.contains("Repair")), "{events:?}");
}

/// Before the fix, a new member sealed the sessions of the dead members after all assignments were
/// deleted. The seals erased the greatest assignment that the dead members had seen, so the new
/// member was granted token 2.
#[tokio::test(start_paused = true)]
async fn regression_after_the_death_of_all_members_no_token_is_granted_again() {
    let (fleet, a, b, _) = two().await;
    a.kill();
    // Member `b` seals the session of `a`.
    wait(VALIDITY * 3).await;
    b.kill();
    let (store, mut last) = (fleet.store.inner(), Vec::new());
    for key in keys(&fleet, "app/members/").await {
        let GetOutcome::Found(object) = store.get(&key, None, usize::MAX).await.unwrap() else {
            panic!("{key} is gone")
        };
        last.push((key, object.body));
    }
    delete_all(&fleet, "app/assignment-").await;
    is_refused(&fleet, fleet.member("c").await).await;
    // One of the two sessions is sufficient evidence that assignments were deleted.
    for (key, body) in last {
        delete_all(&fleet, "app/members/").await;
        store.create(&key, body).await.unwrap();
        is_refused(&fleet, fleet.member("d").await).await;
    }
}

/// All members left, and then all assignments were deleted. Before the fix, no later member
/// reported this deletion.
#[tokio::test(start_paused = true)]
async fn regression_after_all_members_have_left_no_token_is_granted_again() {
    let (fleet, a, b, _) = two().await;
    for member in [a, b] {
        member.leave();
        within(VALIDITY * 2, member.task).await.unwrap().unwrap();
    }
    delete_all(&fleet, "app/assignment-").await;
    is_refused(&fleet, fleet.member("c").await).await;
}

/// Before the fix, a partition was granted to a second session under the same token if the newest
/// assignment was deleted.
#[tokio::test(start_paused = true)]
async fn regression_a_deleted_newest_assignment_is_not_created_again() {
    let (fleet, a, b, greatest) = two().await;
    let newest = || async { keys(&fleet, "app/assignment-").await.pop().unwrap() };
    delete(&fleet, vec![newest().await]).await;
    // Members `a` and `b` know the deleted assignment, so they create assignments with greater
    // numbers.
    let c = fleet.member("c").await;
    balanced(&[&a, &b, &c], PARTITIONS, VALIDITY * 4).await;
    assert!(c.owned().values().all(|token| *token > greatest), "{:?}", c.owned());
    wait(VALIDITY).await;
    [a, b, c].into_iter().for_each(Node::kill);
    delete(&fleet, vec![newest().await]).await;
    let group = fleet.group("operator");
    let error = group.pause(&["1"], true).await.unwrap_err();
    assert_eq!(error.kind(), tenure::ErrorKind::NewestDeleted, "{error}");
    is_refused(&fleet, fleet.member("d").await).await;
}

async fn join(group: &Group) -> Node {
    Node::of(group.join().await.unwrap())
}

/// Before the fix, a process that had owned partitions under token 42 was granted token 2 after all
/// objects of the group were deleted.
#[tokio::test(start_paused = true)]
async fn regression_a_process_remembers_the_greatest_assignment_that_it_has_seen() {
    let fleet = Fleet::new(PARTITIONS);
    let group = fleet.group("a");
    let a = join(&group).await;
    balanced(&[&a], PARTITIONS, VALIDITY).await;
    delete_all(&fleet, "app/").await;
    within(VALIDITY * 2, a.task).await.unwrap().unwrap();
    is_refused(&fleet, join(&group.clone()).await).await;
    let error = group.snapshot().await.unwrap_err();
    assert_eq!(error.kind(), tenure::ErrorKind::NewestDeleted, "{error}");
}

/// A process joins again after all objects were deleted. Before the fix, the new session did not
/// contain the greatest assignment that the process had seen. So another process was granted token
/// 2.
#[tokio::test(start_paused = true)]
async fn regression_the_next_session_has_the_greatest_assignment_seen() {
    // Both the first write with data and the renewals of the session must contain the greatest
    // assignment.
    for later in [secs(0), VALIDITY] {
        let fleet = Fleet::new(PARTITIONS);
        let group = fleet.group("a");
        let a = join(&group).await;
        balanced(&[&a], PARTITIONS, VALIDITY).await;
        delete_all(&fleet, "app/").await;
        within(VALIDITY * 2, a.task).await.unwrap().unwrap();
        let again = join(&group).await;
        wait(later).await;
        is_refused(&fleet, fleet.member("b").await).await;
        again.kill();
    }
}

/// Before the fix, the compactor deleted the only session that had seen a deleted assignment,
/// because no existing assignment named that session.
#[tokio::test(start_paused = true)]
async fn regression_a_compaction_keeps_sessions_that_saw_a_deleted_assignment() {
    let fleet = Fleet::new(PARTITIONS);
    let a = fleet.member("a").await;
    balanced(&[&a], PARTITIONS, VALIDITY).await;
    a.kill();
    let before = keys(&fleet, "app/assignment-").await;
    let b = fleet.member("b").await;
    balanced(&[&b], PARTITIONS, VALIDITY * 4).await;
    b.leave();
    within(VALIDITY * 2, b.task).await.unwrap().unwrap();
    let mut later = keys(&fleet, "app/assignment-").await;
    later.retain(|key| !before.contains(key));
    delete(&fleet, later).await;
    let store = Arc::new(fleet.store.clone());
    let settings = tenure::Compactor::builder(store, "app").min_age(secs(0));
    tenure_groups::GroupCompactor::new(settings).unwrap().run_once().await.unwrap();
    is_refused(&fleet, fleet.member("c").await).await;
}
