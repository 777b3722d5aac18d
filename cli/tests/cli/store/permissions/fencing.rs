//! Tests the permissions of processes that write fenced objects, fenced logs, or the records of
//! periods.

use std::sync::Arc;

use async_trait::async_trait;
use tenure::Epoch;
use tenure::store::{S3Store, Store};
use tenure_fencing::{FencedLog, FencedObject, Generations, ObjectWriter};
use tokio::sync::Mutex;

use super::policy::Policy;
use super::{Failure, needs_each, store};
use tenure_testkit::fault_store::Call;
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::s3_server::{BUCKET, S3Server};

const RESERVATION: &str = ".reservation";
/// Maximum number of writes that a writer of an older epoch attempts. In a series of this length,
/// the writer reads the reservation at least once.
const WRITES: u32 = 20;

const OBJECT: &str = include_str!("../../../../../deploy/iam/fenced-object.json");
const LOG: &str = include_str!("../../../../../deploy/iam/fenced-log.json");

fn policy(text: &str) -> Policy {
    // Replace `BUCKET/OBJECT` and not `OBJECT`, because the name of the statement also contains
    // `OBJECT`.
    let text =
        text.replace("BUCKET/OBJECT", "BUCKET/state.json").replace("BUCKET/LOG", "BUCKET/log");
    Policy::parse(&text, BUCKET, "")
}

async fn writes_an_object(store: Arc<S3Store>) -> Result<(), Failure> {
    let object = FencedObject::new(store, "state.json");
    let mut writer = object.open(Epoch::FIRST).await?;
    writer.write("one").await?;
    let successor = object.open(Epoch::new(2).expect("an epoch")).await?;
    assert_eq!(successor.body().expect("written"), "one");
    Ok(())
}

async fn writes_a_log(store: Arc<S3Store>) -> Result<(), Failure> {
    let log = FencedLog::new(store, "log")?;
    let mut writer = log.open(Epoch::FIRST).await?;
    writer.append("one").await?;
    let last = writer.append("two").await?;
    let latest = log.latest().await?.expect("an entry");
    assert_eq!(latest.number, last);
    log.trim(last).await?;
    Ok(())
}

#[tokio::test]
async fn the_writer_of_an_object_needs_exactly_its_policy() {
    let server = S3Server::start().await;
    let writer = store(&server, "writer", &[&policy(OBJECT)]);
    writes_an_object(writer.clone()).await.unwrap();
    assert!(writer.delete(vec!["state.json".to_owned()]).await.is_err());
    // A writer needs its reservation object only against a busy writer of an older epoch. No older
    // writer is busy in this part of the test.
    let (quiet, _) = policy(OBJECT).without(RESERVATION);
    needs_each(&quiet, async |_| (), writes_an_object).await;
}

/// A store on which a writer of an older epoch writes to the object just before each write of the
/// caller.
#[derive(Debug, Clone)]
struct Beside {
    store: Arc<S3Store>,
    older: Arc<Mutex<(ObjectWriter, u32)>>,
}

#[async_trait]
impl Layer for Beside {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn before(&self, call: Call) {
        let (older, writes) = &mut *self.older.lock().await;
        if call == Call::Replace && *writes < WRITES {
            *writes += 1;
            // The write fails after the older writer has found the reservation of the newer epoch.
            let _ = older.write("again").await;
        }
    }
}

/// Returns whether a writer with this policy stops a busy writer of an older epoch.
async fn stops_an_older_writer(policy: &Policy) -> bool {
    let server = S3Server::start().await;
    let older = FencedObject::new(store(&server, "older", &[&Policy::everything()]), "state.json");
    let older = older.open(Epoch::FIRST).await.expect("no other writer has claimed the object");
    let older = Arc::new(Mutex::new((older, 0)));
    let beside = Beside { store: store(&server, "writer", &[policy]), older };
    let object = FencedObject::new(Arc::new(Layered(beside.clone())), "state.json");
    let opened = object.open(Epoch::new(2).expect("an epoch")).await;
    opened.expect("the older writer stops");
    let reserved = server.keys().iter().any(|key| key.ends_with(RESERVATION));
    let writes = beside.older.lock().await.1;
    assert_eq!(reserved, writes < WRITES, "the older epoch wrote {writes} times");
    reserved
}

#[tokio::test]
async fn the_policies_allow_the_reservation_that_stops_a_busy_old_writer() {
    assert!(stops_an_older_writer(&policy(OBJECT)).await);
    let (without, some) = policy(OBJECT).without(RESERVATION);
    assert!(some, "the policy has a statement about the reservation");
    assert!(!stops_an_older_writer(&without).await);
}

const ONCE_PER: &str = include_str!("../../../../../deploy/iam/once-per.json");

/// The test runs `tenure run --once-per` twice in one period, in each layout.
#[test]
fn the_writer_of_periods_needs_exactly_its_policy() {
    let run = |policy: &Policy| {
        let server = S3Server::start_blocking();
        drop(store(&server, "periods", &[policy]));
        let run = |layout: &str| {
            let mut tenure = std::process::Command::new(crate::TENURE);
            let said = tenure
                .args(["run", "--store", &format!("s3://{BUCKET}/app/{layout}")])
                .args(["--layout", layout, "--try", "--once-per", "36500d", "--", "echo", "ran"])
                .envs(server.env())
                .env("AWS_ACCESS_KEY_ID", "periods")
                .env("AWS_SECRET_ACCESS_KEY", "secret")
                .output()
                .expect("the command runs");
            let text = String::from_utf8_lossy(&said.stderr).into_owned();
            (said.status.code(), said.stdout, text)
        };
        let mut all = vec![];
        for layout in ["epoch-files", "single-object"] {
            all.extend([run(layout), run(layout)]);
        }
        all
    };
    let policy = Policy::parse(ONCE_PER, BUCKET, super::ANY);
    let all = run(&policy);
    let ran = all.iter().map(|(code, out, _)| (*code, out.is_empty())).collect::<Vec<_>>();
    let once = [(Some(0), false), (Some(0), true)];
    assert_eq!(ran, [once, once].concat(), "{all:?}");
    let (quiet, some) = policy.without("once-per.json.reservation");
    assert!(some, "the policy has a statement about the reservation");
    // A run retries a denied request for 10 s. So all variants of the policy are tested at the same
    // time.
    std::thread::scope(|scope| {
        for (less, missing) in quiet.with_one_less() {
            let run = &run;
            scope.spawn(move || {
                let all = run(&less);
                let denied = |(code, _, said): &(Option<i32>, Vec<u8>, String)| {
                    *code == Some(77) && said.contains("AccessDenied")
                };
                assert!(all.iter().any(denied), "without {missing}: {all:?}");
            });
        }
    });
}

#[tokio::test]
async fn the_writer_of_a_log_needs_exactly_its_policy() {
    let server = S3Server::start().await;
    writes_a_log(store(&server, "writer", &[&policy(LOG)])).await.unwrap();
    needs_each(&policy(LOG), async |_| (), writes_a_log).await;
}

#[tokio::test]
async fn folders_of_generations_need_only_the_permission_to_list() {
    let server = S3Server::start().await;
    server.put_raw("data/epoch-0000000007/part", "");
    let lists = policy(OBJECT).only("s3:ListBucket");
    let generations = Generations::new(store(&server, "reader", &[&lists]), "data").unwrap();
    let newest = generations.newest().await.unwrap();
    assert_eq!(newest.map(Epoch::get), Some(7));
}
