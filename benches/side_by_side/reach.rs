//! Measures short validities on S3 Express and S3 Standard, and elections across stores.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tenure::Layout;
use tokio::time::sleep;

use super::bucket::Service;
use super::elections::{Scene, Scheme, Site, TENURE, crashes, hour, lost_leases};
use super::{HOURS_A_MONTH, Size, VALIDITY, check, head, paused, row};

/// S3 Express: 99 of 100 requests take less than 30 ms, and 1 in 10,000 takes 300 ms or more.
const EXPRESS: Service = Service {
    median: Duration::from_millis(5),
    sigma: 0.77,
    slow_share: 1e-4,
    slow_least: Duration::from_millis(300),
    list_or_put: 1.13,
    get: 0.03,
    ..Service::STANDARD
};
/// S3 Standard on a bad day: 99 of 100 requests take less than 120 ms, and 1 in 10,000 takes 1 s or
/// more.
const STANDARD: Service = Service {
    median: Duration::from_millis(25),
    sigma: 0.674,
    slow_share: 1e-4,
    slow_least: Duration::from_secs(1),
    ..Service::STANDARD
};

fn measure_validity(name: &str, service: Service, millis: [u64; 2], size: &Size) -> [f64; 3] {
    let [validity, poll] = millis.map(Duration::from_millis);
    let site = Site { services: vec![service], away: Duration::ZERO, validity };
    let scheme = Scheme::Tenure(Layout::EpochFiles, Some(poll));
    let [p50, p99, ..] = crashes(&site, scheme, size.deaths * 5);
    let (renewals, lost) = lost_leases(service, validity, size.renewals);
    let lost = lost as f64 * 1e6 / renewals as f64;
    let month = hour(&site, scheme).dollars(service) * HOURS_A_MONTH;
    let columns = [p50, p99, lost, month].map(|value| format!("{value:.2}"));
    row(&format!("{name}, {validity:?}, polls every {poll:?}"), &columns);
    [p99, lost, month]
}

/// One leader and two followers.
pub fn validities(size: &Size) {
    head("seconds to the next leader", &["p50", "p99", "lost/million", "$ a month"]);
    let [p99, lost, month] = measure_validity("S3 Express", EXPRESS, [1_000, 200], size);
    measure_validity("S3 Express", EXPRESS, [1_000, 100], size);
    for (name, service) in [("S3 Express", EXPRESS), ("S3 Standard", STANDARD)] {
        for seconds in size.validities {
            measure_validity(name, service, [seconds * 1_000, seconds * 1_000 / 6], size);
        }
    }
    check("p99 on S3 Express", p99, 1.5);
    check("leases lost in a million renewals on S3 Express", lost, 10.0);
    check("$ a month on S3 Express", month, 10.0);
}

fn across(stores: usize, away: u64) -> Site {
    let away = Duration::from_millis(away);
    Site { services: vec![Service::STANDARD; stores], away, validity: VALIDITY }
}

pub fn requests(_: &Size) {
    head("requests in an hour", &["PUT", "LIST", "GET", "$ a month"]);
    for stores in [1, 3, 5] {
        let counts = hour(&across(stores, 0), TENURE);
        let month = counts.dollars(Service::STANDARD) * HOURS_A_MONTH;
        let columns = [counts.put, counts.list, counts.get].map(|count| count.to_string());
        row(&format!("{stores} stores"), &[&columns[..], &[format!("{month:.2}")]].concat());
    }
}

pub fn takeovers(size: &Size) {
    head("seconds to the next leader", &["p50", "p99", "beyond, p50", "beyond, p99"]);
    for away in [0, 80, 150] {
        for stores in [1, 3, 5] {
            let seconds = crashes(&across(stores, away), TENURE, size.deaths);
            let name = format!("{stores} stores, {away} ms between regions");
            row(&name, &seconds.map(|seconds| format!("{seconds:.2}")));
        }
    }
}

/// Watches a leader for an hour, and returns the shortest remaining time of its lease in seconds.
fn least_left(site: &Site) -> f64 {
    paused().block_on(async {
        let scene = Scene::new(site, 1).await;
        let election = scene.election(0, 1).build().expect("the settings are valid");
        let leadership = election.campaign().await.expect("the buckets have no faults");
        let mut least = site.validity;
        for _ in 0..36_000 {
            sleep(Duration::from_millis(100)).await;
            least = least.min(leadership.remaining());
        }
        least.as_secs_f64()
    })
}

pub fn slow(_: &Size) {
    head("seconds left of the lease", &["least"]);
    for stores in [3, 5] {
        let mut site = across(stores, 0);
        row(&format!("{stores} stores"), &[format!("{:.2}", least_left(&site))]);
        site.services[0].median *= 10;
        let left = least_left(&site);
        row(&format!("{stores} stores, one is 10 times slower"), &[format!("{left:.2}")]);
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    time.into()
}

/// Prints the allocations and the CPU time of a leader for each round of renewals, and the memory
/// of the leader. The numbers include the simulated stores, but no HTTP client.
pub fn resources(_: &Size) {
    const ROUNDS: u32 = 10_000;
    head("a leader", &["allocations", "CPU, µs", "KiB"]);
    for stores in [1, 3, 5] {
        let (runtime, site, mut kept) = (paused(), across(stores, 0), None);
        let memory = allocation_counter::measure(|| {
            kept = Some(runtime.block_on(async {
                let scene = Scene::new(&site, 1).await;
                let election = scene.election(0, 1).build().expect("the settings are valid");
                let leadership = election.campaign().await.expect("the buckets have no faults");
                sleep(VALIDITY).await;
                (scene, election, leadership)
            }));
        });
        let before = cpu();
        let work = allocation_counter::measure(|| {
            runtime.block_on(async { sleep(VALIDITY / 3 * ROUNDS).await });
        });
        let took = (cpu() - before).as_secs_f64() * 1e6;
        let each = [work.count_total as f64, took].map(|it| it / f64::from(ROUNDS));
        let columns = [each[0], each[1], memory.bytes_current as f64 / 1_024.0];
        row(&format!("{stores} stores"), &columns.map(|value| format!("{value:.0}")));
    }
}
