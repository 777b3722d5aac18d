//! Tests a group on each kind of store, in real time. Members share partitions, and one member
//! leaves.
//!
//! The tests do not measure times. The deadline of each step is far longer than any machine needs.

use std::sync::Arc;
use std::time::Duration;

use tenure::Store;
use tenure_groups::Group;
use tenure_testkit::time::within;

const DEADLINE: Duration = Duration::from_secs(120);

fn member(store: &Arc<dyn Store>, prefix: &str, name: &str) -> Group {
    Group::builder(Arc::clone(store), format!("{prefix}group"))
        .name(name)
        .partitions(0..4)
        .poll_interval(Duration::from_millis(100))
        .rebalance_delay(Duration::from_millis(100))
        .build()
        .expect("the settings are valid")
}

/// Starts a member whose work runs until it is cancelled.
fn start(group: Group) -> tokio::task::JoinHandle<Result<(), tenure::Error>> {
    tokio::spawn(async move {
        group
            .run(|partition| async move {
                partition.check()?;
                partition.revoked().cancelled().await;
                Ok(())
            })
            .await
    })
}

/// Waits until one member owns `counts[0]` partitions and the other owns `counts[1]`.
async fn shared(group: &Group, counts: [usize; 2]) {
    let reached = async {
        loop {
            let now = group.snapshot().await.expect("the store answers");
            let owned = |name: &str| {
                let owners = now.partitions.iter().filter_map(|it| now.members.get(it.owner?));
                owners.filter(|owner| owner.name == name).count()
            };
            if [owned("a"), owned("b")] == counts {
                return;
            }
            tokio::task::yield_now().await;
            tenure_testkit::time::wait(Duration::from_millis(50)).await;
        }
    };
    within(DEADLINE, reached).await.expect("the members share in time");
}

async fn members_share_and_one_leaves(store: Arc<dyn Store>) {
    shared_under("app/", store).await;
}

async fn shared_under(prefix: &str, store: Arc<dyn Store>) {
    let [a, b] = [member(&store, prefix, "a"), member(&store, prefix, "b")];
    let first = start(a.clone());
    shared(&a, [4, 0]).await;
    let second = start(b.clone());
    shared(&a, [2, 2]).await;
    a.leave();
    within(DEADLINE, first).await.expect("the member leaves").unwrap().unwrap();
    shared(&b, [0, 4]).await;
    b.leave();
    within(DEADLINE, second).await.expect("the member leaves").unwrap().unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn members_share_on_a_directory() {
    let root = tempfile::tempdir().unwrap();
    let store = tenure::store::DirStore::open(root.path().join("store")).unwrap();
    members_share_and_one_leaves(Arc::new(store)).await;
}

#[cfg(unix)]
#[tokio::test]
async fn regression_compacted_sessions_leave_no_folders_in_a_directory() {
    let root = tempfile::tempdir().unwrap();
    let store = tenure::store::DirStore::open(root.path()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let a = member(&store, "app/", "a");
    let first = start(a.clone());
    shared(&a, [4, 0]).await;
    for _ in 0..3 {
        let b = member(&store, "app/", "b");
        let second = start(b.clone());
        shared(&a, [2, 2]).await;
        b.leave();
        within(DEADLINE, second).await.expect("the member leaves").unwrap().unwrap();
        shared(&a, [4, 0]).await;
    }
    let members = root.path().join("app/group/members");
    // Create the folders that earlier versions left, one for each compacted session.
    for number in 0..100 {
        std::fs::create_dir(members.join(format!("{number:032x}"))).unwrap();
    }
    let folders = || std::fs::read_dir(&members).unwrap().count();
    assert_eq!(folders(), 1 + 3 + 100);
    let settings = tenure::Compactor::builder(Arc::clone(&store), "app/group");
    let settings = settings.keep_epochs(1).min_age(Duration::ZERO);
    let compactor = tenure_groups::GroupCompactor::new(settings).unwrap();
    let compacted = async {
        while folders() > 100 {
            compactor.run_once().await.expect("the store works");
            tenure_testkit::time::wait(Duration::from_millis(50)).await;
        }
    };
    within(DEADLINE, compacted).await.expect("folders of compacted sessions remain");
    a.leave();
    within(DEADLINE, first).await.expect("the member leaves").unwrap().unwrap();
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn members_share_on_s3() {
    let server = tenure_testkit::s3_server::S3Server::start().await;
    let store = server.store(tenure_testkit::s3_server::BUCKET);
    members_share_and_one_leaves(Arc::new(store)).await;
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn members_share_in_a_directory_bucket() {
    let server = tenure_testkit::s3_server::S3Server::start_directory_bucket();
    let store = server.store(tenure_testkit::s3_server::DIRECTORY_BUCKET);
    members_share_and_one_leaves(Arc::new(store)).await;
}

#[cfg(feature = "dynamodb")]
#[tokio::test]
async fn members_share_on_dynamodb() {
    let server = tenure_testkit::dynamo_server::DynamoServer::start();
    members_share_and_one_leaves(Arc::new(server.store())).await;
}

#[cfg(feature = "gcs")]
#[tokio::test]
async fn members_share_on_cloud_storage() {
    let server = tenure_testkit::gcs_server::GcsServer::start();
    members_share_and_one_leaves(Arc::new(server.store())).await;
}

#[cfg(feature = "s3")]
#[tokio::test]
#[ignore = "scripts/servers/ministack.sh -- cargo test --test stores s3_server_of_the_environment -- --ignored"]
async fn members_share_on_the_s3_server_of_the_environment() {
    let store = tenure_testkit::environment::plain_store();
    shared_under(&tenure_testkit::environment::prefix("group"), store).await;
}

#[cfg(feature = "dynamodb")]
#[tokio::test]
#[ignore = "scripts/servers/dynalite.sh -- cargo test --test stores dynamodb_servers -- --ignored"]
async fn members_share_on_dynamodb_servers() {
    members_share_and_one_leaves(super::dynamodb_servers::store().await).await;
}

#[cfg(feature = "azure")]
#[tokio::test]
#[ignore = "scripts/servers/azurite.sh -- cargo test --test stores azure -- --ignored"]
async fn members_share_on_azure() {
    let (store, prefix) = super::azure::container();
    shared_under(&prefix, store).await;
}
