use super::*;
use crate::protocol::SessionId;
use crate::protocol::assignment::Marks;
use crate::protocol::assignor::StickyAssignor;
use crate::test_values::epoch;

const NONCE: Nonce = Nonce::from_bits(99);

fn session(id: u128) -> Session {
    Session { id: SessionId::from_bits(id), nonce: Nonce::from_bits(id + 100) }
}

fn member(id: u128) -> Member {
    Member::new(session(id), format!("m{id}"))
}

fn release(partition: u32, token: u64) -> Release {
    Release { partition: PartitionNumber(partition), token: epoch(token) }
}

/// Returns assignment 5, in which each partition has the owner in `owners` and token 3.
fn owned_by(owners: &[u128], members: &[u128]) -> Assignment {
    let names = (0..owners.len()).map(|it| it.to_string().into()).collect();
    let mut it = Assignment::first(Nonce::from_bits(1), names);
    it.epoch = epoch(5);
    it.members = members.iter().map(|id| member(*id)).collect();
    it.coordinator = Some(session(members[0]));
    for (partition, owner) in it.partitions.iter_mut().zip(owners) {
        partition.owner = (*owner > 0).then(|| session(*owner));
        partition.token = Some(epoch(3));
    }
    it
}

fn planner(coordinator: u128) -> Planner<'static> {
    let coordinator = session(coordinator);
    Planner { assignor: &StickyAssignor, coordinator, only_ownerless: false, goes_ahead: false }
}

fn next(now: &Assignment, evidence: &Evidence) -> Option<Assignment> {
    planner(1).next(now, evidence, NONCE)
}

fn owners(it: &Assignment) -> Vec<u128> {
    it.partitions.iter().map(|it| it.owner.map_or(0, |owner| owner.id.bits())).collect()
}

fn targets(it: &Assignment) -> Vec<u128> {
    it.partitions.iter().map(|it| it.target.map_or(0, |target| target.id.bits())).collect()
}

fn ended(id: u128) -> Evidence {
    Evidence { ended: [session(id)].into(), ..Evidence::default() }
}

#[test]
fn a_plan_without_a_change_is_not_written() {
    assert_eq!(next(&owned_by(&[1, 2], &[1, 2]), &Evidence::default()), None);
    // The plan does not replace a coordinator that is a member if nothing else changes.
    let mut now = owned_by(&[1, 2], &[1, 2]);
    assert_eq!(planner(2).next(&now, &Evidence::default(), NONCE), None);
    now.coordinator = Some(session(7));
    let named = planner(2).next(&now, &Evidence::default(), NONCE).unwrap();
    assert_eq!((named.coordinator, named.epoch), (Some(session(2)), epoch(6)));
    // Session 9 is not a member, so its plan does not name session 9 as the coordinator. If it did,
    // each further plan would change the assignment again.
    assert_eq!(planner(9).next(&now, &Evidence::default(), NONCE), None);
    now.epoch = Epoch::MAX;
    assert_eq!(next(&now, &ended(1)), None);
}

#[test]
fn a_partition_leaves_its_owner_only_by_rule_r1() {
    let now = owned_by(&[2, 2], &[1, 2]);
    let planned = next(&now, &Evidence::default()).unwrap();
    assert_eq!((owners(&planned), targets(&planned)), (vec![2, 2], vec![0, 1]));
    let with = |released: &[(Session, Release)]| {
        let released = released.iter().copied().collect();
        next(&planned, &Evidence { released, ..Evidence::default() })
    };
    // These releases do not count: a release under another token, releases by other sessions, and a
    // release of another partition.
    assert_eq!(with(&[(session(2), release(1, 2))]), None);
    assert_eq!(with(&[(session(1), release(1, 3))]), None);
    assert_eq!(with(&[(session(3), release(1, 3))]), None);
    let moved = with(&[(session(2), release(1, 3))]).unwrap();
    assert_eq!((owners(&moved), targets(&moved)), (vec![2, 1], vec![0, 0]));
    assert_eq!(
        (moved.partitions[0].token, moved.partitions[1].token),
        (Some(epoch(3)), Some(epoch(7)))
    );
    assert_eq!((moved.nonce, moved.members.len()), (NONCE, 2));
}

#[test]
fn partitions_of_an_ended_session_move_immediately() {
    let moved = next(&owned_by(&[1, 2, 2], &[1, 2, 3]), &ended(2)).unwrap();
    assert!(matches!(owners(&moved)[..], [1, 1, 3] | [1, 3, 1]), "{moved:?}");
    let left: Vec<_> = moved.members.iter().map(|it| it.session).collect();
    assert_eq!(left, [session(1), session(3)]);
    assert!(moved.partitions[1..].iter().all(|it| it.token == Some(epoch(6))));
    // Without members the partitions have no owner. They keep their tokens, because the tokens of
    // the next grants must be greater.
    let gone = next(&owned_by(&[1], &[1]), &ended(1)).unwrap();
    assert_eq!((owners(&gone), gone.partitions[0].token), (vec![0], Some(epoch(3))));
    assert_eq!((gone.members.len(), gone.coordinator), (0, Some(session(1))));
}

/// Rule R2: before a partition returns to its former owner, one assignment shows the partition
/// without an owner.
#[test]
fn a_partition_never_returns_to_its_owner_in_one_assignment() {
    let now = owned_by(&[1], &[1]);
    let released = [(session(1), release(0, 3))].into();
    let evidence = Evidence { released, ..Evidence::default() };
    let free = next(&now, &evidence).unwrap();
    assert_eq!((owners(&free), free.partitions[0].token), (vec![0], Some(epoch(3))));
    let again = next(&free, &evidence).unwrap();
    assert_eq!((owners(&again), again.partitions[0].token), (vec![1], Some(epoch(7))));
}

#[test]
fn a_member_is_added_once_and_under_one_nonce() {
    let joining = vec![member(2)];
    let evidence = Evidence { joining, ..Evidence::default() };
    let joined = next(&owned_by(&[1, 1], &[1]), &evidence).unwrap();
    assert_eq!((joined.members.len(), targets(&joined)), (2, vec![0, 2]));
    // The assignment still has a member with the same session id and another nonce, so the plan
    // does not add `m1`.
    let other = Session { nonce: Nonce::from_bits(7), ..session(1) };
    let joining = vec![Member::new(other, "m1")];
    assert_eq!(next(&owned_by(&[1], &[1]), &Evidence { joining, ..Evidence::default() }), None);
}

#[test]
fn a_leaving_member_gets_no_partition_and_releases_its_own() {
    let leaving = Evidence { leaving: [session(2)].into(), ..Evidence::default() };
    let planned = next(&owned_by(&[2, 0], &[1, 2]), &leaving).unwrap();
    assert_eq!((owners(&planned), targets(&planned)), (vec![2, 1], vec![1, 0]));
    assert_eq!(planned.members.len(), 2);
    // The leaving member is the only member. It remains the owner of its partition until it has
    // released the partition.
    let alone = Evidence { leaving: [session(1)].into(), ..Evidence::default() };
    assert_eq!(next(&owned_by(&[1], &[1]), &alone), None);
}

#[test]
fn marks_are_respected_and_a_retired_partition_is_removed_without_an_owner() {
    let mut now = owned_by(&[1, 1, 0], &[1]);
    now.partitions[0].marks.paused = true;
    now.partitions[1].marks.retiring = true;
    now.partitions[2].marks.retiring = true;
    let planned = next(&now, &Evidence::default()).unwrap();
    assert_eq!((owners(&planned), targets(&planned)), (vec![1, 1], vec![0, 0]));
    assert!(planned.is_revoked(PartitionNumber(0)) && planned.is_revoked(PartitionNumber(1)));
    let released = [(session(1), release(0, 3)), (session(1), release(1, 3))].into();
    let freed = next(&planned, &Evidence { released, ..Evidence::default() }).unwrap();
    assert_eq!(owners(&freed), [0]);
    assert_eq!(freed.partitions[0].number, PartitionNumber(0));
    assert_eq!(freed.next_number, now.next_number);
}

#[test]
fn reserved_and_avoided_partitions_are_not_granted() {
    let mut now = owned_by(&[0, 0], &[1, 2]);
    now.partitions[0].kept = Some(("m9".into(), Duration::from_secs(60)));
    let failures = [(PartitionNumber(1), [("m1".into(), false)].into())].into();
    let planned = next(&now, &Evidence { failures, ..Evidence::default() }).unwrap();
    assert_eq!(owners(&planned), [0, 2]);
    assert_eq!(planned.partitions[0].kept, now.partitions[0].kept);
    let kept_enough = [PartitionNumber(0)].into();
    let planned = next(&planned, &Evidence { kept_enough, ..Evidence::default() }).unwrap();
    assert_eq!((owners(&planned), &planned.partitions[0].kept), (vec![1, 2], &None));
}

#[test]
fn regression_a_reservation_ends_if_marks_exclude_its_member() {
    let marks = |pinned: Option<&str>, barred: Option<&str>| Marks {
        pinned: pinned.map(Arc::from),
        barred: barred.map(Arc::from),
        ..Marks::default()
    };
    for (marks, owner) in [
        (marks(None, Some("m9")), 1),
        (marks(Some("m1"), None), 1),
        (marks(Some("m9"), None), 0),
        (marks(None, Some("m1")), 0),
    ] {
        let mut now = owned_by(&[0], &[1]);
        now.partitions[0].kept = Some(("m9".into(), Duration::from_secs(3_600)));
        now.partitions[0].marks = marks.clone();
        let planned = next(&now, &Evidence::default()).unwrap_or(now);
        assert_eq!(owners(&planned), [owner], "{marks:?}");
    }
}

#[test]
fn a_planner_with_another_assignor_moves_no_owned_partition() {
    let planner = Planner { only_ownerless: true, ..planner(1) };
    let now = owned_by(&[2, 2, 2, 0], &[1, 2]);
    let planned = planner.next(&now, &Evidence::default(), NONCE).unwrap();
    assert_eq!((owners(&planned), targets(&planned)), (vec![2, 2, 2, 1], vec![0; 4]));
}

#[test]
fn the_first_assignment_grants_nothing() {
    let joining = vec![member(1), member(2)];
    let evidence = Evidence { joining, ..Evidence::default() };
    let first = planner(2).first(Assignment::first(NONCE, vec!["p".into()]), &evidence);
    assert_eq!((first.members.len(), first.coordinator), (2, Some(session(2))));
    assert_eq!((owners(&first), first.partitions[0].token), (vec![0], None));
}

/// Each plan keeps rules R1 to R3, for random evidence and a random planner.
#[test]
fn every_plan_keeps_the_rules() {
    let mut rng = fastrand::Rng::with_seed(15);
    let mut planned = 0;
    for _ in 0..3_000 {
        let members: Vec<u128> = (1..=rng.u128(1..=4)).collect();
        let count = members.len() as u128;
        let owners: Vec<u128> = (0..rng.usize(0..6)).map(|_| rng.u128(0..=count)).collect();
        let mut now = owned_by(&owners, &members);
        let mut evidence = Evidence::default();
        for partition in &mut now.partitions {
            partition.marks.paused = rng.u8(0..8) == 0;
            partition.marks.retiring = rng.u8(0..8) == 0;
            partition.target = rng.bool().then(|| session(rng.u128(1..=count)));
            let release = release(partition.number.0, rng.u64(2..=4));
            if rng.bool() {
                evidence.released.insert((session(rng.u128(1..=count)), release));
            }
        }
        for id in members {
            if rng.u8(0..4) == 0 {
                evidence.ended.insert(session(id));
            } else if rng.u8(0..4) == 0 {
                evidence.leaving.insert(session(id));
            }
        }
        evidence.joining.extend(rng.bool().then(|| member(8)));
        let planner = Planner { only_ownerless: rng.bool(), ..planner(rng.u128(1..=8)) };
        let Some(next) = planner.next(&now, &evidence, NONCE) else { continue };
        planned += 1;
        let may_leave = |owner: Session, release: Release| {
            evidence.ended.contains(&owner) || evidence.released.contains(&(owner, release))
        };
        assert_eq!(check(&now, &next, may_leave), Ok(()), "{now:?}\n{evidence:?}\n{next:?}");
        assert!(next.members.iter().all(|it| !evidence.ended.contains(&it.session)));
    }
    assert!(planned > 2_000, "{planned}");
}

/// Broken plans fail the check that `every_plan_keeps_the_rules` and the model use.
#[test]
fn broken_plans_are_caught() {
    let now = owned_by(&[1, 2], &[1, 2]);
    let never = |_: Session, _: Release| false;
    let broken = |change: fn(&mut Assignment)| {
        let mut next = Assignment { epoch: epoch(6), ..now.clone() };
        change(&mut next);
        check(&now, &next, never).is_err()
    };
    assert!(!broken(|_| ()));
    assert!(!broken(|it| it.partitions[0].target = Some(session(2))));
    assert!(broken(|it| it.partitions[0].owner = None));
    assert!(broken(|it| it.partitions[0].owner = Some(session(2))));
    assert!(broken(|it| it.partitions[0].token = Some(epoch(6))));
    assert!(broken(|it| it.partitions.truncate(1)));
    let free = owned_by(&[0], &[1]);
    let broken = |owner, token| {
        let mut next = Assignment { epoch: epoch(6), ..free.clone() };
        (next.partitions[0].owner, next.partitions[0].token) = (owner, token);
        check(&free, &next, never).is_err()
    };
    assert!(!broken(Some(session(1)), Some(epoch(6))));
    assert!(broken(Some(session(1)), Some(epoch(3))));
    assert!(broken(Some(session(1)), Some(epoch(7))));
    assert!(broken(Some(session(4)), Some(epoch(6))), "no member");
    assert!(broken(None, Some(epoch(6))), "a token of no grant");
    let mut retiring = free.clone();
    retiring.partitions[0].marks.retiring = true;
    let gone = Assignment { epoch: epoch(6), partitions: Vec::new(), ..free.clone() };
    assert!(check(&free, &gone, never).is_err());
    assert!(check(&retiring, &gone, never).is_ok());
}
