//! Thousands of elections followed by one process.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use tenure::store::{GetOutcome, S3Store};
use tenure::{Election, Observation};
use tenure_testkit::layer::Layered;

use super::Size;
use super::measured::{cpu, in_a_process, resident, say, status};
use super::recorded::Recorded;
use super::report::{Section, grouped, median};
use super::requests::{Raw, Requests as _};
use super::server::{Server, THE_BUCKET, client, election};

/// First looks at once, and so connections.
const AT_ONCE: usize = 16;
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// In a process of its own, all on one thread.
pub async fn measured(words: &[String]) {
    let [kind, endpoint, count, poll, window] = words else { panic!("five words: {words:?}") };
    let count: u64 = count.parse().expect("a number");
    let [poll, window] = [poll, window].map(|it| it.parse().map(Duration::from_millis));
    let (poll, window) = (poll.expect("a number"), window.expect("a number"));
    let client = client(endpoint);
    let raw = Raw { client: client.clone(), bucket: THE_BUCKET.to_owned() };
    let warm = stream::iter(0..count.min(200)).map(|number| {
        let (raw, key) = (raw.clone(), format!("{}/lock-0000000001.json", election(number)));
        async move { raw.get(&key, None).await.expect("read") }
    });
    warm.buffer_unordered(AT_ONCE).for_each(async |_| {}).await;
    match kind.as_str() {
        "follow" => {
            follow(Recorded::new(S3Store::new(client, THE_BUCKET)), count, poll, window).await
        }
        "poll-bare" => poll_bare(raw, count, poll, window).await,
        _ => unreachable!("no such measurement: {kind}"),
    }
}

async fn follow(store: Recorded, count: u64, poll: Duration, window: Duration) {
    let before = resident();
    let shared = Arc::new(Layered(store.clone()));
    let followed = stream::iter(0..count).map(|number| {
        let election = Election::builder(shared.clone(), election(number))
            .name("follower")
            .validity(DAY)
            .poll_interval(poll)
            .build()
            .expect("these settings fit together");
        async move {
            let mut observations = election.observe();
            let first = observations.next().await;
            assert!(matches!(first, Some(Ok(Observation::Leader(_)))), "{first:?}");
            let task = tokio::spawn(async move {
                let next = observations.next().await;
                assert!(next.is_none(), "nothing changes: {next:?}");
            });
            task.abort_handle()
        }
    });
    let followed: Vec<_> = followed.buffer_unordered(AT_ONCE).collect().await;
    // What is remembered of the requests is not the elections'.
    drop(store.sent());
    let (resident, threads) = (resident().saturating_sub(before), status("Threads"));
    let start = cpu();
    tokio::time::sleep(window).await;
    let (used, polls) = (cpu() - start, store.sent().len() as u64);
    assert!(followed.iter().all(|task| !task.is_finished()), "all are followed to the end");
    say(&[resident, threads, used, polls]);
}

async fn poll_bare(raw: Raw, count: u64, poll: Duration, window: Duration) {
    let polls = Arc::new(std::sync::atomic::AtomicU64::new(0));
    for number in 0..count {
        let (raw, polls) = (raw.clone(), polls.clone());
        let key = format!("{}/lock-0000000001.json", election(number));
        tokio::spawn(async move {
            tokio::time::sleep(poll.mul_f64(number as f64 / count as f64)).await;
            let found = raw.get(&key, None).await.expect("read");
            let GetOutcome::Found(object) = found else { panic!("nothing deletes it") };
            loop {
                tokio::time::sleep(poll).await;
                let answer = raw.get(&key, Some(object.etag.clone())).await.expect("read");
                assert_eq!(answer, GetOutcome::NotModified);
                polls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        });
    }
    tokio::time::sleep(poll * 2).await;
    polls.store(0, std::sync::atomic::Ordering::Relaxed);
    let start = cpu();
    tokio::time::sleep(window).await;
    say(&[cpu() - start, polls.load(std::sync::atomic::Ordering::Relaxed)]);
}

pub fn measure(size: &Size) -> Section {
    let mut section = Section::new("Many elections in one process");
    let mut server = Server::start();
    server.make_elections(size.elections);
    let mut run = |kind: &str, poll: Duration, window: Duration| {
        let millis = |it: Duration| it.as_millis().to_string();
        let count = size.elections.to_string();
        let words = [kind, server.endpoint(), &count, &millis(poll), &millis(window)];
        let numbers = in_a_process(&words.map(str::to_owned));
        // So that the server need not remember them.
        server.counts();
        numbers
    };
    let (poll, window) = (size.follower_poll, size.follower_window);
    // Before any polls, as those on their way take the client's memory, and what they leave.
    let [kib, threads, ..] = run("follow", DAY, Duration::ZERO)[..] else { panic!("numbers") };
    let kept = super::machine::kept_by_polls();
    let each = kib as f64 / size.elections as f64 + kept as f64 / 1024.0;
    let (mut own, mut bare, mut ratios, mut polls) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..size.follower_rounds {
        let [_, _, used, sent] = run("follow", poll, window)[..] else { panic!("numbers") };
        own.push(used as f64 / sent as f64);
        polls += sent;
        let [used, sent] = run("poll-bare", poll, window)[..] else { panic!("numbers") };
        bare.push(used as f64 / sent as f64);
        polls += sent;
        ratios.push(own[own.len() - 1] / bare[bare.len() - 1]);
    }
    let each_ratio: Vec<_> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    let (own, bare, ratio) = (median(own), median(bare), median(ratios));
    section.text = format!(
        "{} elections, each led by somebody else, followed by one process with one client and one \
         thread. Processor time is the thread's, over {window:?} with a poll every {poll:?} each: {own:.0} µs \
         a poll beside {bare:.0} µs for a conditional GET by aws-sdk-s3 alone, by as many tasks; medians of \
         {} runs in turns ({} requests in all), ratios {}. The memory is what each takes once \
         it has been read, and the {kept} bytes that polls leave with the feature `metrics`: the keys of what \
         they count.\n\n",
        grouped(size.elections),
        size.follower_rounds,
        grouped(polls),
        each_ratio.join(", "),
    );
    let what = format!("{} elections followed by one process", grouped(size.elections));
    section.timed(
        &format!("{what}: memory each, over the client's own"),
        format!("{each:.2} KiB"),
        "≤ 4 KiB",
        each <= 4.0,
    );
    section.timed(
        &format!("{what}: processor time of a poll beside a bare conditional GET"),
        format!("{ratio:.2}"),
        "≤ 1.2",
        ratio <= 1.2,
    );
    section.exact(
        &format!("{what}: threads, the process's own one included"),
        threads.to_string(),
        "≤ 2",
        threads <= 2,
    );
    section
}
