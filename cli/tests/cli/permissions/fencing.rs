//! What the guarded side needs: one object, or a log.

use std::sync::Arc;

use tenure::Epoch;
use tenure::fencing::{FencedLog, FencedObject, Generations};
use tenure::store::{S3Store, Store as _};

use super::policy::Policy;
use super::{Failure, needs_each, store};
use tenure_testkit::s3_server::{BUCKET, S3Server};

const OBJECT: &str = include_str!("../../../../deploy/iam/fenced-object.json");
const LOG: &str = include_str!("../../../../deploy/iam/fenced-log.json");

fn policy(text: &str) -> Policy {
    // The statement's name has the word, too.
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
async fn the_writer_of_an_object_needs_its_policy_and_no_more() {
    let server = S3Server::start().await;
    let writer = store(&server, "writer", &[&policy(OBJECT)]);
    writes_an_object(writer.clone()).await.unwrap();
    assert!(writer.delete(vec!["state.json".to_owned()]).await.is_err());
    needs_each(&policy(OBJECT), async |_| (), writes_an_object).await;
}

#[tokio::test]
async fn the_writer_of_a_log_needs_its_policy_and_no_more() {
    let server = S3Server::start().await;
    writes_a_log(store(&server, "writer", &[&policy(LOG)])).await.unwrap();
    needs_each(&policy(LOG), async |_| (), writes_a_log).await;
}

#[tokio::test]
async fn folders_of_generations_need_listing_only() {
    let server = S3Server::start().await;
    server.put_raw("data/epoch-0000000007/part", "");
    let lists = policy(OBJECT).only("s3:ListBucket");
    let generations = Generations::new(store(&server, "reader", &[&lists]), "data").unwrap();
    let newest = generations.newest().await.unwrap();
    assert_eq!(newest.map(Epoch::get), Some(7));
}
