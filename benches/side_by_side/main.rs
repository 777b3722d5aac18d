//! Compares elections and groups of tenure with other schemes on a bucket, on simulated time.
//!
//! ```text
//! cargo bench --bench side_by_side               # all sections, some minutes
//! cargo bench --bench side_by_side -- failover   # the sections with this word in their names
//! cargo test --bench side_by_side                # a small size; counts keep their bounds
//! ```
//!
//! Unless a section states other values, the durations of requests have a log-normal distribution
//! with a median of 20 ms, the validity is 30 s, a leader renews its lease every 10 s, and a
//! follower polls every 5 s. The bucket counts the requests. Time and the bucket are simulated, so
//! each run prints the same numbers. The program fails if a number exceeds its bound.
#![allow(clippy::disallowed_methods, reason = "the program waits in simulated time")]

mod baselines;
mod bucket;
mod elections;
mod groups;
mod reach;

use std::time::Duration;

const VALIDITY: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_secs(5);
const DRIFT: f64 = 0.01;
/// Duration that 999 of 1,000 round trips do not exceed.
const ROUND_TRIP: Duration = Duration::from_millis(100);
const HOURS_A_MONTH: f64 = 730.0;

/// The amount of work in one run of the program.
pub struct Size {
    crashes: u64,
    /// Numbers of epoch objects. For each number, one search for the newest epoch is measured.
    backlogs: &'static [u64],
    renewals: u64,
    deaths: u64,
    partitions: u32,
    /// Numbers of partitions and members of the large group.
    large: (u32, usize),
    /// Validities in seconds, each measured on two kinds of S3.
    validities: &'static [u64],
}

const FULL: Size = Size {
    crashes: 200,
    backlogs: &[1_000, 10_000, 100_000],
    renewals: 1_000_000,
    deaths: 200,
    partitions: 1_000,
    large: (10_000, 1_000),
    validities: &[1, 2, 3, 5, 10, 30],
};
const SMALL: Size = Size {
    crashes: 200,
    backlogs: &[1_000, 4_000],
    renewals: 4_000,
    deaths: 4,
    partitions: 100,
    large: (300, 30),
    validities: &[],
};

type Measure = fn(&Size);

fn main() {
    let (options, words): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    // `cargo bench` passes this option, and `cargo test` does not.
    let size = if options.iter().any(|option| option == "--bench") { FULL } else { SMALL };
    let sections: [(&str, Measure); 12] = [
        ("steady", elections::steady),
        ("failover", elections::failover),
        ("finding", elections::finding),
        ("tails", elections::tails),
        ("groups: steady", groups::steady),
        ("groups: moves", groups::moves),
        ("groups: large", groups::large),
        ("short validities", reach::validities),
        ("across: steady", reach::requests),
        ("across: failover", reach::takeovers),
        ("across: slow store", reach::slow),
        ("across: resources", reach::resources),
    ];
    for (name, measure) in sections {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            println!("\n{name}");
            measure(&size);
        }
    }
}

/// Prints one row of a table: a name, and columns of equal width.
fn row(name: &str, columns: &[String]) {
    let columns: String = columns.iter().map(|column| format!(" {column:>12}")).collect();
    println!("{name:<45}{columns}");
}

fn head(name: &str, columns: &[&str]) {
    row(name, &columns.iter().map(ToString::to_string).collect::<Vec<_>>());
}

/// Prints a value and its bound. Panics if the value is greater than the bound.
fn check(name: &str, value: f64, bound: f64) {
    println!("{name}: {value:.2}, at most {bound:.2}");
    assert!(value <= bound, "{name} must be at most {bound:.2}, got {value:.2}");
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() as f64 * share).ceil() as usize;
    values[rank.saturating_sub(1)]
}

/// Returns a runtime with paused time. Its time advances only when all tasks wait.
fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO can always be built")
}
