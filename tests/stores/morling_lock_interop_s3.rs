//! A node that follows Morling's blog post and a candidate of this library lead alternately. The
//! test uses real HTTP, real time, and dates in whole seconds.
//! `tests/protocol/morling_lock_interop.rs` tests the other cases in paused time.
//!
//! The test waits for a dozen seconds. It is a part of this test program, because the other tests
//! of the program can run during this wait.
#![cfg(feature = "s3")]

use std::sync::Arc;
use std::time::Duration;

use tenure::{Election, Process, Store};
use tenure_testkit::morling_lock::{Lock, MorlingNode};
use tenure_testkit::s3_server::{BUCKET, S3Server};
use tenure_testkit::time::{millis, secs, wait, within};

/// Tries to lock at the interval `every` until it succeeds, as Morling's post describes.
async fn lock(node: &MorlingNode, every: Duration) -> Lock {
    loop {
        if let Some(lock) = node.try_lock().await {
            return lock;
        }
        wait(every).await;
    }
}

#[tokio::test]
async fn a_node_and_a_candidate_lead_alternately() {
    let server = S3Server::start().await;
    let store: Arc<dyn Store> = Arc::new(server.store(BUCKET));
    let validity = secs(3);
    let clock = Arc::new(Process::system());
    let node = MorlingNode { store: Arc::clone(&store), prefix: "app/", validity, clock };
    let ours = Election::builder(store, "app").name("ours").validity(validity).build().unwrap();
    let mut file = node.try_lock().await.expect("the lock is vacant");
    let mut campaign = Box::pin(ours.campaign());
    // The writes are more than a second apart, because only then each write changes the date.
    for _ in 0..4 {
        tokio::select! {
            _ = &mut campaign => panic!("elected while Morling's file was valid"),
            () = wait(millis(1_200)) => {}
        }
        assert!(node.touch(&mut file).await);
    }
    let campaign = within(secs(60), campaign).await;
    let lead = campaign.expect("elected within a minute").unwrap();
    assert!(!node.is_valid(&file), "two processes lead");
    assert_eq!(lead.epoch().get(), 2);
    for _ in 0..10 {
        assert!(node.try_lock().await.is_none(), "the lease of this library is valid");
        wait(millis(400)).await;
    }
    lead.resign().await.unwrap();
    let file = within(secs(60), lock(&node, millis(50))).await;
    let file = file.expect("within a minute");
    assert_eq!(file.epoch, 3);
    node.release(file).await;
    let lead = within(secs(60), ours.campaign()).await;
    assert_eq!(lead.expect("within a minute").unwrap().epoch().get(), 4);
}
