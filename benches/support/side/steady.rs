//! What an election costs while nothing happens: one leader, two followers.

use std::sync::Arc;
use std::time::Duration;

use tenure::Process;
use tenure::store::S3Store;
use tokio::sync::mpsc::unbounded_channel;

use super::counts::Counts;
use super::latency::Latency;
use super::plot::bars;
use super::report::{Section, table};
use super::requests::Raw;
use super::schemes::{Place, Scheme};
use super::server::{Server, THE_BUCKET};
use super::simulated::Bucket;
use super::{Size, simulate};
use crate::baselines::Settings;
use tenure_testkit::time::{TestClock, process};

const VALIDITY: Duration = Duration::from_secs(30);
const CANDIDATES: usize = 3;
const HOURS_A_MONTH: f64 = 730.0;
/// By how much time is compressed over HTTP.
const FASTER: u32 = 15;

/// The requests of one simulated hour.
fn simulated_hour(scheme: Scheme) -> Counts {
    simulate(async move {
        let clock = TestClock::new();
        let bucket = Bucket::new(&clock, Latency::USUAL, 1);
        let (elected, _kept) = unbounded_channel();
        let place = Place::simulated(&bucket, &clock, VALIDITY, elected);
        let mut tasks = Vec::new();
        for id in 0..CANDIDATES {
            tasks.push(place.start(scheme, id, process(&clock, id as u64)));
            tokio::time::sleep(Duration::from_millis(1_700)).await;
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        bucket.counts();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        tasks.iter().for_each(|task| task.abort());
        bucket.counts()
    })
}

/// The same over HTTP, with all times divided: requests of one leader and two followers.
async fn over_http(scheme: Scheme, measured: Duration) -> Counts {
    let mut server = Server::start();
    server.latency(Latency::Fixed(Latency::MEDIAN / FASTER));
    let (elected, mut leads) = unbounded_channel();
    let place = Place {
        store: Arc::new(S3Store::new(server.client(), THE_BUCKET)),
        requests: Arc::new(Raw { client: server.client(), bucket: THE_BUCKET.to_owned() }),
        clock: Arc::new(Process::system()),
        settings: Settings::of(VALIDITY / FASTER),
        elected,
    };
    let mut tasks = vec![place.start(scheme, 0, Process::system())];
    leads.recv().await;
    tasks.extend((1..CANDIDATES).map(|id| place.start(scheme, id, Process::system())));
    tokio::time::sleep(VALIDITY / FASTER).await;
    server.counts();
    tokio::time::sleep(measured).await;
    let counts = server.counts();
    tasks.iter().for_each(|task| task.abort());
    counts
}

pub async fn measure(size: &Size) -> Section {
    let mut section = Section::new("Steady state: what it costs while nothing happens");
    let hours: Vec<_> = Scheme::ALL.into_iter().map(|it| (it, simulated_hour(it))).collect();
    let month = |scheme| {
        let (_, counts) = hours.iter().find(|(it, _)| *it == scheme).expect("all were measured");
        counts.dollars() * HOURS_A_MONTH
    };
    let checks = Scheme::ALL.into_iter().map(|it| over_http(it, size.steady));
    let checks = futures::future::join_all(checks).await;
    let scale = size.steady.as_secs_f64() * f64::from(FASTER) / 3_600.0;
    let rows: Vec<_> = hours
        .iter()
        .zip(&checks)
        .map(|((scheme, counts), http)| {
            let http = http.total() as f64 / scale;
            vec![
                scheme.name().to_owned(),
                counts.put.to_string(),
                counts.list.to_string(),
                counts.get.to_string(),
                format!("{:.2}", counts.dollars() * HOURS_A_MONTH),
                format!("{:.2}", month(Scheme::Tenure) / (counts.dollars() * HOURS_A_MONTH)),
                format!("{http:.0} / {}", counts.total()),
            ]
        })
        .collect();
    section.text = format!(
        "One leader and two followers, validity 30 s, renewals every 10 s, polls every 5 s, latency \
         log-normal with a median of 20 ms: the requests of one simulated hour, and the money at S3's \
         list prices ($5 a million PUT or LIST, $0.40 a million GET) for 730 hours. The last column \
         is all requests an hour, measured over HTTP with all times divided by {FASTER} for {:?}, \
         beside the simulated.\n\n{}![Dollars a month](performance/steady.svg)\n",
        size.steady,
        table(
            &["scheme", "PUT", "LIST", "GET", "$ a month", "tenure costs", "HTTP / simulated"],
            &rows,
        )
    );
    let of_morling = month(Scheme::Tenure) / month(Scheme::Morling);
    let of_single = month(Scheme::Tenure) / month(Scheme::SingleObject);
    section.exact(
        "steady state, money beside Morling as posted",
        format!("{of_morling:.3}"),
        "≤ 0.200",
        of_morling <= 0.2,
    );
    section.exact(
        "steady state, money beside the single object with `If-Match`",
        format!("{of_single:.3}"),
        "≤ 1.05",
        of_single <= 1.05,
    );
    let points: Vec<_> = hours.iter().map(|(it, _)| (it.name(), month(*it))).collect();
    let svg = bars("Dollars a month for one election, 1 leader and 2 followers", &points, "$");
    section.plots.push(("steady.svg", svg));
    section
}
