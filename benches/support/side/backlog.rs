//! A long backlog of epochs: finding the newest, and compacting.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use futures::stream::{FuturesUnordered, StreamExt as _};
use tenure::store::S3Store;
use tenure::{Compactor, Election, Process};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Instant;

use super::Size;
use super::latency::Latency;
use super::measured::{in_a_process, peak, resident, say};
use super::plot::{Axis, lines};
use super::report::{Section, grouped, median, table};
use super::requests::{Raw, Requests as _};
use super::server::{Server, THE_BUCKET, client};
use crate::baselines::{Candidate, Settings, morling};

/// Deletions of the bare loop on their way at once: as many as the compactor's.
const IN_FLIGHT: usize = 4;

/// In a process of its own: what was resident before, the peak, and milliseconds.
pub async fn measured(words: &[String]) {
    let [kind, endpoint, prefix] = words else { panic!("three words, not {words:?}") };
    let client = client(endpoint);
    // What a client costs that has sent a request, and had a page of an answer.
    let raw = Raw { client: client.clone(), bucket: THE_BUCKET.to_owned() };
    raw.list(&format!("{prefix}/"), "").await.expect("listed");
    let (before, start) = (resident(), Instant::now());
    match kind.as_str() {
        "find" => find(&client, prefix).await,
        "find-as-morling" => find_as_morling(raw, prefix).await,
        "compact" => compact(client, prefix).await,
        "compact-bare" => compact_bare(client, prefix).await,
        _ => unreachable!("no such measurement: {kind}"),
    }
    say(&[before, peak(), start.elapsed().as_millis() as u64]);
}

async fn find(client: &Client, prefix: &str) {
    let store = S3Store::new(client.clone(), THE_BUCKET);
    let election = Election::builder(Arc::new(store), prefix).build().expect("settings");
    election.leader().await.expect("read").expect("the newest is not sealed");
}

async fn find_as_morling(raw: Raw, prefix: &str) {
    let (elected, _) = unbounded_channel();
    let settings = Settings::of(Duration::from_secs(30));
    let clock = Arc::new(Process::system());
    let me = Candidate { id: 0, requests: Arc::new(raw.clone()), clock, settings, elected };
    let lock = format!("{prefix}/lock-");
    let newest = morling::latest(&me, &lock).await.expect("listed").expect("there are epochs");
    raw.get(&format!("{lock}{newest:010}.json"), None).await.expect("read");
}

async fn compact(client: Client, prefix: &str) {
    let store = Arc::new(S3Store::new(client, THE_BUCKET));
    let builder = Compactor::builder(store, prefix).keep_epochs(1).min_age(Duration::ZERO);
    let report = builder.build().expect("settings").run_once().await.expect("compacted");
    assert_eq!(report.kept, 1);
}

/// LIST page by page, and DeleteObjects of all but the last key.
async fn compact_bare(client: Client, prefix: &str) {
    let (mut token, mut kept, mut deletions) = (None, None, FuturesUnordered::new());
    loop {
        let list = client.list_objects_v2().bucket(THE_BUCKET).prefix(format!("{prefix}/"));
        let mut list = std::pin::pin!(list.set_continuation_token(token.take()).send());
        let page = loop {
            tokio::select! {
                biased;
                Some(()) = deletions.next() => {}
                page = &mut list => break page.expect("listed"),
            }
        };
        let mut keys: Vec<_> = kept.take().into_iter().collect();
        keys.extend(page.contents.unwrap_or_default().into_iter().filter_map(|it| it.key));
        kept = keys.pop();
        if !keys.is_empty() {
            while deletions.len() >= IN_FLIGHT {
                deletions.next().await;
            }
            deletions.push(delete(&client, keys));
        }
        token = page.next_continuation_token;
        if token.is_none() {
            break;
        }
    }
    while deletions.next().await.is_some() {}
}

async fn delete(client: &Client, keys: Vec<String>) {
    let objects = keys
        .into_iter()
        .map(|key| ObjectIdentifier::builder().key(key).build().expect("an object has a key"));
    let delete = Delete::builder().set_objects(Some(objects.collect())).quiet(true).build();
    let delete = delete.expect("there are keys");
    let call = client.delete_objects().bucket(THE_BUCKET).delete(delete);
    let output = call.send().await.expect("deleted");
    assert!(output.errors().is_empty());
}

struct Outcome {
    requests: u64,
    kib: u64,
    millis: u64,
}

/// One measurement, and the requests it took beside the one that warms the client.
fn measure(server: &mut Server, kind: &str, prefix: &str) -> Outcome {
    server.counts();
    let words = [kind, server.endpoint(), prefix].map(str::to_owned);
    let [before, peak, millis] = in_a_process(&words)[..] else { panic!("three numbers") };
    Outcome { requests: server.counts().total() - 1, kib: peak - before.min(peak), millis }
}

pub fn finding(size: &Size) -> Section {
    let mut section = Section::new("Finding the newest of many epochs");
    let (mut rows, mut own, mut his) = (Vec::new(), Vec::new(), Vec::new());
    for &epochs in &size.backlogs {
        let mut server = Server::start();
        server.make_epochs("app", epochs);
        let tenure = measure(&mut server, "find", "app");
        let morling = measure(&mut server, "find-as-morling", "app");
        rows.push(vec![
            grouped(epochs),
            grouped(tenure.requests),
            grouped(morling.requests),
            format!("{} KiB", grouped(tenure.kib)),
            format!("{} KiB", grouped(morling.kib)),
        ]);
        own.push((epochs as f64, tenure.requests as f64));
        his.push((epochs as f64, morling.requests as f64));
        if epochs == *size.backlogs.last().expect("there is one") {
            let what = format!("finding the newest of {} epochs", grouped(epochs));
            section.exact(
                &format!("{what}: requests, the GET included"),
                grouped(tenure.requests),
                "≤ 30",
                tenure.requests <= 30,
            );
            section.timed(
                &format!("{what}: memory over the client's own"),
                format!("{} KiB", grouped(tenure.kib)),
                "flat: ≤ 4 MiB",
                tenure.kib <= 4_096,
            );
            let least = epochs / 1_000;
            section.exact(
                &format!("{what}, Morling as posted: requests"),
                grouped(morling.requests),
                &format!("≥ {}, a page each", grouped(least)),
                morling.requests >= least,
            );
        }
    }
    section.text = format!(
        "Over HTTP, by a process that knows nothing and has sent one request before. The memory is the \
         peak over what was resident then.\n\n{}![Requests by the number of epochs](performance/finding.svg)\n",
        table(&["epochs", "tenure", "Morling as posted", "memory", "his"], &rows)
    );
    let ticks = |powers: std::ops::RangeInclusive<u32>| {
        powers.map(|power| (10f64.powi(power as i32), grouped(10u64.pow(power)))).collect()
    };
    let x = Axis { name: "epochs", ticks: ticks(3..=6), from: 1e3, to: 1e6, log: true };
    let y = Axis { name: "requests", ticks: ticks(0..=3), from: 1.0, to: 2e3, log: true };
    let series = [("tenure", own), ("Morling as posted", his)];
    let svg = lines("Requests to find the newest epoch", &x, &y, &series);
    section.plots.push(("finding.svg", svg));
    section
}

pub fn compacting(size: &Size) -> Section {
    let mut section = Section::new("Compacting");
    let epochs = *size.backlogs.last().expect("there is one");
    let run = |kind: &str, epochs: u64| {
        let mut server = Server::start();
        server.make_epochs("app", epochs);
        server.latency(Latency::Fixed(Latency::MEDIAN));
        measure(&mut server, kind, "app")
    };
    let whole = run("compact", epochs);
    let (mut own, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..size.compactions {
        own.push(size.compacted as f64 / run("compact", size.compacted).millis as f64);
        bare.push(size.compacted as f64 / run("compact-bare", size.compacted).millis as f64);
    }
    let ratio = median(own.clone()) / median(bare.clone());
    let each: Vec<_> =
        own.iter().zip(&bare).map(|(own, bare)| format!("{:.2}", own / bare)).collect();
    section.text = format!(
        "Over HTTP, every request 20 ms at the server. {} epochs in one run took {} requests, {:.1} s, and \
         {} KiB more than the process had. Beside a bare loop of LIST and DeleteObjects with as many \
         deletions on their way ({IN_FLIGHT}), in turns on {} epochs each: {} epochs a second beside \
         {}, ratios {}.\n\n",
        grouped(epochs),
        grouped(whole.requests),
        whole.millis as f64 / 1e3,
        grouped(whole.kib),
        grouped(size.compacted),
        grouped((median(own) * 1e3) as u64),
        grouped((median(bare) * 1e3) as u64),
        each.join(", "),
    );
    let what = format!("compacting {} epochs", grouped(epochs));
    // A LIST, a GET of the newest epoch and a deletion for each 1,000. One LIST more than that, by
    // which it looks for the last epoch there can be, and at most two more GETs.
    let expected = 3.0 * epochs as f64 / 1_000.0;
    let off = (whole.requests as f64 - expected).abs();
    section.exact(
        &format!("{what}: requests"),
        grouped(whole.requests),
        &format!("{} within 1 %, or three more", grouped(expected as u64)),
        off <= (expected / 100.0).max(3.0),
    );
    section.timed(
        &format!("{what}: peak memory over the idle process"),
        format!("{:.1} MiB", whole.kib as f64 / 1_024.0),
        "≤ 64 MiB",
        whole.kib <= 64 * 1_024,
    );
    let what = "compacting: throughput beside a bare loop";
    section.timed(what, format!("{ratio:.2}"), "≥ 0.9", ratio >= 0.9);
    section
}
