//! Tests that the DynamoDB policy of each role allows exactly the operations that the role sends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tenure::store::Store;
use tenure::{Compactor, Layout};

use super::policy::Policy;
use super::{LAYOUTS, campaigns, elect, election, place};
use tenure_testkit::dynamo_server::DynamoServer;

const CANDIDATE: &str = include_str!("../../../../../deploy/iam/dynamodb-candidate.json");
const OBSERVER: &str = include_str!("../../../../../deploy/iam/dynamodb-observer.json");
const COMPACTOR: &str = include_str!("../../../../../deploy/iam/dynamodb-compactor.json");

/// Asserts that the requests of `work` use exactly the operations that the policy allows.
async fn sends_the_allowed_operations(
    policy: &str,
    server: &DynamoServer,
    work: impl Future<Output = ()>,
) {
    server.forget_requests();
    work.await;
    let sent = server.operations().into_iter().map(|operation| format!("dynamodb:{operation}"));
    let sent: BTreeSet<String> = sent.collect();
    assert_eq!(sent, Policy::actions_of(policy));
}

#[tokio::test]
async fn each_role_sends_the_operations_of_its_policy() {
    let server = DynamoServer::start();
    let new = || Arc::new(server.store()) as Arc<dyn Store>;
    let work = async {
        for layout in LAYOUTS {
            campaigns(new(), layout).await.unwrap();
        }
    };
    sends_the_allowed_operations(CANDIDATE, &server, work).await;
    std::mem::forget(elect(new(), "leading", Layout::EpochFiles).await.unwrap());
    let work = async {
        for layout in LAYOUTS {
            election(new(), "watching", layout).unwrap().leader().await.unwrap();
        }
    };
    sends_the_allowed_operations(OBSERVER, &server, work).await;
    let work = async {
        let compactor = Compactor::builder(new(), place(Layout::EpochFiles)).keep_epochs(1);
        let compactor = compactor.min_age(Duration::ZERO).build().unwrap();
        assert_eq!(compactor.run_once().await.unwrap().deleted, 3);
    };
    sends_the_allowed_operations(COMPACTOR, &server, work).await;
}
