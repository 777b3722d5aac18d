//! What an election costs in this process, on a store that answers at once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use tenure::store::{MemoryStore, Store as _};
use tenure::{CampaignOutcome, Election};
use tokio::runtime::Builder;

const BACKLOG: u64 = 10_000;

fn elections(c: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut group = c.benchmark_group("election");

    group.bench_function("campaign and resign on an empty prefix", |b| {
        b.to_async(&runtime).iter_batched(
            || election(&MemoryStore::new(), "a"),
            |election| async move { lead(&election).await },
            BatchSize::SmallInput,
        );
    });

    let store = MemoryStore::new();
    runtime.block_on(make_backlog(&store));
    group.bench_function(format!("find the newest of {BACKLOG}"), |b| {
        b.to_async(&runtime).iter_batched(
            || election(&store, "a"),
            |election| async move { election.leader().await.expect("the store answers") },
            BatchSize::SmallInput,
        );
    });

    let store = MemoryStore::new();
    let leadership = runtime.block_on(election(&store, "a").campaign()).expect("elected");
    let follower = election(&store, "b");
    group.bench_function("one look of a follower", |b| {
        b.to_async(&runtime).iter(|| async {
            match follower.try_campaign().await.expect("the store answers") {
                CampaignOutcome::Held(leader) => leader,
                other => panic!("the leader lives: {other:?}"),
            }
        });
    });
    group.bench_function("check", |b| b.iter(|| leadership.check().expect("the lease runs")));
    group.finish();
}

fn election(store: &MemoryStore, name: &str) -> Election {
    Election::builder(Arc::new(store.clone()), "bench")
        .name(name)
        // No renewal comes between.
        .validity(Duration::from_secs(24 * 3600))
        .check_store(false)
        .build()
        .expect("these settings fit together")
}

async fn lead(election: &Election) {
    let leadership = election.campaign().await.expect("nobody else campaigns");
    leadership.resign().await.expect("the store answers");
}

async fn make_backlog(store: &MemoryStore) {
    for epoch in 1..=BACKLOG {
        let body = Bytes::from_static(br#"{"expired": false, "validity_ms": 30000}"#);
        store.create(&format!("bench/lock-{epoch:010}.json"), body).await.expect("it answers");
    }
}

criterion_group!(benches, elections);
criterion_main!(benches);
