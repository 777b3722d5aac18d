//! Round trips of a campaign, beside the same requests by the SDK alone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::join_all;
use tenure::store::{ETag, GetOutcome, PutOutcome, S3Store};
use tenure::{CampaignEvent, Election, Leadership};
use tenure_testkit::fault_store::Call;
use tenure_testkit::layer::Layered;
use tokio::time::Instant;

use super::Size;
use super::latency::Latency;
use super::recorded::Recorded;
use super::report::{Section, median, table};
use super::requests::{Condition, Raw, Requests as _};
use super::server::{Server, THE_BUCKET};

/// Long enough that nothing lapses, and no renewal comes between.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_secs(5);
const BODY: Bytes = Bytes::from_static(br#"{"expired": false, "validity_ms": 30000}"#);

struct Bench {
    server: Server,
    raw: Raw,
    store: Recorded,
}

/// What came of one kind of campaign: the requests of one, and times in milliseconds.
struct Measured {
    requests: usize,
    tenure: f64,
    raw: f64,
}

impl Bench {
    fn new() -> Bench {
        let mut server = Server::start();
        server.latency(Latency::Fixed(Latency::MEDIAN));
        let raw = Raw { client: server.client(), bucket: THE_BUCKET.to_owned() };
        let store = Recorded::new(S3Store::new(server.client(), THE_BUCKET));
        Bench { server, raw, store }
    }

    fn election(&self, store: &Recorded, prefix: &str, validity: Duration) -> Election {
        Election::builder(Arc::new(Layered(store.clone())), prefix)
            .validity(validity)
            .check_store(false)
            .build()
            .expect("these settings fit together")
    }

    async fn cold(&self, name: &str, rounds: usize) -> Measured {
        let (mut requests, mut tenure, mut raw) = (0, Vec::new(), Vec::new());
        for round in 0..rounds {
            raw.push(self.raw_campaign(&format!("raw-{name}-{round}"), &[]).await);
            let election = self.election(&self.store, &format!("{name}-{round}"), LONG);
            self.store.sent();
            let (took, leadership) = timed(elect(&election)).await;
            tenure.push(took);
            requests = requests.max(self.store.sent().len());
            drop(leadership);
        }
        Measured { requests, tenure: median(tenure), raw: median(raw) }
    }

    /// A follower polls and sees the seal: the poll itself, PUT, LIST.
    async fn after_a_seal(&self, rounds: usize) -> Measured {
        let (mut requests, mut tenure, mut raw) = (0, Vec::new(), Vec::new());
        for round in 0..rounds {
            raw.push(self.raw_campaign(&format!("raw-seal-{round}"), &["get"]).await);
            let prefix = format!("seal-{round}");
            let leader = elect(&self.election(&self.store, &prefix, LONG)).await;
            let store = self.store.another();
            let follower = self.election(&store, &prefix, LONG);
            let campaign = follow(&follower).await;
            leader.resign().await.expect("resigned");
            store.sent();
            let (took, leadership) = timed(async {
                follower.refresh();
                campaign.await.expect("no panic")
            })
            .await;
            tenure.push(took);
            requests = requests.max(store.sent().len() - 1);
            drop(leadership);
        }
        Measured { requests, tenure: median(tenure), raw: median(raw) }
    }

    /// From the seal on: PUT, PUT, LIST.
    async fn after_a_lapse(&self, rounds: usize) -> Measured {
        let trials = join_all((0..rounds).map(|round| async move {
            let prefix = format!("lapse-{round}");
            drop(elect(&self.election(&self.store, &prefix, SHORT)).await);
            let store = self.store.another();
            let follower = self.election(&store, &prefix, SHORT);
            let leadership = elect(&follower).await;
            let end = Instant::now();
            drop(leadership);
            let sent = store.sent();
            let seal = sent.iter().position(|(what, _)| *what == Call::Replace).expect("a seal");
            (sent.len() - seal, (end - sent[seal].1).as_secs_f64() * 1e3)
        }))
        .await;
        let mut raw = Vec::new();
        for round in 0..rounds {
            raw.push(self.raw_campaign(&format!("raw-lapse-{round}"), &["replace"]).await);
        }
        let requests = trials.iter().map(|(requests, _)| *requests).max().unwrap_or(0);
        let tenure = median(trials.into_iter().map(|(_, took)| took).collect());
        Measured { requests, tenure, raw: median(raw) }
    }

    /// PUT and LIST, after what is named; or LIST, PUT, LIST. In milliseconds.
    async fn raw_campaign(&self, prefix: &str, first: &[&str]) -> f64 {
        let (lock, next) = (format!("{prefix}/lock-"), format!("{prefix}/lock-0000000002.json"));
        let etag = if first.is_empty() { None } else { Some(self.raw_leader(prefix).await) };
        let key = format!("{prefix}/lock-0000000001.json");
        let (took, ()) = timed(async {
            match (first, etag) {
                (["get"], etag) => {
                    let answer = self.raw.get(&key, etag).await.expect("read");
                    assert_eq!(answer, GetOutcome::NotModified);
                }
                (_, Some(etag)) => {
                    let on = Condition::Match(etag);
                    self.raw.put(&key, BODY, on).await.expect("written");
                }
                (_, None) => drop(self.raw.list(&lock, "").await.expect("listed")),
            }
            let put = self.raw.put(&next, BODY, Condition::Absent).await.expect("written");
            assert!(matches!(put, PutOutcome::Done { .. }));
            self.raw.list(&lock, &next).await.expect("listed");
        })
        .await;
        took
    }

    async fn raw_leader(&self, prefix: &str) -> ETag {
        let key = format!("{prefix}/lock-0000000001.json");
        match self.raw.put(&key, BODY, Condition::Absent).await.expect("written") {
            PutOutcome::Done { etag: Some(etag) } => etag,
            other => panic!("a new prefix: {other:?}"),
        }
    }
}

async fn elect(election: &Election) -> Leadership {
    election.campaign().await.expect("elected")
}

/// A campaign on its way, once it follows somebody.
async fn follow(election: &Election) -> tokio::task::JoinHandle<Leadership> {
    let mut events = election.events();
    let campaign = tokio::spawn({
        let election = election.clone();
        async move { elect(&election).await }
    });
    while !matches!(events.next().await, Some(CampaignEvent::Following(_))) {}
    campaign
}

async fn timed<T>(future: impl Future<Output = T>) -> (f64, T) {
    let start = Instant::now();
    let output = future.await;
    (start.elapsed().as_secs_f64() * 1e3, output)
}

pub async fn campaigns(size: &Size) -> Section {
    let mut section = Section::new("Campaigns: requests in sequence, and nothing else");
    let mut bench = Bench::new();
    // The connections are open and both clients warm.
    bench.cold("warm", 3).await;
    bench.server.counts();
    let kinds = [
        ("cold campaign on an empty prefix", 3, bench.cold("cold", size.campaigns).await),
        ("takeover after a seal that was seen", 2, bench.after_a_seal(size.campaigns).await),
        ("takeover after a lapse", 3, bench.after_a_lapse(size.campaigns / 2).await),
    ];
    let mut rows = Vec::new();
    for (what, requests, measured) in kinds {
        let ratio = measured.tenure / measured.raw;
        rows.push(vec![
            what.to_owned(),
            measured.requests.to_string(),
            format!("{:.1} ms", measured.tenure),
            format!("{:.1} ms", measured.raw),
            format!("{ratio:.3}"),
        ]);
        section.exact(
            &format!("{what}: requests"),
            measured.requests.to_string(),
            &requests.to_string(),
            measured.requests == requests,
        );
        section.timed(
            &format!("{what}: wall time beside the raw requests"),
            format!("{ratio:.3}"),
            "≤ 1.1",
            ratio <= 1.1,
        );
    }
    section.text = format!(
        "Over HTTP, every request 20 ms at the server, on open connections; medians of {} taken in turns \
         with the same requests by aws-sdk-s3 alone (of the lapse {}, and the raw ones after them). The \
         poll that shows the seal is in both times and not among the 2 requests. The lapse counts from \
         the seal.\n\n{}",
        size.campaigns,
        size.campaigns / 2,
        table(&["", "requests", "tenure", "raw requests", "ratio"], &rows)
    );
    section
}

/// Many candidates come to one sealed epoch at once.
pub async fn rush(size: &Size) -> Section {
    let mut section = Section::new("A rush on one sealed epoch");
    let mut bench = Bench::new();
    let leader = elect(&bench.election(&bench.store, "rush", LONG)).await;
    leader.resign().await.expect("resigned");
    bench.server.latency(Latency::USUAL);
    bench.server.counts();
    let ends = join_all((0..size.rush).map(|number| {
        let store = bench.store.another();
        let election = Election::builder(Arc::new(Layered(store.clone())), "rush")
            .name(format!("candidate-{number}"))
            .validity(LONG)
            .check_store(false)
            .build()
            .expect("these settings fit together");
        async move {
            let mut events = election.events();
            let campaign = tokio::spawn({
                let election = election.clone();
                async move { elect(&election).await }
            });
            let won = loop {
                match events.next().await {
                    Some(CampaignEvent::Elected(_)) => break true,
                    Some(CampaignEvent::Following(_)) => break false,
                    _ => {}
                }
            };
            (won, store.sent().len(), campaign)
        }
    }))
    .await;
    let counts = bench.server.counts();
    let winners = ends.iter().filter(|(won, ..)| *won).count();
    let losers: Vec<_> = ends.iter().filter(|(won, ..)| !won).map(|(_, sent, _)| *sent).collect();
    let most = losers.iter().copied().max().unwrap_or(0);
    let mean = losers.iter().sum::<usize>() as f64 / losers.len() as f64;
    for (_, _, campaign) in ends {
        campaign.abort();
    }
    section.text = format!(
        "{} candidates campaign at once on an epoch that was resigned, over HTTP with the log-normal \
         latency; until one leads and all others follow it they send {} LIST, {} GET and {} PUT, {mean:.2} \
         requests per loser.\n\n",
        size.rush, counts.list, counts.get, counts.put
    );
    let what = format!("{} candidates on one sealed epoch", size.rush);
    section.exact(&format!("{what}: winners"), winners.to_string(), "1", winners == 1);
    section.exact(
        &format!("{what}: requests of a loser, at most"),
        most.to_string(),
        "≤ 4",
        most <= 4,
    );
    section
}

/// Whether a request after a pause opens a connection of its own.
pub async fn idle(size: &Size) -> Section {
    let mut section = Section::new("Connections");
    let mut bench = Bench::new();
    let leadership = elect(&bench.election(&bench.store, "idle", LONG)).await;
    let before = bench.server.connections();
    tokio::time::sleep(size.idle).await;
    leadership.proclaim("still here").await.expect("written");
    let opened = bench.server.connections() - before;
    section.text = format!(
        "A leader that sends nothing for {:?} and then renews: what the pool keeps is used again, \
         over plain HTTP here. It keeps idle connections for 90 s; the defaults renew every 10 s. A server that \
         closes them sooner is not in the client's hands.\n\n",
        size.idle
    );
    section.exact(
        "connections opened by a renewal after 31 s idle",
        opened.to_string(),
        "0",
        opened == 0,
    );
    section
}
