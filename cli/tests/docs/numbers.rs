//! The numbers of docs/tuning.md, from the prices and the fractions that it names, and its bound of
//! a failover, from the library.

use std::fs;
use std::time::Duration;

use super::page::root;
use tenure_testkit::time::{secs, timed, wait};
use tenure_testkit::world::{World, elect};

const SECONDS: f64 = 30.0 * 24.0 * 3600.0;
const PUT: f64 = 5.0 / 1e6;
const GET: f64 = 0.4 / 1e6;
const DRIFT: f64 = 1.01;

/// In dollars for 30 days, at a validity in seconds.
fn leader(validity: f64) -> f64 {
    SECONDS / validity * (3.0 * PUT + GET)
}

fn follower(validity: f64) -> f64 {
    SECONDS / (validity / 6.0) * GET
}

/// From a crash to the next leader.
fn worst(validity: f64) -> f64 {
    validity * (DRIFT + 1.0 / 6.0)
}

fn mean(validity: f64) -> f64 {
    validity * (DRIFT - 1.0 / 6.0 + 1.0 / 12.0)
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("the page is there")
}

#[test]
fn the_table_of_validities_is_right() {
    let tuning = page("docs/tuning.md");
    for validity in [3.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0_f64] {
        let [leads, follows] = [leader(validity), follower(validity)];
        let row = format!(
            "| {validity} s | {:.1} s | {:.1} s | {:.1} s | {:.1} s | ${leads:.2} | ${follows:.2} | \
             ${:.2} |",
            validity / 3.0,
            validity / 6.0,
            mean(validity),
            worst(validity),
            leads + 2.0 * follows,
        );
        assert!(tuning.contains(&row), "docs/tuning.md should have\n{row}");
    }
}

#[test]
fn the_numbers_in_the_text_are_right() {
    let thousand = format!("${:.0}", 1000.0 * leader(30.0)).replacen('1', "1,", 1);
    let expected = [
        ("docs/tuning.md", format!("so {:.2} V by default", worst(1.0))),
        ("docs/tuning.md", format!("so {:.2} V.", mean(1.0))),
        ("docs/tuning.md", format!("${:.2} / P for each follower", SECONDS * GET)),
        ("docs/tuning.md", format!("${:.2} / R a month", SECONDS * PUT)),
        ("docs/tuning.md", format!("${:.2} / V a month more", SECONDS * 3.0 * PUT)),
        ("docs/tuning.md", format!("at V = 30 s are {thousand} a month")),
        ("docs/tuning.md", format!("V = 120 s (${:.0})", 1000.0 * leader(120.0))),
        ("docs/tuning.md", format!("once a minute: ${:.2} a month", SECONDS / 60.0 * GET)),
        ("src/lib.rs", format!("${:.2} a month for the leader", leader(30.0))),
        ("docs/comparison.md", format!("{:.0} s on average, {:.0} s at", mean(30.0), worst(30.0))),
        ("docs/comparison.md", format!("${:.2} a month on S3, [$0.17 on D", leader(30.0))),
        ("docs/comparison.md", format!("and ${:.2} or $0.06 for each", follower(30.0))),
        ("docs/comparison.md", format!("every 5 s: ${:.2} a month", SECONDS / 5.0 * 0.625e-6)),
        ("README.md", format!("${:.2} a month for the leader", leader(30.0))),
        ("README.md", format!("${:.2} for each follower", follower(30.0))),
    ];
    for (name, words) in expected {
        assert!(page(name).replace('\n', " ").contains(&words), "{name} should say {words:?}");
    }
}

/// A leader that dies at any moment between two renewals, before followers of many seeds.
#[tokio::test(start_paused = true)]
async fn a_failover_takes_as_long_as_the_page_says() {
    let validity = 30.0;
    let mut took = Vec::new();
    for dies in 0..50_u32 {
        let world = World::new();
        let node = |name| world.node(name).validity(Duration::from_secs_f64(validity)).build();
        let leads = elect(&node("a").expect("it fits")).await;
        let follower = node("b").expect("it fits");
        // The follower polls and the leader renews, at all distances from each other and the death.
        wait(Duration::from_millis(700) * (dies % 7)).await;
        let follows = tokio::spawn(async move { elect(&follower).await });
        wait(secs(30) + Duration::from_millis(200) * dies).await;
        drop(leads);
        let (gap, next) = timed(follows).await;
        assert_eq!(next.expect("no panic").epoch().get(), 2);
        took.push(gap.as_secs_f64());
    }
    let longest = took.iter().copied().fold(0.0, f64::max);
    let average = took.iter().sum::<f64>() / took.len() as f64;
    assert!(longest <= worst(validity) + 0.1, "{longest} s");
    assert!((average - mean(validity)).abs() < validity / 20.0, "{average} s");
}
