//! Tests on a bucket full of delete markers. Each listing reads many pages without a key, and takes
//! longer than the request timeout.
#![cfg(feature = "s3")]

use std::sync::Arc;
use std::time::Duration;

use tenure::Compactor;
use tenure::{Election, Epoch, Store};
use tenure_fencing::FencedLog;
use tenure_groups::Group;
use tenure_testkit::s3_server::{BUCKET, S3Server};
use tenure_testkit::time::within;

const PAGES: usize = 60;
const TIME_OF_A_PAGE: Duration = Duration::from_millis(25);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(60);

fn election(store: &Arc<dyn Store>) -> Election {
    let builder = Election::builder(Arc::clone(store), "app").request_timeout(REQUEST_TIMEOUT);
    builder.build().expect("the settings are valid")
}

fn group(store: &Arc<dyn Store>, name: &str) -> Group {
    let group = Group::builder(Arc::clone(store), "group").name(name).partitions(0..2);
    group.request_timeout(REQUEST_TIMEOUT).build().expect("the settings are valid")
}

fn log(store: &Arc<dyn Store>) -> FencedLog {
    let log = FencedLog::new(Arc::clone(store), "log").expect("a prefix");
    log.request_timeout(REQUEST_TIMEOUT)
}

async fn in_time<T, E>(role: &str, call: impl Future<Output = Result<T, E>>) -> T
where
    E: std::fmt::Display,
{
    let done = within(DEADLINE, call).await;
    let done = done.unwrap_or_else(|| panic!("{role} takes longer than {DEADLINE:?}"));
    done.unwrap_or_else(|error| panic!("{role}: {error}"))
}

/// Makes each later listing take at least 1.5 s.
fn fill_with_delete_markers(server: &S3Server) {
    server.quirks(|quirks| quirks.empty_pages = PAGES);
    server.latency(|| TIME_OF_A_PAGE);
}

async fn end_the_first_epoch(store: &Arc<dyn Store>) {
    election(store).campaign().await.expect("elected").resign().await.expect("resigned");
}

#[tokio::test]
async fn regression_a_candidate_is_elected_after_many_pages_without_a_key() {
    let server = S3Server::start().await;
    let store: Arc<dyn Store> = Arc::new(server.store(BUCKET));
    end_the_first_epoch(&store).await;
    fill_with_delete_markers(&server);
    let leadership = in_time("a campaign", election(&store).campaign()).await;
    assert_eq!(leadership.epoch().get(), 2);
}

#[tokio::test]
async fn regression_each_role_reads_past_many_pages_without_a_key() {
    let server = S3Server::start().await;
    let store: Arc<dyn Store> = Arc::new(server.store(BUCKET));
    end_the_first_epoch(&store).await;
    log(&store).open(Epoch::FIRST).await.expect("open").append("one").await.expect("written");
    let first = group(&store, "first").join().await.expect("joined");
    fill_with_delete_markers(&server);

    let (observer, joining, log) = (election(&store), group(&store, "second"), log(&store));
    let operator = Election::builder(Arc::clone(&store), "restored");
    let operator = operator.request_timeout(REQUEST_TIMEOUT).build().expect("right settings");
    let compactor = Compactor::builder(Arc::clone(&store), "app").request_timeout(REQUEST_TIMEOUT);
    let compactor = compactor.build().expect("the settings are valid");
    let two = Epoch::new(2).expect("an epoch");
    let (leader, second, _, _, _, compacted) = tokio::join!(
        in_time("an observation", observer.leader()),
        in_time("a join", joining.join()),
        in_time("a snapshot of a group", joining.snapshot()),
        in_time("the opening of a log", log.open(two)),
        in_time("a restoring", operator.restore(two, REQUEST_TIMEOUT)),
        in_time("a compaction", compactor.run_once()),
    );
    assert!(leader.is_none(), "{leader:?}");
    assert_eq!(compacted.kept, 1);
    drop((first, second));
}
