//! Settings and objects that are close to a limit, or exceed it.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;
use tenure::ErrorKind;
use tenure::store::{Capabilities, ETag, GetOutcome, Store, StoreError};
use tenure_groups::{Assignor, Group, Seat, Share, StickyAssignor};
use tenure_testkit::fault_store::{Call, Fault, FaultStore, overwrite};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{process, secs, wait};

use super::{Fleet, Node, POLL, VALIDITY, balanced, owners};

fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::from(1), |inner, _| Value::from(vec![inner]))
}

/// Before the fix, the settings accepted data with 125 nested levels. Processes could then read the
/// session of a member with such data, but not the assignment that repeats the data.
#[tokio::test(start_paused = true)]
async fn regression_data_that_nests_too_deep_is_refused() {
    let fleet = Fleet::new(2);
    let a = fleet.member("a").await;
    balanced(&[&a], 2, secs(60)).await;
    for levels in [80, 120, 124, 125, 126, 130] {
        match fleet.node("b").data(nested(levels)).build() {
            Ok(group) => {
                let b = Node::of(group.join().await.unwrap());
                balanced(&[&a, &b], 2, POLL * 6).await;
                b.leave();
                b.task.await.unwrap();
                balanced(&[&a], 2, POLL * 6).await;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                assert!(levels > 80, "{levels}: {error}");
            }
        }
    }
    fleet.group("operator").snapshot().await.unwrap();
}

/// A session permits data with more nested levels than an assignment. Another program may write a
/// session with such data. Plans and snapshots of the group must still succeed.
#[tokio::test(start_paused = true)]
async fn regression_a_session_with_data_that_nests_too_deep_does_not_stop_the_group() {
    let fleet = Fleet::new(2);
    let a = fleet.member("a").await;
    balanced(&[&a], 2, secs(60)).await;
    let stray = "app/members/00000000000000000000000000000001/lock.json";
    let body = format!(
        r#"{{"expires_at":9999999999.0,"token":1,"epoch":1,"validity_ms":30000,"nonce":
        "00000000000000000000000000000001","candidate":"x","heartbeat":2,
        "data":{{"member":{}}}}}"#,
        nested(125)
    );
    overwrite(&**fleet.store.inner(), stray, body.into()).await;
    wait(POLL * 4).await;
    fleet.group("operator").snapshot().await.unwrap();
    // The other program does not renew its session. So this session lapses, and `a` owns all
    // partitions again.
    balanced(&[&a], 2, VALIDITY * 3).await;
}

#[derive(Debug)]
struct Named(String);

impl Assignor for Named {
    fn name(&self) -> &str {
        &self.0
    }

    fn assign(&self, seats: &[Seat<'_>], shares: &[Share<'_>]) -> Vec<Option<usize>> {
        StickyAssignor.assign(seats, shares)
    }
}

/// Before the fix, the settings accepted an assignor with an invalid name. A member with this
/// assignor wrote assignments that no process could read.
#[tokio::test(start_paused = true)]
async fn regression_the_name_of_an_assignor_is_checked() {
    for name in [String::new(), "x".repeat(257), "a\nb".to_owned()] {
        let fleet = Fleet::new(2);
        let error = fleet.node("a").assignor(Named(name.clone())).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name:?}: {error}");
    }
    let fleet = Fleet::new(2);
    let group = fleet.node("a").assignor(Named("x".repeat(256))).build().unwrap();
    let a = Node::of(group.join().await.unwrap());
    balanced(&[&a], 2, secs(60)).await;
    fleet.group("operator").snapshot().await.unwrap();
}

/// Before the fix, the session of a member with long data had no room for releases, so none of its
/// partitions moved.
#[tokio::test(start_paused = true)]
async fn regression_a_member_with_long_data_can_release() {
    for length in [40_000, 44_000, 46_000, 47_000, 48_000] {
        let fleet = Fleet::new(20);
        let Ok(group) = fleet.node("a").data("x".repeat(length)).build() else {
            assert!(length > 44_000, "{length}");
            continue;
        };
        let a = Node::of(group.join().await.unwrap());
        balanced(&[&a], 20, secs(60)).await;
        let b = fleet.member("b").await;
        balanced(&[&a, &b], 20, VALIDITY * 2).await;
    }
}

/// Before the fix, the settings accepted a group that is too large for the store. The first
/// assignment was short enough, but the next assignment, with owners and tokens, was too long. So
/// no partition ever had an owner.
#[tokio::test(start_paused = true)]
async fn regression_a_group_that_does_not_fit_with_its_owners_is_refused() {
    let fleet = Fleet::new(0);
    let names = |many: u32| (0..many).map(|number| format!("{number:0>245}"));
    let error = fleet.node("a").partitions(names(16_000)).build().unwrap_err();
    assert!(error.to_string().contains("4194304"), "{error}");
    let group = fleet.node("a").partitions(names(1)).build().unwrap();
    let a = Node::of(group.join().await.unwrap());
    balanced(&[&a], 1, secs(60)).await;
    let error = fleet.group("operator").resize(names(16_000)).await.unwrap_err();
    assert!(error.to_string().contains("4194304"), "{error}");
}

/// A store that, like DynamoDB, limits the length of an object.
#[derive(Debug)]
pub struct Limited(pub FaultStore);

impl Layer for Limited {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_max_body_bytes(400 * 1024)
    }
}

/// Before the fix, the partitions of a dead member did not move. Each plan added a new member, and
/// the data of this member made the assignment too long for the store.
#[tokio::test(start_paused = true)]
async fn regression_a_member_that_does_not_fit_stops_no_plan() {
    let fleet = Fleet::new(0);
    let names: Vec<_> = (0..1_100).map(|number| format!("{number:0>256}")).collect();
    let node = |name: &str, seed| {
        let store = Arc::new(Layered(Limited(fleet.store.clone())));
        let clock = process(&fleet.clock, seed);
        Group::builder(store, "app").name(name).check_store(false).process(clock)
    };
    let small = |name, seed| node(name, seed).partitions(names.clone()).build().unwrap();
    let a = Node::of(small("a", 1).join().await.unwrap());
    let b = Node::of(small("b", 2).join().await.unwrap());
    balanced(&[&a, &b], 1_100, VALIDITY * 2).await;
    let large = node("c", 3).data("x".repeat(40_000)).build().unwrap();
    let mut joined = Vec::new();
    for _ in 0..3 {
        joined.push(Node::of(large.join().await.unwrap()));
    }
    wait(VALIDITY).await;
    b.kill();
    wait(VALIDITY * 4).await;
    let rest: usize = joined.iter().map(|it| it.owned().len()).sum();
    assert_eq!(a.owned().len() + rest, 1_100);
}

/// Before the fix, a reservation took more bytes than an owner, because it contained the member's
/// name. After a leave with reservations, the next assignment was too long for the store. So half
/// of the partitions had no owner until an operator removed partitions.
#[tokio::test(start_paused = true)]
async fn regression_reservations_take_no_more_room_than_owners() {
    let fleet = Fleet::new(0);
    let [long, name] = ["l", "n"].map(|it| it.repeat(240));
    let node = |name: &str, seed, many| {
        let store = Arc::new(Layered(Limited(fleet.store.clone())));
        let clock = process(&fleet.clock, seed);
        let node = Group::builder(store, "app").name(name).check_store(false).process(clock);
        node.partitions((0..many).map(|number| format!("p{number}"))).build()
    };
    // The greatest number of partitions with which the assignment is short enough for the store.
    let most = (5_000..9_000).rev().step_by(50).find(|many| node("a", 1, *many).is_ok()).unwrap();
    assert!(most > 6_000, "{most}");
    let a = Node::of(node(&long, 1, most).unwrap().join().await.unwrap());
    let b = Node::of(node(&name, 2, most).unwrap().join().await.unwrap());
    balanced(&[&a, &b], most, VALIDITY * 3).await;
    b.leave_for(secs(600));
    wait(VALIDITY).await;
    let operator = node("operator", 3, 1).unwrap();
    let now = operator.snapshot().await.unwrap();
    let reserved = now.partitions.iter().filter(|it| it.reserved_for.as_ref() == Some(&name));
    assert!(reserved.count() >= most as usize / 2);
    let b = Node::of(node(&name, 4, most).unwrap().join().await.unwrap());
    balanced(&[&a, &b], most, VALIDITY * 2).await;
    // The call of `bar` fails, because a bar on each partition makes the assignment too long.
    let all: Vec<_> = now.partitions.iter().map(|it| &*it.name).collect();
    let error = operator.bar(&all, Some("c")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    operator.pause(&all[..10], true).await.unwrap();
    operator.retire(&all[..10]).await.unwrap();
    balanced(&[&a, &b], most - 10, VALIDITY * 2).await;
}

/// An object under `members/` may be unreadable, for example after a rule of the bucket has moved
/// the object to an archive. The coordinator must still give partitions to new members.
#[tokio::test(start_paused = true)]
async fn regression_an_unreadable_object_among_the_sessions_stops_no_plan() {
    for fault in [Fault::Denied, Fault::FailBefore, Fault::Hang] {
        let fleet = Fleet::new(2);
        let a = fleet.member("a").await;
        balanced(&[&a], 2, VALIDITY * 2).await;
        let stray = "app/members/00000000000000000000000000000001/lock.json";
        overwrite(&**fleet.store.inner(), stray, "{}".into()).await;
        fleet.store.on(Call::Get).key("00000000000000000000000000000001").always().fault(fault);
        let b = fleet.member("b").await;
        balanced(&[&a, &b], 2, VALIDITY * 2).await;
    }
}

/// Before the fix, the coordinator read an object under `members/` at each poll if the object was
/// not a session.
#[tokio::test(start_paused = true)]
async fn regression_foreign_objects_are_read_once() {
    let fleet = Fleet::new(2);
    for number in 1..=20 {
        let stray = format!("app/members/{number:032x}/lock.json");
        overwrite(&**fleet.store.inner(), &stray, "{}".into()).await;
    }
    let a = fleet.member("a").await;
    balanced(&[&a], 2, secs(60)).await;
    fleet.store.take_calls();
    wait(secs(600)).await;
    let gets = fleet.store.take_calls().iter().filter(|call| **call == Call::Get).count();
    assert!(gets <= 120 + 20 + 5, "{gets}");
}

#[tokio::test(start_paused = true)]
async fn regression_marks_have_only_valid_names_of_members() {
    let fleet = Fleet::new(1);
    let a = fleet.member("a").await;
    balanced(&[&a], 1, secs(60)).await;
    let operator = fleet.group("operator");
    for name in [String::new(), "x".repeat(257), "x".repeat(4_000_000)] {
        let error = operator.pin(&["0"], Some(&name)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().len() < 2_000);
        operator.bar(&["0"], Some(&name)).await.unwrap_err();
    }
}

/// A store that changes one session into the format of a later version of tenure.
#[derive(Debug)]
struct Later {
    store: FaultStore,
    session: Arc<Mutex<Option<String>>>,
}

#[async_trait]
impl Layer for Later {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let mut got = self.store.get(key, unless, max_len).await?;
        let later = self.session.lock().unwrap().as_ref().is_some_and(|id| key.contains(id));
        if let GetOutcome::Found(object) = &mut got
            && later
        {
            let mut body: Value = serde_json::from_slice(&object.body).unwrap();
            body["format"] = 2.into();
            object.body = body.to_string().into();
        }
        Ok(got)
    }
}

/// Before the fix, a live session in a later format counted as missing. So its partitions were
/// granted to other members, although its member still owned them.
#[tokio::test(start_paused = true)]
async fn regression_a_session_of_a_later_format_is_not_missing() {
    let fleet = Fleet::new(4);
    let session = Arc::default();
    let later = Later { store: fleet.store.clone(), session: Arc::clone(&session) };
    let a = Group::builder(Arc::new(Layered(later)), "app")
        .name("a")
        .partitions(0..4)
        .check_store(false)
        .process(process(&fleet.clock, 100));
    let a = Node::of(a.build().unwrap().join().await.unwrap());
    // Member `b` joins half a poll interval later, so that the two members poll at different times.
    wait(POLL / 2).await;
    let joined = fleet.group("b").join().await.unwrap();
    let id = joined.session();
    let b = Node::of(joined);
    balanced(&[&a, &b], 4, VALIDITY * 2).await;
    let before = owners(&[&a, &b]);
    *session.lock().unwrap() = Some(id);
    for _ in 0..200 {
        wait(secs(1)).await;
        assert_eq!(owners(&[&a, &b]), before);
    }
    // Member `c` can read the session, so `c` replaces `a` as the coordinator.
    let c = fleet.member("c").await;
    balanced(&[&a, &b, &c], 4, VALIDITY * 3).await;
}
