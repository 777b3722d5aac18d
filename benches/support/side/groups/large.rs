//! 10,000 partitions and 1,000 members; and the memory of a member.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tenure::store::Store as _;
use tenure_groups::Partition;
use tokio::time::{Instant, sleep};

use super::{Fleet, VALIDITY};
use crate::side::latency::Latency;
use crate::side::report::{Section, grouped};
use crate::side::simulated::Bucket;
use crate::side::{Size, paused, simulate};
use tenure_testkit::time::{TestClock, process};

/// Of which the memory of a member is the difference.
const FEW: u32 = 100;
const MANY: u32 = 5_000;
const LOOK: Duration = Duration::from_millis(250);

/// All members start at once where no group is.
struct Start {
    took: f64,
    requests: u64,
    assignments: usize,
    bytes: u64,
}

fn start((partitions, members): (u32, usize)) -> Start {
    simulate(async move {
        let clock = TestClock::new();
        let bucket = Bucket::new(&clock, Latency::USUAL, 1);
        let fleet = Fleet { store: Arc::new(bucket.clone()), partitions, validity: VALIDITY };
        let began = Instant::now();
        let name = |number| format!("worker-{number}");
        let worker = |number| fleet.start(&name(number), process(&clock, number as u64));
        let workers: Vec<_> = (0..members).map(worker).collect();
        fleet.balanced(&workers, LOOK).await;
        let (took, requests) = (began.elapsed().as_secs_f64(), bucket.counts().total());
        let page = bucket.list("app/assignment-", "", 1_000).await.expect("it answers");
        let bytes = page.entries.last().map_or(0, |newest| newest.size);
        Start { took, requests, assignments: page.entries.len(), bytes }
    })
}

/// Bytes that a member keeps which owns all of so many partitions, beyond those of the store.
fn kept(partitions: u32) -> i64 {
    let (runtime, mut member) = (paused(), None);
    let info = allocation_counter::measure(|| {
        runtime.block_on(async {
            let clock = TestClock::new();
            let bucket = Bucket::new(&clock, Latency::USUAL, 1);
            let fleet = Fleet { store: Arc::new(bucket.clone()), partitions, validity: VALIDITY };
            let group = fleet.group("worker", process(&clock, 1));
            let owned = Arc::new(AtomicU32::new(0));
            let its = Arc::clone(&owned);
            let task = tokio::spawn(async move {
                let work = async |partition: Partition| {
                    its.fetch_add(1, Ordering::Relaxed);
                    partition.revoked().cancelled().await;
                    Ok(())
                };
                group.run(work).await
            });
            while owned.load(Ordering::Relaxed) < partitions {
                sleep(LOOK).await;
            }
            // So that a few more polls and renewals have come and gone.
            sleep(VALIDITY * 4).await;
            member = Some((bucket, task));
        });
    });
    let stored = runtime.block_on(async {
        let (bucket, _) = member.as_ref().expect("it was started");
        let page = bucket.list("app/", "", 1_000).await.expect("it answers");
        page.entries.iter().map(|entry| entry.size as i64).sum::<i64>()
    });
    info.bytes_current - stored
}

/// KiB for each partition that a member owns, the handle and the future of its work among them.
fn memory() -> f64 {
    let more = kept(MANY) - kept(FEW);
    more as f64 / 1_024.0 / f64::from(MANY - FEW)
}

pub fn measure(size: &Size) -> Section {
    let mut section = Section::new("A large group");
    let (partitions, members) = size.large;
    let Start { took, requests, assignments, bytes } = start(size.large);
    let each = memory();
    section.text = format!(
        "{} members start at once, on simulated time with requests of 20 ms, a group of {} \
         partitions: each owns its share after {took:.0} s, after {} requests and {assignments} \
         assignments; the last of these has {} bytes. What a member keeps in memory for each \
         partition that it owns, its handle and the future of its work among them, was counted as \
         what a member of {} partitions has allocated beyond one of {FEW}.\n",
        grouped(members as u64),
        grouped(u64::from(partitions)),
        grouped(requests),
        grouped(bytes),
        grouped(u64::from(MANY)),
    );
    section.exact(
        "memory of a member for each partition that it owns",
        format!("{each:.2} KiB"),
        "≤ 1 KiB",
        each <= 1.0,
    );
    let most = members as u64 * 60;
    section.exact(
        "a large group starts: requests of each member",
        format!("{:.1}", requests as f64 / members as f64),
        "≤ 60",
        requests <= most,
    );
    section
}
