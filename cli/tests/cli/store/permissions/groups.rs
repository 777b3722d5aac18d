//! Tests the policies of the roles of a group.

use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use tenure::store::{S3Store, Store as _};
use tenure::{Compactor, Error, ErrorKind};
use tenure_groups::{
    Group, GroupBuilder, GroupCompactor, GroupReport, Membership, MembershipEvent, Partition,
};

use super::policy::Policy;
use super::{Failure, PREFIX, needs_each, store};
use tenure_testkit::s3_server::{BUCKET, S3Server};

const MEMBER: &str = include_str!("../../../../../deploy/iam/group-member.json");
const OBSERVER: &str = include_str!("../../../../../deploy/iam/group-observer.json");
const OPERATOR: &str = include_str!("../../../../../deploy/iam/group-operator.json");
const COMPACTOR: &str = include_str!("../../../../../deploy/iam/group-compactor.json");
const BUCKET_POLICY: &str = include_str!("../../../../../deploy/iam/bucket-policy.json");

fn builder(store: Arc<S3Store>, name: &str) -> GroupBuilder {
    Group::builder(store, PREFIX)
        .name(name)
        .partitions(0..2)
        .validity(Duration::from_secs(3))
        .poll_interval(Duration::from_millis(100))
        .rebalance_delay(Duration::ZERO)
}

fn group(store: Arc<S3Store>) -> Group {
    builder(store, "a person").build().unwrap()
}

/// A member of a group that releases each revoked partition.
struct Node {
    membership: Membership,
    owned: Vec<Partition>,
}

impl Node {
    async fn join(store: Arc<S3Store>, name: &str) -> Result<Node, Error> {
        let membership = builder(store, name).build()?.join().await?;
        Ok(Node { membership, owned: Vec::new() })
    }

    /// Handles the next event of the membership. Returns false after the last event.
    async fn step(&mut self) -> Result<bool, Failure> {
        match self.membership.next().await {
            Some(MembershipEvent::Granted(partition)) => self.owned.push(partition),
            Some(MembershipEvent::Revoked { number, .. }) => {
                let place = self.owned.iter().position(|it| it.number() == number);
                self.owned.remove(place.ok_or("the partition was never granted")?).release();
            }
            Some(MembershipEvent::StoreFailed(error)) => return Err(error.into()),
            Some(_) => {}
            None => return Ok(false),
        }
        Ok(true)
    }
}

/// Runs two members, and makes them join, plan, own, release and leave.
async fn takes_part(store: Arc<S3Store>) -> Result<(), Failure> {
    let mut nodes = [Node::join(store.clone(), "a").await?, Node::join(store, "b").await?];
    while nodes.iter().any(|node| node.owned.len() != 1) {
        let steps = nodes.iter_mut().map(|node| Box::pin(node.step()));
        select_all(steps).await.0?;
    }
    for mut node in nodes {
        node.membership.leave();
        while node.step().await? {}
    }
    Ok(())
}

#[tokio::test]
async fn a_member_needs_its_policy_and_deletes_nothing() {
    let policy = Policy::parse(MEMBER, BUCKET, PREFIX);
    let bucket = Policy::parse(BUCKET_POLICY, BUCKET, PREFIX);
    let server = S3Server::start().await;
    let member = store(&server, "member", &[&policy, &bucket]);
    takes_part(member.clone()).await.unwrap();
    for key in server.keys() {
        member.delete(vec![key]).await.unwrap_err();
    }
    needs_each(&policy, async |_| (), takes_part).await;
}

/// Prepares work for a compactor: a group, and an ended session that no assignment names.
async fn with_a_group(server: &S3Server) {
    takes_part(Arc::new(server.store(BUCKET))).await.unwrap();
    let stray = format!("{PREFIX}/members/00000000000000000000000000000001/lock.json");
    server.put_raw(&stray, r#"{"expires_at":0.0,"token":1,"epoch":1}"#);
}

async fn observes(store: Arc<S3Store>) -> Result<(), Failure> {
    let group = group(store);
    let seen = group.snapshot().await?;
    assert_eq!(seen.partitions.len(), 2);
    let states = group.session_states(&seen).await?;
    assert!(!states.is_empty() && states.iter().all(|state| !state.may_work()), "{states:?}");
    Ok(())
}

#[tokio::test]
async fn an_observer_of_a_group_needs_its_policy_and_changes_nothing() {
    let policy = Policy::parse(OBSERVER, BUCKET, PREFIX);
    let server = S3Server::start().await;
    with_a_group(&server).await;
    let observer = store(&server, "observer", &[&policy]);
    observes(observer.clone()).await.unwrap();
    let denied = group(observer.clone()).pause(&["0"], true).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::AccessDenied, "{denied}");
    let denied = builder(observer, "b").build().unwrap().join().await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::AccessDenied, "{denied}");
    needs_each(&policy, with_a_group, observes).await;
}

async fn operates(store: Arc<S3Store>) -> Result<(), Failure> {
    let group = group(store);
    group.pause(&["0"], true).await?;
    let now = group.resize(0..3).await?;
    assert!(now.partition("0").unwrap().marks.paused);
    assert_eq!(now.partitions.len(), 3);
    Ok(())
}

#[tokio::test]
async fn an_operator_of_a_group_needs_its_policy_and_writes_no_sessions() {
    let policy = Policy::parse(OPERATOR, BUCKET, PREFIX);
    let server = S3Server::start().await;
    with_a_group(&server).await;
    let operator = store(&server, "operator", &[&policy]);
    operates(operator.clone()).await.unwrap();
    let denied = builder(operator, "b").build().unwrap().join().await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::AccessDenied, "{denied}");
    needs_each(&policy, with_a_group, operates).await;
}

/// `group depose` writes to a session. The policy of members allows this write, and the policy of
/// operators does not.
#[tokio::test]
async fn the_deposition_of_a_member_needs_the_policy_of_members() {
    let server = S3Server::start().await;
    let mut node = Node::join(Arc::new(server.store(BUCKET)), "a").await.unwrap();
    while node.owned.len() < 2 {
        node.step().await.unwrap();
    }
    let bucket = Policy::parse(BUCKET_POLICY, BUCKET, PREFIX);
    for (user, policy, code) in [("operator", OPERATOR, 77), ("member", MEMBER, 0)] {
        drop(store(&server, user, &[&Policy::parse(policy, BUCKET, PREFIX), &bucket]));
        let said = tokio::process::Command::new(crate::TENURE)
            .args(["group", "depose", "a", "--store", &format!("s3://{BUCKET}/{PREFIX}")])
            .envs(server.env())
            .env("AWS_ACCESS_KEY_ID", user)
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .output()
            .await
            .expect("the command runs");
        assert_eq!(said.status.code(), Some(code), "{user}: {said:?}");
    }
}

async fn compaction(store: Arc<S3Store>) -> Result<GroupReport, Error> {
    let settings = Compactor::builder(store, PREFIX).keep_epochs(1);
    GroupCompactor::new(settings.min_age(Duration::ZERO))?.run_once().await
}

async fn compacts(store: Arc<S3Store>) -> Result<(), Failure> {
    let report = compaction(store).await?;
    let GroupReport { assignments, sessions, .. } = &report;
    if assignments.failed + sessions.failed > 0 {
        return Err(assignments.first_failure.clone().expect("a failure has a reason").into());
    }
    assert!(assignments.deleted > 0 && sessions.deleted > 0, "{report}");
    Ok(())
}

#[tokio::test]
async fn a_compactor_of_a_group_needs_its_policy_and_only_it_may_delete() {
    let policy = Policy::parse(COMPACTOR, BUCKET, PREFIX);
    let bucket = Policy::parse(BUCKET_POLICY, BUCKET, PREFIX);
    let server = S3Server::start().await;
    with_a_group(&server).await;
    let admin = store(&server, "admin", &[&Policy::everything(), &bucket]);
    let denied = compaction(admin).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::AccessDenied, "{denied}");
    compacts(store(&server, "COMPACTOR", &[&policy, &bucket])).await.unwrap();
    needs_each(&policy, with_a_group, compacts).await;
}
