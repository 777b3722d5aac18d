//! An example for users to copy. It tests a program that runs as the leader, in paused time, on a
//! store that fails.
//!
//! ```text
//! cargo test --test failing_store
//! ```

use std::sync::Arc;
use std::time::Duration;

use tenure::{Election, Leadership, store::MemoryStore};
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::time::{TestClock, process, wait};

/// Returns a leader on a store that fails on demand. The seed makes a run repeatable.
async fn leader(store: &FaultStore, clock: &TestClock) -> Leadership {
    let election = Election::builder(Arc::new(store.clone()), "app")
        .validity(Duration::from_secs(30))
        .process(process(clock, 1));
    election.build().expect("the settings are valid").campaign().await.expect("the store answers")
}

#[tokio::test(start_paused = true)]
async fn a_leader_survives_two_renewals_without_an_answer() {
    let (store, clock) = (FaultStore::new(Arc::new(MemoryStore::new())), TestClock::new());
    let leadership = leader(&store, &clock).await;
    store.on(Call::Replace).times(2).fault(Fault::FailAfter);
    wait(Duration::from_secs(60)).await; // two validities, in paused time
    assert!(leadership.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_lease_ends_when_the_store_stays_down() {
    let (store, clock) = (FaultStore::new(Arc::new(MemoryStore::new())), TestClock::new());
    let leadership = leader(&store, &clock).await;
    store.always(Fault::FailBefore);
    wait(Duration::from_secs(31)).await;
    assert!(leadership.check().is_err());
    let loss = leadership.lost().await;
    println!("{loss}");
}
