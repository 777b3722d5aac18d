//! A leader crashes: how long until another candidate leads.

use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Instant;

use super::latency::Latency;
use super::plot::{Axis, lines};
use super::report::{Section, quantile, table};
use super::schemes::{Place, Scheme};
use super::simulated::Bucket;
use super::{Size, simulate};
use crate::baselines::Settings;
use tenure_testkit::time::{TestClock, process};

const VALIDITY: Duration = Duration::from_secs(30);
const DRIFT: f64 = 0.01;
/// More than 999 of 1,000 round trips take.
const ROUND_TRIP: Duration = Duration::from_millis(100);
const SCHEMES: [Scheme; 5] = [
    Scheme::Tenure,
    Scheme::Morling,
    Scheme::MorlingTooEarly,
    Scheme::ListOnRenewal,
    Scheme::SingleObject,
];

/// One crash, in seconds.
struct Trial {
    /// From the crash until the next leader was told that it is one.
    took: f64,
    /// The same, beyond what was left of the lease and the drift.
    beyond: f64,
}

fn trial(scheme: Scheme, seed: u64) -> Trial {
    simulate(async move {
        let clock = TestClock::new();
        let bucket = Bucket::new(&clock, Latency::USUAL, seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        let (elected, mut leads) = unbounded_channel();
        let place = Place::simulated(&bucket, &clock, VALIDITY, elected);
        let mut tasks = Vec::new();
        for id in 0..3 {
            tasks.push(place.start(scheme, id, process(&clock, seed * 3 + id as u64)));
            tokio::time::sleep(Duration::from_secs(5).mul_f64(rng.f64())).await;
        }
        let first = leads.recv().await.expect("somebody is elected");
        tokio::time::sleep(Duration::from_secs(60) + VALIDITY.mul_f64(rng.f64())).await;
        assert!(leads.is_empty(), "{}: nobody else was elected meanwhile", scheme.name());
        tasks[first].abort();
        let crashed = Instant::now();
        let left = (bucket.written() + VALIDITY).saturating_duration_since(crashed);
        leads.recv().await.expect("somebody else is elected");
        let took = crashed.elapsed().as_secs_f64();
        tasks.iter().for_each(|task| task.abort());
        Trial { took, beyond: took - left.as_secs_f64() * (1.0 + DRIFT) }
    })
}

pub fn measure(size: &Size) -> Section {
    let mut section = Section::new("Crash failover");
    let mut rows = Vec::new();
    let mut series = Vec::new();
    let mut of = |scheme: Scheme| {
        let trials: Vec<_> = (0..size.crashes).map(|seed| trial(scheme, seed)).collect();
        let mut took: Vec<_> = trials.iter().map(|trial| trial.took).collect();
        let mut beyond: Vec<_> = trials.iter().map(|trial| trial.beyond).collect();
        let (p50, p99) = (quantile(&mut took, 0.5), quantile(&mut took, 0.99));
        let (beyond50, beyond99) = (quantile(&mut beyond, 0.5), quantile(&mut beyond, 0.99));
        let numbers = [p50, p99, beyond50, beyond99].map(|seconds| format!("{seconds:.2} s"));
        let name = scheme.name().to_owned();
        rows.push(std::iter::once(name).chain(numbers).collect::<Vec<_>>());
        let share = |number: usize| (number + 1) as f64 / took.len() as f64;
        let points = took.iter().enumerate().map(|(number, took)| (*took, share(number)));
        if scheme != Scheme::MorlingTooEarly {
            series.push((scheme.name(), points.collect::<Vec<_>>()));
        }
        (p50, p99, beyond99)
    };
    let measured = SCHEMES.map(&mut of);
    let (tenure, morling) = (measured[0], measured[1]);
    let head = ["scheme", "p50", "p99", "beyond what was left of the lease: p50", "beyond, p99"];
    section.text = format!(
        "{} crashes at a random moment between renewals, on simulated time, with perfect clocks that \
         agree, validity 30 s, polls every 5 s, two followers. From the crash until the next leader \
         is told. \"Beyond\" leaves out what remained of the dead leader's lease × (1 + drift).\n\n\
         {}![Shares of failovers that took no longer](performance/failover.svg)\n",
        size.crashes,
        table(&head, &rows)
    );
    let versus = |own: f64, other: f64| format!("{own:.2} s beside {other:.2} s");
    section.exact(
        "crash failover, p50 beside Morling as posted",
        versus(tenure.0, morling.0),
        "at most his",
        tenure.0 <= morling.0,
    );
    section.exact(
        "crash failover, p99 beside Morling as posted",
        versus(tenure.1, morling.1),
        "at most his",
        tenure.1 <= morling.1,
    );
    let settings = Settings::of(VALIDITY);
    let jitter = settings.poll.max(VALIDITY / 10);
    let most = (jitter + ROUND_TRIP * 3).as_secs_f64() + VALIDITY.as_secs_f64() * DRIFT;
    section.exact(
        "crash failover, p99 beyond remaining validity × (1 + drift)",
        format!("{:.2} s", tenure.2),
        &format!(
            "≤ {most:.1} s: 3 round trips, the drift, and a jitter of up to one poll (5 s) until the \
             last renewal is seen"
        ),
        tenure.2 <= most,
    );
    let longest = series.iter().flat_map(|(_, points)| points).map(|it| it.0).fold(0.0, f64::max);
    let to = (longest / 5.0).ceil() * 5.0;
    let seconds = (0..=(to / 5.0) as u64).map(|it| (it as f64 * 5.0, (it * 5).to_string()));
    let x = Axis {
        name: "seconds from the crash to the next leader",
        ticks: seconds.filter(|it| it.0 >= 15.0).collect(),
        from: 15.0,
        to,
        log: false,
    };
    let shares = [0.0, 0.25, 0.5, 0.75, 1.0].map(|it: f64| (it, format!("{:.0} %", it * 100.0)));
    let y = Axis { name: "", ticks: shares.into(), from: 0.0, to: 1.0, log: false };
    let svg = lines("Crash failover: share that took no longer", &x, &y, &series);
    section.plots.push(("failover.svg", svg));
    section
}
